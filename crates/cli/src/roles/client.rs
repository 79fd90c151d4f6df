//! A client of the server that the configuration names.

use std::fs;
use std::path::PathBuf;

use noetl_api::client::{BearerToken, ClientCertificate};
use noetl_api::{Client, ClientSettings};

use super::error::StartError;
use crate::config::table::{SERVER_URL, TLS_CA, TLS_CLIENT_CERT, TLS_CLIENT_KEY, TOKEN};
use crate::config::{Config, ConfigError, Setting};
use crate::error::Error;

/// A client of the server.
pub(crate) fn client(config: &Config) -> Result<Client, Error> {
    let url = config.value(&SERVER_URL)?;
    let settings = client_settings(config)?;
    Ok(Client::new(&url, settings).map_err(StartError::Client)?)
}

/// Whom a client acts for, what it shows, and whom it trusts.
pub(crate) fn client_settings(config: &Config) -> Result<ClientSettings, ConfigError> {
    let chain = file(
        config,
        &TLS_CLIENT_CERT,
        "the file of NOETL_TLS_CLIENT_CERT",
    )?;
    let key = file(config, &TLS_CLIENT_KEY, "the file of NOETL_TLS_CLIENT_KEY")?;
    let missing = |name| Err(ConfigError::Missing { name });
    let certificate = match (chain, key) {
        (Some(chain), Some(key)) => Some(ClientCertificate { chain, key }),
        (None, None) => None,
        (Some(_), None) => return missing("NOETL_TLS_CLIENT_KEY"),
        (None, Some(_)) => return missing("NOETL_TLS_CLIENT_CERT"),
    };
    Ok(ClientSettings {
        token: config.get(&TOKEN)?.map(BearerToken::new),
        authority: file(config, &TLS_CA, "the file of NOETL_TLS_CA")?,
        certificate,
        ..ClientSettings::default()
    })
}

/// What is in the file that a setting names.
fn file(
    config: &Config,
    setting: &Setting<PathBuf>,
    what: &'static str,
) -> Result<Option<Vec<u8>>, ConfigError> {
    let Some(path) = config.get(setting)? else {
        return Ok(None);
    };
    let read = fs::read(&path).map_err(|error| ConfigError::File {
        what,
        path: path.display().to_string(),
        reason: error.kind().to_string(),
    });
    read.map(Some)
}
