//! The log of a process that lasts.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::config::table::{DEBUG, LOG, LOG_FORMAT};
use crate::config::{Config, ConfigError, LogFormat};

/// Begins to log to standard error.
pub(crate) fn start_logging(
    config: &Config,
    is_terminal: bool,
    has_color: bool,
) -> Result<(), ConfigError> {
    let filter = EnvFilter::builder().parse_lossy(filter(config)?);
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

/// What is logged where only more of it is asked for.
const MORE: &str = "info,noetl=debug";

/// What is logged: as somebody says, or else more or less of it.
fn filter(config: &Config) -> Result<String, ConfigError> {
    if config.value(&DEBUG)? && !config.is_given(&LOG) {
        return Ok(MORE.to_owned());
    }
    config.value(&LOG)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Given;

    #[test]
    fn more_is_logged_unless_somebody_says_what() {
        let filter = |variables: &[(&str, &str)]| {
            let variables = variables.iter().copied().collect();
            filter(&Config::load(&Given::default(), &variables).unwrap()).unwrap()
        };
        assert_eq!(filter(&[]), "info");
        assert_eq!(filter(&[("NOETL_DEBUG", "false")]), "info");
        assert_eq!(filter(&[("NOETL_DEBUG", "true")]), MORE);
        let both = [("NOETL_DEBUG", "true"), ("NOETL_LOG", "warn")];
        assert_eq!(filter(&both), "warn");
    }
}
