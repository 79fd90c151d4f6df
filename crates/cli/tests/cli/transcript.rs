//! What README shows of a terminal is what happens there.
//!
//! A fenced block `console` is a session: each line behind `$ ` is run with the real binary, in order, in
//! one home, and must print the lines below it. Ids, times, durations and bars differ from run to run.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, io};

use crate::run::at_home;
use crate::support::{CRATE, Folder};

/// What makes two moments of the same thing alike: numbers are one sign, bars and runs of blanks are
/// none, and what only a terminal overwrites is left out.
fn alike(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim_end);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('▸'))
        // Which file is read instead of a server is told each time; once is enough on a page.
        .filter(|line| !line.starts_with("no server runs: "))
        .map(|line| {
            let mut masked = String::new();
            for letter in line.chars().filter(|letter| !"█░▒┄━─".contains(*letter)) {
                let letter = if letter.is_ascii_digit() { '0' } else { letter };
                let is_again = (letter == '0' || letter == ' ') && masked.ends_with(letter);
                if !is_again {
                    masked.push(letter);
                }
            }
            // A moment is told in minutes, seconds or milliseconds.
            masked.replace("0.0 s", "0 ms").replace("0 min 0 s", "0 ms")
        })
        .collect()
}

/// What a person sees of both streams, in its order.
fn together(command: &mut Command) -> String {
    let (mut seen, out) = io::pipe().unwrap();
    command.stderr(out.try_clone().unwrap()).stdout(out);
    let mut child = command.spawn().unwrap();
    // Ours of the writing ends go, or the reading never ends.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut text = String::new();
    seen.read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    text
}

#[test]
fn the_session_of_the_front_page_happens() {
    let root = Path::new(CRATE).join("../..");
    let folder = Folder::new("transcript");
    let examples = root.join("examples");
    for entry in fs::read_dir(&examples).unwrap() {
        let entry = entry.unwrap();
        let name = format!("examples/{}", entry.file_name().display());
        folder.write(&name, fs::read(entry.path()).unwrap());
    }
    let page = fs::read_to_string(root.join("README.md")).unwrap();
    let session = page.split("```console\n").skip(1);
    let session: String = session
        .map(|block| block.split("```").next().unwrap())
        .collect();
    let mut commands = 0;
    for shown in session.split("$ noetl ").skip(1) {
        let (line, printed) = shown.split_once('\n').unwrap();
        let args: Vec<&str> = line.split_whitespace().collect();
        let text = together(&mut at_home(&folder, &args));
        let data = folder.path("data").display().to_string();
        let text = text.replace(&data, "/home/ada/.local/share/noetl");
        assert_eq!(alike(&text), alike(printed), "$ noetl {line}\n{text}");
        commands += 1;
    }
    assert!(commands >= 4, "the front page shows a session");
}
