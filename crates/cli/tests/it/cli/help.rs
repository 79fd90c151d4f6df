//! Help texts, version and completions.

use std::process::{Command, Stdio};

use crate::cli::support::run_noetl;

#[test]
fn top_level_help() {
    insta::assert_snapshot!(run_noetl(&["--help"]).to_snapshot());
}

#[test]
fn help_of_every_command() {
    for command in [
        "run", "dev", "server", "worker", "stream", "token", "secret", "catalog", "exec", "runs",
        "profile", "config", "doctor", "check", "graph", "schema", "explain", "completions", "man",
    ] {
        insta::assert_snapshot!(
            format!("help_{command}"),
            run_noetl(&[command, "--help"]).to_snapshot()
        );
    }
}

#[test]
fn prints_version() {
    let version = concat!("noetl ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(run_noetl(&["--version"]).out, version);
}

#[test]
fn no_command_prints_help_and_fails() {
    let output = run_noetl(&[]);
    assert_eq!((output.code, &*output.out), (2, ""));
    assert!(output.err.contains("Usage: noetl"));
}

#[test]
fn suggests_similar_command_and_flag() {
    insta::assert_snapshot!(run_noetl(&["grpah"]).to_snapshot(), @r"
    ──── stderr
    error: unrecognized subcommand 'grpah'

      tip: some similar subcommands exist: 'replay', 'graph'

    Usage: noetl [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ──── exit 2
    ");
    insta::assert_snapshot!(run_noetl(&["check", "--stric", "x.yaml"]).to_snapshot(), @r"
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
        let output = run_noetl(&["completions", shell]);
        assert_eq!(output.code, 0);
        for command in [
            "run", "dev", "server", "worker", "stream", "token", "secret", "catalog", "exec",
            "runs", "profile", "config", "doctor", "check", "graph", "schema", "explain",
            "completions", "man",
        ] {
            assert!(output.out.contains(command), "{shell} lacks {command}");
        }
    }
    assert_eq!(run_noetl(&["completions", "tcsh"]).code, 2);
}

#[test]
fn bash_accepts_its_completions() {
    let script = run_noetl(&["completions", "bash"]).out;
    let bash = Command::new("bash").args(["-n", "-c", &script]).stdin(Stdio::null()).status();
    // Skipped on a machine without bash.
    assert!(bash.is_err() || bash.is_ok_and(|status| status.success()));
}
