//! Where values come from: a flag before the environment, before the file, before the default.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::setting::{AnySetting, Default, Facts, Setting};
use super::table::{EARLIER, PORT, POSTGRES_PORT, TABLE};
use crate::io::Env;
use crate::render::words::visible;

/// The variable that names the file.
const CONFIG: &str = "NOETL_CONFIG";

/// Variables of Kubernetes that a service called `noetl` puts into every pod of its namespace.
const INJECTED: [&str; 2] = ["NOETL_SERVICE_", "NOETL_PORT_"];

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// On the command line.
    Flag(&'static str),
    /// In the environment, by this variable.
    Environment(String),
    /// In the file.
    File(String),
    /// Nowhere.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "flag --{name}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File(path) => write!(f, "file {path}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// What the command line says about settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Given {
    /// The file that it names.
    pub(crate) file: Option<PathBuf>,
    /// The text of each flag, by the name of its setting.
    pub(crate) flags: BTreeMap<&'static str, (&'static str, String)>,
}

/// Every setting that somebody gave, and what is odd about the rest.
#[derive(Debug, Default)]
pub(crate) struct Config {
    values: BTreeMap<&'static str, (String, Origin)>,
    /// The files that secrets were read from.
    secret_files: Vec<PathBuf>,
    /// What the user should know, though it stops nothing.
    pub(crate) warnings: Vec<String>,
}

impl Config {
    /// Gathers the settings, and refuses those that are wrong, whether they are needed or not.
    pub(crate) fn load(given: &Given, env: &Env) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let named = given.file.clone();
        let file = match named.or_else(|| env.get(CONFIG).map(PathBuf::from)) {
            Some(path) => {
                let file = File::read(&path)?;
                if file.has_secrets() {
                    config.secret_files.push(path);
                }
                file
            }
            None => File::default(),
        };
        for setting in TABLE {
            let facts = setting.facts();
            let found = match given.flags.get(facts.name) {
                Some((flag, text)) => Some((text.clone(), Origin::Flag(flag))),
                None => match config.of_environment(facts, env)? {
                    Some(found) => Some(found),
                    None => file.get(facts),
                },
            };
            if let Some((text, origin)) = found {
                check(setting, &text, &origin)?;
                config.values.insert(facts.name, (text, origin));
            }
        }
        config.warn_of_strangers(env);
        config.warn_of_earlier();
        Ok(config)
    }

    /// The value of a setting, if it has one.
    pub(crate) fn get<T>(&self, setting: &Setting<T>) -> Result<Option<T>, ConfigError> {
        let (text, origin) = self.shown(&setting.facts);
        let Some(text) = text else { return Ok(None) };
        let read = (setting.read)(text);
        read.map(Some)
            .map_err(|fault| invalid(&setting.facts, text, &origin, fault))
    }

    /// The value of a setting that has a default.
    pub(crate) fn value<T>(&self, setting: &Setting<T>) -> Result<T, ConfigError> {
        let name = setting.facts.name;
        self.get(setting)?.ok_or(ConfigError::Missing { name })
    }

    /// Whether somebody gave a setting.
    pub(crate) fn is_given<T>(&self, setting: &Setting<T>) -> bool {
        self.values.contains_key(setting.facts.name)
    }

    /// The text of a setting, and where it comes from.
    pub(crate) fn shown(&self, facts: &Facts) -> (Option<&str>, Origin) {
        match (self.values.get(facts.name), facts.default) {
            (Some((text, origin)), _) => (Some(text), origin.clone()),
            (None, Default::Value(text)) => (Some(text), Origin::Default),
            (None, Default::Told(_)) => (None, Origin::Default),
        }
    }

    /// The files that hold secrets of this configuration: those of single settings, and the file of
    /// all of them where a secret is in it.
    pub(crate) fn secret_files(&self) -> &[PathBuf] {
        &self.secret_files
    }

    fn of_environment(
        &mut self,
        facts: &Facts,
        env: &Env,
    ) -> Result<Option<(String, Origin)>, ConfigError> {
        let (name, by_file) = (facts.name, format!("{}_FILE", facts.name));
        match (env.get(name), env.get(&by_file)) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(ConfigError::Twice { name }),
            (Some(text), None) if is_injected_port(facts, text) => {
                self.warnings.push(format!(
                    "{name} is ignored: '{}' looks like what Kubernetes sets for a service",
                    visible(text)
                ));
                Ok(None)
            }
            (Some(text), None) => Ok(Some((text.to_owned(), Origin::Environment(name.into())))),
            (None, Some(path)) => {
                let read = fs::read_to_string(path);
                let text = read.map_err(|error| ConfigError::File {
                    what: "the file of",
                    path: format!("{by_file} ('{}')", visible(path)),
                    reason: error.kind().to_string(),
                })?;
                if facts.secret {
                    self.secret_files.push(PathBuf::from(path));
                }
                let text = text.trim_end_matches(['\r', '\n']).to_owned();
                Ok(Some((text, Origin::Environment(by_file))))
            }
        }
    }

    fn warn_of_strangers(&mut self, env: &Env) {
        for (name, _) in env.iter() {
            let is_ours = name.starts_with("NOETL_");
            let is_injected = INJECTED.iter().any(|prefix| name.starts_with(prefix));
            let is_known = name == CONFIG || TABLE.iter().any(|one| is_name_of(one.facts(), name));
            if !is_ours || is_injected || is_known {
                continue;
            }
            let names = TABLE.iter().map(|setting| setting.facts().name);
            let hint = nearest(name, names)
                .map_or_else(String::new, |near| format!("; did you mean {near}?"));
            let name = visible(name);
            self.warnings
                .push(format!("{name} is not a setting and has no effect{hint}"));
        }
    }

    fn warn_of_earlier(&mut self) {
        for facts in EARLIER {
            let Some((text, _)) = self.values.get(facts.name) else {
                continue;
            };
            if !matches!(facts.default, Default::Value(usual) if usual == text) {
                let warning = format!("{}: {}", facts.name, facts.about);
                self.warnings.push(warning);
            }
        }
    }
}

fn is_name_of(facts: &Facts, name: &str) -> bool {
    name.strip_suffix("_FILE").unwrap_or(name) == facts.name || name == facts.name
}

fn is_injected_port(facts: &Facts, text: &str) -> bool {
    [PORT.facts.name, POSTGRES_PORT.facts.name].contains(&facts.name) && text.starts_with("tcp://")
}

fn check(setting: &dyn AnySetting, text: &str, origin: &Origin) -> Result<(), ConfigError> {
    let facts = setting.facts();
    setting
        .check(text)
        .map_err(|fault| invalid(facts, text, origin, fault))
}

fn invalid(facts: &Facts, text: &str, origin: &Origin, fault: String) -> ConfigError {
    let place = match origin {
        Origin::Flag(name) => format!("--{name}"),
        Origin::Environment(name) => name.clone(),
        Origin::File(path) => format!("'{}' in {path}", facts.key()),
        Origin::Default => facts.name.to_owned(),
    };
    // What was put into the wrong setting may be an address with a password in it.
    let has_login = text.contains("://") && text.contains('@');
    ConfigError::Invalid {
        place,
        value: (!facts.secret && !has_login).then(|| text.to_owned()),
        fault,
    }
}

/// What a file says.
#[derive(Debug, Default)]
struct File {
    path: String,
    values: BTreeMap<String, String>,
}

impl File {
    fn read(path: &Path) -> Result<Self, ConfigError> {
        let shown = visible(&path.to_string_lossy());
        let refused = |reason: String| ConfigError::File {
            what: "the configuration file",
            path: shown.clone(),
            reason,
        };
        let text = fs::read_to_string(path).map_err(|error| refused(error.kind().to_string()))?;
        let table: toml::Table =
            toml::from_str(&text).map_err(|error| refused(error.to_string().trim().to_owned()))?;
        let mut values = BTreeMap::new();
        for (key, value) in table {
            let known = TABLE.iter().map(|setting| setting.facts().key());
            if !known.clone().any(|known| known == key) {
                let near = nearest(&key, known);
                let path = shown.clone();
                return Err(ConfigError::UnknownKey { path, key, near });
            }
            let text = scalar(&value).ok_or_else(|| {
                refused(format!(
                    "'{key}' has to be a text, a number, a bool or a list"
                ))
            })?;
            values.insert(key, text);
        }
        Ok(Self {
            path: shown,
            values,
        })
    }

    /// Whether a secret is in it, also one that the environment goes before.
    fn has_secrets(&self) -> bool {
        let mut secrets = TABLE.iter().map(|setting| setting.facts());
        secrets.any(|facts| facts.secret && self.values.contains_key(&facts.key()))
    }

    fn get(&self, facts: &Facts) -> Option<(String, Origin)> {
        let text = self.values.get(&facts.key())?;
        Some((text.clone(), Origin::File(self.path.clone())))
    }
}

/// The text of a value, as a variable would have it.
fn scalar(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(value) => Some(value.to_string()),
        toml::Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(scalar).collect();
            items.map(|items| items.join(","))
        }
        toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}

/// The known name that a wrong one was probably meant to be.
pub(crate) fn nearest<N: AsRef<str>>(
    wrong: &str,
    known: impl Iterator<Item = N>,
) -> Option<String> {
    let scored = known.map(|name| {
        let name = name.as_ref();
        (
            strsim::normalized_damerau_levenshtein(wrong, name),
            name.to_owned(),
        )
    });
    scored
        .filter(|(score, _)| *score > 0.7)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, name)| name)
}
