//! What holds of the fold of any log.

use noetl_engine::replay::{InOrder, LogReader, ReplayState, fold};
use noetl_testkit::sim::SplitMix;
use noetl_types::Json;
use noetl_types::json::{parse, to_canonical};
use noetl_types::record::EventRecord;
use noetl_types::sha256;
use proptest::prelude::*;

use crate::{empty, replay, run};

fn shuffled(mut records: Vec<EventRecord>, seed: u64) -> Vec<EventRecord> {
    let mut chance = SplitMix::new(seed);
    for at in (1..records.len()).rev() {
        records.swap(at, chance.below(at + 1));
    }
    records
}

/// An event as `GET /api/executions/{id}/events` shows it.
fn as_api(record: &EventRecord) -> String {
    const SHOWN: [&str; 16] = [
        "event_id",
        "seq",
        "execution_id",
        "event_type",
        "node_id",
        "node_name",
        "status",
        "created_at",
        "timestamp",
        "duration",
        "context",
        "result",
        "error",
        "catalog_id",
        "worker_id",
        "meta",
    ];
    let body = parse(&to_canonical(record)).unwrap();
    let shown = body
        .as_map()
        .unwrap()
        .iter()
        .filter(|(key, _)| SHOWN.contains(&&***key));
    let shown = shown.map(|(key, value)| {
        let is_id = key.ends_with("_id") && value.as_i64().is_some();
        let value = if is_id {
            Json::from(value.to_string())
        } else {
            value.clone()
        };
        (key.clone(), value)
    });
    Json::object(shown).to_string()
}

fn read(records: &[EventRecord], write: impl Fn(&EventRecord) -> String) -> ReplayState {
    let mut reader = LogReader::default();
    let mut state = InOrder::new(empty(records));
    for record in records {
        state
            .push(reader.read(&write(record)).unwrap().unwrap())
            .unwrap();
    }
    state.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_order_of_input(seed in any::<u64>(), world in any::<u64>(), order in any::<u64>()) {
        let records = run(seed, world).records();
        let whole = replay(&records);
        let mixed = shuffled(records.clone(), order);
        prop_assert_eq!(&fold(empty(&records), mixed.clone()).unwrap(), &whole);
        let mut one_by_one = InOrder::new(empty(&records));
        for record in mixed {
            one_by_one.push(record).unwrap();
        }
        prop_assert_eq!(one_by_one.finish().unwrap(), whole);
    }

    /// A snapshot anywhere, and the fold of the rest, is the fold of the whole.
    #[test]
    fn any_split(seed in any::<u64>(), world in any::<u64>(), cut in any::<usize>()) {
        let records = run(seed, world).records();
        let whole = replay(&records);
        let (head, tail) = records.split_at(cut % (records.len() + 1));
        let mut state = empty(&records);
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

    /// A log as streams carry it and one as the API shows it say the same.
    #[test]
    fn any_way_in(seed in any::<u64>(), world in any::<u64>()) {
        let records = run(seed, world).records();
        let whole = replay(&records);
        let streamed = read(&records, |record| String::from_utf8(to_canonical(record)).unwrap());
        prop_assert_eq!(streamed.replayed(), whole.replayed());
        let shown = read(&records, as_api);
        prop_assert_eq!(shown.replayed(), whole.replayed());
    }

    /// What goes over the wire sums to what it says.
    #[test]
    fn the_checksum_is_that_of_the_wire(seed in any::<u64>(), world in any::<u64>()) {
        let whole = replay(&run(seed, world).records());
        let wire = serde_json::to_vec(whole.replayed()).unwrap();
        let canonical = to_canonical(&parse(&wire).unwrap());
        prop_assert_eq!(whole.checksums().whole, sha256(canonical));
    }
}
