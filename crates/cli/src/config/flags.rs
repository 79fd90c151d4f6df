//! Flags of settings, generated from the table.

use std::marker::PhantomData;
use std::path::PathBuf;

use clap::error::Error;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, ValueHint, value_parser};

use super::Role;
use super::load::GivenSettings;
use super::setting::{SettingDefault, SettingInfo};
use super::table::SETTINGS_TABLE;

/// Flags of a command that set settings.
#[derive(Debug)]
pub(crate) struct SettingFlags<R> {
    /// Values given on the command line.
    pub(crate) given: GivenSettings,
    role: PhantomData<fn() -> R>,
}

/// Command that accepts flags of settings.
pub(crate) trait AcceptsFlags {
    /// Role of the command.
    const ROLE: Role;
}

macro_rules! role {
    ($name:ident, $about:literal) => {
        #[doc = $about]
        #[derive(Debug)]
        pub(crate) enum $name {}

        impl AcceptsFlags for $name {
            const ROLE: Role = Role::$name;
        }
    };
}

role!(Run, "The flags of `noetl run`.");
role!(Dev, "The flags of `noetl dev`.");
role!(Server, "The flags of `noetl server`.");
role!(Worker, "The flags of `noetl worker`.");
role!(Client, "The flags of client commands.");
role!(Database, "The flags of `noetl db`.");
role!(Operator, "The flags of operator commands.");

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
    let default = match info.default {
        SettingDefault::Value(value) => value,
        SettingDefault::Described(description) => description,
    };
    let help = format!("{} [env: {}] [default: {default}]", info.description, info.name);
    let arg = Arg::new(info.name)
        .long(flag.name)
        .value_name(flag.value_name)
        .help_heading(SETTINGS_HEADING)
        .help(help);
    Some(arg)
}

impl<R: AcceptsFlags> FromArgMatches for SettingFlags<R> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
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

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
