//! Output on terminals and in pipes: colours, width, closed pipes.

use std::io::Write as _;
use std::process::Stdio;

use noetl_cli::{CommandExit, Env, Io, OutputStream, run};

use crate::cli::support::{CLEAN_PLAYBOOK, noetl_command};

const ESCAPE: char = '\u{1b}';

#[test]
fn colours_can_be_forced_and_forbidden() {
    let has_colors = |args: &[&str], variables: &[(&str, &str)]| {
        let output = noetl_command(args).envs(variables.iter().copied()).output().unwrap();
        String::from_utf8(output.stdout).unwrap().contains(ESCAPE)
    };
    assert!(!has_colors(&["explain"], &[]));
    assert!(has_colors(&["explain", "--color", "always"], &[]));
    assert!(has_colors(&["explain"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!has_colors(&["explain", "--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!has_colors(&["explain"], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}

#[test]
fn closed_pipe_exits_without_error() {
    let mut command = noetl_command(&["check", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(CLEAN_PLAYBOOK.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(CommandExit::BrokenPipe.code())));
    assert!(output.stderr.is_empty());
}

/// Runs a command in this process, on a terminal of the given width.
fn run_on_terminal(args: &[&str], input: &str, width: usize) -> (CommandExit, String) {
    let mut input = input.as_bytes();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut io = Io {
        input: &mut input,
        out: OutputStream::terminal(&mut out, width),
        err: OutputStream::terminal(&mut err, width),
        env: Env::default(),
        quiet: false,
    };
    let exit = run(["noetl"].iter().chain(args).map(Into::into), &mut io);
    (exit, String::from_utf8(out).unwrap())
}

#[test]
fn terminal_gets_rendered_page() {
    let (exit, page) = run_on_terminal(&["explain", "NP201", "--color", "never"], "", 80);
    assert_eq!(exit, CommandExit::Ok);
    insta::assert_snapshot!(page);
}

#[test]
fn narrow_terminal_puts_notes_below_steps() {
    let playbook = include_str!("../../flows/nested_cycles.yaml");
    let (exit, drawing) = run_on_terminal(&["graph", "-", "--color", "never"], playbook, 44);
    assert_eq!(exit, CommandExit::Ok);
    insta::assert_snapshot!(drawing);
}

#[test]
fn terminal_gets_coloured_graph() {
    let playbook = include_str!("../../flows/nested_cycles.yaml");
    let (_, drawing) = run_on_terminal(&["graph", "-"], playbook, 100);
    let plain: String = anstream::adapter::strip_str(&drawing).to_string();
    let (_, uncolored) = run_on_terminal(&["graph", "-", "--color", "never"], playbook, 100);
    assert!(drawing.contains(ESCAPE));
    assert_eq!(plain, uncolored);
}
