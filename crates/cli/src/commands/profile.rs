//! `noetl profile`: manages named servers.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use noetl_api::{Client, ClientSettings};
use serde::Serialize;

use crate::confirm::{ConfirmArgs, confirm};
use crate::error::Error;
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TableCell, TableColumn, TextTable};
use crate::profile::{Profile, ProfileError, ProfileFile};
use crate::render::palette;
use crate::render::text_layout::escape_control;
use crate::roles::StartError;

/// Manage named servers
///
/// Commands use the selected profile unless a flag or the environment names another server.
/// Profiles are stored in profiles.toml in the user's configuration directory. The file contains no
/// secrets: a profile names the variable or file that contains its token. The server of a profile
/// receives only this token. The token from the environment is sent only to servers that are not
/// named by a profile.
#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_long_help = "\
Examples:
  noetl profile add prod --server https://n.example.com --token-env PROD_TOKEN
  noetl profile use prod
  noetl runs list --profile staging"
)]
pub(crate) struct ProfileArgs {
    #[command(subcommand)]
    command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
enum ProfileCommand {
    List(ProfileListArgs),
    Add(ProfileAddArgs),
    Use(ProfileUseArgs),
    Rm(ProfileRmArgs),
    Show(ProfileShowArgs),
}

/// List profiles (an asterisk marks the selected one)
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl profile list
  noetl profile list -o json")]
struct ProfileListArgs {
    #[command(flatten)]
    output: OutputArgs,
}

/// Add a profile
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl profile add here --server http://localhost:8082
  noetl profile add prod --server https://n.example.com --token-file ~/.token")]
struct ProfileAddArgs {
    /// Name of the profile
    name: String,
    /// Address of the server
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    server: String,
    /// Environment variable that contains the token
    #[arg(long, value_name = "VARIABLE")]
    token_env: Option<String>,
    /// File that contains the token
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "token_env")]
    token_file: Option<PathBuf>,
    /// Select the profile
    #[arg(long = "use")]
    in_use: bool,
    /// Replace an existing profile
    #[arg(long)]
    force: bool,
}

/// Select a profile
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl profile use prod
  noetl profile use --none")]
struct ProfileUseArgs {
    /// Name of the profile
    #[arg(required_unless_present = "none")]
    name: Option<String>,
    /// Select no profile
    #[arg(long, conflicts_with = "name")]
    none: bool,
}

/// Remove a profile
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl profile rm staging
  noetl profile rm staging --yes")]
struct ProfileRmArgs {
    /// Name of the profile
    name: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

/// Show a profile (the selected one by default)
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl profile show
  noetl profile show prod -o json")]
struct ProfileShowArgs {
    /// Name of the profile
    name: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// A profile, for output.
#[derive(Debug, Serialize)]
struct ProfileOutput<'p> {
    name: &'p str,
    in_use: bool,
    #[serde(flatten)]
    profile: &'p Profile,
}

/// Runs the `noetl profile` subcommands.
pub(crate) fn run(args: &ProfileArgs, quiet: bool, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    match &args.command {
        ProfileCommand::List(args) => list_profiles(args, quiet, io),
        ProfileCommand::Add(args) => add_profile(args, io),
        ProfileCommand::Use(args) => select_profile(args, io),
        ProfileCommand::Rm(args) => remove_profile(args, io),
        ProfileCommand::Show(args) => show_profile(args, io),
    }
}

fn list_profiles(
    args: &ProfileListArgs,
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<CommandExit, Error> {
    let profiles = ProfileFile::load_file(&io.env)?;
    let outputs: Vec<ProfileOutput<'_>> = profiles
        .profiles
        .iter()
        .map(|(name, profile)| to_profile_output(name, profile, &profiles))
        .collect();
    if outputs.is_empty() && args.output.is_table() {
        if !quiet {
            io.print_message(
                "there are no profiles; add one with: noetl profile add NAME --server URL",
            )?;
        }
        return Ok(CommandExit::Ok);
    }
    args.output.print_list(&outputs, |_| profile_table(&outputs), io)?;
    Ok(CommandExit::Ok)
}

fn to_profile_output<'p>(
    name: &'p str,
    profile: &'p Profile,
    profiles: &ProfileFile,
) -> ProfileOutput<'p> {
    ProfileOutput { name, in_use: profiles.current.as_deref() == Some(name), profile }
}

fn profile_table(outputs: &[ProfileOutput<'_>]) -> TextTable {
    let mut table = TextTable::new([
        TableColumn::new(""),
        TableColumn::new("PROFILE"),
        TableColumn::new("SERVER").shrinkable(),
        TableColumn::new("TOKEN").shrinkable(),
    ]);
    for output in outputs {
        let mark = if output.in_use { "*" } else { " " };
        table.add_row([
            TableCell::styled(mark, palette::SUCCESS),
            TableCell::styled(output.name, palette::NAME),
            output.profile.server.as_str().into(),
            describe_token_source(output.profile).into(),
        ]);
    }
    table
}

/// Location of the token of a profile.
fn describe_token_source(profile: &Profile) -> String {
    match (&profile.token_env, &profile.token_file) {
        (Some(variable), _) => format!("in ${variable}"),
        (None, Some(path)) => format!("in {}", path.display()),
        (None, None) => "none".to_owned(),
    }
}

fn add_profile(args: &ProfileAddArgs, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if args.name.is_empty() || !args.name.chars().all(is_valid) {
        return Err(ProfileError::InvalidName(escape_control(&args.name)).into());
    }
    // Rejects an invalid address now instead of at the first use.
    Client::new(&args.server, ClientSettings::default()).map_err(StartError::Client)?;
    let mut profiles = ProfileFile::load_file(&io.env)?;
    if profiles.profiles.contains_key(&args.name) && !args.force {
        return Err(ProfileError::Exists(args.name.clone()).into());
    }
    let profile = Profile {
        server: args.server.clone(),
        token_env: args.token_env.clone(),
        token_file: args.token_file.clone(),
    };
    profiles.profiles.insert(args.name.clone(), profile);
    let is_first = profiles.profiles.len() == 1;
    if args.in_use || is_first {
        profiles.current = Some(args.name.clone());
    }
    profiles.save_file(&io.env)?;
    let result =
        if profiles.current.as_ref() == Some(&args.name) { "added and selected" } else { "added" };
    writeln!(io.out, "{} {result}", args.name)?;
    Ok(CommandExit::Ok)
}

fn select_profile(args: &ProfileUseArgs, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    let mut profiles = ProfileFile::load_file(&io.env)?;
    if let Some(name) = &args.name {
        profiles.find_profile(name)?;
    }
    profiles.current.clone_from(&args.name);
    profiles.save_file(&io.env)?;
    match &args.name {
        Some(name) => writeln!(io.out, "{name} selected")?,
        None => writeln!(io.out, "no profile selected")?,
    }
    Ok(CommandExit::Ok)
}

fn remove_profile(args: &ProfileRmArgs, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    let mut profiles = ProfileFile::load_file(&io.env)?;
    let profile = profiles.find_profile(&args.name)?;
    let question = format!("Remove {} ({})?", args.name, escape_control(&profile.server));
    if !confirm(args.confirm, &question, "yes", io)? {
        return Ok(CommandExit::Failed);
    }
    profiles.profiles.remove(&args.name);
    if profiles.current.as_ref() == Some(&args.name) {
        profiles.current = None;
    }
    profiles.save_file(&io.env)?;
    writeln!(io.out, "{} removed", args.name)?;
    Ok(CommandExit::Ok)
}

fn show_profile(args: &ProfileShowArgs, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    let profiles = ProfileFile::load_file(&io.env)?;
    let name = args.name.clone().or_else(|| profiles.current.clone());
    let Some(name) = name else {
        io.print_message("no profile is selected; select one with: noetl profile use NAME")?;
        return Ok(CommandExit::NotFound);
    };
    let profile = profiles.find_profile(&name)?;
    let output = to_profile_output(&name, profile, &profiles);
    if args.output.is_table() {
        args.output.print_table(&profile_table(&[output]), io)?;
    } else {
        args.output.print_item(&output, io)?;
    }
    Ok(CommandExit::Ok)
}
