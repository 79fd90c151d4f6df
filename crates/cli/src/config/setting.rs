//! Definition of a setting, and what is generated from the definitions: the flags of commands and
//! the JSON Schema of the configuration file.

use std::marker::PhantomData;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, ValueHint, value_parser};
use serde_json::{Map, Value, json};

use super::load::GivenSettings;
use super::table::SETTINGS_TABLE;

/// Properties of a setting, independent of the type of its value.
#[derive(Debug)]
pub(crate) struct SettingInfo {
    /// Name of the environment variable.
    pub(crate) name: &'static str,
    /// Short description.
    pub(crate) description: &'static str,
    /// Value if the setting is not given.
    pub(crate) default: SettingDefault,
    /// Flag, and the commands that accept it.
    pub(crate) flag: Option<SettingFlag>,
    /// True if the value must never be printed.
    pub(crate) is_secret: bool,
}

/// Flag of a setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SettingFlag {
    /// Name without the dashes.
    pub(crate) name: &'static str,
    /// Placeholder of the value in help texts.
    pub(crate) value_name: &'static str,
    /// Commands that accept the flag.
    pub(crate) roles: &'static [Role],
}

/// Value if a setting is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettingDefault {
    /// A fixed value.
    Value(&'static str),
    /// A value determined at run time, with a description of it.
    Described(&'static str),
}

impl SettingInfo {
    /// Key in the configuration file: the name without the `NOETL_` prefix, in lower case.
    pub(crate) fn file_key(&self) -> String {
        self.name.strip_prefix("NOETL_").unwrap_or(self.name).to_lowercase()
    }

    /// Flag of the setting if the command accepts it.
    pub(crate) fn flag_for_role(&self, role: Role) -> Option<SettingFlag> {
        self.flag.filter(|flag| flag.roles.contains(&role))
    }
}

/// Reason why a text is not a valid value.
pub(crate) type ParseFault = String;

/// Setting with a value of type `T`.
#[derive(Debug)]
pub(crate) struct Setting<T: 'static> {
    pub(crate) info: SettingInfo,
    pub(crate) parse: fn(&str) -> Result<T, ParseFault>,
}

/// Setting with a default value.
pub(super) const fn fixed<T>(
    name: &'static str,
    default: &'static str,
    parse: fn(&str) -> Result<T, ParseFault>,
    description: &'static str,
) -> Setting<T> {
    let default = SettingDefault::Value(default);
    Setting {
        info: SettingInfo { name, description, default, flag: None, is_secret: false },
        parse,
    }
}

/// Setting that may be absent. `default` describes the behavior in this case.
pub(super) const fn optional<T>(
    name: &'static str,
    default: &'static str,
    parse: fn(&str) -> Result<T, ParseFault>,
    description: &'static str,
) -> Setting<T> {
    let default = SettingDefault::Described(default);
    Setting {
        info: SettingInfo { name, description, default, flag: None, is_secret: false },
        parse,
    }
}

impl<T> Setting<T> {
    /// Adds a flag.
    pub(super) const fn flag(
        mut self,
        name: &'static str,
        value_name: &'static str,
        roles: &'static [Role],
    ) -> Self {
        self.info.flag = Some(SettingFlag { name, value_name, roles });
        self
    }

    /// Marks the value as secret.
    pub(super) const fn secret(mut self) -> Self {
        self.info.is_secret = true;
        self
    }
}

/// Setting with a value of any type.
pub(crate) trait AnySetting: Sync {
    /// Properties of the setting.
    fn info(&self) -> &SettingInfo;

    /// Checks that a text is a valid value.
    fn validate(&self, text: &str) -> Result<(), ParseFault>;
}

impl<T> AnySetting for Setting<T> {
    fn info(&self) -> &SettingInfo {
        &self.info
    }

    fn validate(&self, text: &str) -> Result<(), ParseFault> {
        (self.parse)(text).map(|_| ())
    }
}

/// Flags of a command that set settings.
#[derive(Debug)]
pub(crate) struct SettingFlags<R> {
    /// Values given on the command line.
    pub(crate) given: GivenSettings,
    role: PhantomData<fn() -> R>,
}

/// Role of a command, as a type.
pub(crate) trait AcceptsFlags {
    const ROLE: Role;
}

/// Declares the roles of commands, and a type for each of them.
macro_rules! roles {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Command, or group of commands, that reads settings.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Role {
            $($(#[$doc])* $name,)*
        }

        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub(crate) enum $name {}

            impl AcceptsFlags for $name {
                const ROLE: Role = Role::$name;
            }
        )*
    };
}

roles! {
    /// `noetl run`
    Run,
    /// `noetl dev`
    Dev,
    /// `noetl server`
    Server,
    /// `noetl worker`
    Worker,
    /// Client commands such as `noetl runs` or `noetl token`.
    Client,
    /// Operator commands such as `noetl outbox`.
    Operator,
    /// `noetl db`
    Database,
}

const SETTINGS_HEADING: &str = "Settings";
const CONFIG_FLAG: &str = "config";

impl<R: AcceptsFlags> Args for SettingFlags<R> {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(CONFIG_FLAG)
            .long(CONFIG_FLAG)
            .value_name("FILE")
            .value_hint(ValueHint::FilePath)
            .value_parser(value_parser!(PathBuf))
            .help_heading(SETTINGS_HEADING)
            .help("Configuration file in TOML [env: NOETL_CONFIG]");
        SETTINGS_TABLE
            .iter()
            .filter_map(|setting| setting_arg(setting.info(), R::ROLE))
            .fold(command.arg(file), Command::arg)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn setting_arg(info: &'static SettingInfo, role: Role) -> Option<Arg> {
    let flag = info.flag_for_role(role)?;
    let (SettingDefault::Value(default) | SettingDefault::Described(default)) = info.default;
    let help = format!("{} [env: {}] [default: {default}]", info.description, info.name);
    let arg = Arg::new(info.name).long(flag.name).value_name(flag.value_name);
    Some(arg.help_heading(SETTINGS_HEADING).help(help))
}

impl<R: AcceptsFlags> FromArgMatches for SettingFlags<R> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = GivenSettings {
            file: matches.get_one::<PathBuf>(CONFIG_FLAG).cloned(),
            ..GivenSettings::default()
        };
        for setting in SETTINGS_TABLE {
            let info = setting.info();
            let Some(flag) = info.flag_for_role(R::ROLE) else {
                continue;
            };
            if let Some(text) = matches.get_one::<String>(info.name) {
                given.flags.insert(info.name, (flag.name, text.clone()));
            }
        }
        Ok(Self { given, role: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Builds the JSON Schema of the configuration file.
pub(crate) fn config_schema() -> Value {
    let properties: Map<String, Value> = SETTINGS_TABLE
        .iter()
        .map(|setting| (setting.info().file_key(), setting_property(setting.info())))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "NoETL configuration file",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

/// Schema of a setting. Values are strings, as in environment variables, or the equivalent TOML
/// types.
fn setting_property(info: &SettingInfo) -> Value {
    let mut property = json!({
        "description": info.description,
        "type": ["string", "number", "boolean", "array"],
        "x-variable": info.name,
    });
    match info.default {
        SettingDefault::Value(value) => property["default"] = value.into(),
        SettingDefault::Described(description) => property["x-otherwise"] = description.into(),
    }
    if info.is_secret {
        property["writeOnly"] = true.into();
    }
    property
}
