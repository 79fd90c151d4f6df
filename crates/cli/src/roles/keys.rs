//! Encryption keys for secrets.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use noetl_server::crypto::{EncryptionKey, KeyRing};

use super::store::StoreLocation;
use crate::config::table::{ENCRYPTION_KEY, ENCRYPTION_KEYS_OLD};
use crate::config::{Config, invalid_value_error};
use crate::error::{Error, Result};

/// Treatment of a missing key file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyFile {
    /// Create it, since secrets may be stored.
    CreateIfMissing,
    /// Do without keys.
    Optional,
}

/// Loads the keys from the configuration, or for a database file from the key file next to it.
pub(super) fn load_keys(
    config: &Config,
    location: &StoreLocation,
    key_file: KeyFile,
) -> Result<Option<Arc<KeyRing>>> {
    let current = match config.get(&ENCRYPTION_KEY)? {
        Some(text) => Some(parse_key(ENCRYPTION_KEY.info.name, &text)?),
        None => match location.file_path() {
            Some(file) => load_key_file(file, key_file == KeyFile::CreateIfMissing)?,
            None => None,
        },
    };
    let Some(current) = current else {
        return Ok(None);
    };
    let old = config.get(&ENCRYPTION_KEYS_OLD)?.unwrap_or_default();
    let old = old.split(',').map(str::trim).filter(|text| !text.is_empty());
    // A key may have a human-readable prefix, which is ignored: its id is derived from the key.
    let old = old.map(|text| text.rsplit(':').next().unwrap_or(text));
    let old = old.map(|text| parse_key(ENCRYPTION_KEYS_OLD.info.name, text));
    let ring = KeyRing::new(current, old.collect::<Result<_, _>>()?);
    Ok(Some(Arc::new(ring)))
}

fn parse_key(name: &str, text: &str) -> Result<EncryptionKey> {
    // The key is secret, so it is not printed.
    EncryptionKey::from_base64(text)
        .map_err(|error| invalid_value_error(name, None, &error.to_string()))
}

fn load_key_file(file: &Path, may_create: bool) -> Result<Option<EncryptionKey>> {
    let path = file.with_extension("key");
    let name = path.display();
    let unusable = |error: io::Error| {
        Error::failed(format!("cannot use the encryption key in '{name}': {error}"))
    };
    let text = match fs::read_to_string(&path) {
        Ok(text) => {
            let mode = fs::metadata(&path).map_err(unusable)?.mode();
            if mode & 0o007 != 0 {
                let mode = mode & 0o777;
                let text = format!(
                    "every user of this machine can access the encryption key '{name}' (mode {mode:04o})"
                );
                return Err(Error::failed(text).with_help(format!(
                    "run: chmod 600 '{name}'; if others may have read the key, replace it too"
                )));
            }
            text
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && may_create => {
            create_key_file(&path).map_err(unusable)?
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(error)),
    };
    let key = EncryptionKey::from_base64(&text).map_err(|error| {
        Error::failed(format!("'{name}' does not contain an encryption key: {error}"))
    })?;
    Ok(Some(key))
}

/// Creates a key file that only its owner can read. If two processes do this at once, both use the
/// same key.
fn create_key_file(path: &Path) -> io::Result<String> {
    let text = EncryptionKey::generate_base64().map_err(io::Error::other)?;
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match opened {
        Ok(mut file) => {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            Ok(text)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::read_to_string(path),
        Err(error) => Err(error),
    }
}
