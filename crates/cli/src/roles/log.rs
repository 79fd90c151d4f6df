//! The log of a process that lasts.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::config::table::{LOG, LOG_FORMAT};
use crate::config::{Config, ConfigError, LogFormat};

/// Begins to log to standard error.
pub(crate) fn start_logging(
    config: &Config,
    is_terminal: bool,
    has_color: bool,
) -> Result<(), ConfigError> {
    let filter = EnvFilter::builder().parse_lossy(config.value(&LOG)?);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    let is_json = match config.value(&LOG_FORMAT)? {
        LogFormat::Auto => !is_terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let started = if is_json {
        builder
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .with_ansi(false)
            .try_init()
    } else {
        builder.with_ansi(has_color).with_target(false).try_init()
    };
    // A process logs to one place: the first that was asked for.
    drop(started);
    Ok(())
}
