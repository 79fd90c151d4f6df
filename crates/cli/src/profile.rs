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

use crate::config::nearest_name;
use crate::error::{Error, Result};
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

impl ProfileFile {
    /// Path of the file.
    pub(crate) fn file_path(env: &Env) -> Result<PathBuf> {
        let dir = match env.get("XDG_CONFIG_HOME") {
            Some(dir) => PathBuf::from(dir),
            None => choose_base_strategy().map_err(|_| no_config_dir_error())?.config_dir(),
        };
        Ok(dir.join("noetl").join("profiles.toml"))
    }

    /// Reads the file. Returns no profiles if it does not exist.
    pub(crate) fn load_file(env: &Env) -> Result<Self> {
        let path = Self::file_path(env)?;
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(file_error(&path, "read", error.kind())),
        };
        toml::from_str(&text).map_err(|error| file_error(&path, "read", error.message()))
    }

    /// Writes the file atomically.
    pub(crate) fn save_file(&self, env: &Env) -> Result<()> {
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
    pub(crate) fn find_profile(&self, name: &str) -> Result<&Profile> {
        self.profiles.get(name).ok_or_else(|| {
            let near = nearest_name(name, self.profiles.keys());
            Error::not_found(format!("there is no profile '{}'", escape_control(name)))
                .with_suggestion(near, "list profiles with: noetl profile list")
        })
    }
}

impl Profile {
    /// Reads the token from its source.
    pub(crate) fn read_token(&self, name: &str, env: &Env) -> Result<Option<String>> {
        let missing = |place: String| {
            let name = escape_control(name);
            Error::usage(format!("the token of profile '{name}' was not found in {place}"))
                .with_help(
                    "show the token source with: noetl profile show, and put the token there",
                )
        };
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

fn no_config_dir_error() -> Error {
    Error::usage("cannot determine the user's configuration directory for profiles")
        .with_help("set XDG_CONFIG_HOME")
}

fn file_error(path: &Path, what: &str, reason: impl std::fmt::Display) -> Error {
    let path = escape_control(&path.to_string_lossy());
    Error::usage(format!("profiles in '{path}' cannot be {what}: {reason}"))
}

#[cfg(test)]
mod tests;
