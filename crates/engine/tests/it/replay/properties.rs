//! Properties of the replay fold.

use noetl_engine::replay::{LogReader, OrderedFold, ReplayState, fold_records};
use noetl_testkit::sim::SplitMix;
use noetl_types::Json;
use noetl_types::json::{parse, to_canonical};
use noetl_types::record::EventRecord;
use noetl_types::sha256;
use proptest::prelude::*;

use crate::replay::{empty_state, replay_records, run_generated};

fn shuffle_records(mut records: Vec<EventRecord>, seed: u64) -> Vec<EventRecord> {
    let mut rng = SplitMix::new(seed);
    for at in (1..records.len()).rev() {
        records.swap(at, rng.number_below(at + 1));
    }
    records
}

/// An event as returned by `GET /api/executions/{id}/events`.
fn to_api_json(record: &EventRecord) -> String {
    const API_FIELDS: [&str; 16] = [
        "event_id", "seq", "execution_id", "event_type", "node_id", "node_name", "status",
        "created_at", "timestamp", "duration", "context", "result", "error", "catalog_id",
        "worker_id", "meta",
    ];
    let body = parse(&to_canonical(record)).unwrap();
    let fields = body.as_map().unwrap().iter().filter(|(key, _)| API_FIELDS.contains(&&***key));
    let fields = fields.map(|(key, value)| {
        let is_id = key.ends_with("_id") && value.as_i64().is_some();
        let value = if is_id { Json::from(value.to_string()) } else { value.clone() };
        (key.clone(), value)
    });
    Json::object(fields).to_string()
}

fn replay_text(records: &[EventRecord], to_text: impl Fn(&EventRecord) -> String) -> ReplayState {
    let mut reader = LogReader::default();
    let mut state = OrderedFold::new(empty_state(records));
    for record in records {
        state.push(reader.read(&to_text(record)).unwrap().unwrap()).unwrap();
    }
    state.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn fold_is_independent_of_input_order(seed in any::<u64>(), world in any::<u64>(), order in any::<u64>()) {
        let records = run_generated(seed, world).to_records();
        let whole = replay_records(&records);
        let shuffled = shuffle_records(records.clone(), order);
        prop_assert_eq!(&fold_records(empty_state(&records), shuffled.clone()).unwrap(), &whole);
        let mut one_by_one = OrderedFold::new(empty_state(&records));
        for record in shuffled {
            one_by_one.push(record).unwrap();
        }
        prop_assert_eq!(one_by_one.finish().unwrap(), whole);
    }

    /// A snapshot at any position plus the remaining events equals the fold of all events.
    #[test]
    fn fold_resumes_from_any_snapshot(seed in any::<u64>(), world in any::<u64>(), cut in any::<usize>()) {
        let records = run_generated(seed, world).to_records();
        let whole = replay_records(&records);
        let (head, tail) = records.split_at(cut % (records.len() + 1));
        let mut state = empty_state(&records);
        for record in head {
            state.apply(record).unwrap();
        }
        let (bytes, checksum) = state.to_snapshot().unwrap();
        let mut state = ReplayState::from_snapshot(&bytes, &checksum).unwrap();
        for record in tail {
            state.apply(record).unwrap();
        }
        prop_assert_eq!(state.checksums(), whole.checksums());
        prop_assert_eq!(state, whole);
    }

    #[test]
    fn stream_and_api_formats_fold_equally(seed in any::<u64>(), world in any::<u64>()) {
        let records = run_generated(seed, world).to_records();
        let whole = replay_records(&records);
        let streamed = replay_text(&records, |record| String::from_utf8(to_canonical(record)).unwrap());
        prop_assert_eq!(streamed.replayed(), whole.replayed());
        let from_api = replay_text(&records, to_api_json);
        prop_assert_eq!(from_api.replayed(), whole.replayed());
    }

    /// The checksum equals the SHA-256 of the canonical JSON on the wire.
    #[test]
    fn checksum_matches_wire_json(seed in any::<u64>(), world in any::<u64>()) {
        let whole = replay_records(&run_generated(seed, world).to_records());
        let wire = serde_json::to_vec(whole.replayed()).unwrap();
        let canonical = to_canonical(&parse(&wire).unwrap());
        prop_assert_eq!(whole.checksums().whole, sha256(canonical));
    }
}
