//! A client of the server that the configuration names.

use std::fs;

use noetl_api::client::BearerToken;
use noetl_api::{Client, ClientSettings};

use super::error::StartError;
use crate::config::table::{SERVER_URL, TLS_CA, TOKEN};
use crate::config::{Config, ConfigError};
use crate::error::Error;

/// A client of the server.
pub(crate) fn client(config: &Config) -> Result<Client, Error> {
    let url = config.value(&SERVER_URL)?;
    let settings = client_settings(config)?;
    Ok(Client::new(&url, settings).map_err(StartError::Client)?)
}

/// Whom a client acts for, and whom it trusts.
pub(crate) fn client_settings(config: &Config) -> Result<ClientSettings, ConfigError> {
    let authority = match config.get(&TLS_CA)? {
        None => None,
        Some(path) => Some(fs::read(&path).map_err(|error| ConfigError::File {
            what: "the file of NOETL_TLS_CA",
            path: path.display().to_string(),
            reason: error.kind().to_string(),
        })?),
    };
    Ok(ClientSettings {
        token: config.get(&TOKEN)?.map(BearerToken::new),
        authority,
        ..ClientSettings::default()
    })
}
