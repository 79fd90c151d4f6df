//! Settings of limits on counts, sizes and rates.

use std::collections::BTreeMap;

use noetl_types::ByteSize;

use super::{Setting, parsers};

pub(crate) static MAX_LIVE: Setting<u32> = Setting::new(
    "NOETL_MAX_LIVE_EXECUTIONS",
    "100000",
    parsers::parse_number::<1, { u32::MAX }>,
    "Maximum unfinished runs per tenant; further starts are rejected and can retry",
);

pub(crate) static MAX_ATTEMPTS: Setting<u32> = Setting::new(
    "NOETL_MAX_ATTEMPTS",
    "3",
    parsers::parse_number::<1, 100>,
    "Maximum times that a command is dispatched if its worker is lost each time",
);

pub(crate) static INLINE_MAX: Setting<ByteSize> = Setting::new(
    "NOETL_INLINE_MAX_BYTES",
    "64KiB",
    parsers::parse_size::<1, 1024>,
    "Maximum size of step data stored in the log, unless the playbook sets it; larger data is stored \
     separately",
);

pub(crate) static BODY_MAX: Setting<ByteSize> = Setting::new(
    "NOETL_BODY_MAX_BYTES",
    "1MiB",
    parsers::parse_size::<64, 65_536>,
    "Maximum size of a request body; 8MiB for documents and batches, 72MiB for worker reports",
);

pub(crate) static RESULT_MAX: Setting<ByteSize> = Setting::new(
    "NOETL_RESULT_MAX_BYTES",
    "64MiB",
    parsers::parse_size::<64, 65_536>,
    "Maximum size of task data, for workers, and of a separately stored result, for servers",
);

pub(crate) static POSTGRES_MIN_CONNECTIONS: Setting<u32> = Setting::new(
    "POSTGRES_MIN_CONNECTIONS",
    "1",
    parsers::parse_number::<0, 1000>,
    "Connections to the PostgreSQL database that are opened at startup",
);

pub(crate) static STATEMENT_CACHE: Setting<u32> = Setting::new(
    "NOETL_PG_STATEMENT_CACHE_CAPACITY",
    "100",
    parsers::parse_number::<0, 10_000>,
    "Prepared statements cached per read connection to PostgreSQL",
);

pub(crate) static TASK_MEMORY: Setting<ByteSize> = Setting::optional(
    "NOETL_TASK_MEMORY",
    "the machine's memory, from 4GiB to 32GiB; 32GiB in noetl run and noetl dev",
    parsers::parse_size::<262_144, 17_179_869_184>,
    "Memory limit of each process of a task (address space) and of each container",
);

pub(crate) static TASK_PROCESSES: Setting<u32> = Setting::new(
    "NOETL_TASK_PROCESSES",
    "16384",
    parsers::parse_number::<64, 4_194_304>,
    "Maximum processes and threads of the user that runs tasks, and of each container",
);

pub(crate) static TASK_FILE_SIZE: Setting<ByteSize> = Setting::new(
    "NOETL_TASK_FILE_SIZE",
    "4GiB",
    parsers::parse_size::<1_024, 17_179_869_184>,
    "Maximum size of a file written by a task",
);

pub(crate) static MCP_SERVERS: Setting<BTreeMap<String, String>> = Setting::optional(
    "NOETL_MCP_SERVERS",
    "none; tasks specify the address of their server",
    parsers::parse_named_urls,
    "MCP servers that tasks can use by name: NAME=URL, separated by commas",
)
// A URL can contain a key in its query.
.mark_secret();

pub(crate) static CONTAINER_IMAGES: Setting<Vec<String>> = Setting::optional(
    "NOETL_CONTAINER_IMAGES",
    "any",
    parsers::parse_images,
    "Container images that tasks can use, separated by commas; a final * matches any suffix",
);
