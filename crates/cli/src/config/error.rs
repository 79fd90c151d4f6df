//! Errors of the configuration.

use std::io;

use thiserror::Error;

use crate::render::text_layout::escape_control;

/// Error of the configuration.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    /// A value that cannot be parsed or is out of range.
    #[error("{place} is {}: {fault}", display_value(value.as_deref()))]
    InvalidValue {
        /// Source of the value: the flag, the variable or the key of the file.
        place: String,
        /// The value, unless it is a secret.
        value: Option<String>,
        /// Reason why the value is invalid.
        fault: String,
    },
    /// A required setting is missing.
    #[error("{name} is not set")]
    Missing { name: &'static str },
    /// A setting is given twice in the environment.
    #[error("both {name} and {name}_FILE are set")]
    SetTwice { name: &'static str },
    /// Unknown key in the configuration file.
    #[error("'{}' in {path} is not a setting", escape_control(key))]
    UnknownKey { path: String, key: String, near: Option<String> },
    /// A file that cannot be read or parsed.
    #[error("{what} {path} cannot be used: {reason}")]
    UnusableFile { what: &'static str, path: String, reason: String },
    /// The data directory of the user cannot be determined.
    #[error("cannot determine the user's data directory")]
    NoDataDir,
    /// The data directory cannot be created.
    #[error("cannot create the data directory {path}: {}", source.kind())]
    DataDir { path: String, source: io::Error },
    /// Settings that would expose the server.
    #[error("{0}")]
    Unsafe(String),
    /// Settings that contradict each other or are not supported. The text contains the fix.
    #[error("{0}")]
    Unsupported(&'static str),
}

fn display_value(value: Option<&str>) -> String {
    value.map_or_else(|| "invalid".to_owned(), |value| format!("'{}'", escape_control(value)))
}

impl ConfigError {
    /// Suggested fix.
    pub(crate) fn help_text(&self) -> Option<String> {
        match self {
            Self::UnknownKey { near: Some(near), .. } => Some(format!("did you mean '{near}'?")),
            Self::UnknownKey { near: None, .. } => {
                Some("list every setting with: noetl config show".to_owned())
            }
            Self::SetTwice { .. } => Some("unset one of them".to_owned()),
            Self::Missing { name } => Some(format!("set {name}")),
            Self::NoDataDir => {
                Some("set HOME, or choose a directory with NOETL_DATA_DIR".to_owned())
            }
            Self::DataDir { .. } => {
                Some("choose another directory with --data-dir or NOETL_DATA_DIR".to_owned())
            }
            Self::Unsafe(_) => Some(
                "listen on a loopback address such as 127.0.0.1, or set NOETL_TLS_CERT and \
                 NOETL_TLS_KEY, with NOETL_DEV=false"
                    .to_owned(),
            ),
            Self::InvalidValue { .. } | Self::UnusableFile { .. } | Self::Unsupported(_) => None,
        }
    }
}
