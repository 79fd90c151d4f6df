//! The terminal sessions in README are reproducible.
//!
//! A fenced block `console` is a session: each line after `$ ` is run with the real binary, in
//! order, in one data directory, and must print the lines below it. Ids, times, durations and bars
//! may differ.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, io};

use crate::cli::run::isolated_command;
use crate::cli::support::{CRATE_DIR, TestDir};

/// Normalizes output for comparison: digits become `0`, repeated digits and spaces are merged, bars
/// and lines that a terminal would overwrite are dropped.
fn normalized_lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim_end);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('▸'))
        // Each command prints which file it reads instead of a server. README shows this once.
        .filter(|line| !line.starts_with("no server is running; "))
        .map(|line| {
            let mut masked = String::new();
            for c in line.chars().filter(|c| !"█░▒┄━─".contains(*c)) {
                let c = if c.is_ascii_digit() { '0' } else { c };
                let is_repeated = (c == '0' || c == ' ') && masked.ends_with(c);
                if !is_repeated {
                    masked.push(c);
                }
            }
            // Durations are printed in minutes, seconds or milliseconds.
            masked.replace("0.0 s", "0 ms").replace("0 min 0 s", "0 ms")
        })
        .collect()
}

/// Runs a command and returns both output streams in their order.
fn run_with_merged_output(command: &mut Command) -> String {
    let (mut reader, writer) = io::pipe().unwrap();
    command.stderr(writer.try_clone().unwrap()).stdout(writer);
    let mut child = command.spawn().unwrap();
    // Closes our copies of the write ends, or the read would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    text
}

#[test]
fn readme_session_is_reproducible() {
    let root = Path::new(CRATE_DIR).join("../..");
    let dir = TestDir::new("transcript");
    let examples = root.join("examples");
    for entry in fs::read_dir(&examples).unwrap() {
        let entry = entry.unwrap();
        let name = format!("examples/{}", entry.file_name().display());
        dir.write(&name, fs::read(entry.path()).unwrap());
    }
    let page = fs::read_to_string(root.join("README.md")).unwrap();
    let session = page.split("```console\n").skip(1);
    let session: String = session.map(|block| block.split("```").next().unwrap()).collect();
    let mut commands = 0;
    for command in session.split("$ noetl ").skip(1) {
        let (line, expected) = command.split_once('\n').unwrap();
        let args: Vec<&str> = line.split_whitespace().collect();
        let text = run_with_merged_output(&mut isolated_command(&dir, &args));
        let data = dir.path("data").display().to_string();
        let text = text.replace(&data, "/home/ada/.local/share/noetl");
        assert_eq!(normalized_lines(&text), normalized_lines(expected), "$ noetl {line}\n{text}");
        commands += 1;
    }
    assert!(commands >= 4, "README shows a session");
}
