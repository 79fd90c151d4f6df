//! Commands that go on until they are stopped.

use std::process::Command;

use super::terminal::Terminal;
use super::{Shown, place};
use crate::process::Process;
use crate::run::at_home;
use crate::support::{Folder, Ran};

/// Runs one until it says something, in a pipe; gives what it says, without its log.
fn piped(command: Command, wanted: &str) -> Ran {
    let mut process = Process::start(command);
    process.says(wanted);
    process.interrupt();
    let (code, out, err) = process.end();
    assert!(
        err.lines().all(|line| line.starts_with("{\"timestamp\"")),
        "{err}"
    );
    Ran {
        code,
        out: out + "\n",
        err: String::new(),
    }
}

/// The same on a terminal.
fn on_terminal(command: Command, wanted: &str) -> (i32, String) {
    let mut terminal = Terminal::start(command, "");
    terminal.shows(wanted);
    terminal.interrupt();
    let (code, screen) = terminal.end();
    let is_log = |line: &&str| line.contains(" INFO ") || line.contains(" WARN ");
    let said: Vec<&str> = screen.lines().filter(|line| !is_log(line)).collect();
    (code, said.join("\n") + "\n")
}

/// The port of the address that it says.
fn ports(text: &str) -> Vec<String> {
    let behind = text.split("http://127.0.0.1:").skip(1);
    behind
        .map(|text| text.chars().take_while(char::is_ascii_digit).collect())
        .collect()
}

fn shows(name: &str, args: &[&str], wanted: &str) {
    let folder = Folder::new(&format!("each_{name}"));
    let line = |args: &[&str]| at_home(&folder, args);
    let ran = piped(line(args), wanted);
    let ended = on_terminal(line(args), wanted);
    let ports = ports(&format!("{} {}", ran.out, ended.1));
    let home = place(&folder);
    let mut masks = vec![(home.as_str(), "HOME")];
    masks.extend(ports.iter().map(|port| (port.as_str(), "PORT")));
    let words = format!("{} {}", ran.out, ended.1);
    let tokens: Vec<&str> = words
        .split_whitespace()
        .filter(|word| word.starts_with("noetl_"))
        .collect();
    masks.extend(tokens.iter().map(|token| (*token, "noetl_SECRET")));
    Shown::new(&line)
        .was_piped(args, &ran)
        .was_on_terminal(args, &ended)
        .is(name, &masks);
}

#[test]
fn dev() {
    shows("dev", &["dev", "--port", "0"], "Stop with Ctrl-C");
}

#[test]
fn server() {
    shows("server", &["server", "--port", "0"], "stop with Ctrl-C");
}

#[test]
fn worker() {
    let folder = Folder::new("each_worker_server");
    let mut server = at_home(&folder, &["server", "--port", "0"]);
    server.env("NOETL_DEV", "true");
    let mut server = Process::start(server);
    let said = server.says("NoETL listening on http://127.0.0.1:");
    let url = said.split(' ').next_back().unwrap().to_owned();
    let args = ["worker", "--server", &url, "--id", "w1"];
    shows("worker", &args, "NoETL worker w1");
}
