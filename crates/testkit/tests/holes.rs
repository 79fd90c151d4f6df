//! Every hole that a naive build of the platform has is named by a test that would find it here.
//!
//! A test names a hole by the beginning of its name (`t7_one_publisher…`, `o3_o5_only_a_row…`) or in
//! its comment (`/// Hole D1.`). T is for the stream, O for the outbox, P for the projector, D for
//! dedup, R for retention, Y for replay, I for ids, workers and the embedded store.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// How many holes there are of each kind.
const HOLES: &[(char, u32)] = &[
    ('T', 17),
    ('O', 10),
    ('P', 8),
    ('D', 8),
    ('R', 8),
    ('Y', 9),
    ('I', 8),
];

/// Corners without a test: the window of a message holds up to a step of the database's clock, which is
/// stated and not mended.
const CORNERS: &[&str] = &["D8"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn all_sources() -> BTreeMap<PathBuf, String> {
    let mut paths = Vec::new();
    sources(&crates(), &mut paths);
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a file");
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

/// A letter and a number.
fn code(word: &str) -> Option<String> {
    let mut chars = word.chars();
    let letter = chars.next()?.to_ascii_uppercase();
    let number: u32 = chars.as_str().parse().ok()?;
    let (_, most) = HOLES.iter().find(|(kind, _)| *kind == letter)?;
    (1..=*most)
        .contains(&number)
        .then(|| format!("{letter}{number}"))
}

/// The holes that a line names.
fn named(line: &str) -> Vec<String> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix("/// Hole") {
        let rest = rest.trim_start_matches('s').trim_end_matches('.');
        return rest.split([',', ' ']).filter_map(code).collect();
    }
    let Some((_, name)) = line.split_once("fn ") else {
        return Vec::new();
    };
    name.split('_')
        .skip_while(|word| *word == "heavy")
        .map_while(code)
        .collect()
}

#[test]
fn every_hole_is_named_by_a_test() {
    let found: BTreeSet<String> = all_sources()
        .values()
        .flat_map(|text| text.lines().flat_map(named).collect::<Vec<_>>())
        .collect();
    let all = HOLES
        .iter()
        .flat_map(|(kind, most)| (1..=*most).map(move |number| format!("{kind}{number}")));
    let missing: Vec<String> = all
        .filter(|code| !found.contains(code) && !CORNERS.contains(&code.as_str()))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn names_are_read() {
    assert_eq!(named("async fn o3_o5_only_a_row() {"), ["O3", "O5"]);
    assert_eq!(named("    fn heavy_t10_ten_thousand() {"), ["T10"]);
    assert_eq!(named("/// Holes D1, D2."), ["D1", "D2"]);
    assert_eq!(named("/// Hole T18."), Vec::<String>::new());
    assert_eq!(named("fn two_servers() {"), Vec::<String>::new());
}

/// Hole P7.
///
/// No statement changes an event in its place, and none takes single ones away but that of
/// retention where a month is no table of its own.
#[test]
fn no_statement_changes_an_event() {
    let crates = crates();
    let may_delete = crates.join("store/src/sqlite/retention.rs");
    let mut guilty = Vec::new();
    for (path, text) in all_sources() {
        let is_test = path.components().any(|part| {
            let part = part.as_os_str().to_string_lossy();
            part == "tests" || part.starts_with("tests.") || part == "suite"
        });
        if is_test {
            continue;
        }
        // Built from parts, or this file would find itself.
        for (verb, rest) in [("UPDATE", ""), ("DELETE", "FROM "), ("TRUNCATE", "")] {
            for table in ["event", "noetl.event"] {
                let statement = format!("{verb} {rest}{table}");
                let is_whole = |at: usize| {
                    let next = text.as_bytes().get(at + statement.len());
                    next.is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
                };
                let is_there = text.match_indices(&statement).any(|(at, _)| is_whole(at));
                let is_allowed = verb == "DELETE" && path == may_delete;
                if is_there && !is_allowed {
                    guilty.push(format!("{statement} in {}", path.display()));
                }
            }
        }
    }
    assert_eq!(guilty, Vec::<String>::new());
}
