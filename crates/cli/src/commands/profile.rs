//! `noetl profile`: servers by name.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use noetl_api::{Client, ClientSettings};
use serde::Serialize;

use crate::ask::{Consent, agreed};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Cell, Column, Output, Table};
use crate::profile::{Profile, ProfileError, Profiles};
use crate::render::palette;
use crate::render::words::visible;
use crate::roles::StartError;

/// Keep servers by name
///
/// Commands that ask a server use the profile in use, unless a flag or the environment says otherwise.
/// The file, profiles.toml in the configuration folder of the user, holds no secrets: a profile says in
/// which variable or file its token is. Its server is shown that token or none: the token of the
/// environment is for servers that no profile names.
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
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(ListArgs),
    Add(AddArgs),
    Use(UseArgs),
    Rm(RmArgs),
    Show(ShowArgs),
}

/// List profiles; a star marks the one in use
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl profile list
  noetl profile list -o json")]
struct ListArgs {
    #[command(flatten)]
    output: Output,
}

/// Add a profile
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl profile add here --server http://localhost:8082
  noetl profile add prod --server https://n.example.com --token-file ~/.token")]
struct AddArgs {
    /// Its name
    name: String,
    /// The address of the server
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    server: String,
    /// The variable that holds the token
    #[arg(long, value_name = "VARIABLE")]
    token_env: Option<String>,
    /// The file that holds the token
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "token_env")]
    token_file: Option<PathBuf>,
    /// Use it from now on
    #[arg(long = "use")]
    in_use: bool,
    /// Replace one of the same name
    #[arg(long)]
    force: bool,
}

/// Use a profile from now on
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl profile use prod
  noetl profile use --none")]
struct UseArgs {
    /// Its name
    #[arg(required_unless_present = "none")]
    name: Option<String>,
    /// Use none
    #[arg(long, conflicts_with = "name")]
    none: bool,
}

/// Remove a profile
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl profile rm staging
  noetl profile rm staging --yes")]
struct RmArgs {
    /// Its name
    name: String,
    #[command(flatten)]
    consent: Consent,
}

/// Show a profile; without a name, the one in use
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl profile show
  noetl profile show prod -o json")]
struct ShowArgs {
    /// Its name
    name: Option<String>,
    #[command(flatten)]
    output: Output,
}

/// A profile, as it is shown.
#[derive(Debug, Serialize)]
struct Shown<'p> {
    name: &'p str,
    in_use: bool,
    #[serde(flatten)]
    profile: &'p Profile,
}

/// Keeps profiles.
pub(crate) fn run(args: &ProfileArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    match &args.verb {
        Verb::List(args) => list(args, quiet, io),
        Verb::Add(args) => add(args, io),
        Verb::Use(args) => use_one(args, io),
        Verb::Rm(args) => remove(args, io),
        Verb::Show(args) => show(args, io),
    }
}

fn list(args: &ListArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let profiles = Profiles::load(&io.env)?;
    let shown: Vec<Shown<'_>> = profiles
        .profiles
        .iter()
        .map(|(name, profile)| shown(name, profile, &profiles))
        .collect();
    if shown.is_empty() && args.output.is_table() {
        if !quiet {
            io.talk("there are no profiles; add one with: noetl profile add NAME --server URL")?;
        }
        return Ok(Exit::Ok);
    }
    args.output.list(&shown, |_| table(&shown), io)?;
    Ok(Exit::Ok)
}

fn shown<'p>(name: &'p str, profile: &'p Profile, profiles: &Profiles) -> Shown<'p> {
    Shown {
        name,
        in_use: profiles.current.as_deref() == Some(name),
        profile,
    }
}

fn table(shown: &[Shown<'_>]) -> Table {
    let mut table = Table::new([
        Column::new(""),
        Column::new("PROFILE"),
        Column::new("SERVER").gives_way(),
        Column::new("TOKEN").gives_way(),
    ]);
    for shown in shown {
        let mark = if shown.in_use { "*" } else { " " };
        table.row([
            Cell::styled(mark, palette::GOOD),
            Cell::styled(shown.name, palette::NAME),
            shown.profile.server.as_str().into(),
            token(shown.profile).into(),
        ]);
    }
    table
}

/// Where the token of a profile is.
fn token(profile: &Profile) -> String {
    match (&profile.token_env, &profile.token_file) {
        (Some(variable), _) => format!("in ${variable}"),
        (None, Some(path)) => format!("in {}", path.display()),
        (None, None) => "none".to_owned(),
    }
}

fn add(args: &AddArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if args.name.is_empty() || !args.name.chars().all(is_name) {
        return Err(ProfileError::Name(visible(&args.name)).into());
    }
    // An address that no client takes is refused now, not when it is needed.
    Client::new(&args.server, ClientSettings::default()).map_err(StartError::Client)?;
    let mut profiles = Profiles::load(&io.env)?;
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
    profiles.save(&io.env)?;
    let how = if profiles.current.as_ref() == Some(&args.name) {
        "added, and in use"
    } else {
        "added"
    };
    writeln!(io.out, "{} {how}", args.name)?;
    Ok(Exit::Ok)
}

fn use_one(args: &UseArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    let mut profiles = Profiles::load(&io.env)?;
    if let Some(name) = &args.name {
        profiles.get(name)?;
    }
    profiles.current.clone_from(&args.name);
    profiles.save(&io.env)?;
    match &args.name {
        Some(name) => writeln!(io.out, "{name} in use")?,
        None => writeln!(io.out, "no profile in use")?,
    }
    Ok(Exit::Ok)
}

fn remove(args: &RmArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    let mut profiles = Profiles::load(&io.env)?;
    let profile = profiles.get(&args.name)?;
    let question = format!("Remove {} ({})?", args.name, visible(&profile.server));
    if !agreed(args.consent, &question, "yes", io)? {
        return Ok(Exit::Failed);
    }
    profiles.profiles.remove(&args.name);
    if profiles.current.as_ref() == Some(&args.name) {
        profiles.current = None;
    }
    profiles.save(&io.env)?;
    writeln!(io.out, "{} removed", args.name)?;
    Ok(Exit::Ok)
}

fn show(args: &ShowArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    let profiles = Profiles::load(&io.env)?;
    let name = args.name.clone().or_else(|| profiles.current.clone());
    let Some(name) = name else {
        io.talk("no profile is in use; choose one with: noetl profile use NAME")?;
        return Ok(Exit::NotFound);
    };
    let profile = profiles.get(&name)?;
    let shown = shown(&name, profile, &profiles);
    if args.output.is_table() {
        args.output.table(&table(&[shown]), io)?;
    } else {
        args.output.thing(&shown, io)?;
    }
    Ok(Exit::Ok)
}
