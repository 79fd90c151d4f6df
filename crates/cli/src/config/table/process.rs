//! What any process has: threads, logs, traces.

use super::{LASTING, LogFormat, Setting, read};

pub(crate) static THREADS: Setting<u32> = Setting::absent(
    "NOETL_WORKERS",
    "the number of cores",
    read::number::<1, 1024>,
    "Threads of the process",
);

pub(crate) static LOG: Setting<String> = Setting::new(
    "NOETL_LOG",
    "info",
    read::log_filter,
    "What is logged: a level, or a filter such as info,noetl_server=debug",
)
.flag("log", "FILTER", LASTING);

pub(crate) static LOG_FORMAT: Setting<LogFormat> = Setting::new(
    "NOETL_LOG_FORMAT",
    "auto",
    read::log_format,
    "Form of log lines: text, json, or auto, which is text on a terminal",
)
.flag("log-format", "FORM", LASTING);

pub(crate) static TRACES: Setting<String> = Setting::absent(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "none: no traces are sent",
    read::url,
    "Address of an OpenTelemetry collector that takes traces of runs by OTLP over HTTP",
);
