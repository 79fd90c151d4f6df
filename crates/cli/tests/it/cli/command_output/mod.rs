//! Output of every command in a pipe and on a terminal of 80 columns.
//!
//! One snapshot per command, `snapshots/it__cli__command_output__COMMAND.snap`, contains both. The
//! tests in `reference.rs`, which know the command tree, check that none is missing.

mod local_commands;
mod long_running;
mod masking;
mod operator_commands;
mod server_commands;
mod terminal;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use masking::mask_variable_text;
use terminal::{TerminalOutput, TestTerminal};

use crate::cli::support::{CommandOutput, TestDir};

/// Records the output of a command for its snapshot.
struct OutputRecorder<'c> {
    /// Builds a command from its arguments.
    command_line: &'c dyn Fn(&[&str]) -> Command,
    /// Recorded output in pipes and on terminals.
    text: String,
    /// Recorded output on terminals only.
    screens: String,
    is_piped: bool,
}

impl<'c> OutputRecorder<'c> {
    fn new(command_line: &'c dyn Fn(&[&str]) -> Command) -> Self {
        Self { command_line, text: String::new(), screens: String::new(), is_piped: false }
    }

    /// Runs the command in a pipe and on a terminal.
    fn run_both(self, args: &[&str]) -> Self {
        self.run_piped(args).run_on_terminal(args, "")
    }

    /// Runs the command in a pipe.
    fn run_piped(self, args: &[&str]) -> Self {
        self.run_with_stdin(args, "")
    }

    /// Runs the command in a pipe, with input on standard input.
    fn run_with_stdin(self, args: &[&str], input: &str) -> Self {
        let mut child = (self.command_line)(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        // A command that reads no input may have ended already.
        drop(pipe.write_all(input.as_bytes()));
        drop(pipe);
        let output = CommandOutput::from(child.wait_with_output().unwrap());
        self.add_piped(args, &output)
    }

    /// Runs the command on a terminal with typed input.
    fn run_on_terminal(self, args: &[&str], typed: &str) -> Self {
        let output = TestTerminal::start((self.command_line)(args), typed).wait_for_exit();
        self.add_on_terminal(args, &output)
    }

    /// Records the output of a command that was run by the caller.
    fn add_piped(mut self, args: &[&str], output: &CommandOutput) -> Self {
        self.is_piped = true;
        let line = args.join(" ");
        writeln!(self.text, "$ noetl {line} | cat\n{}\n", output.to_snapshot()).unwrap();
        self
    }

    fn add_on_terminal(mut self, args: &[&str], output: &TerminalOutput) -> Self {
        let TerminalOutput { code, screen } = output;
        self.screens.push_str(screen);
        let line = args.join(" ");
        writeln!(self.text, "$ noetl {line}\n{screen}──── exit {code}\n").unwrap();
        self
    }

    /// Replaces names that are specific to this run, and compares the snapshot. Longer names must
    /// come first in `masks`.
    fn assert_matches_snapshot(self, name: &str, masks: &[(&str, &str)]) {
        assert!(
            self.is_piped && !self.screens.is_empty(),
            "{name} must run in a pipe and on a terminal"
        );
        let masked = |text: &str| {
            let mut text = text.to_owned();
            for (from, to) in masks {
                text = text.replace(from, to);
            }
            text
        };
        // Terminals wrap prose, but wrapping would break columns.
        for line in masked(&self.screens).lines() {
            let has_columns = line.trim().split("  ").count() > 2;
            let is_wide = line.chars().count() > 80;
            assert!(!has_columns || !is_wide, "{name} is too wide: {line}");
        }
        insta::assert_snapshot!(name, mask_variable_text(&masked(&self.text)).trim_end());
    }
}

/// Returns the first lines of a long output.
fn first_lines(text: &str, lines: usize) -> String {
    let mut first: String = text.split_inclusive('\n').take(lines).collect();
    if first.len() < text.len() {
        first.push_str("…\n");
    }
    first
}

/// Path of a test directory as commands print it.
fn home_path(dir: &TestDir) -> String {
    let path = dir.path("").display().to_string();
    path.trim_end_matches('/').to_owned()
}
