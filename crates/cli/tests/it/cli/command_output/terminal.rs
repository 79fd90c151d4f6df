//! A pseudo-terminal of 80 columns with a process on it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{
    LocalModes, OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize,
};

const TERMINAL_SIZE: Winsize = Winsize { ws_row: 50, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };

/// Exit code and final screen of a process.
#[derive(Debug)]
pub(super) struct TerminalOutput {
    pub(super) code: i32,
    pub(super) screen: String,
}

/// Process on a separate pseudo-terminal. It is killed at the end of its test.
pub(super) struct TestTerminal {
    child: Child,
    /// Controlling side of the pseudo-terminal.
    controller: File,
    received: Vec<u8>,
}

impl TestTerminal {
    /// Starts a process with `typed` as input.
    pub(super) fn start(mut command: Command, typed: &str) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let screen = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        tcsetwinsize(&screen, TERMINAL_SIZE).unwrap();
        let mut modes = tcgetattr(&screen).unwrap();
        // With echo, the input would be shown before the question that it answers.
        modes.local_modes.remove(LocalModes::ECHO);
        modes.output_modes.remove(OutputModes::ONLCR);
        tcsetattr(&screen, OptionalActions::Now, &modes).unwrap();
        let mut controller = File::from(controller);
        controller.write_all(typed.as_bytes()).unwrap();
        let child = command
            .env("TERM", "xterm-256color")
            .stdin(screen.try_clone().unwrap())
            .stdout(screen.try_clone().unwrap())
            .stderr(screen)
            .spawn()
            .unwrap();
        Self { child, controller, received: Vec::new() }
    }

    /// Waits until a text is on the screen.
    pub(super) fn wait_for_text(&mut self, expected: &str) {
        while !render_screen(&self.received).contains(expected) {
            assert!(self.read_more(), "no '{expected}' in {}", render_screen(&self.received));
        }
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub(super) fn send_interrupt(&self) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for the exit.
    pub(super) fn wait_for_exit(mut self) -> TerminalOutput {
        while self.read_more() {}
        let status = self.child.wait().unwrap();
        TerminalOutput { code: status.code().unwrap_or(-1), screen: render_screen(&self.received) }
    }

    /// Reads new output. Returns false when no process has the terminal open.
    fn read_more(&mut self) -> bool {
        let mut chunk = [0; 4096];
        // A read fails when the last process has closed the terminal.
        let Ok(length @ 1..) = self.controller.read(&mut chunk) else {
            return false;
        };
        self.received.extend_from_slice(&chunk[..length]);
        true
    }
}

impl Drop for TestTerminal {
    fn drop(&mut self) {
        // In a passing test the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the screen after these bytes, without colours.
fn render_screen(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = vec![String::new()];
    let mut row = 0;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\r' => {}
            '\n' => {
                row += 1;
                if row == lines.len() {
                    lines.push(String::new());
                }
            }
            '\u{1b}' => {
                let mut digits: String =
                    chars.by_ref().take_while(|c| !c.is_ascii_alphabetic() || *c == '[').collect();
                // `take_while` has also consumed the final letter of the escape sequence.
                let command = text[..text.len() - chars.as_str().len()].chars().last();
                digits.retain(|c| c.is_ascii_digit());
                match command {
                    Some('A') => row -= digits.parse::<usize>().unwrap(),
                    Some('J') => {
                        lines.truncate(row + 1);
                        lines[row].clear();
                    }
                    Some('m') => {}
                    other => panic!("unsupported escape sequence: {other:?}"),
                }
            }
            c => lines[row].push(c),
        }
    }
    lines.join("\n")
}

#[test]
fn screen_drops_erased_lines() {
    let bytes = b"one\ntwo\nthree\n\x1b[2A\r\x1b[J\x1b[1mlast\x1b[0m\n";
    assert_eq!(render_screen(bytes), "one\nlast\n");
}
