//! Profiles: servers by name, in a file of the user.
//!
//! Owns the file. It holds no secret: a profile says in which variable or file its token is.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use etcetera::base_strategy::{BaseStrategy as _, choose_base_strategy};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::io::Env;
use crate::render::words::visible;

/// The profiles of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profiles {
    /// The one that is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    /// All of them, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) profiles: BTreeMap<String, Profile>,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// Its address.
    pub(crate) server: String,
    /// The variable that holds the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token_env: Option<String>,
    /// The file that holds the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Why profiles cannot be used.
#[derive(Debug, Error)]
pub(crate) enum ProfileError {
    /// There is no place for the file.
    #[error("the user has no home folder, so there is no place for profiles")]
    NoHome,
    /// The file cannot be read or written.
    #[error("the profiles in '{path}' cannot be {what}: {reason}")]
    File {
        path: String,
        what: &'static str,
        reason: String,
    },
    /// There is no such profile.
    #[error("there is no profile '{name}'")]
    Unknown { name: String, near: Option<String> },
    /// There is one of that name.
    #[error("there is a profile '{0}' already")]
    Exists(String),
    /// A name that cannot be one.
    #[error("'{0}' is not a name for a profile: letters, digits, '-', '_' and '.' make one")]
    Name(String),
    /// The token is not where the profile says.
    #[error("the token of profile '{name}' is not in {place}")]
    NoToken { name: String, place: String },
}

impl ProfileError {
    /// What the user can do about it.
    pub(crate) fn help(&self) -> Option<String> {
        match self {
            Self::NoHome => Some("set XDG_CONFIG_HOME".to_owned()),
            Self::File { .. } | Self::Name(_) => None,
            Self::Unknown {
                near: Some(near), ..
            } => Some(format!("did you mean {near}?")),
            Self::Unknown { near: None, .. } => {
                Some("see them with: noetl profile list".to_owned())
            }
            Self::Exists(name) => {
                Some(format!("replace it with: noetl profile add {name} --force"))
            }
            Self::NoToken { .. } => Some(
                "see what it says with: noetl profile show, and put the token there".to_owned(),
            ),
        }
    }
}

impl Profiles {
    /// Where the file is.
    pub(crate) fn path(env: &Env) -> Result<PathBuf, ProfileError> {
        let folder = match env.get("XDG_CONFIG_HOME") {
            Some(folder) => PathBuf::from(folder),
            None => choose_base_strategy()
                .map_err(|_| ProfileError::NoHome)?
                .config_dir(),
        };
        Ok(folder.join("noetl").join("profiles.toml"))
    }

    /// Reads the file. Without one there are no profiles.
    pub(crate) fn load(env: &Env) -> Result<Self, ProfileError> {
        let path = Self::path(env)?;
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(refused(&path, "read", error.kind())),
        };
        toml::from_str(&text).map_err(|error| refused(&path, "read", error.message()))
    }

    /// Writes the file. It is there as a whole or not at all.
    pub(crate) fn save(&self, env: &Env) -> Result<(), ProfileError> {
        let path = Self::path(env)?;
        let text =
            toml::to_string_pretty(self).map_err(|error| refused(&path, "written", error))?;
        let write = || {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            let draft = path.with_extension(format!("{}.tmp", std::process::id()));
            fs::write(&draft, &text)?;
            fs::rename(&draft, &path)
        };
        write().map_err(|error: io::Error| refused(&path, "written", error.kind()))
    }

    /// A profile.
    pub(crate) fn get(&self, name: &str) -> Result<&Profile, ProfileError> {
        self.profiles
            .get(name)
            .ok_or_else(|| ProfileError::Unknown {
                name: visible(name),
                near: crate::config::nearest(name, self.profiles.keys()),
            })
    }
}

impl Profile {
    /// The token, from where the profile says that it is.
    pub(crate) fn token(&self, name: &str, env: &Env) -> Result<Option<String>, ProfileError> {
        let missing = |place: String| ProfileError::NoToken {
            name: visible(name),
            place,
        };
        if let Some(variable) = &self.token_env {
            let found = env.get(variable).map(str::to_owned);
            let place = || missing(format!("the variable {}", visible(variable)));
            return found.map(Some).ok_or_else(place);
        }
        let Some(path) = &self.token_file else {
            return Ok(None);
        };
        let text = fs::read_to_string(path).map_err(|error| {
            let path = visible(&path.to_string_lossy());
            missing(format!("the file '{path}' ({})", error.kind()))
        })?;
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

fn refused(path: &Path, what: &'static str, reason: impl std::fmt::Display) -> ProfileError {
    ProfileError::File {
        path: visible(&path.to_string_lossy()),
        what,
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_reads_back_and_strangers_in_it_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_string_lossy().into_owned();
        let env: Env = [("XDG_CONFIG_HOME", home.as_str()), ("T", "secret")]
            .into_iter()
            .collect();
        assert_eq!(Profiles::load(&env).unwrap(), Profiles::default());
        let profile = Profile {
            server: "http://h:1".to_owned(),
            token_env: Some("T".to_owned()),
            token_file: None,
        };
        let mut profiles = Profiles {
            current: Some("a".to_owned()),
            ..Profiles::default()
        };
        profiles.profiles.insert("a".to_owned(), profile.clone());
        profiles.save(&env).unwrap();
        assert_eq!(Profiles::load(&env).unwrap(), profiles);
        assert_eq!(profile.token("a", &env).unwrap().as_deref(), Some("secret"));
        assert!(profile.token("a", &Env::default()).is_err());
        let path = Profiles::path(&env).unwrap();
        assert!(!fs::read_to_string(&path).unwrap().contains("secret"));
        fs::write(&path, "tokn = 'x'\n").unwrap();
        assert!(
            Profiles::load(&env)
                .unwrap_err()
                .to_string()
                .contains("tokn")
        );
    }
}
