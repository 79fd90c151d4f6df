//! Threads of the process.

use std::thread::available_parallelism;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::error::StartError;
use crate::config::table::THREADS;
use crate::config::{Config, ConfigError};

/// Maximum threads for blocking work such as files and name resolution. Far more than the commands
/// of a worker, since each command can wait for a file lock. Idle threads end.
const MAX_BLOCKING_THREADS: usize = 256;
/// Time until an idle blocking thread ends.
const BLOCKING_KEEP_ALIVE: Duration = Duration::from_secs(2);

/// Builds the tokio runtime of the process. `max_threads` limits the default number of threads.
pub(crate) fn build_tokio_runtime(
    config: &Config,
    max_threads: usize,
) -> Result<Runtime, RuntimeBuildError> {
    // An error means that a crypto provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cores = available_parallelism().map_or(1, usize::from);
    let count = match config.get(&THREADS)? {
        Some(count) => usize::try_from(count).unwrap_or(max_threads),
        None => cores.min(max_threads),
    };
    let runtime = Builder::new_multi_thread()
        .worker_threads(count)
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .thread_keep_alive(BLOCKING_KEEP_ALIVE)
        .thread_name("noetl")
        .enable_all()
        .build()
        .map_err(StartError::Process)?;
    Ok(runtime)
}

/// Error of building the tokio runtime.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RuntimeBuildError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Start(#[from] StartError),
}
