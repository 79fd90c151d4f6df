//! Every command of the binary, as it is seen in a pipe and on a terminal of 80 columns.
//!
//! One snapshot for each command, `snapshots/cli__each__COMMAND.snap`, holds both. That none is missing
//! is asked where the tree of commands is known: in the tests of the reference of the command line.

mod asked;
mod local;
mod operated;
mod served;
mod steady;
mod terminal;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use steady::steady;
use terminal::Terminal;

use crate::support::{Folder, Ran};

/// What a command shows.
struct Shown<'c> {
    /// Makes a command line.
    line: &'c dyn Fn(&[&str]) -> Command,
    /// In pipes, and on terminals.
    text: String,
    /// On terminals alone.
    screens: String,
    is_piped: bool,
}

impl<'c> Shown<'c> {
    fn new(line: &'c dyn Fn(&[&str]) -> Command) -> Self {
        Self {
            line,
            text: String::new(),
            screens: String::new(),
            is_piped: false,
        }
    }

    /// Runs it in a pipe and on a terminal.
    fn both(self, args: &[&str]) -> Self {
        self.piped(args).on_terminal(args, "")
    }

    /// Runs it in a pipe.
    fn piped(self, args: &[&str]) -> Self {
        self.fed(args, "")
    }

    /// Runs it in a pipe, with something to read.
    fn fed(self, args: &[&str], input: &str) -> Self {
        let mut child = (self.line)(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        // One that reads nothing may have ended already.
        drop(pipe.write_all(input.as_bytes()));
        drop(pipe);
        let ran = Ran::from(child.wait_with_output().unwrap());
        self.was_piped(args, &ran)
    }

    /// Runs it on a terminal where somebody types.
    fn on_terminal(self, args: &[&str], typed: &str) -> Self {
        let ended = Terminal::start((self.line)(args), typed).end();
        self.was_on_terminal(args, &ended)
    }

    /// The same of one that ran by itself.
    fn was_piped(mut self, args: &[&str], ran: &Ran) -> Self {
        self.is_piped = true;
        let line = args.join(" ");
        writeln!(self.text, "$ noetl {line} | cat\n{}\n", ran.shown()).unwrap();
        self
    }

    fn was_on_terminal(mut self, args: &[&str], (code, screen): &(i32, String)) -> Self {
        self.screens.push_str(screen);
        let line = args.join(" ");
        writeln!(self.text, "$ noetl {line}\n{screen}──── exit {code}\n").unwrap();
        self
    }

    /// Says what stands for names that only this run has, longest first, and compares.
    fn is(self, name: &str, masks: &[(&str, &str)]) {
        assert!(
            self.is_piped && !self.screens.is_empty(),
            "{name} is seen twice"
        );
        let masked = |text: &str| {
            let mut text = text.to_owned();
            for (from, to) in masks {
                text = text.replace(from, to);
            }
            text
        };
        // Prose is broken wherever the terminal ends; columns would be broken with it.
        for line in masked(&self.screens).lines() {
            let has_columns = line.trim().split("  ").count() > 2;
            let is_wide = line.chars().count() > 80;
            assert!(!has_columns || !is_wide, "{name} is too wide: {line}");
        }
        insta::assert_snapshot!(name, steady(&masked(&self.text)).trim_end());
    }
}

/// The beginning of a long output.
fn cut(text: &str, lines: usize) -> String {
    let mut cut: String = text.split_inclusive('\n').take(lines).collect();
    if cut.len() < text.len() {
        cut.push_str("…\n");
    }
    cut
}

/// The folder of a test, as it is shown.
fn place(folder: &Folder) -> String {
    let path = folder.path("").display().to_string();
    path.trim_end_matches('/').to_owned()
}
