//! `noetl config`: shows the settings and their origins.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use serde::Serialize;

use crate::config::table::SETTINGS_TABLE;
use crate::config::{Config, GivenSettings, SettingDefault, SettingInfo, SettingOrigin};
use crate::error::Result;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::OutputArgs;
use crate::render::palette;
use crate::render::text_layout::escape_control;

/// Show the settings
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    Show(ConfigShowArgs),
}

/// Print every setting with its value
///
/// Flags override environment variables, which override the configuration file, which overrides the
/// defaults. In a configuration file, keys are the variable names in lower case, without the
/// prefix. Secrets are masked.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Any variable NAME can be given as NAME_FILE: the path of a file that contains
the value.

Examples:
  noetl config show --origin     with the origin of each value
  noetl config show --about      with a description of each setting
  noetl config show -o json      everything, as JSON")]
pub(crate) struct ConfigShowArgs {
    /// Show the origin of each value
    #[arg(long)]
    origin: bool,
    /// Show the description of each setting
    #[arg(long)]
    about: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// Configuration file in TOML
    #[arg(long, help = "Configuration file in TOML [env: NOETL_CONFIG]", value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
}

/// Placeholder for the value of a secret.
const SECRET_MASK: &str = "********";

/// A setting, for JSON output.
#[derive(Debug, Serialize)]
struct SettingRow {
    name: &'static str,
    /// Absent if the setting is not given and has no default. Secrets are masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// Description of the behavior without a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    otherwise: Option<&'static str>,
    origin: String,
    about: &'static str,
    is_secret: bool,
}

fn setting_row(info: &'static SettingInfo, config: &Config) -> SettingRow {
    let (text, origin) = config.text_and_origin(info);
    let value =
        text.map(|text| if info.is_secret { SECRET_MASK.to_owned() } else { text.to_owned() });
    let otherwise = match (&value, info.default) {
        (None, SettingDefault::Described(text)) => Some(text),
        (None, SettingDefault::Value(_)) | (Some(_), _) => None,
    };
    SettingRow {
        name: info.name,
        value,
        otherwise,
        origin: origin.to_string(),
        about: info.description,
        is_secret: info.is_secret,
    }
}

pub(crate) fn run(command: &ConfigCommand, io: &mut Io<'_>) -> Result<CommandExit> {
    let ConfigCommand::Show(args) = command;
    let given = GivenSettings { file: args.config.clone(), ..GivenSettings::default() };
    let config = Config::load(&given, &io.env)?;
    io.print_warnings(&config.warnings)?;
    let rows = SETTINGS_TABLE.iter().map(|setting| setting_row(setting.info(), &config));
    let rows: Vec<SettingRow> = rows.collect();
    if !args.output.is_table() {
        return args.output.print_data_list(&rows, io);
    }
    let paint = io.out.paint();
    for row in rows {
        if args.about {
            let about = format!("# {}", row.about);
            writeln!(io.out, "{}", paint.text(palette::MUTED, about))?;
        }
        let value = row.value.map_or_else(
            || {
                paint
                    .text(palette::MUTED, format!("({})", row.otherwise.unwrap_or_default()))
                    .to_string()
            },
            |value| escape_control(&value),
        );
        write!(io.out, "{} = {value}", paint.text(palette::NAME, row.name))?;
        if args.origin {
            let is_default = row.origin == SettingOrigin::Default.to_string();
            let style = if is_default { palette::MUTED } else { palette::SUCCESS };
            write!(io.out, "  {}", paint.text(style, format!("[{}]", row.origin)))?;
        }
        writeln!(io.out)?;
    }
    Ok(CommandExit::Ok)
}
