//! `noetl config`: what the settings are, and where they come from.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use serde::Serialize;

use crate::config::table::TABLE;
use crate::config::{Config, Facts, Given, Origin, SettingDefault};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Output, Table};
use crate::render::palette;
use crate::render::words::visible;

/// Look at the settings
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Show(ShowArgs),
}

/// Print every setting with its value
///
/// A flag goes before the environment, that before the file, that before the default. In a
/// configuration file the keys are the names in lower case, without the prefix. Secrets are not
/// shown.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Any variable NAME may be given as NAME_FILE, the path of a file that holds its
value.

Examples:
  noetl config show --origin     where each value comes from
  noetl config show --about      what each setting is for
  noetl config show -o json      all of it, for a program")]
struct ShowArgs {
    /// Say where each value comes from
    #[arg(long)]
    origin: bool,
    /// Say what each setting is for
    #[arg(long)]
    about: bool,
    #[command(flatten)]
    output: Output,
    /// File with settings in TOML
    #[arg(long, help = "File with settings in TOML [env: NOETL_CONFIG]", value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
}

/// What stands for a secret.
const MASK: &str = "********";

/// A setting, for programs.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    /// Absent where nobody gave one and there is no default; a secret is masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// What is done where there is no value, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    otherwise: Option<&'static str>,
    origin: String,
    about: &'static str,
    is_secret: bool,
}

fn row(facts: &'static Facts, config: &Config) -> Row {
    let (text, origin) = config.shown(facts);
    let value = text.map(|text| {
        if facts.secret {
            MASK.to_owned()
        } else {
            text.to_owned()
        }
    });
    let otherwise = match (&value, facts.default) {
        (None, SettingDefault::Told(words)) => Some(words),
        (None, SettingDefault::Value(_)) | (Some(_), _) => None,
    };
    Row {
        name: facts.name,
        value,
        otherwise,
        origin: origin.to_string(),
        about: facts.about,
        is_secret: facts.secret,
    }
}

/// Prints the settings.
pub(crate) fn run(args: &ConfigArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    let Verb::Show(args) = &args.verb;
    let given = Given {
        file: args.config.clone(),
        ..Given::default()
    };
    let config = Config::load(&given, &io.env)?;
    io.warn(&config.warnings)?;
    if !args.output.is_table() {
        let rows: Vec<Row> = TABLE.iter().map(|it| row(it.facts(), &config)).collect();
        args.output.list(&rows, |_| Table::new([]), io)?;
        return Ok(Exit::Ok);
    }
    let paint = io.out.paint();
    for setting in TABLE {
        let facts = setting.facts();
        let (text, origin) = config.shown(facts);
        if args.about {
            let about = format!("# {}", facts.about);
            writeln!(io.out, "{}", paint.text(palette::QUIET, about))?;
        }
        let value = match (text, facts.default) {
            (Some(_), _) if facts.secret => MASK.to_owned(),
            (Some(text), _) => visible(text),
            (None, SettingDefault::Told(words) | SettingDefault::Value(words)) => {
                paint.text(palette::QUIET, format!("({words})")).to_string()
            }
        };
        write!(
            io.out,
            "{} = {value}",
            paint.text(palette::NAME, facts.name)
        )?;
        if args.origin {
            let style = match origin {
                Origin::Default => palette::QUIET,
                Origin::Flag(_) | Origin::Environment(_) | Origin::File(_) => palette::GOOD,
            };
            write!(io.out, "  {}", paint.text(style, format!("[{origin}]")))?;
        }
        writeln!(io.out)?;
    }
    Ok(Exit::Ok)
}
