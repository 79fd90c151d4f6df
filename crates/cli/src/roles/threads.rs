//! The threads of the process.

use std::thread::available_parallelism;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::error::StartError;
use crate::config::table::THREADS;
use crate::config::{Config, ConfigError};

/// Threads that may wait for files and names at once: more than a worker has commands by far, since
/// each may wait for a lock of a file. They are there only while they have something to do.
const BLOCKING: usize = 256;
/// How long such a thread waits for more to do.
const IDLE: Duration = Duration::from_secs(2);

/// Threads for everything that the process does; `most` bounds them where the user does not say.
pub(crate) fn threads(config: &Config, most: usize) -> Result<Runtime, Refused> {
    // An error says that there is a provider of cryptography already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cores = available_parallelism().map_or(1, usize::from);
    let count = match config.get(&THREADS)? {
        Some(count) => usize::try_from(count).unwrap_or(most),
        None => cores.min(most),
    };
    let runtime = Builder::new_multi_thread()
        .worker_threads(count)
        .max_blocking_threads(BLOCKING)
        .thread_keep_alive(IDLE)
        .thread_name("noetl")
        .enable_all()
        .build()
        .map_err(StartError::Process)?;
    Ok(runtime)
}

/// Why there are no threads.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Start(#[from] StartError),
}
