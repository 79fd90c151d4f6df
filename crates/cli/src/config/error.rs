//! What can be wrong with the configuration.

use std::io;

use thiserror::Error;

use crate::render::words::visible;

/// Why settings cannot be used.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    /// A value that does not parse or is out of range.
    #[error("{place} is {}: {fault}", shown(value.as_deref()))]
    Invalid {
        /// Where the value was given: the flag, the variable, the key of the file.
        place: String,
        /// The value, unless it is a secret.
        value: Option<String>,
        /// What is wrong with it.
        fault: String,
    },
    /// A setting without which the command cannot work.
    #[error("{name} is not set")]
    Missing { name: &'static str },
    /// The same setting twice in the environment.
    #[error("both {name} and {name}_FILE are set")]
    Twice { name: &'static str },
    /// A key of the file that means nothing.
    #[error("'{}' in {path} is not a setting", visible(key))]
    UnknownKey {
        path: String,
        key: String,
        near: Option<String>,
    },
    /// A file that cannot be read as what it should be.
    #[error("{what} {path} cannot be used: {reason}")]
    File {
        what: &'static str,
        path: String,
        reason: String,
    },
    /// There is no folder for data.
    #[error("the data folder of the user cannot be found")]
    NoHome,
    /// A folder that cannot be made.
    #[error("the data folder {path} cannot be made: {}", source.kind())]
    Folder { path: String, source: io::Error },
    /// Settings that would leave the server open.
    #[error("{0}")]
    Unsafe(String),
    /// Settings that ask for something that there is not; the text says what to do.
    #[error("{0}")]
    Refused(&'static str),
}

fn shown(value: Option<&str>) -> String {
    value.map_or_else(
        || "not usable".to_owned(),
        |value| format!("'{}'", visible(value)),
    )
}

impl ConfigError {
    /// What the user can do about it.
    pub(crate) fn help(&self) -> Option<String> {
        match self {
            Self::UnknownKey {
                near: Some(near), ..
            } => Some(format!("did you mean '{near}'?")),
            Self::UnknownKey { near: None, .. } => {
                Some("list every setting with: noetl config show".to_owned())
            }
            Self::Twice { .. } => Some("unset one of them".to_owned()),
            Self::Missing { name } => Some(format!("set {name}")),
            Self::NoHome => Some("set HOME, or name a folder by NOETL_DATA_DIR".to_owned()),
            Self::Folder { .. } => {
                Some("name another folder by --data-dir or NOETL_DATA_DIR".to_owned())
            }
            Self::Unsafe(_) => Some(
                "listen on a loopback address such as 127.0.0.1, or set NOETL_TLS_CERT and \
                 NOETL_TLS_KEY, with NOETL_DEV=false"
                    .to_owned(),
            ),
            Self::Invalid { .. } | Self::File { .. } | Self::Refused(_) => None,
        }
    }
}
