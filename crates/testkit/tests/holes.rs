//! Every hole that a naive build of the platform has is named by a test that would find it here.
//!
//! A test names a hole by the beginning of its name (`t7_one_publisher…`, `o3_o5_only_a_row…`) or in
//! its comment (`/// Hole D1.`). It counts where it runs: one that is ignored finds nothing. T is for the stream, O for the outbox, P for the projector, D for
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

/// A function of the sources, as far as it may be a test.
#[derive(Debug, PartialEq)]
struct Function<'t> {
    name: &'t str,
    /// The holes that its comment and the beginning of its name tell of.
    holes: Vec<String>,
    is_test: bool,
    is_ignored: bool,
}

/// The holes that a comment names.
fn commented(line: &str) -> Vec<String> {
    let Some(rest) = line.strip_prefix("/// Hole") else {
        return Vec::new();
    };
    let rest = rest.trim_start_matches('s').trim_end_matches('.');
    rest.split([',', ' ']).filter_map(code).collect()
}

/// The name of the function that a line begins.
fn begun(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_kind = |word: &str| matches!(word, "async" | "const") || word.starts_with("pub");
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let name = rest.split(|letter| !is_of_name(letter)).next()?;
    (!name.is_empty() && before.split_whitespace().all(is_kind)).then_some(name)
}

fn functions(text: &str) -> Vec<Function<'_>> {
    let mut found = Vec::new();
    let (mut holes, mut is_test, mut is_ignored) = (Vec::new(), false, false);
    for line in text.lines().map(str::trim) {
        if line.is_empty() {
            // What is above belongs to something else.
            (holes, is_test, is_ignored) = (Vec::new(), false, false);
        }
        holes.extend(commented(line));
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        is_ignored |= line.starts_with("#[ignore");
        if let Some(name) = begun(line) {
            let words = name.split('_').skip_while(|word| *word == "heavy");
            holes.extend(words.map_while(code));
            found.push(Function {
                name,
                holes,
                is_test,
                is_ignored,
            });
            (holes, is_test, is_ignored) = (Vec::new(), false, false);
        }
    }
    found
}

/// How often each name occurs.
fn occurrences<'t>(texts: impl Iterator<Item = &'t String>) -> BTreeMap<&'t str, usize> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut counts = BTreeMap::new();
    for word in texts.flat_map(|text| text.split(move |letter| !is_of_name(letter))) {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

#[test]
fn every_hole_is_named_by_a_test_that_runs() {
    let mut sources = all_sources();
    // This file has examples of names, which are no tests.
    sources.retain(|path, _| !path.ends_with("testkit/tests/holes.rs"));
    let counts = occurrences(sources.values());
    let is_run = |function: &Function<'_>| {
        // What is no test itself is one where a suite or a test names it.
        let is_named = counts.get(function.name).is_some_and(|count| *count > 1);
        !function.is_ignored && (function.is_test || is_named)
    };
    let found: BTreeSet<String> = sources
        .values()
        .flat_map(|text| functions(text))
        .filter(is_run)
        .flat_map(|function| function.holes)
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
    let text = "
        /// Holes D1, D2.
        ///
        /// Why.
        #[tokio::test(flavor = \"multi_thread\")]
        async fn o3_o5_only_a_row() {}

        /// Hole T18.

        #[ignore = \"long\"]
        #[test]
        fn heavy_t10_ten_thousand() {}
        pub(crate) async fn two_servers(bench: &Bench) {}
        let text = \"fn t1_no_function\";
    ";
    let read: Vec<_> = functions(text)
        .into_iter()
        .map(|it| (it.name, it.holes.join(" "), it.is_test, it.is_ignored))
        .collect();
    let expected = [
        ("o3_o5_only_a_row", "D1 D2 O3 O5".to_owned(), true, false),
        ("heavy_t10_ten_thousand", "T10".to_owned(), true, true),
        ("two_servers", String::new(), false, false),
    ];
    assert_eq!(read, expected);
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
