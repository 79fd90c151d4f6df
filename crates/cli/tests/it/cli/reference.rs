//! Generates the command line reference `docs/cli.md` from the help texts.

use std::fmt::Write as _;
use std::path::Path;

use clap::Command;
use noetl_cli::command_tree;

use crate::cli::support::CRATE_DIR;

/// Width of the help texts in columns.
const HELP_WIDTH: usize = 96;

/// Width of the terminals that examples must fit into.
const EXAMPLE_WIDTH: usize = 80;

const INTRODUCTION: &str = "\
# Command line

<!-- Generated from the help texts by a test: UPDATE_DOCS=1 cargo test -p noetl-cli reference -->

One binary, `noetl`, is the server, the worker and the client. Data is written to standard output and
messages to standard error. Lists are printed as tables, or with `-o json|jsonl|yaml` for programs. The
fields and the exit codes are stable. Colors are controlled by `--color` and `NO_COLOR`.

Client commands select the server from `--server`, then `--profile`, `NOETL_SERVER_URL`,
`NOETL_PROFILE`, the selected profile (`noetl profile use`), and finally the server that uses the local
database. If no server uses it, read-only commands read the database file directly. Other
commands use a server at the default address if one responds, and otherwise the database file, also
while a `noetl run` has it open.

A token is sent only to the server it belongs to. The server of a profile receives the token of the profile
(`--token-env`, `--token-file`), or none. `NOETL_TOKEN` is sent to servers that no profile names. Operator
commands (`outbox`, `retention`, `stream rebuild`, `secret audit`) use `NOETL_INTERNAL_URL` unless
`--server` or `--profile` is given, and send `NOETL_INTERNAL_API_TOKEN` there. The server of a profile
receives this token only if it is the same server.

";

fn reference_page() -> String {
    let mut command = command_tree().term_width(HELP_WIDTH).color(clap::ColorChoice::Never);
    command.build();
    let mut page = INTRODUCTION.to_owned();
    write_contents(&command, "noetl", 0, &mut page);
    write_chapter(&command, "noetl", &mut page);
    page
}

fn visible_subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    let subcommands = command.get_subcommands();
    subcommands.filter(|subcommand| subcommand.get_name() != "help" && !subcommand.is_hide_set())
}

fn write_contents(command: &Command, name: &str, depth: usize, page: &mut String) {
    let about = command.get_about().map(ToString::to_string);
    let about = about.unwrap_or_default();
    let link = name.replace(' ', "-");
    let _ = writeln!(page, "{:depth$}- [`{name}`](#{link}) {about}", "", depth = 2 * depth);
    for subcommand in visible_subcommands(command) {
        write_contents(subcommand, &format!("{name} {}", subcommand.get_name()), depth + 1, page);
    }
}

fn write_chapter(command: &Command, name: &str, page: &mut String) {
    let help = command.clone().term_width(HELP_WIDTH).render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", help.join("\n").trim_end());
    for subcommand in visible_subcommands(command) {
        write_chapter(subcommand, &format!("{name} {}", subcommand.get_name()), page);
    }
}

#[test]
fn reference_matches_help() {
    let path = Path::new(CRATE_DIR).join("../../docs/cli.md");
    let page = reference_page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/cli.md is not up to date: UPDATE_DOCS=1 cargo test -p noetl-cli reference"
    );
}

#[test]
fn command_tree_is_valid() {
    command_tree().debug_assert();
}

/// Each snapshot contains the output on a terminal and in a pipe. The tests in `command_output`
/// write them.
#[test]
fn every_command_has_output_snapshot() {
    let names: Vec<String> = leaf_commands().into_iter().map(|(name, _)| name).collect();
    assert!(names.len() > 50, "{names:?}");
    let dir = Path::new(CRATE_DIR).join("tests/it/cli/command_output/snapshots");
    let missing: Vec<&String> = names
        .iter()
        .filter(|name| {
            let path = dir.join(format!("it__cli__command_output__{name}.snap"));
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let command_line = format!("$ noetl {}", name.replace('_', " "));
            let mut lines = text.lines().filter(|line| line.starts_with(&command_line));
            let is_piped = lines.clone().any(|line| line.ends_with(" | cat"));
            !is_piped || lines.all(|line| line.ends_with(" | cat"))
        })
        .collect();
    assert!(
        missing.is_empty(),
        "commands without a snapshot for a terminal and a pipe: {missing:?}"
    );
}

/// Commands without `-o`, with the reason.
const COMMANDS_WITHOUT_OUTPUT_FLAG: [(&str, &str); 21] = [
    ("check", "it has --format with its own formats"),
    ("graph", "it has --format with its own formats"),
    ("schema", "its output is always JSON"),
    ("explain", "it prints a page"),
    ("completions", "it prints a script"),
    ("man", "it prints a page"),
    ("dev", "it runs until stopped and writes a log"),
    ("server", "it runs until stopped and writes a log"),
    ("worker", "it runs until stopped and writes a log"),
    ("runs_logs", "it prints the output of tasks"),
    ("catalog_get", "it prints the registered document"),
    ("db_anchor", "it prints one value"),
    ("db_migrate", "it only confirms success"),
    ("db_check", "it prints problems and reports them with its exit code"),
    ("db_backup", "it only confirms success"),
    ("token_revoke", "it only confirms success"),
    ("secret_set", "it only confirms success"),
    ("secret_rm", "it only confirms success"),
    ("profile_add", "it only confirms success"),
    ("profile_use", "it only confirms success"),
    ("profile_rm", "it only confirms success"),
];

/// Commands that can be run, with their names: those without subcommands, and those whose
/// subcommand is optional.
fn leaf_commands() -> Vec<(String, Command)> {
    fn walk(command: &Command, commands: &mut Vec<(String, Command)>, path: &[&str]) {
        let is_leaf =
            visible_subcommands(command).next().is_none() || !command.is_subcommand_required_set();
        if is_leaf && !path.is_empty() {
            commands.push((path.join("_"), command.clone()));
        }
        for subcommand in visible_subcommands(command) {
            walk(subcommand, commands, &[path, &[subcommand.get_name()]].concat());
        }
    }
    let mut command = command_tree();
    command.build();
    let mut commands = Vec::new();
    walk(&command, &mut commands, &[]);
    commands
}

#[test]
fn every_data_command_has_output_flag() {
    let has_output_flag = |command: &Command| {
        let mut flags = command.get_arguments();
        flags.any(|flag| flag.get_short() == Some('o'))
    };
    let is_excused =
        |name: &str| COMMANDS_WITHOUT_OUTPUT_FLAG.iter().any(|(excused, _)| *excused == name);
    let missing: Vec<String> = leaf_commands()
        .into_iter()
        .filter(|(name, command)| !has_output_flag(command) && !is_excused(name))
        .map(|(name, _)| name)
        .collect();
    assert!(missing.is_empty(), "no -o: {missing:?}");
}

#[test]
fn every_command_has_fitting_examples() {
    for (name, command) in leaf_commands() {
        let examples = command.get_after_long_help().map(ToString::to_string);
        let examples = examples.unwrap_or_default();
        assert!(examples.contains("Examples:\n"), "{name} has no examples");
        let command_line = format!("noetl {}", name.replace('_', " "));
        assert!(examples.contains(&command_line), "{name}: {examples}");
        for line in examples.lines() {
            // A wrapped line cannot be copied.
            assert!(line.chars().count() <= EXAMPLE_WIDTH, "{name} breaks: {line}");
        }
    }
}
