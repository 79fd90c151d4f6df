//! Commands that run until they are stopped.

use std::process::Command;

use super::terminal::{TerminalOutput, TestTerminal};
use super::{OutputRecorder, home_path};
use crate::cli::process::NoetlProcess;
use crate::cli::run::isolated_command;
use crate::cli::support::{CommandOutput, TestDir};

/// Runs a command in a pipe until it prints `expected`. Returns its output without its log.
fn run_piped_until(command: Command, expected: &str) -> CommandOutput {
    let mut process = NoetlProcess::start(command);
    process.wait_for_stdout(expected);
    process.send_interrupt();
    let (code, out, err) = process.wait_for_exit();
    assert!(err.lines().all(|line| line.starts_with("{\"timestamp\"")), "{err}");
    CommandOutput { code, out: out + "\n", err: String::new() }
}

/// Runs a command on a terminal until it prints `expected`. Returns its output without its log.
fn run_on_terminal_until(command: Command, expected: &str) -> TerminalOutput {
    let mut terminal = TestTerminal::start(command, "");
    terminal.wait_for_text(expected);
    terminal.send_interrupt();
    let TerminalOutput { code, screen } = terminal.wait_for_exit();
    let is_log = |line: &&str| line.contains(" INFO ") || line.contains(" WARN ");
    let visible: Vec<&str> = screen.lines().filter(|line| !is_log(line)).collect();
    TerminalOutput { code, screen: visible.join("\n") + "\n" }
}

/// Returns the ports of the printed addresses.
fn find_ports(text: &str) -> Vec<String> {
    let rest = text.split("http://127.0.0.1:").skip(1);
    rest.map(|text| text.chars().take_while(char::is_ascii_digit).collect()).collect()
}

fn check_long_running(name: &str, args: &[&str], expected: &str) {
    let dir = TestDir::new(&format!("each_{name}"));
    let command_line = |args: &[&str]| isolated_command(&dir, args);
    let output = run_piped_until(command_line(args), expected);
    let terminal_output = run_on_terminal_until(command_line(args), expected);
    let text = format!("{} {}", output.out, terminal_output.screen);
    let ports = find_ports(&text);
    let home = home_path(&dir);
    let mut masks = vec![(home.as_str(), "HOME")];
    masks.extend(ports.iter().map(|port| (port.as_str(), "PORT")));
    let tokens: Vec<&str> =
        text.split_whitespace().filter(|word| word.starts_with("noetl_")).collect();
    masks.extend(tokens.iter().map(|token| (*token, "noetl_SECRET")));
    OutputRecorder::new(&command_line)
        .add_piped(args, &output)
        .add_on_terminal(args, &terminal_output)
        .assert_matches_snapshot(name, &masks);
}

#[test]
fn dev_output() {
    check_long_running("dev", &["dev", "--port", "0"], "Stop with Ctrl-C");
}

#[test]
fn server_output() {
    check_long_running("server", &["server", "--port", "0"], "stop with Ctrl-C");
}

#[test]
fn worker_output() {
    let dir = TestDir::new("each_worker_server");
    let mut server = isolated_command(&dir, &["server", "--port", "0"]);
    server.env("NOETL_DEV", "true");
    let mut server = NoetlProcess::start(server);
    let line = server.wait_for_stdout("NoETL listening on http://127.0.0.1:");
    let url = line.split(' ').next_back().unwrap().to_owned();
    let args = ["worker", "--server", &url, "--id", "w1"];
    check_long_running("worker", &args, "NoETL worker w1");
}
