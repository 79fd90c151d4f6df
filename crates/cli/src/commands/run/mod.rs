//! `noetl run`: a playbook from beginning to end, without a server.

mod follow;
mod site;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use noetl_playbook::model::Playbook;
use noetl_playbook::{CheckOptions, Document, InputsRead, Severity, check};
use noetl_types::{Json, JsonMap, Millis};

use crate::config::table::LOG;
use crate::config::{Config, Flags, Run, nearest};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::payload::{self, PayloadError};
use crate::progress::{Flow, Style};
use crate::render::diagnostic;
use crate::render::result::Form;
use crate::render::words::counted;
use crate::roles::{self, Place};
use crate::source::Origin;

/// Threads of a run: more than a few have nothing to do.
const THREADS: usize = 4;
/// What is still under way gets this long to end when the command is over.
const PARTING: Duration = Duration::from_secs(1);

/// Run a playbook, here and now
///
/// The playbook is checked, run in this process with its progress on standard error, and its result
/// printed on standard output. Nothing else has to run. Its log stays in a database in the data
/// folder. Where a 'noetl dev' or a server has that database, the run is handed to it and followed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Ctrl-C cancels the run, which is recorded; pressed again, it quits at once.

Examples:
  noetl run examples/hello.yaml                      progress and result
  noetl run flow.yaml --set city=Oslo --set n.max=3  with other values
  noetl run flow.yaml --payload input.json -o yaml   the same from a file
  noetl run flow.yaml --quiet | jq .total            only the result
  noetl run flow.yaml --ephemeral                    leave no log

Exit codes:
    0  the run completed
    1  the run failed
    2  the command line, a setting or the playbook is wrong
    3  a file was not found
    4  another process has the database and does not let go of it
  124  the run took longer than --timeout
  130  the run was cancelled by Ctrl-C")]
pub(crate) struct RunArgs {
    /// The playbook, or - for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Set a value of the workload; points lead into maps. May be given many times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    sets: Vec<String>,
    /// Values of the workload as JSON or YAML; - for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    payload: Option<PathBuf>,
    /// The form of the result; by default JSON, or a text as it is
    #[arg(short, long, value_enum, value_name = "FORM")]
    output: Option<Form>,
    /// Keep no log: the same as --store memory
    #[arg(long, conflicts_with = "NOETL_STORE")]
    ephemeral: bool,
    /// Cancel the run if it takes longer, such as 30s or 5m
    #[arg(long, value_name = "DURATION", value_parser = Millis::parse)]
    timeout: Option<Millis>,
    /// Wait at most this long for another run that uses the same database
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = Millis::parse)]
    lock_timeout: Millis,
    #[command(flatten)]
    settings: Flags<Run>,
}

/// Runs a playbook.
pub(crate) fn run(args: &RunArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let Some(flow) = read(args, quiet, io)? else {
        return Ok(Exit::Usage);
    };
    let payload = payload_of(args, io)?;
    let config = Config::load(&args.settings.given, &io.env)?;
    let place = if args.ephemeral {
        Place::Memory
    } else {
        Place::of(&config)?
    };
    let style = style(&config, quiet, io);
    if style != Style::Quiet {
        io.warn(&config.warnings)?;
        io.warn(&unread(&args.sets, &flow.playbook))?;
    }
    if config.is_given(&LOG) {
        roles::start_logging(&config, io.err.is_terminal(), io.err.paint().is_on())?;
    }
    let wish = Wish {
        flow: &flow,
        payload: Json::from(payload),
        form: args.output,
        timeout: args.timeout,
        lock_timeout: args.lock_timeout,
        style,
    };
    let threads = roles::threads(&config, THREADS)?;
    let exit = threads.block_on(follow::from_start_to_end(&wish, &place, &config, io));
    // Dropping what is under way kills the processes of its tools.
    threads.shutdown_timeout(PARTING);
    exit
}

/// What the user wants.
struct Wish<'f> {
    flow: &'f Flow,
    payload: Json,
    form: Option<Form>,
    timeout: Option<Millis>,
    lock_timeout: Millis,
    style: Style,
}

/// Log lines and lines that are drawn again and again do not go together.
fn style(config: &Config, quiet: bool, io: &Io<'_>) -> Style {
    let is_logging = config.is_given(&LOG);
    if quiet {
        Style::Quiet
    } else if io.err.is_terminal() && !is_logging {
        Style::Live
    } else {
        Style::Lines
    }
}

/// The playbook, unless it has errors, which are told.
fn read(args: &RunArgs, quiet: bool, io: &mut Io<'_>) -> Result<Option<Flow>, Error> {
    let origin = Origin::new(&args.file);
    let text = origin.read(io)?;
    let file = origin.name();
    let checked = check(&text, &CheckOptions::default());
    let mut errors = 0;
    for found in &checked.diagnostics {
        let is_told = match found.severity {
            Severity::Error => true,
            Severity::Warning => !quiet,
            Severity::Note => false,
        };
        errors += usize::from(found.severity == Severity::Error);
        if is_told {
            let snippet = diagnostic::render(&file, &text, found, &io.err);
            io.talk(format_args!("{snippet}\n"))?;
        }
    }
    if errors > 0 {
        let errors = counted(errors, "error");
        io.talk(format_args!("{file} has {errors}, so nothing was run"))?;
        return Ok(None);
    }
    match checked.document {
        Some(Document::Playbook(playbook)) => Ok(Some(Flow {
            file,
            text,
            playbook,
        })),
        Some(Document::Subscription(_)) => Err(no_playbook(file, "subscription")),
        Some(Document::Schedule(_)) => Err(no_playbook(file, "schedule")),
        Some(Document::Other(other)) => Err(no_playbook(file, &other.kind)),
        None => Err(no_playbook(file, "document of no kind")),
    }
}

fn no_playbook(path: String, kind: &str) -> Error {
    let kind = kind.to_owned();
    Error::NotRunnable { path, kind }
}

fn payload_of(args: &RunArgs, io: &mut Io<'_>) -> Result<JsonMap, Error> {
    let mut payload = match &args.payload {
        None => JsonMap::new(),
        Some(path) => {
            let origin = Origin::new(path);
            if origin == Origin::Input && Origin::new(&args.file) == Origin::Input {
                return Err(PayloadError::BothFromInput.into());
            }
            payload::document(&origin.name(), &origin.read(io)?)?
        }
    };
    for given in &args.sets {
        payload::set(&mut payload, given)?;
    }
    Ok(payload)
}

/// Inputs that nothing in the playbook can read, which is how a name that is spelled wrong looks.
fn unread(sets: &[String], playbook: &Playbook) -> Vec<String> {
    let fields = playbook.workload.iter();
    let known: Vec<&str> = fields.map(|field| &*field.name.value).collect();
    let read = InputsRead::of(playbook);
    let names = sets
        .iter()
        .filter_map(|given| given.split(['=', '.']).next());
    let unread = names.filter(|name| !known.contains(name) && !read.includes(name));
    let warning = |name| match nearest(name, known.iter()) {
        Some(meant) => format!("nothing reads '{name}'; did you mean '{meant}'?"),
        None => format!("nothing reads '{name}'"),
    };
    unread.map(warning).collect()
}

/// Writes what came out.
fn show(result: &Json, form: Option<Form>, io: &mut Io<'_>) -> Result<(), Error> {
    if let Some(text) = crate::render::result::render(result, form) {
        write!(io.out, "{text}")?;
    }
    Ok(())
}
