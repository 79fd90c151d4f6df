//! The flags that stand for settings, made from the table.

use std::marker::PhantomData;
use std::path::PathBuf;

use clap::error::Error;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, ValueHint, value_parser};

use super::Role;
use super::load::Given;
use super::setting::{Default, Facts};
use super::table::TABLE;

/// The flags of a command that stand for settings.
#[derive(Debug)]
pub(crate) struct Flags<R> {
    /// What the user gave.
    pub(crate) given: Given,
    role: PhantomData<fn() -> R>,
}

/// A command that takes such flags.
pub(crate) trait TakesFlags {
    /// Which one.
    const ROLE: Role;
}

macro_rules! role {
    ($name:ident, $about:literal) => {
        #[doc = $about]
        #[derive(Debug)]
        pub(crate) enum $name {}

        impl TakesFlags for $name {
            const ROLE: Role = Role::$name;
        }
    };
}

role!(Run, "The flags of `noetl run`.");
role!(Dev, "The flags of `noetl dev`.");
role!(Server, "The flags of `noetl server`.");
role!(Worker, "The flags of `noetl worker`.");
role!(Client, "The flags of the commands that ask a server.");
role!(Database, "The flags of `noetl db`.");
role!(Operator, "The flags of the commands of an operator.");

const HEADING: &str = "Settings";
const FILE: &str = "config";

impl<R: TakesFlags> Args for Flags<R> {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(FILE)
            .long(FILE)
            .value_name("FILE")
            .value_hint(ValueHint::FilePath)
            .value_parser(value_parser!(PathBuf))
            .help_heading(HEADING)
            .help("File with settings in TOML [env: NOETL_CONFIG]");
        TABLE
            .iter()
            .filter_map(|setting| arg(setting.facts(), R::ROLE))
            .fold(command.arg(file), Command::arg)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn arg(facts: &'static Facts, role: Role) -> Option<Arg> {
    let flag = facts.flag_of(role)?;
    let default = match facts.default {
        Default::Value(value) => value,
        Default::Told(words) => words,
    };
    let help = format!("{} [env: {}] [default: {default}]", facts.about, facts.name);
    let arg = Arg::new(facts.name)
        .long(flag.name)
        .value_name(flag.value)
        .help_heading(HEADING)
        .help(help);
    Some(arg)
}

impl<R: TakesFlags> FromArgMatches for Flags<R> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut given = Given {
            file: matches.get_one::<PathBuf>(FILE).cloned(),
            ..Given::default()
        };
        for setting in TABLE {
            let facts = setting.facts();
            let Some(flag) = facts.flag_of(R::ROLE) else {
                continue;
            };
            if let Some(text) = matches.get_one::<String>(facts.name) {
                given.flags.insert(facts.name, (flag.name, text.clone()));
            }
        }
        Ok(Self {
            given,
            role: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
