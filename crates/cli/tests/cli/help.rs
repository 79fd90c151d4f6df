//! What the command says about itself.

use std::process::{Command, Stdio};

use crate::support::run;

#[test]
fn the_first_page() {
    insta::assert_snapshot!(run(&["--help"]).shown());
}

#[test]
fn the_pages_of_the_commands() {
    for command in [
        "run",
        "dev",
        "server",
        "worker",
        "stream",
        "token",
        "secret",
        "catalog",
        "exec",
        "runs",
        "profile",
        "config",
        "doctor",
        "check",
        "graph",
        "schema",
        "explain",
        "completions",
        "man",
    ] {
        insta::assert_snapshot!(format!("help_{command}"), run(&[command, "--help"]).shown());
    }
}

#[test]
fn the_version() {
    let version = concat!("noetl ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(run(&["--version"]).out, version);
}

#[test]
fn without_a_command_it_shows_help_and_fails() {
    let ran = run(&[]);
    assert_eq!((ran.code, &*ran.out), (2, ""));
    assert!(ran.err.contains("Usage: noetl"));
}

#[test]
fn slips_of_the_pen_are_recognised() {
    insta::assert_snapshot!(run(&["grpah"]).shown(), @r"
    ──── stderr
    error: unrecognized subcommand 'grpah'

      tip: some similar subcommands exist: 'replay', 'graph'

    Usage: noetl [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ──── exit 2
    ");
    insta::assert_snapshot!(run(&["check", "--stric", "x.yaml"]).shown(), @r"
    ──── stderr
    error: unexpected argument '--stric' found

      tip: a similar argument exists: '--strict'

    Usage: noetl check --strict <PATH>...

    For more information, try '--help'.
    ──── exit 2
    ");
}

#[test]
fn completions_mention_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = run(&["completions", shell]);
        assert_eq!(ran.code, 0);
        for command in [
            "run",
            "dev",
            "server",
            "worker",
            "stream",
            "token",
            "secret",
            "catalog",
            "exec",
            "runs",
            "profile",
            "config",
            "doctor",
            "check",
            "graph",
            "schema",
            "explain",
            "completions",
            "man",
        ] {
            assert!(ran.out.contains(command), "{shell} lacks {command}");
        }
    }
    assert_eq!(run(&["completions", "tcsh"]).code, 2);
}

#[test]
fn completions_for_bash_are_understood_by_bash() {
    let script = run(&["completions", "bash"]).out;
    let bash = Command::new("bash")
        .args(["-n", "-c", &script])
        .stdin(Stdio::null())
        .status();
    // A machine without bash has no use for them either.
    assert!(bash.is_err() || bash.is_ok_and(|status| status.success()));
}
