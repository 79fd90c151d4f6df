//! Recorded logs: what they fold to never changes without a new version of the fold.

use std::fs;
use std::path::{Path, PathBuf};

use noetl_engine::replay::{InOrder, LogReader, REPLAY_FOLD_VERSION, ReplayState};
use noetl_types::record::EventRecord;

use crate::empty;

fn logs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/corpus/logs");
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "jsonl"))
        .collect();
    paths.sort();
    paths
}

fn records(path: &Path) -> Vec<EventRecord> {
    let text = fs::read_to_string(path).unwrap();
    let mut reader = LogReader::default();
    text.lines()
        .filter_map(|line| reader.read(line).unwrap())
        .collect()
}

fn replay(records: Vec<EventRecord>) -> ReplayState {
    let mut state = InOrder::new(empty(&records));
    for record in records {
        state.push(record).unwrap();
    }
    state.finish().unwrap()
}

#[test]
fn every_log_folds_to_what_it_always_folded_to() {
    let mut table = format!("fold version {REPLAY_FOLD_VERSION}\n");
    let logs = logs();
    assert!(logs.len() >= 40, "{} logs", logs.len());
    for path in logs {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let state = replay(records(&path));
        let sums = state.checksums();
        table.push_str(&format!(
            "{name:<36} {:>3} {:<9} {}\n",
            state.version(),
            state.status(),
            sums.whole
        ));
    }
    insta::assert_snapshot!(table);
}

/// The whole state of the logs of other systems, to be read by people.
#[test]
fn logs_of_other_systems() {
    for path in logs() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("classic") {
            continue;
        }
        let text = serde_json::to_string_pretty(replay(records(&path)).replayed()).unwrap();
        insta::assert_snapshot!(name, text);
    }
}
