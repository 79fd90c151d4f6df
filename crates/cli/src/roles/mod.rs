//! Components of a running system, and their assembly in one or several processes.
//!
//! Owns opening what the configuration names and closing it again. Must not print, or decide what a
//! command does with the components.

mod file_host;
mod keys;
mod listeners;
mod lock_file;
mod orphans;
mod process;
mod runtime;
mod store;
mod target;
mod watch;
mod worker;

pub(crate) use file_host::{FileHost, OPEN_RETRY_INTERVAL, SocketServer};
pub(crate) use listeners::{bind_listeners, bind_worker_metrics, http_settings};
pub(crate) use lock_file::ServerLockFile;
pub(crate) use orphans::{cancel_orphans, local_pool_name};
pub(crate) use process::{
    StopSignals, build_tokio_runtime, client_settings, process_error, shutdown_tokens,
    start_logging,
};
pub(crate) use runtime::{
    KeyFile, ServerEndpoint, open_read_only_runtime, open_runtime, open_verifying_runtime,
};
pub(crate) use store::{OpenResult, StoreLocation, open_file_read_only};
pub(crate) use target::Target;
pub(crate) use watch::ExecutionWatch;
pub(crate) use worker::{
    CodeTrust, InProcessWorker, PlatformToolSettings, component_end_error, sandbox_report,
    tool_settings, worker_secrets, worker_settings,
};
