//! Where events go: the outbox, NATS, and the stream.

use noetl_store::FeedLimit;

use super::{Setting, read};

pub(crate) static OUTBOX: Setting<bool> = Setting::absent(
    "NOETL_OUTBOX_ENABLED",
    "true where NOETL_INTERNAL_API_TOKEN is set",
    read::flag,
    "Whether each event waits in the outbox for a publisher",
);

pub(crate) static OUTBOX_LEASE: Setting<u32> = Setting::new(
    "NOETL_OUTBOX_LEASE_SECS",
    "60",
    read::number::<5, 3600>,
    "Seconds after which a claimed row of the outbox is given to another publisher",
);

pub(crate) static OUTBOX_MAX_ATTEMPTS: Setting<u32> = Setting::new(
    "NOETL_OUTBOX_MAX_ATTEMPTS",
    "20",
    read::number::<1, 1000>,
    "How often a row of the outbox is tried before it waits for an operator",
);

pub(crate) static OUTBOX_KEEP: Setting<u32> = Setting::new(
    "NOETL_OUTBOX_KEEP_HOURS",
    "24",
    read::number::<1, 8760>,
    "Hours that published rows of the outbox are kept",
);

pub(crate) static NATS_URL: Setting<String> = Setting::absent(
    "NOETL_NATS_URL",
    "none: nobody is told of work by NATS",
    read::nats_url,
    "Address of the NATS server: nats:// or tls://, several separated by commas",
)
.secret();

pub(crate) static NATS_URL_ALIAS: Setting<String> = Setting::absent(
    "NATS_URL",
    "what NOETL_NATS_URL says",
    read::nats_url,
    "The same by its other name; NOETL_NATS_URL goes first",
)
.secret();

pub(crate) static NATS_USER: Setting<String> =
    Setting::absent("NATS_USER", "none", read::text, "User at the NATS server");

pub(crate) static NATS_PASSWORD: Setting<String> = Setting::absent(
    "NATS_PASSWORD",
    "none",
    read::text,
    "Password at the NATS server",
)
.secret();

pub(crate) static NATS_TOKEN: Setting<String> = Setting::absent(
    "NATS_TOKEN",
    "none",
    read::text,
    "Token for the NATS server",
)
.secret();

pub(crate) static NATS_BARE_SUBJECT: Setting<bool> = Setting::new(
    "NOETL_NATS_BARE_SUBJECT",
    "false",
    read::flag,
    "Whether commands of the pool 'shared' are also told on noetl.commands alone",
);

pub(crate) static NOTIFY_CAPABILITY: Setting<bool> = Setting::absent(
    "NOETL_NOTIFY_CAPABILITY",
    "true where callers need a token",
    read::flag,
    "Whether the address in a notice lets its bearer work on that command without a token",
);

pub(crate) static STREAM_ENABLED: Setting<bool> = Setting::new(
    "NOETL_EVENT_STREAM_ENABLED",
    "false",
    read::flag,
    "Whether every event is published to the stream noetl_events",
);

pub(crate) static STREAM_BATCH: Setting<u32> = Setting::new(
    "NOETL_EVENT_STREAM_BATCH",
    "500",
    // No read of the log gives more.
    read::number::<1, { FeedLimit::MAX.get() }>,
    "Events that are read together, and between two moves of the cursor",
);

pub(crate) static STREAM_POLL: Setting<u32> = Setting::new(
    "NOETL_EVENT_STREAM_POLL_MS",
    "500",
    read::number::<10, 60_000>,
    "Milliseconds between two looks for new events when nobody tells of them",
);

pub(crate) static STREAM_BACKFILL: Setting<bool> = Setting::new(
    "NOETL_EVENT_STREAM_BACKFILL",
    "false",
    read::flag,
    "Whether a new stream begins with the first event of the log, not with the next one",
);

pub(crate) static STREAM_DEDUP: Setting<u32> = Setting::new(
    "NOETL_EVENT_STREAM_DEDUP_SECS",
    "120",
    read::number::<1, 86_400>,
    "Seconds for which a new stream knows a message that it has already",
);

pub(crate) static STREAM_RETENTION: Setting<u32> = Setting::new(
    "NOETL_EVENT_STREAM_RETENTION_SECS",
    "86400",
    read::number::<60, 31_536_000>,
    "Seconds for which a new stream keeps a message",
);
