//! Profiles: named servers in a file of the user.
//!
//! Owns the file. It contains no secrets: a profile names the variable or file that contains its
//! token.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use etcetera::base_strategy::{BaseStrategy as _, choose_base_strategy};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::io::Env;
use crate::render::text_layout::escape_control;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileFile {
    /// Name of the selected profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    /// All profiles by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) profiles: BTreeMap<String, Profile>,
}

/// A named server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// Address of the server.
    pub(crate) server: String,
    /// Environment variable that contains the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token_env: Option<String>,
    /// File that contains the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Error of profiles.
#[derive(Debug, Error)]
pub(crate) enum ProfileError {
    /// The configuration directory cannot be determined.
    #[error("cannot determine the user's configuration directory for profiles")]
    NoConfigDir,
    /// The file cannot be read or written.
    #[error("profiles in '{path}' cannot be {what}: {reason}")]
    File { path: String, what: &'static str, reason: String },
    /// The profile does not exist.
    #[error("there is no profile '{name}'")]
    Unknown { name: String, near: Option<String> },
    /// The profile already exists.
    #[error("profile '{0}' already exists")]
    Exists(String),
    /// The name is invalid.
    #[error("'{0}' is not a valid profile name; use letters, digits, '-', '_' and '.'")]
    InvalidName(String),
    /// The token source of the profile contains no token.
    #[error("the token of profile '{name}' was not found in {place}")]
    NoToken { name: String, place: String },
}

impl ProfileError {
    /// Suggested fix.
    pub(crate) fn help_text(&self) -> Option<String> {
        match self {
            Self::NoConfigDir => Some("set XDG_CONFIG_HOME".to_owned()),
            Self::File { .. } | Self::InvalidName(_) => None,
            Self::Unknown { near: Some(near), .. } => Some(format!("did you mean {near}?")),
            Self::Unknown { near: None, .. } => {
                Some("list profiles with: noetl profile list".to_owned())
            }
            Self::Exists(name) => {
                Some(format!("replace it with: noetl profile add {name} --force"))
            }
            Self::NoToken { .. } => Some(
                "show the token source with: noetl profile show, and put the token there"
                    .to_owned(),
            ),
        }
    }
}

impl ProfileFile {
    /// Path of the file.
    pub(crate) fn file_path(env: &Env) -> Result<PathBuf, ProfileError> {
        let dir = match env.get("XDG_CONFIG_HOME") {
            Some(dir) => PathBuf::from(dir),
            None => choose_base_strategy().map_err(|_| ProfileError::NoConfigDir)?.config_dir(),
        };
        Ok(dir.join("noetl").join("profiles.toml"))
    }

    /// Reads the file. Returns no profiles if it does not exist.
    pub(crate) fn load_file(env: &Env) -> Result<Self, ProfileError> {
        let path = Self::file_path(env)?;
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(file_error(&path, "read", error.kind())),
        };
        toml::from_str(&text).map_err(|error| file_error(&path, "read", error.message()))
    }

    /// Writes the file atomically.
    pub(crate) fn save_file(&self, env: &Env) -> Result<(), ProfileError> {
        let path = Self::file_path(env)?;
        let text =
            toml::to_string_pretty(self).map_err(|error| file_error(&path, "written", error))?;
        let write = || {
            if let Some(dir) = path.parent() {
                fs::create_dir_all(dir)?;
            }
            let temp_path = path.with_extension(format!("{}.tmp", std::process::id()));
            fs::write(&temp_path, &text)?;
            fs::rename(&temp_path, &path)
        };
        write().map_err(|error: io::Error| file_error(&path, "written", error.kind()))
    }

    /// Finds a profile by name.
    pub(crate) fn find_profile(&self, name: &str) -> Result<&Profile, ProfileError> {
        self.profiles.get(name).ok_or_else(|| ProfileError::Unknown {
            name: escape_control(name),
            near: crate::config::nearest_name(name, self.profiles.keys()),
        })
    }
}

impl Profile {
    /// Reads the token from its source.
    pub(crate) fn read_token(&self, name: &str, env: &Env) -> Result<Option<String>, ProfileError> {
        let missing = |place: String| ProfileError::NoToken { name: escape_control(name), place };
        if let Some(variable) = &self.token_env {
            let token = env.get(variable).map(str::to_owned);
            let not_found = || missing(format!("the variable {}", escape_control(variable)));
            return token.map(Some).ok_or_else(not_found);
        }
        let Some(path) = &self.token_file else {
            return Ok(None);
        };
        let text = fs::read_to_string(path).map_err(|error| {
            let path = escape_control(&path.to_string_lossy());
            missing(format!("the file '{path}' ({})", error.kind()))
        })?;
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

fn file_error(path: &Path, what: &'static str, reason: impl std::fmt::Display) -> ProfileError {
    ProfileError::File {
        path: escape_control(&path.to_string_lossy()),
        what,
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_round_trip_and_reject_unknown_keys() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_string_lossy().into_owned();
        let env: Env = [("XDG_CONFIG_HOME", home.as_str()), ("T", "secret")].into_iter().collect();
        assert_eq!(ProfileFile::load_file(&env).unwrap(), ProfileFile::default());
        let profile = Profile {
            server: "http://h:1".to_owned(),
            token_env: Some("T".to_owned()),
            token_file: None,
        };
        let mut profiles = ProfileFile { current: Some("a".to_owned()), ..ProfileFile::default() };
        profiles.profiles.insert("a".to_owned(), profile.clone());
        profiles.save_file(&env).unwrap();
        assert_eq!(ProfileFile::load_file(&env).unwrap(), profiles);
        assert_eq!(profile.read_token("a", &env).unwrap().as_deref(), Some("secret"));
        assert!(profile.read_token("a", &Env::default()).is_err());
        let path = ProfileFile::file_path(&env).unwrap();
        assert!(!fs::read_to_string(&path).unwrap().contains("secret"));
        fs::write(&path, "tokn = 'x'\n").unwrap();
        assert!(ProfileFile::load_file(&env).unwrap_err().to_string().contains("tokn"));
    }
}
