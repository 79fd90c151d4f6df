//! Definition of a setting: name, parser, default and description.

use crate::config::Role;

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

impl<T> Setting<T> {
    /// Setting with a default value.
    pub(super) const fn new(
        name: &'static str,
        default: &'static str,
        parse: fn(&str) -> Result<T, ParseFault>,
        description: &'static str,
    ) -> Self {
        Self::build(name, SettingDefault::Value(default), parse, description)
    }

    /// Setting that may be absent. `default` describes the behavior in this case.
    pub(super) const fn optional(
        name: &'static str,
        default: &'static str,
        parse: fn(&str) -> Result<T, ParseFault>,
        description: &'static str,
    ) -> Self {
        Self::build(name, SettingDefault::Described(default), parse, description)
    }

    const fn build(
        name: &'static str,
        default: SettingDefault,
        parse: fn(&str) -> Result<T, ParseFault>,
        description: &'static str,
    ) -> Self {
        let info = SettingInfo { name, description, default, flag: None, is_secret: false };
        Self { info, parse }
    }

    /// Adds a flag.
    pub(super) const fn with_flag(
        mut self,
        name: &'static str,
        value_name: &'static str,
        roles: &'static [Role],
    ) -> Self {
        self.info.flag = Some(SettingFlag { name, value_name, roles });
        self
    }

    /// Marks the value as secret.
    pub(super) const fn mark_secret(mut self) -> Self {
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
