//! Where the output goes, and what it looks like there.

use std::io::Write as _;
use std::process::Stdio;

use noetl_cli::{Env, Exit, Io, Stream, run};

use crate::support::{CLEAN, command};

const ESCAPE: char = '\u{1b}';

#[test]
fn colours_can_be_forced_and_forbidden() {
    let colored = |args: &[&str], variables: &[(&str, &str)]| {
        let output = command(args)
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().contains(ESCAPE)
    };
    assert!(!colored(&["explain"], &[]));
    assert!(colored(&["explain", "--color", "always"], &[]));
    assert!(colored(&["explain"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!colored(
        &["explain", "--color", "never"],
        &[("CLICOLOR_FORCE", "1")]
    ));
    assert!(!colored(
        &["explain"],
        &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]
    ));
}

#[test]
fn a_reader_that_goes_away_is_not_a_crash() {
    let mut command = command(&["check", "-"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    child
        .stdin
        .take()
        .unwrap()
        .write_all(CLEAN.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(i32::from(Exit::BrokenPipe.code()))
    );
    assert!(output.stderr.is_empty());
}

/// Runs a command line inside this process, on a terminal of some width.
fn on_terminal(args: &[&str], input: &str, width: usize) -> (Exit, String) {
    let mut input = input.as_bytes();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut io = Io {
        input: &mut input,
        out: Stream::terminal(&mut out, width),
        err: Stream::terminal(&mut err, width),
        env: Env::default(),
    };
    let exit = run(["noetl"].iter().chain(args).map(Into::into), &mut io);
    (exit, String::from_utf8(out).unwrap())
}

#[test]
fn a_terminal_gets_pages_that_are_set() {
    let (exit, page) = on_terminal(&["explain", "NP201", "--color", "never"], "", 80);
    assert_eq!(exit, Exit::Ok);
    insta::assert_snapshot!(page);
}

#[test]
fn a_narrow_terminal_gets_notes_below_their_steps() {
    let flow = include_str!("../flows/nested_cycles.yaml");
    let (exit, drawing) = on_terminal(&["graph", "-", "--color", "never"], flow, 44);
    assert_eq!(exit, Exit::Ok);
    insta::assert_snapshot!(drawing);
}

#[test]
fn a_terminal_gets_a_drawing_in_colours() {
    let flow = include_str!("../flows/nested_cycles.yaml");
    let (_, drawing) = on_terminal(&["graph", "-"], flow, 100);
    let plain: String = anstream::adapter::strip_str(&drawing).to_string();
    let (_, uncolored) = on_terminal(&["graph", "-", "--color", "never"], flow, 100);
    assert!(drawing.contains(ESCAPE));
    assert_eq!(plain, uncolored);
}
