//! `noetl run`: runs a playbook locally, without a server.

mod follow;
mod local_process;
mod sub_playbooks;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use noetl_playbook::InputsRead;
use noetl_playbook::model::Playbook;
use noetl_types::{Json, JsonMap, Millis};

use crate::commands::check::{into_playbook, print_diagnostics};
use crate::config::table::LOG;
use crate::config::{Config, Run, SettingFlags, nearest_name};
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::io::Io;
use crate::payload::read_payload;
use crate::progress::{PlaybookSource, ProgressStyle};
use crate::render::result::ResultFormat;
use crate::render::text_layout::pluralize;
use crate::roles::{self, StoreLocation};
use crate::source::DocumentOrigin;

/// Runtime threads of a run. More would be idle.
const RUN_THREADS: usize = 4;
/// Time that remaining tasks get to stop after the command has ended.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Run a playbook locally
///
/// Checks the playbook, runs it in this process with its progress on standard error, and prints its
/// result to standard output. No server is required. Sub-playbooks are read from the files beside
/// the playbook, and from the catalog. The log is stored in a database in the data directory.
/// Several runs can use that database at once. If 'noetl dev' or a server is using it, that executes
/// the run instead.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Ctrl-C cancels the run; a second Ctrl-C quits immediately.

Examples:
  noetl run examples/hello.yaml                      progress and result
  noetl run flow.yaml --set city=Oslo --set n.max=3  with workload values
  noetl run flow.yaml --payload input.json -o yaml   with values from a file
  noetl run flow.yaml --quiet | jq .total            only the result
  noetl run flow.yaml --ephemeral                    without storing a log

Exit codes:
    0  the run completed
    1  the run failed
    2  the command line, a setting or the playbook is invalid
    3  a file was not found
    4  another process is using the database
  124  the run took longer than --timeout
  130  the run was cancelled by Ctrl-C")]
pub(crate) struct RunArgs {
    /// Playbook file, or - for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Set a workload value; dots address nested maps (repeatable)
    #[arg(long = "set", value_name = "NAME=VALUE")]
    sets: Vec<String>,
    /// File with workload values as JSON or YAML; - for standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    payload: Option<PathBuf>,
    /// Output format of the result (default: JSON, or plain text for a text result)
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<ResultFormat>,
    /// Do not store a log (same as --store memory)
    #[arg(long, conflicts_with = "NOETL_STORE")]
    ephemeral: bool,
    /// Cancel the run if it takes longer, such as 30s or 5m
    #[arg(long, value_name = "DURATION", value_parser = Millis::parse)]
    timeout: Option<Millis>,
    /// Wait at most this long for another process that does not share the database
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = Millis::parse)]
    lock_timeout: Millis,
    #[command(flatten)]
    settings: SettingFlags<Run>,
}

/// Options of a run.
struct RunRequest<'s> {
    source: &'s PlaybookSource,
    sub_playbooks: &'s [PlaybookSource],
    payload: Json,
    format: Option<ResultFormat>,
    timeout: Option<Millis>,
    lock_timeout: Millis,
    style: ProgressStyle,
}

pub(crate) fn run(args: &RunArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let Some(source) = read_playbook(args, io)? else {
        return Ok(CommandExit::Usage);
    };
    let payload = workload_values(args, io)?;
    let config = Config::load(&args.settings.given, &io.env)?;
    let location =
        if args.ephemeral { StoreLocation::Memory } else { StoreLocation::from_config(&config)? };
    if !io.quiet {
        io.print_warnings(&config.warnings)?;
        io.print_warnings(&unread_input_warnings(&args.sets, &source.playbook))?;
    }
    let mut style = ProgressStyle::for_output(io);
    if config.is_given(&LOG) {
        roles::start_logging(&config, &io.err)?;
        // Log lines would break the live display.
        if style == ProgressStyle::Live {
            style = ProgressStyle::Lines;
        }
    }
    let origin = DocumentOrigin::new(&args.file);
    let sub_playbooks = sub_playbooks::find_sub_playbooks(&origin, &source.playbook, io)?;
    let request = RunRequest {
        source: &source,
        sub_playbooks: &sub_playbooks,
        payload: Json::from(payload),
        format: args.output,
        timeout: args.timeout,
        lock_timeout: args.lock_timeout,
        style,
    };
    let runtime = roles::build_tokio_runtime(&config, RUN_THREADS)?;
    let exit = runtime.block_on(follow::run_to_end(&request, &location, &config, io));
    // Dropping running tasks kills their processes.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    exit
}

/// Reads the playbook and prints its diagnostics. Returns `None` if it has errors.
fn read_playbook(args: &RunArgs, io: &mut Io<'_>) -> Result<Option<PlaybookSource>> {
    let origin = DocumentOrigin::new(&args.file);
    let text = origin.read_text(io)?;
    let file = origin.display_name();
    let checked = print_diagnostics(&file, &text, !io.quiet, io)?;
    if checked.error_count > 0 {
        let errors = pluralize(checked.error_count, "error");
        io.print_message(format_args!("{file} has {errors}; nothing was run"))?;
        return Ok(None);
    }
    match into_playbook(checked.document) {
        Ok(playbook) => Ok(Some(PlaybookSource { file, text, playbook })),
        Err(kind) => {
            let kind = kind.unwrap_or_else(|| "document without a kind".to_owned());
            Err(Error::usage(format!("'{file}' is a {kind}; only playbooks can be run"))
                .with_help("check it with: noetl check FILE"))
        }
    }
}

fn workload_values(args: &RunArgs, io: &mut Io<'_>) -> Result<JsonMap> {
    let is_input = |path: &PathBuf| DocumentOrigin::new(path) == DocumentOrigin::StandardInput;
    if is_input(&args.file) && args.payload.as_ref().is_some_and(is_input) {
        let message = "the playbook and --payload cannot both come from standard input";
        return Err(Error::usage(message).with_help("read one of them from a file"));
    }
    read_payload(args.payload.as_deref(), &args.sets, io)
}

/// Warns about workload values that the playbook never reads, which are probably misspelled names.
fn unread_input_warnings(sets: &[String], playbook: &Playbook) -> Vec<String> {
    let fields = playbook.workload.iter();
    let workload_names: Vec<&str> = fields.map(|field| &*field.name.value).collect();
    let inputs_read = InputsRead::from_playbook(playbook);
    let names = sets.iter().filter_map(|assignment| assignment.split(['=', '.']).next());
    let unread = names.filter(|name| !workload_names.contains(name) && !inputs_read.may_read(name));
    let warning = |name| match nearest_name(name, workload_names.iter()) {
        Some(similar) => format!("the playbook does not read '{name}'; did you mean '{similar}'?"),
        None => format!("the playbook does not read '{name}'"),
    };
    unread.map(warning).collect()
}
