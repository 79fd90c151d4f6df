//! Settings of event publishing: the outbox, NATS and the event stream.

use noetl_store::FeedLimit;

use super::{Setting, parsers};

pub(crate) static OUTBOX_ENABLED: Setting<bool> = Setting::optional(
    "NOETL_OUTBOX_ENABLED",
    "true if NOETL_INTERNAL_API_TOKEN is set",
    parsers::parse_bool,
    "Write each event to the outbox for publishing",
);

pub(crate) static OUTBOX_LEASE_SECS: Setting<u32> = Setting::new(
    "NOETL_OUTBOX_LEASE_SECS",
    "60",
    parsers::parse_number::<5, 3600>,
    "Seconds until the claim of a publisher on an outbox row expires",
);

pub(crate) static OUTBOX_MAX_ATTEMPTS: Setting<u32> = Setting::new(
    "NOETL_OUTBOX_MAX_ATTEMPTS",
    "20",
    parsers::parse_number::<1, 1000>,
    "Maximum attempts to publish an outbox row before it becomes dead",
);

pub(crate) static OUTBOX_KEEP_HOURS: Setting<u32> = Setting::new(
    "NOETL_OUTBOX_KEEP_HOURS",
    "24",
    parsers::parse_number::<1, 8760>,
    "Hours that published outbox rows are kept",
);

pub(crate) static NATS_URL: Setting<String> = Setting::optional(
    "NOETL_NATS_URL",
    "none; NATS is not used",
    parsers::parse_nats_url,
    "Address of the NATS server: nats:// or tls://, several separated by commas",
)
.mark_secret();

pub(crate) static NATS_URL_ALIAS: Setting<String> = Setting::optional(
    "NATS_URL",
    "same as NOETL_NATS_URL",
    parsers::parse_nats_url,
    "Alternative to NOETL_NATS_URL, which takes precedence",
)
.mark_secret();

pub(crate) static NATS_USER: Setting<String> =
    Setting::optional("NATS_USER", "none", parsers::parse_text, "User of the NATS server");

pub(crate) static NATS_PASSWORD: Setting<String> =
    Setting::optional("NATS_PASSWORD", "none", parsers::parse_text, "Password of the NATS server")
        .mark_secret();

pub(crate) static NATS_TOKEN: Setting<String> =
    Setting::optional("NATS_TOKEN", "none", parsers::parse_text, "Token of the NATS server")
        .mark_secret();

pub(crate) static NATS_BARE_SUBJECT: Setting<bool> = Setting::new(
    "NOETL_NATS_BARE_SUBJECT",
    "false",
    parsers::parse_bool,
    "Also announce commands of the pool 'shared' on the subject noetl.commands",
);

pub(crate) static NATS_COMMAND_TOKENS: Setting<bool> = Setting::optional(
    "NOETL_NATS_COMMAND_TOKENS",
    "true if callers need a token",
    parsers::parse_bool,
    "Include a one-command access token in the address of each command notification",
);

pub(crate) static STREAM_ENABLED: Setting<bool> = Setting::new(
    "NOETL_EVENT_STREAM_ENABLED",
    "false",
    parsers::parse_bool,
    "Publish every event to the stream noetl_events",
);

pub(crate) static STREAM_BATCH: Setting<u32> = Setting::new(
    "NOETL_EVENT_STREAM_BATCH",
    "500",
    // Maximum of a single read of the log.
    parsers::parse_number::<1, { FeedLimit::MAX.get() }>,
    "Maximum events per read of the log, and between two updates of the cursor",
);

pub(crate) static STREAM_POLL_MS: Setting<u32> = Setting::new(
    "NOETL_EVENT_STREAM_POLL_MS",
    "500",
    parsers::parse_number::<10, 60_000>,
    "Milliseconds between polls for new events if no notification arrives",
);

pub(crate) static STREAM_BACKFILL: Setting<bool> = Setting::new(
    "NOETL_EVENT_STREAM_BACKFILL",
    "false",
    parsers::parse_bool,
    "Start a new stream with the first event of the log instead of the next one",
);

pub(crate) static STREAM_DEDUP_SECS: Setting<u32> = Setting::new(
    "NOETL_EVENT_STREAM_DEDUP_SECS",
    "120",
    parsers::parse_number::<1, 86_400>,
    "Seconds for which a new stream detects duplicate messages",
);

pub(crate) static STREAM_RETENTION_SECS: Setting<u32> = Setting::new(
    "NOETL_EVENT_STREAM_RETENTION_SECS",
    "86400",
    parsers::parse_number::<60, 31_536_000>,
    "Seconds for which a new stream retains messages",
);
