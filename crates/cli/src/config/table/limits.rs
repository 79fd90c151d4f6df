//! Settings that bound something: how many, how large, how often.

use std::collections::BTreeMap;

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

pub(crate) static TASK_MEMORY: Setting<ByteSize> = Setting::absent(
    "NOETL_TASK_MEMORY",
    "what the machine has, from 4GiB to 32GiB; 32GiB in noetl run and noetl dev",
    read::size::<262_144, 17_179_869_184>,
    "Memory for each process of a task, counted as addresses, and for each container",
);

pub(crate) static TASK_PROCESSES: Setting<u32> = Setting::new(
    "NOETL_TASK_PROCESSES",
    "16384",
    read::number::<64, 4_194_304>,
    "Processes and threads that the user of tasks may have in all, and each container by itself",
);

pub(crate) static TASK_FILE_SIZE: Setting<ByteSize> = Setting::new(
    "NOETL_TASK_FILE_SIZE",
    "4GiB",
    read::size::<1_024, 17_179_869_184>,
    "Largest file that a process of a task writes",
);

pub(crate) static MCP_SERVERS: Setting<BTreeMap<String, String>> = Setting::absent(
    "NOETL_MCP_SERVERS",
    "none: tasks say where their server is",
    read::named_urls,
    "MCP servers that tasks know by name: NAME=URL, separated by commas",
)
// An address may have a key in its query.
.secret();

pub(crate) static CONTAINER_IMAGES: Setting<Vec<String>> = Setting::absent(
    "NOETL_CONTAINER_IMAGES",
    "any",
    read::images,
    "Images that containers of tasks may use, separated by commas; a star at the end stands for any rest",
);
