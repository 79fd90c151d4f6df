//! Settings that bound something: how many, how large, how often.

use noetl_types::ByteSize;

use super::{Setting, read};

pub(crate) static MAX_LIVE: Setting<u32> = Setting::new(
    "NOETL_MAX_LIVE_EXECUTIONS",
    "100000",
    read::number::<1, { u32::MAX }>,
    "Runs of a tenant that may go on at once; starts beyond are told to come back",
);

pub(crate) static MAX_ATTEMPTS: Setting<u32> = Setting::new(
    "NOETL_MAX_ATTEMPTS",
    "3",
    read::number::<1, 100>,
    "How often a command is given out in all when its worker is lost each time",
);

pub(crate) static INLINE_MAX: Setting<ByteSize> = Setting::new(
    "NOETL_INLINE_MAX_BYTES",
    "64KiB",
    read::size::<1, 1024>,
    "Largest data of a step that stays in the log where its playbook does not say; what is larger is \
     kept beside it",
);

pub(crate) static BODY_MAX: Setting<ByteSize> = Setting::new(
    "NOETL_BODY_MAX_BYTES",
    "1MiB",
    read::size::<64, 65_536>,
    "Largest body of a request; documents and batches may have 8MiB, reports of workers 72MiB",
);

pub(crate) static RESULT_MAX: Setting<ByteSize> = Setting::new(
    "NOETL_RESULT_MAX_BYTES",
    "64MiB",
    read::size::<64, 65_536>,
    "Largest data of a task, for workers, and largest result that is kept by itself, for servers",
);

pub(crate) static POSTGRES_MIN_CONNECTIONS: Setting<u32> = Setting::new(
    "POSTGRES_MIN_CONNECTIONS",
    "1",
    read::number::<0, 1000>,
    "Connections to the PostgreSQL database that are opened at once, not when they are needed",
);

pub(crate) static STATEMENT_CACHE: Setting<u32> = Setting::new(
    "NOETL_PG_STATEMENT_CACHE_CAPACITY",
    "100",
    read::number::<0, 10_000>,
    "Statements that a connection to PostgreSQL which reads keeps prepared",
);
