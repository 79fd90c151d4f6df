//! What a setting is: its name, how its text is read, what it is for.

use crate::config::Role;

/// What is known of a setting, whatever type its value has.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The name of its variable.
    pub(crate) name: &'static str,
    /// What it is for, in a few words.
    pub(crate) about: &'static str,
    /// What it is where nobody says.
    pub(crate) default: Default,
    /// The flag, and the commands that take it.
    pub(crate) flag: Option<Flag>,
    /// Whether its value is shown to nobody.
    pub(crate) secret: bool,
}

/// A flag of a setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    /// Its name, without the dashes.
    pub(crate) name: &'static str,
    /// What stands for its value in help texts.
    pub(crate) value: &'static str,
    /// The commands that take it.
    pub(crate) roles: &'static [Role],
}

/// What a setting is where nobody says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Default {
    /// This.
    Value(&'static str),
    /// Something that is found out, described in words.
    Told(&'static str),
}

impl Facts {
    /// Its key in a file: the name without the prefix of the house, in lower case.
    pub(crate) fn key(&self) -> String {
        self.name
            .strip_prefix("NOETL_")
            .unwrap_or(self.name)
            .to_lowercase()
    }

    /// The flag that a command takes for it.
    pub(crate) fn flag_of(&self, role: Role) -> Option<Flag> {
        self.flag.filter(|flag| flag.roles.contains(&role))
    }
}

/// Why a text is not a value.
pub(crate) type Fault = String;

/// A setting whose values are of a type.
#[derive(Debug)]
pub(crate) struct Setting<T: 'static> {
    pub(crate) facts: Facts,
    pub(crate) read: fn(&str) -> Result<T, Fault>,
}

impl<T> Setting<T> {
    /// A setting with a value for when nobody says.
    pub(super) const fn new(
        name: &'static str,
        default: &'static str,
        read: fn(&str) -> Result<T, Fault>,
        about: &'static str,
    ) -> Self {
        Self::open(name, Default::Value(default), read, about)
    }

    /// A setting that may be absent; `told` says what happens then.
    pub(super) const fn absent(
        name: &'static str,
        told: &'static str,
        read: fn(&str) -> Result<T, Fault>,
        about: &'static str,
    ) -> Self {
        Self::open(name, Default::Told(told), read, about)
    }

    const fn open(
        name: &'static str,
        default: Default,
        read: fn(&str) -> Result<T, Fault>,
        about: &'static str,
    ) -> Self {
        let facts = Facts {
            name,
            about,
            default,
            flag: None,
            secret: false,
        };
        Self { facts, read }
    }

    /// The same with a flag.
    pub(super) const fn flag(
        mut self,
        name: &'static str,
        value: &'static str,
        roles: &'static [Role],
    ) -> Self {
        self.facts.flag = Some(Flag { name, value, roles });
        self
    }

    /// The same as a secret.
    pub(super) const fn secret(mut self) -> Self {
        self.facts.secret = true;
        self
    }
}

/// A setting of any type.
pub(crate) trait AnySetting: Sync {
    /// What is known of it.
    fn facts(&self) -> &Facts;

    /// Whether a text is a value of it.
    fn check(&self, text: &str) -> Result<(), Fault>;
}

impl<T> AnySetting for Setting<T> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn check(&self, text: &str) -> Result<(), Fault> {
        (self.read)(text).map(|_| ())
    }
}
