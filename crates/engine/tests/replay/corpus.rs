//! Recorded logs: what they fold to never changes without a new version of the fold.

use std::fs;
use std::path::{Path, PathBuf};

use noetl_engine::replay::{InOrder, LogReader, REPLAY_FOLD_VERSION, ReplayError, ReplayState};
use noetl_types::Json;
use noetl_types::json::{JsonRef, NoJson};
use noetl_types::record::EventRecord;
use noetl_types::replay::Gist;

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

/// A replay that reads rows where they lie sees in a text what it sees in a value.
#[test]
fn every_log_folds_to_the_same_from_texts() {
    for path in logs() {
        let whole = replay(records(&path));
        let mut records = records(&path);
        records.sort_by_key(|record| record.seq);
        records.dedup_by_key(|record| record.seq);
        let mut state = empty(&records);
        for record in &records {
            let event = &record.event;
            let text = |value: &Option<Json>| value.as_ref().map(Json::to_string);
            let (context, result) = (text(&event.context), text(&event.result));
            let (meta, payload_ref) = (text(&event.meta), text(&event.payload_ref));
            let gist = Gist {
                context: context.as_deref().map(JsonRef::Text),
                result: result.as_deref().map(JsonRef::Text),
                meta: meta.as_deref().map(JsonRef::Text),
                payload_ref: payload_ref.as_deref().map(JsonRef::Text),
                ..Gist::from(record)
            };
            state.apply_gist(&gist).unwrap();
        }
        assert_eq!(state, whole, "{}", path.display());
    }
}

/// What is not what was written is no event that says little.
#[test]
fn a_damaged_event_is_named() {
    let path = &logs()[0];
    let records = records(path);
    for damaged in ["{\"loop_id\":", "{\"a\" 1}", "nothing"] {
        let gist = Gist {
            meta: Some(JsonRef::Text(damaged)),
            ..Gist::from(&records[0])
        };
        let error = empty(&records).apply_gist(&gist).unwrap_err();
        let (event_id, seq) = (records[0].event.event_id, records[0].seq);
        let cause = NoJson;
        assert_eq!(
            error,
            ReplayError::Damaged {
                event_id,
                seq,
                cause
            }
        );
    }
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
