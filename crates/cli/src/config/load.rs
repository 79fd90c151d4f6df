//! Loads settings from flags, the environment, the configuration file and the defaults, in this
//! order.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::setting::{Setting, SettingDefault, SettingInfo};
use super::table::{OBSOLETE_SETTINGS, PORT, POSTGRES_PORT, SETTINGS_TABLE};
use super::{invalid_value_error, missing_setting_error, unusable_file_error};
use crate::error::{Error, Result};
use crate::io::Env;
use crate::render::text_layout::escape_control;

/// Variable that names the configuration file.
const CONFIG_VARIABLE: &str = "NOETL_CONFIG";

/// Prefixes of variables that Kubernetes sets in every pod of the namespace of a service named
/// `noetl`.
const KUBERNETES_PREFIXES: [&str; 2] = ["NOETL_SERVICE_", "NOETL_PORT_"];

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SettingOrigin {
    /// A flag.
    Flag(&'static str),
    /// An environment variable.
    Environment(String),
    /// The configuration file.
    File(String),
    /// The default.
    Default,
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "flag --{name}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File(path) => write!(f, "file {path}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Settings given on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GivenSettings {
    /// Configuration file.
    pub(crate) file: Option<PathBuf>,
    /// Flag name and value, by name of the setting.
    pub(crate) flags: BTreeMap<&'static str, (&'static str, String)>,
}

/// Values of all given settings, with warnings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Config {
    values: BTreeMap<&'static str, (String, SettingOrigin)>,
    /// Files from which secrets were read.
    secret_files: Vec<PathBuf>,
    /// Problems that do not prevent the command from running.
    pub(crate) warnings: Vec<String>,
}

impl Config {
    /// Loads all settings. Rejects invalid values even if the command does not use them.
    pub(crate) fn load(given: &GivenSettings, env: &Env) -> Result<Self> {
        let mut config = Self::default();
        let path_flag = given.file.clone();
        let file = match path_flag.or_else(|| env.get(CONFIG_VARIABLE).map(PathBuf::from)) {
            Some(path) => {
                let file = ConfigFile::read_file(&path)?;
                if file.has_secrets() {
                    config.secret_files.push(path);
                }
                file
            }
            None => ConfigFile::default(),
        };
        for setting in SETTINGS_TABLE {
            let info = setting.info();
            let value = match given.flags.get(info.name) {
                Some((flag, text)) => Some((text.clone(), SettingOrigin::Flag(flag))),
                None => match config.read_environment(info, env)? {
                    Some(value) => Some(value),
                    None => file.find_value(info),
                },
            };
            if let Some((text, origin)) = value {
                let checked = setting.validate(&text);
                checked.map_err(|fault| setting_error(info, &text, &origin, &fault))?;
                config.values.insert(info.name, (text, origin));
            }
        }
        config.warn_unknown_variables(env);
        config.warn_obsolete_settings();
        Ok(config)
    }

    /// Value of a setting, if it has one.
    pub(crate) fn get<T>(&self, setting: &Setting<T>) -> Result<Option<T>> {
        let (text, origin) = self.text_and_origin(&setting.info);
        let Some(text) = text else { return Ok(None) };
        let value = (setting.parse)(text);
        value.map(Some).map_err(|fault| setting_error(&setting.info, text, &origin, &fault))
    }

    /// Value of a setting that has a default.
    pub(crate) fn value<T>(&self, setting: &Setting<T>) -> Result<T> {
        self.get(setting)?.ok_or_else(|| missing_setting_error(setting.info.name))
    }

    /// True if the setting is given explicitly.
    pub(crate) fn is_given<T>(&self, setting: &Setting<T>) -> bool {
        self.values.contains_key(setting.info.name)
    }

    /// Text of a setting and its source.
    pub(crate) fn text_and_origin(&self, info: &SettingInfo) -> (Option<&str>, SettingOrigin) {
        match (self.values.get(info.name), info.default) {
            (Some((text, origin)), _) => (Some(text), origin.clone()),
            (None, SettingDefault::Value(text)) => (Some(text), SettingOrigin::Default),
            (None, SettingDefault::Described(_)) => (None, SettingOrigin::Default),
        }
    }

    /// Files that contain secrets of this configuration: the files of single settings, and the
    /// configuration file if it contains a secret.
    pub(crate) fn secret_files(&self) -> &[PathBuf] {
        &self.secret_files
    }

    fn read_environment(
        &mut self,
        info: &SettingInfo,
        env: &Env,
    ) -> Result<Option<(String, SettingOrigin)>> {
        let (name, file_variable) = (info.name, format!("{}_FILE", info.name));
        match (env.get(name), env.get(&file_variable)) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(Error::usage(format!("both {name} and {name}_FILE are set"))
                .with_help("unset one of them")),
            (Some(text), None) if is_injected_port(info, text) => {
                self.warnings.push(format!(
                    "{name} is ignored: '{}' looks like a service variable set by Kubernetes",
                    escape_control(text)
                ));
                Ok(None)
            }
            (Some(text), None) => {
                Ok(Some((text.to_owned(), SettingOrigin::Environment(name.into()))))
            }
            (None, Some(path)) => {
                let text = fs::read_to_string(path).map_err(|error| {
                    let place = format!("{file_variable} ('{}')", escape_control(path));
                    unusable_file_error("the file of", &place, error.kind())
                })?;
                if info.is_secret {
                    self.secret_files.push(PathBuf::from(path));
                }
                let text = text.trim_end_matches(['\r', '\n']).to_owned();
                Ok(Some((text, SettingOrigin::Environment(file_variable))))
            }
        }
    }

    fn warn_unknown_variables(&mut self, env: &Env) {
        for (name, _) in env.iter() {
            let is_ours = name.starts_with("NOETL_");
            let is_injected = KUBERNETES_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            let is_known = name == CONFIG_VARIABLE
                || SETTINGS_TABLE.iter().any(|setting| is_variable_of(setting.info(), name));
            if !is_ours || is_injected || is_known {
                continue;
            }
            let names = SETTINGS_TABLE.iter().map(|setting| setting.info().name);
            let hint = nearest_name(name, names)
                .map_or_else(String::new, |near| format!("; did you mean {near}?"));
            let name = escape_control(name);
            self.warnings.push(format!("{name} is not a setting and has no effect{hint}"));
        }
    }

    fn warn_obsolete_settings(&mut self) {
        for info in OBSOLETE_SETTINGS {
            let Some((text, _)) = self.values.get(info.name) else {
                continue;
            };
            if !matches!(info.default, SettingDefault::Value(default) if default == text) {
                let warning = format!("{}: {}", info.name, info.description);
                self.warnings.push(warning);
            }
        }
    }
}

fn is_variable_of(info: &SettingInfo, name: &str) -> bool {
    name.strip_suffix("_FILE").unwrap_or(name) == info.name || name == info.name
}

fn is_injected_port(info: &SettingInfo, text: &str) -> bool {
    [PORT.info.name, POSTGRES_PORT.info.name].contains(&info.name) && text.starts_with("tcp://")
}

/// Error of an invalid value, with its origin.
fn setting_error(info: &SettingInfo, text: &str, origin: &SettingOrigin, fault: &str) -> Error {
    let place = match origin {
        SettingOrigin::Flag(name) => format!("--{name}"),
        SettingOrigin::Environment(name) => name.clone(),
        SettingOrigin::File(path) => format!("'{}' in {path}", info.file_key()),
        SettingOrigin::Default => info.name.to_owned(),
    };
    // A value in the wrong setting may be a URL with a password.
    let has_login = text.contains("://") && text.contains('@');
    invalid_value_error(&place, (!info.is_secret && !has_login).then_some(text), fault)
}

/// Contents of the configuration file.
#[derive(Debug, Default)]
struct ConfigFile {
    path: String,
    values: BTreeMap<String, String>,
}

impl ConfigFile {
    fn read_file(path: &Path) -> Result<Self> {
        let name = escape_control(&path.to_string_lossy());
        let unusable =
            |reason: String| unusable_file_error("the configuration file", &name, reason);
        let text = fs::read_to_string(path).map_err(|error| unusable(error.kind().to_string()))?;
        let table: toml::Table =
            toml::from_str(&text).map_err(|error| unusable(error.to_string().trim().to_owned()))?;
        let mut values = BTreeMap::new();
        for (key, value) in table {
            let known_keys = SETTINGS_TABLE.iter().map(|setting| setting.info().file_key());
            if !known_keys.clone().any(|known| known == key) {
                let near = nearest_name(&key, known_keys).map(|near| format!("'{near}'"));
                let message = format!("'{}' in {name} is not a setting", escape_control(&key));
                return Err(Error::usage(message)
                    .with_suggestion(near, "list every setting with: noetl config show"));
            }
            let text = scalar_text(&value).ok_or_else(|| {
                unusable(format!("'{key}' must be a string, a number, a boolean or a list"))
            })?;
            values.insert(key, text);
        }
        Ok(Self { path: name, values })
    }

    /// True if the file contains a secret, even one that the environment overrides.
    fn has_secrets(&self) -> bool {
        let mut secrets = SETTINGS_TABLE.iter().map(|setting| setting.info());
        secrets.any(|info| info.is_secret && self.values.contains_key(&info.file_key()))
    }

    fn find_value(&self, info: &SettingInfo) -> Option<(String, SettingOrigin)> {
        let text = self.values.get(&info.file_key())?;
        Some((text.clone(), SettingOrigin::File(self.path.clone())))
    }
}

/// Text of a value in the format of an environment variable.
fn scalar_text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(value) => Some(value.to_string()),
        toml::Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(scalar_text).collect();
            items.map(|items| items.join(","))
        }
        toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}

/// Known name that is most similar to an unknown one.
pub(crate) fn nearest_name<N: AsRef<str>>(
    unknown: &str,
    known: impl Iterator<Item = N>,
) -> Option<String> {
    let scored = known.map(|name| {
        let name = name.as_ref();
        (strsim::normalized_damerau_levenshtein(unknown, name), name.to_owned())
    });
    scored
        .filter(|(score, _)| *score > 0.7)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, name)| name)
}
