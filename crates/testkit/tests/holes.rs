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

fn sources(folder: &Path, kinds: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let kind = path.extension().and_then(|kind| kind.to_str());
        if path.is_dir() {
            sources(&path, kinds, found);
        } else if kind.is_some_and(|kind| kinds.contains(&kind)) {
            found.push(path);
        }
    }
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn all_sources(kinds: &[&str]) -> BTreeMap<PathBuf, String> {
    let mut paths = Vec::new();
    sources(&crates(), kinds, &mut paths);
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
    let mut sources = all_sources(&["rs"]);
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

/// What changes or takes away rows of a table, whose name follows.
const CHANGES: &[&str] = &[
    "UPDATE",
    "DELETE FROM",
    "TRUNCATE",
    "TRUNCATE TABLE",
    "MERGE INTO",
];

/// Whether a word begins with the name of the log, however it is written.
fn is_log(word: &str) -> bool {
    let word = word.trim_start_matches('"');
    let name = match word.split_once('.') {
        Some((schema, name)) if schema.eq_ignore_ascii_case("noetl") => name,
        Some(_) | None => word,
    };
    let Some((name, rest)) = name.split_at_checked("event".len()) else {
        return false;
    };
    // What follows at once is the end of the statement, or of the text around it.
    let goes_on = rest.starts_with(|it: char| it.is_alphanumeric() || it == '_');
    name.eq_ignore_ascii_case("event") && !goes_on
}

/// Whether words end with those of a change.
fn ends_with(words: &[&str], change: &str) -> bool {
    let mut words = words.iter().rev();
    change.rsplit(' ').all(|expected| {
        // A statement may begin right behind a quote or a bracket.
        let word = words
            .next()
            .and_then(|it| it.rsplit(['"', '(', '`']).next());
        word.is_some_and(|word| word.eq_ignore_ascii_case(expected))
    })
}

/// The statements of a text that change an event in its place, or take single ones away. How a statement
/// is broken into lines, and whether it is shouted, makes no difference to a database.
fn changes_of_events(text: &str) -> Vec<&'static str> {
    // In sources a line may go on behind a backslash.
    let is_between = |letter: char| letter.is_whitespace() || letter == '\\';
    let words: Vec<&str> = text
        .split(is_between)
        .filter(|word| !word.is_empty() && !word.eq_ignore_ascii_case("ONLY"))
        .collect();
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if is_log(word) {
            found.extend(CHANGES.iter().filter(|it| ends_with(&words[..at], it)));
        }
    }
    found
}

#[test]
fn changes_of_events_are_found() {
    // Built from parts, or this file would find itself.
    let statement = |before: &str, table: &str, behind: &str| format!("{before} {table}{behind}");
    for (before, table, behind) in [
        ("UPDATE", "event", " SET a = 1"),
        ("UPDATE", "event", ""),
        ("const SQL: &str = \"UPDATE", "noetl.event", "\";"),
        ("WITH a AS (DELETE\n    FROM", "event", "\n)"),
        ("DELETE FROM \\\n   ONLY", "\"event\"", ";"),
        ("truncate table", "event", ";"),
        ("TRUNCATE", "event", ", execution"),
        ("MERGE INTO", "event", " AS kept"),
    ] {
        let text = statement(before, table, behind);
        assert_eq!(changes_of_events(&text).len(), 1, "{text}");
    }
    for (before, table, behind) in [
        ("UPDATE", "event_counts", " SET a = 1"),
        ("DELETE FROM", "execution", " -- event"),
        ("SELECT * FROM", "event", " FOR UPDATE"),
        ("INSERT INTO", "event", " (a)"),
    ] {
        let text = statement(before, table, behind);
        assert_eq!(changes_of_events(&text), Vec::<&str>::new(), "{text}");
    }
}

/// Hole P7.
///
/// No statement changes an event in its place, and none takes single ones away but that of
/// retention where a month is no table of its own: it cleans the log up like other tables.
#[test]
fn no_statement_changes_an_event() {
    let may_delete = crates().join("store/src/sqlite/retention.rs");
    let mut guilty = Vec::new();
    let sources = all_sources(&["rs", "sql"]);
    let of_migrations = |path: &&PathBuf| path.extension().is_some_and(|kind| kind == "sql");
    assert!(sources.keys().filter(of_migrations).count() > 20);
    for (path, text) in sources {
        let is_test = path.components().any(|part| {
            let part = part.as_os_str().to_string_lossy();
            part == "tests" || part.starts_with("tests.") || part == "suite"
        });
        if is_test {
            continue;
        }
        for change in changes_of_events(&text) {
            guilty.push(format!("{change} event in {}", path.display()));
        }
        // Built from parts, or this file would find itself.
        let is_cleaned = text.contains(&format!("table: {:?}", "event"));
        assert_eq!(is_cleaned, path == may_delete, "{}", path.display());
    }
    assert_eq!(guilty, Vec::<String>::new());
}
