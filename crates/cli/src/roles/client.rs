//! Client of the configured server.

use std::fs;
use std::path::PathBuf;

use noetl_api::client::{BearerToken, ClientCertificate};
use noetl_api::{Client, ClientSettings};

use super::error::StartError;
use crate::config::table::{SERVER_URL, TLS_CA, TLS_CLIENT_CERT, TLS_CLIENT_KEY, TOKEN};
use crate::config::{Config, ConfigError, Setting};
use crate::error::Error;

/// Builds a client of the configured server.
pub(crate) fn server_client(config: &Config) -> Result<Client, Error> {
    let url = config.value(&SERVER_URL)?;
    let settings = client_settings(config)?;
    Ok(Client::new(&url, settings).map_err(StartError::Client)?)
}

/// Token, client certificate and trusted authority of a client.
pub(crate) fn client_settings(config: &Config) -> Result<ClientSettings, ConfigError> {
    let chain = read_setting_file(config, &TLS_CLIENT_CERT, "the file of NOETL_TLS_CLIENT_CERT")?;
    let key = read_setting_file(config, &TLS_CLIENT_KEY, "the file of NOETL_TLS_CLIENT_KEY")?;
    let missing = |name| Err(ConfigError::Missing { name });
    let certificate = match (chain, key) {
        (Some(chain), Some(key)) => Some(ClientCertificate { chain, key }),
        (None, None) => None,
        (Some(_), None) => return missing("NOETL_TLS_CLIENT_KEY"),
        (None, Some(_)) => return missing("NOETL_TLS_CLIENT_CERT"),
    };
    Ok(ClientSettings {
        token: config.get(&TOKEN)?.map(BearerToken::new),
        authority: read_setting_file(config, &TLS_CA, "the file of NOETL_TLS_CA")?,
        certificate,
        ..ClientSettings::default()
    })
}

/// Reads the file that a setting names.
fn read_setting_file(
    config: &Config,
    setting: &Setting<PathBuf>,
    what: &'static str,
) -> Result<Option<Vec<u8>>, ConfigError> {
    let Some(path) = config.get(setting)? else {
        return Ok(None);
    };
    let contents = fs::read(&path).map_err(|error| ConfigError::UnusableFile {
        what,
        path: path.display().to_string(),
        reason: error.kind().to_string(),
    });
    contents.map(Some)
}
