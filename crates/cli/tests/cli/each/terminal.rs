//! A real terminal of 80 columns, and a process on it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{
    LocalModes, OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize,
};

const SIZE: Winsize = Winsize {
    ws_row: 50,
    ws_col: 80,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

/// A process on a terminal of its own. It ends with the test that started it.
pub(super) struct Terminal {
    child: Child,
    /// The side of whoever sits before it.
    seat: File,
    seen: Vec<u8>,
}

impl Terminal {
    /// Starts a process; `typed` is what somebody has typed for it.
    pub(super) fn start(mut command: Command, typed: &str) -> Self {
        let seat = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&seat).unwrap();
        unlockpt(&seat).unwrap();
        let name = ptsname(&seat, Vec::new()).unwrap();
        let screen = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        tcsetwinsize(&screen, SIZE).unwrap();
        let mut modes = tcgetattr(&screen).unwrap();
        // What was typed ahead would be shown before the question that it answers.
        modes.local_modes.remove(LocalModes::ECHO);
        modes.output_modes.remove(OutputModes::ONLCR);
        tcsetattr(&screen, OptionalActions::Now, &modes).unwrap();
        let mut seat = File::from(seat);
        seat.write_all(typed.as_bytes()).unwrap();
        let child = command
            .env("TERM", "xterm-256color")
            .stdin(screen.try_clone().unwrap())
            .stdout(screen.try_clone().unwrap())
            .stderr(screen)
            .spawn()
            .unwrap();
        Self {
            child,
            seat,
            seen: Vec::new(),
        }
    }

    /// Waits until something is on the screen.
    pub(super) fn shows(&mut self, wanted: &str) {
        while !screen(&self.seen).contains(wanted) {
            assert!(self.looks(), "no '{wanted}' in {}", screen(&self.seen));
        }
    }

    /// Sends it an interrupt, as Ctrl-C does.
    pub(super) fn interrupt(&self) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end; gives its exit code and what is on the screen then.
    pub(super) fn end(mut self) -> (i32, String) {
        while self.looks() {}
        let status = self.child.wait().unwrap();
        (status.code().unwrap_or(-1), screen(&self.seen))
    }

    /// Looks at what is new; false once nobody writes to the terminal any more.
    fn looks(&mut self) -> bool {
        let mut piece = [0; 4096];
        // A terminal that its last process has left says so by an error.
        let Ok(length @ 1..) = self.seat.read(&mut piece) else {
            return false;
        };
        self.seen.extend_from_slice(&piece[..length]);
        true
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended already where all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is on the screen after these bytes, without its colours.
fn screen(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = vec![String::new()];
    let mut row = 0;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\r' => {}
            '\n' => {
                row += 1;
                if row == lines.len() {
                    lines.push(String::new());
                }
            }
            '\u{1b}' => {
                let mut order: String = letters
                    .by_ref()
                    .take_while(|letter| !letter.is_ascii_alphabetic() || *letter == '[')
                    .collect();
                // The letter that ends an order is taken with it.
                let end = text[..text.len() - letters.as_str().len()].chars().last();
                order.retain(|letter| letter.is_ascii_digit());
                match end {
                    Some('A') => row -= order.parse::<usize>().unwrap(),
                    Some('J') => {
                        lines.truncate(row + 1);
                        lines[row].clear();
                    }
                    Some('m') => {}
                    other => panic!("what does a terminal do with {other:?}?"),
                }
            }
            letter => lines[row].push(letter),
        }
    }
    lines.join("\n")
}

#[test]
fn a_screen_holds_what_was_not_erased() {
    let bytes = b"one\ntwo\nthree\n\x1b[2A\r\x1b[J\x1b[1mlast\x1b[0m\n";
    assert_eq!(screen(bytes), "one\nlast\n");
}
