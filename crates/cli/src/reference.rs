//! The reference of the command line, `docs/cli.md`: made from the help texts, so that it cannot say
//! anything else.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Command, CommandFactory as _};

use crate::args::CommandLine;

/// Columns of the help texts.
const WIDTH: usize = 96;

/// Columns of the terminals that examples fit into.
const NARROW: usize = 80;

const INTRODUCTION: &str = "\
# The command line

<!-- Made from the help texts by a test: UPDATE_DOCS=1 cargo test -p noetl-cli reference -->

One binary, `noetl`, is the server, the workers and the client. Data goes to standard output, talk to
standard error; lists are tables for people, and `-o json|jsonl|yaml` for programs, which may rely on
their fields and on the exit codes. Colours obey `--color` and `NO_COLOR`.

Commands that ask a server find it by `--server`, else `--profile`, else `NOETL_SERVER_URL`, else
`NOETL_PROFILE`, else the profile in use (`noetl profile use`), else the server that has the database
of this machine. Where none has it, commands that only look read that database themselves.

A token goes only where it belongs. The server of a profile is shown the token that the profile names
(`--token-env`, `--token-file`), or none; `NOETL_TOKEN` is for servers that no profile names. Operators'
commands (`outbox`, `retention`, `stream rebuild`, `secret audit`) ask at `NOETL_INTERNAL_URL` where
neither `--server` nor `--profile` is given, and show `NOETL_INTERNAL_API_TOKEN` there, but to the server
of a profile only where it is the same server.

";

/// The whole page.
fn page() -> String {
    let mut command = CommandLine::command()
        .term_width(WIDTH)
        .color(clap::ColorChoice::Never);
    command.build();
    let mut page = INTRODUCTION.to_owned();
    contents(&command, "noetl", 0, &mut page);
    chapter(&command, "noetl", &mut page);
    page
}

fn inner(command: &Command) -> impl Iterator<Item = &Command> {
    let inner = command.get_subcommands();
    inner.filter(|inner| inner.get_name() != "help" && !inner.is_hide_set())
}

fn contents(command: &Command, name: &str, depth: usize, page: &mut String) {
    let about = command.get_about().map(ToString::to_string);
    let about = about.unwrap_or_default();
    let link = name.replace(' ', "-");
    let _ = writeln!(
        page,
        "{:depth$}- [`{name}`](#{link}) {about}",
        "",
        depth = 2 * depth
    );
    for one in inner(command) {
        contents(one, &format!("{name} {}", one.get_name()), depth + 1, page);
    }
}

fn chapter(command: &Command, name: &str, page: &mut String) {
    let help = command
        .clone()
        .term_width(WIDTH)
        .render_long_help()
        .to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(
        page,
        "\n## {name}\n\n```text\n{}\n```\n",
        help.join("\n").trim_end()
    );
    for one in inner(command) {
        chapter(one, &format!("{name} {}", one.get_name()), page);
    }
}

#[test]
fn the_reference_says_what_the_help_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/cli.md is not up to date: UPDATE_DOCS=1 cargo test -p noetl-cli reference"
    );
}

/// A flag that two commands share means the same in both.
#[test]
fn every_command_is_sound() {
    CommandLine::command().debug_assert();
}

/// The commands that do something, by their words: those that have none below them, and those that may
/// be given without one.
fn leaves(command: &Command, words: &[&str], found: &mut Vec<String>) {
    let is_leaf = inner(command).next().is_none() || !command.is_subcommand_required_set();
    if is_leaf && !words.is_empty() {
        found.push(words.join("_"));
    }
    for one in inner(command) {
        leaves(one, &[words, &[one.get_name()]].concat(), found);
    }
}

/// The snapshots are made by the tests of the whole binary, each with both kinds in it.
#[test]
fn every_command_is_seen_in_a_pipe_and_on_a_terminal() {
    let mut command = CommandLine::command();
    command.build();
    let mut found = Vec::new();
    leaves(&command, &[], &mut found);
    assert!(found.len() > 50, "{found:?}");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/each/snapshots");
    let missing: Vec<&String> = found
        .iter()
        .filter(|name| {
            let path = folder.join(format!("cli__each__{name}.snap"));
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let words = format!("$ noetl {}", name.replace('_', " "));
            let mut lines = text.lines().filter(|line| line.starts_with(&words));
            let is_piped = lines.clone().any(|line| line.ends_with(" | cat"));
            !is_piped || lines.all(|line| line.ends_with(" | cat"))
        })
        .collect();
    assert!(missing.is_empty(), "no snapshot of both kinds: {missing:?}");
}

/// Commands that have no `-o`, and why not.
const WITHOUT_FORM: [(&str, &str); 20] = [
    ("check", "it has --format, with the forms of compilers"),
    ("graph", "it has --format, with the forms of drawings"),
    ("schema", "it prints a schema, which is JSON"),
    ("explain", "it prints a page"),
    ("completions", "it prints a script"),
    ("man", "it prints a page"),
    ("dev", "it is a server, and writes a log"),
    ("server", "it is a server, and writes a log"),
    ("worker", "it is a worker, and writes a log"),
    ("runs_logs", "it prints what tasks printed"),
    ("catalog_get", "it prints a document as it was registered"),
    ("db_migrate", "it says that it is done"),
    (
        "db_check",
        "it says what is wrong, and its exit code whether anything is",
    ),
    ("db_backup", "it says that it is done"),
    ("token_revoke", "it says that it is done"),
    ("secret_set", "it says that it is done"),
    ("secret_rm", "it says that it is done"),
    ("profile_add", "it says that it is done"),
    ("profile_use", "it says that it is done"),
    ("profile_rm", "it says that it is done"),
];

/// The commands that do something, with their words.
fn every_leaf() -> Vec<(String, Command)> {
    fn walk(command: &Command, found: &mut Vec<(String, Command)>, words: &[&str]) {
        let is_leaf = inner(command).next().is_none() || !command.is_subcommand_required_set();
        if is_leaf && !words.is_empty() {
            found.push((words.join("_"), command.clone()));
        }
        for one in inner(command) {
            walk(one, found, &[words, &[one.get_name()]].concat());
        }
    }
    let mut command = CommandLine::command();
    command.build();
    let mut found = Vec::new();
    walk(&command, &mut found, &[]);
    found
}

#[test]
fn every_command_that_prints_data_has_a_form() {
    let has_form = |command: &Command| {
        let mut flags = command.get_arguments();
        flags.any(|flag| flag.get_short() == Some('o'))
    };
    let is_excused = |name: &str| WITHOUT_FORM.iter().any(|(excused, _)| *excused == name);
    let lacking: Vec<String> = every_leaf()
        .into_iter()
        .filter(|(name, command)| !has_form(command) && !is_excused(name))
        .map(|(name, _)| name)
        .collect();
    assert!(lacking.is_empty(), "no -o: {lacking:?}");
}

#[test]
fn every_command_shows_examples_that_fit() {
    for (name, command) in every_leaf() {
        let examples = command.get_after_long_help().map(ToString::to_string);
        let examples = examples.unwrap_or_default();
        assert!(examples.contains("Examples:\n"), "{name} has no examples");
        let words = format!("noetl {}", name.replace('_', " "));
        assert!(examples.contains(&words), "{name}: {examples}");
        for line in examples.lines() {
            // A line that is broken cannot be copied.
            assert!(line.chars().count() <= NARROW, "{name} breaks: {line}");
        }
    }
}
