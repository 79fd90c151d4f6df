//! Logging of long-running processes.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::config::table::{DEBUG, LOG, LOG_FORMAT};
use crate::config::{Config, ConfigError, LogFormat};

/// Starts logging to standard error.
pub(crate) fn start_logging(
    config: &Config,
    is_terminal: bool,
    has_color: bool,
) -> Result<(), ConfigError> {
    let filter = EnvFilter::builder().parse_lossy(log_filter(config)?);
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let is_json = match config.value(&LOG_FORMAT)? {
        LogFormat::Auto => !is_terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let result = if is_json {
        builder.json().flatten_event(true).with_span_list(false).with_ansi(false).try_init()
    } else {
        builder.with_ansi(has_color).with_target(false).try_init()
    };
    // An error means that logging was already started, which is fine.
    drop(result);
    Ok(())
}

/// Log filter with `NOETL_DEBUG`.
const DEBUG_FILTER: &str = "info,noetl=debug";

/// Log filter from the configuration.
fn log_filter(config: &Config) -> Result<String, ConfigError> {
    if config.value(&DEBUG)? && !config.is_given(&LOG) {
        return Ok(DEBUG_FILTER.to_owned());
    }
    config.value(&LOG)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::GivenSettings;

    #[test]
    fn debug_flag_yields_to_explicit_filter() {
        let filter = |variables: &[(&str, &str)]| {
            let variables = variables.iter().copied().collect();
            log_filter(&Config::load(&GivenSettings::default(), &variables).unwrap()).unwrap()
        };
        assert_eq!(filter(&[]), "info");
        assert_eq!(filter(&[("NOETL_DEBUG", "false")]), "info");
        assert_eq!(filter(&[("NOETL_DEBUG", "true")]), DEBUG_FILTER);
        let both = [("NOETL_DEBUG", "true"), ("NOETL_LOG", "warn")];
        assert_eq!(filter(&both), "warn");
    }
}
