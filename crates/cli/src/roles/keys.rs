//! The keys that secrets are sealed under.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use noetl_server::vault::{BadKey, Key, KeyRing};

use super::store::Place;
use crate::config::table::{ENCRYPTION_KEY, ENCRYPTION_KEYS_OLD};
use crate::config::{Config, ConfigError};
use crate::error::Error;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    /// The file of the key cannot be used.
    #[error("the encryption key in '{}' cannot be used: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// What is in it is no key.
    #[error("'{}' holds no encryption key: {source}", path.display())]
    Bad { path: PathBuf, source: BadKey },
}

/// The keys: as the configuration says, or for a database in a file the one beside it. A server makes
/// that one when it is missing; nobody else does.
pub(super) fn keys(
    config: &Config,
    place: &Place,
    is_server: bool,
) -> Result<Option<Arc<KeyRing>>, Error> {
    let current = match config.get(&ENCRYPTION_KEY)? {
        Some(text) => Some(read(ENCRYPTION_KEY.facts.name, &text)?),
        None => match place.file() {
            Some(file) => beside(file, is_server)?,
            None => None,
        },
    };
    let Some(current) = current else {
        return Ok(None);
    };
    let old = config.get(&ENCRYPTION_KEYS_OLD)?.unwrap_or_default();
    let old = old
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty());
    // A key has its name from itself; one that is written before it is for people.
    let old = old.map(|text| text.rsplit(':').next().unwrap_or(text));
    let old = old.map(|text| read(ENCRYPTION_KEYS_OLD.facts.name, text));
    let ring = KeyRing::new(current, old.collect::<Result<_, _>>()?);
    Ok(Some(Arc::new(ring)))
}

fn read(name: &str, text: &str) -> Result<Key, ConfigError> {
    Key::read(text).map_err(|fault| ConfigError::Invalid {
        place: name.to_owned(),
        // It is a secret.
        value: None,
        fault: fault.to_string(),
    })
}

fn beside(file: &Path, may_make: bool) -> Result<Option<Key>, Error> {
    let path = file.with_extension("key");
    let unusable = |source| KeyError::File {
        path: path.clone(),
        source,
    };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && may_make => {
            make(&path).map_err(unusable)?
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(error).into()),
    };
    let key = Key::read(&text).map_err(|source| KeyError::Bad {
        path: path.clone(),
        source,
    })?;
    Ok(Some(key))
}

/// Makes a key that only its owner may read. Of two that do so at once, one key is kept.
fn make(path: &Path) -> io::Result<String> {
    let text = Key::text_of_new().map_err(io::Error::other)?;
    let opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
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
