//! `noetl profile`: manages named servers.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use noetl_api::{Client, ClientSettings};
use serde::Serialize;

use crate::confirm::{ConfirmArgs, confirm};
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::output::{OutputArgs, TableCell, TextTable};
use crate::profile::{Profile, ProfileFile};
use crate::render::palette;
use crate::render::text_layout::escape_control;

/// Manage named servers
///
/// Commands use the selected profile unless a flag or the environment names another server.
/// Profiles are stored in profiles.toml in the user's configuration directory. The file contains no
/// secrets: a profile names the variable or file that contains its token. The server of a profile
/// receives only this token. The token from the environment is sent only to servers that are not
/// named by a profile.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  noetl profile add prod --server https://n.example.com --token-env PROD_TOKEN
  noetl profile use prod
  noetl runs list --profile staging")]
pub(crate) enum ProfileCommand {
    /// List profiles (an asterisk marks the selected one)
    #[command(after_long_help = "\
Examples:
  noetl profile list
  noetl profile list -o json")]
    List(OutputArgs),
    Add(ProfileAddArgs),
    Use(ProfileUseArgs),
    Rm(ProfileRmArgs),
    Show(ProfileShowArgs),
}

/// Add a profile
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl profile add here --server http://localhost:8082
  noetl profile add prod --server https://n.example.com --token-file ~/.token")]
pub(crate) struct ProfileAddArgs {
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
pub(crate) struct ProfileUseArgs {
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
pub(crate) struct ProfileRmArgs {
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
pub(crate) struct ProfileShowArgs {
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
pub(crate) fn run(command: &ProfileCommand, io: &mut Io<'_>) -> Result<CommandExit> {
    match command {
        ProfileCommand::List(output) => list_profiles(*output, io),
        ProfileCommand::Add(args) => add_profile(args, io),
        ProfileCommand::Use(args) => select_profile(args, io),
        ProfileCommand::Rm(args) => remove_profile(args, io),
        ProfileCommand::Show(args) => show_profile(args, io),
    }
}

fn list_profiles(output: OutputArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let profiles = ProfileFile::load_file(&io.env)?;
    let outputs = profiles.profiles.iter();
    let outputs = outputs.map(|(name, profile)| to_profile_output(name, profile, &profiles));
    let outputs: Vec<ProfileOutput<'_>> = outputs.collect();
    let note = "there are no profiles; add one with: noetl profile add NAME --server URL";
    output.print_list_or_note(&outputs, note, |outputs, _| profile_table(outputs), io)
}

fn to_profile_output<'p>(
    name: &'p str,
    profile: &'p Profile,
    profiles: &ProfileFile,
) -> ProfileOutput<'p> {
    ProfileOutput { name, in_use: profiles.current.as_deref() == Some(name), profile }
}

fn profile_table<'t, 'p>(outputs: &'t [ProfileOutput<'p>]) -> TextTable<'t, ProfileOutput<'p>> {
    let mark = |output: &ProfileOutput<'_>| if output.in_use { "*" } else { " " };
    TextTable::new(outputs)
        .column("", |output| TableCell::styled(mark(output), palette::SUCCESS))
        .column("PROFILE", |output| TableCell::styled(output.name, palette::NAME))
        .shrinkable("SERVER", |output| &output.profile.server)
        .shrinkable("TOKEN", |output| describe_token_source(output.profile))
}

/// Location of the token of a profile.
fn describe_token_source(profile: &Profile) -> String {
    match (&profile.token_env, &profile.token_file) {
        (Some(variable), _) => format!("in ${variable}"),
        (None, Some(path)) => format!("in {}", path.display()),
        (None, None) => "none".to_owned(),
    }
}

fn add_profile(args: &ProfileAddArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if args.name.is_empty() || !args.name.chars().all(is_valid) {
        return Err(Error::usage(format!(
            "'{}' is not a valid profile name; use letters, digits, '-', '_' and '.'",
            escape_control(&args.name)
        )));
    }
    // Rejects an invalid address now instead of at the first use.
    Client::new(&args.server, ClientSettings::default())?;
    let mut profiles = ProfileFile::load_file(&io.env)?;
    if profiles.profiles.contains_key(&args.name) && !args.force {
        let name = &args.name;
        return Err(Error::conflict(format!("profile '{name}' already exists"))
            .with_help(format!("replace it with: noetl profile add {name} --force")));
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

fn select_profile(args: &ProfileUseArgs, io: &mut Io<'_>) -> Result<CommandExit> {
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

fn remove_profile(args: &ProfileRmArgs, io: &mut Io<'_>) -> Result<CommandExit> {
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

fn show_profile(args: &ProfileShowArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let profiles = ProfileFile::load_file(&io.env)?;
    let name = args.name.clone().or_else(|| profiles.current.clone());
    let Some(name) = name else {
        io.print_message("no profile is selected; select one with: noetl profile use NAME")?;
        return Ok(CommandExit::NotFound);
    };
    let profile = profiles.find_profile(&name)?;
    let output = to_profile_output(&name, profile, &profiles);
    if !args.output.is_table() {
        return args.output.print_item(&output, io);
    }
    args.output.print_table(&profile_table(&[output]), io)
}
