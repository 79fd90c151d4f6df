//! Recorded logs. Their folded state never changes without a new fold version.

use std::fs;
use std::path::{Path, PathBuf};

use noetl_engine::replay::{LogReader, OrderedFold, REPLAY_FOLD_VERSION, ReplayError, ReplayState};
use noetl_types::Json;
use noetl_types::json::{InvalidJson, JsonRef};
use noetl_types::record::EventRecord;
use noetl_types::replay::ReplayRow;

use crate::replay::empty_state;

fn corpus_logs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/corpus/logs");
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "jsonl"))
        .collect();
    paths.sort();
    paths
}

fn read_records(path: &Path) -> Vec<EventRecord> {
    let text = fs::read_to_string(path).unwrap();
    let mut reader = LogReader::default();
    text.lines().filter_map(|line| reader.read(line).unwrap()).collect()
}

fn replay_in_order(records: Vec<EventRecord>) -> ReplayState {
    let mut state = OrderedFold::new(empty_state(&records));
    for record in records {
        state.push(record).unwrap();
    }
    state.finish().unwrap()
}

#[test]
fn corpus_checksums_are_stable() {
    let mut table = format!("fold version {REPLAY_FOLD_VERSION}\n");
    let logs = corpus_logs();
    assert!(logs.len() >= 40, "{} logs", logs.len());
    for path in logs {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let state = replay_in_order(read_records(&path));
        let checksums = state.checksums();
        table.push_str(&format!(
            "{name:<36} {:>3} {:<9} {}\n",
            state.version(),
            state.status(),
            checksums.whole
        ));
    }
    insta::assert_snapshot!(table);
}

/// A replay from raw JSON text equals a replay from parsed values.
#[test]
fn raw_json_rows_fold_to_same_state() {
    for path in corpus_logs() {
        let whole = replay_in_order(read_records(&path));
        let mut records = read_records(&path);
        records.sort_by_key(|record| record.seq);
        records.dedup_by_key(|record| record.seq);
        let mut state = empty_state(&records);
        for record in &records {
            let event = &record.event;
            let text = |value: &Option<Json>| value.as_ref().map(Json::to_string);
            let (context, result) = (text(&event.context), text(&event.result));
            let (meta, payload_ref) = (text(&event.meta), text(&event.payload_ref));
            let row = ReplayRow {
                context: context.as_deref().map(JsonRef::Text),
                result: result.as_deref().map(JsonRef::Text),
                meta: meta.as_deref().map(JsonRef::Text),
                payload_ref: payload_ref.as_deref().map(JsonRef::Text),
                ..ReplayRow::from(record)
            };
            state.apply_row(&row).unwrap();
        }
        assert_eq!(state, whole, "{}", path.display());
    }
}

/// Damaged JSON is an error, not an event with missing fields.
#[test]
fn damaged_event_is_reported() {
    let path = &corpus_logs()[0];
    let records = read_records(path);
    for damaged in ["{\"loop_id\":", "{\"a\" 1}", "nothing"] {
        let row = ReplayRow { meta: Some(JsonRef::Text(damaged)), ..ReplayRow::from(&records[0]) };
        let error = empty_state(&records).apply_row(&row).unwrap_err();
        let (event_id, seq) = (records[0].event.event_id, records[0].seq);
        let cause = InvalidJson;
        assert_eq!(error, ReplayError::Damaged { event_id, seq, cause });
    }
}

/// Full replayed state of the logs of earlier releases, as reviewable snapshots.
#[test]
fn classic_logs_fold_to_expected_state() {
    for path in corpus_logs() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("classic") {
            continue;
        }
        let text =
            serde_json::to_string_pretty(replay_in_order(read_records(&path)).replayed()).unwrap();
        insta::assert_snapshot!(name, text);
    }
}
