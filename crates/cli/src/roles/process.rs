//! The process itself: threads, logging, signals, and the settings of its requests.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

use noetl_api::ClientSettings;
use noetl_api::client::{BearerToken, ClientCertificate};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;
use tracing::Level;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::table::{
    DEBUG, LOG, LOG_FORMAT, THREADS, TLS_CA, TLS_CLIENT_CERT, TLS_CLIENT_KEY, TOKEN,
};
use crate::config::{Config, LogFormat, Setting, missing_setting_error, unusable_file_error};
use crate::error::{Error, Result};
use crate::io::OutputStream;

/// Maximum threads for blocking work such as files and name resolution. Far more than the commands
/// of a worker, since each command can wait for a file lock. Idle threads end.
const MAX_BLOCKING_THREADS: usize = 256;
/// Time until an idle blocking thread ends.
const BLOCKING_KEEP_ALIVE: Duration = Duration::from_secs(2);

/// Builds the tokio runtime of the process. `max_threads` limits the default number of threads.
pub(crate) fn build_tokio_runtime(config: &Config, max_threads: usize) -> Result<Runtime> {
    // An error means that a crypto provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cores = available_parallelism().map_or(1, usize::from);
    let count = match config.get(&THREADS)? {
        Some(count) => usize::try_from(count).unwrap_or(max_threads),
        None => cores.min(max_threads),
    };
    Builder::new_multi_thread()
        .worker_threads(count)
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .thread_keep_alive(BLOCKING_KEEP_ALIVE)
        .thread_name("noetl")
        .enable_all()
        .build()
        .map_err(|error| process_error(&error))
}

/// Error of a system that provides no threads, timers or files.
pub(crate) fn process_error(error: &io::Error) -> Error {
    Error::failed(format!("the process cannot start: {}", error.kind()))
}

/// Starts logging to standard error.
pub(crate) fn start_logging(config: &Config, err: &OutputStream<'_>) -> Result<()> {
    let filter = EnvFilter::builder().parse_lossy(log_filter(config)?);
    let subscriber = tracing_subscriber::registry()
        .with(filter)
        .with(filter_fn(|metadata| may_be_logged(metadata.target(), *metadata.level())));
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let is_json = match config.value(&LOG_FORMAT)? {
        LogFormat::Auto => !err.is_terminal(),
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let result = if is_json {
        let layer = layer.json().flatten_event(true).with_span_list(false).with_ansi(false);
        subscriber.with(layer).try_init()
    } else {
        subscriber.with(layer.with_ansi(err.paint().is_on()).with_target(false)).try_init()
    };
    // An error means that logging was already started, which is fine.
    drop(result);
    Ok(())
}

/// True if a line may be logged at all. Below `warn`, libraries log what they send and receive, and
/// addresses with passwords: async-nats logs every message and its `CONNECT`.
fn may_be_logged(target: &str, level: Level) -> bool {
    target.starts_with("noetl") || level <= Level::WARN
}

/// Log filter with `NOETL_DEBUG`.
const DEBUG_FILTER: &str = "info,noetl=debug";

/// Log filter from the configuration.
fn log_filter(config: &Config) -> Result<String> {
    if config.value(&DEBUG)? && !config.is_given(&LOG) {
        return Ok(DEBUG_FILTER.to_owned());
    }
    config.value(&LOG)
}

/// Stream of interrupt and terminate signals.
#[derive(Debug)]
pub(crate) struct StopSignals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    count: usize,
}

impl StopSignals {
    /// True if more than one signal was received, so the user does not want to wait.
    pub(crate) fn is_repeated(&self) -> bool {
        self.count > 1
    }

    /// Starts listening. Without this, each signal ends the process.
    #[cfg(unix)]
    pub(crate) fn new() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).map_err(|error| process_error(&error));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            count: 0,
        })
    }

    /// Waits for the next signal.
    #[cfg(unix)]
    pub(crate) async fn next_signal(&mut self) -> io::Result<()> {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        self.count += 1;
        Ok(())
    }

    /// Starts listening. Without this, each signal ends the process.
    #[cfg(not(unix))]
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { count: 0 })
    }

    /// Waits for the next signal.
    #[cfg(not(unix))]
    pub(crate) async fn next_signal(&mut self) -> io::Result<()> {
        tokio::signal::ctrl_c().await?;
        self.count += 1;
        Ok(())
    }
}

/// Returns two tokens: the first signal cancels the first, the second signal cancels the second.
pub(crate) fn shutdown_tokens() -> Result<(CancellationToken, CancellationToken)> {
    let mut signals = StopSignals::new()?;
    let (graceful, immediate) = (CancellationToken::new(), CancellationToken::new());
    let tokens = (graceful.clone(), immediate.clone());
    tokio::spawn(async move {
        for token in [graceful, immediate] {
            if signals.next_signal().await.is_err() {
                return;
            }
            token.cancel();
        }
    });
    Ok(tokens)
}

/// Token, client certificate and trusted authority of a client.
pub(crate) fn client_settings(config: &Config) -> Result<ClientSettings> {
    let chain = read_setting_file(config, &TLS_CLIENT_CERT)?;
    let key = read_setting_file(config, &TLS_CLIENT_KEY)?;
    let certificate = match (chain, key) {
        (Some(chain), Some(key)) => Some(ClientCertificate { chain, key }),
        (None, None) => None,
        (Some(_), None) => return Err(missing_setting_error("NOETL_TLS_CLIENT_KEY")),
        (None, Some(_)) => return Err(missing_setting_error("NOETL_TLS_CLIENT_CERT")),
    };
    Ok(ClientSettings {
        token: config.get(&TOKEN)?.map(BearerToken::new),
        authority: read_setting_file(config, &TLS_CA)?,
        certificate,
        ..ClientSettings::default()
    })
}

/// Reads the file that a setting names.
fn read_setting_file(config: &Config, setting: &Setting<PathBuf>) -> Result<Option<Vec<u8>>> {
    let Some(path) = config.get(setting)? else {
        return Ok(None);
    };
    let contents = fs::read(&path).map_err(|error| {
        let what = format!("the file of {}", setting.info.name);
        unusable_file_error(&what, &path.display().to_string(), error.kind())
    });
    contents.map(Some)
}

#[cfg(test)]
mod tests;
