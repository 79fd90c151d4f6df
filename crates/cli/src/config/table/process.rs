//! Settings of every process: threads, logs and traces.

use super::{LONG_RUNNING_ROLES, LogFormat, Setting, parsers};

pub(crate) static THREADS: Setting<u32> = Setting::optional(
    "NOETL_WORKERS",
    "the number of cores",
    parsers::parse_number::<1, 1024>,
    "Threads of the process",
);

pub(crate) static LOG: Setting<String> = Setting::new(
    "NOETL_LOG",
    "info",
    parsers::parse_log_filter,
    "Log filter: a level, or a filter such as info,noetl_server=debug",
)
.with_flag("log", "FILTER", LONG_RUNNING_ROLES);

pub(crate) static LOG_FORMAT: Setting<LogFormat> = Setting::new(
    "NOETL_LOG_FORMAT",
    "auto",
    parsers::parse_log_format,
    "Format of log lines: text, json, or auto (text on a terminal)",
)
.with_flag("log-format", "FORMAT", LONG_RUNNING_ROLES);

pub(crate) static TRACES: Setting<String> = Setting::optional(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "none; no traces are sent",
    parsers::parse_http_url,
    "Address of an OpenTelemetry collector for traces of runs (OTLP over HTTP)",
);
