use std::collections::BTreeMap;

use serde_json::json;

use super::render_report;
use crate::document::{BenchDocument, MeasurementRound, SessionMeta, SystemResult};
use crate::metric::Metric;
use crate::publishing::PublishingMode;
use crate::scale::WorkloadScale;
use crate::store_site::StoreKind;
use crate::system::ShapeKind;
use crate::workload::{Measurement, Workload};

fn sample_measurement(workload: Workload, other: f64, figures: &[(Metric, f64)]) -> Measurement {
    Measurement {
        workload,
        figures: figures.iter().copied().collect(),
        cpu: BTreeMap::from([("other".to_owned(), other)]),
        runs: 1,
        commits: None,
    }
}

fn sample_system(latency: f64, other: f64, error: Option<&str>) -> SystemResult {
    SystemResult {
        store: StoreKind::Sqlite,
        shape: ShapeKind::Embedded,
        publishing: PublishingMode::Off,
        durability: BTreeMap::new(),
        measurements: vec![
            sample_measurement(
                Workload::W1,
                other,
                &[(Metric::RunP50Ms, latency), (Metric::RunP99Ms, 4.0)],
            ),
            sample_measurement(Workload::W2, 3.0, &[(Metric::RunsPerS, 1200.0)]),
            sample_measurement(Workload::W4, 3.0, &[(Metric::FanOutS, 0.35)]),
        ],
        checked_runs: 1,
        error: error.map(str::to_owned),
    }
}

fn sample_document(rounds: Vec<MeasurementRound>) -> BenchDocument {
    BenchDocument {
        meta: SessionMeta {
            date: "2026-01-01T00:00:00Z".to_owned(),
            cores: 2,
            kernel: "6.1".to_owned(),
            filesystem: "ext4".to_owned(),
            version: "0.1.0".to_owned(),
            optimised: true,
            scale: WorkloadScale::FULL,
        },
        rounds,
    }
}

fn sample_peers() -> serde_json::Value {
    let quiet = json!({"other": 1.0});
    json!({"peers": {
        "restate": {
            "w1": {"service": {"p50_ms": 7.0, "p99_ms": 19.0, "cpu": quiet},
                   "keyed": {"p50_ms": 6.0, "p99_ms": 11.0, "cpu": quiet}},
            "w2": {"service": {"runs_per_s": 600.0, "cpu": {"other": 50.0}}},
            "w4": {"child runs": {"seconds": 0.7, "cpu": quiet}, "steps": {"seconds": 1.1, "cpu": quiet}},
        },
        "pgboss": {"w1": {"queue": {"p50_ms": 4.0, "p99_ms": 7.7, "cpu": quiet}}},
        "raw": {"limits": {
            "SQLite WAL FULL, one row per commit": {"value": 4000.0, "unit": "commits/s", "cpu": quiet}}},
    }})
}

fn sample_round(system: SystemResult) -> MeasurementRound {
    MeasurementRound { systems: vec![system], peers: Some(sample_peers()), peers_error: None }
}

#[test]
fn compares_with_best_durable_peer_not_queues() {
    let text = render_report(&sample_document(vec![sample_round(sample_system(1.5, 1.0, None))]));
    assert!(text.contains("| W1 p50 ms | 6.00 (restate, keyed) | 1.50 (x4.00) |"), "{text}");
    assert!(text.contains("| W2 runs/s | 600 (!) (restate) | 1200 (x2.00) |"), "{text}");
    assert!(text.contains("child runs | 0.70 (restate) | 0.35 (x2.00) |"), "{text}");
    assert!(text.contains("| pgboss | queue | 4.00 / 7.70 |"), "{text}");
    assert!(text.contains("| 0.25 ms a commit | 1.50 ms | 6.00 commits a run |"), "{text}");
}

#[test]
fn figure_is_median_with_its_disturbance_mark() {
    let rounds = [(1.0, 0.0), (9.0, 0.0), (2.0, 99.0)];
    let rounds = rounds.map(|(latency, other)| sample_round(sample_system(latency, other, None)));
    let text = render_report(&sample_document(rounds.to_vec()));
    assert!(text.contains("| sqlite embedded | 2.00 (!) / 4.00 |"), "{text}");
    assert!(text.contains("median of 3 rounds"), "{text}");
}

#[test]
fn failed_system_has_no_figures() {
    let broken =
        sample_document(vec![sample_round(sample_system(1.5, 1.0, Some("the log is wrong")))]);
    let text = render_report(&broken);
    assert!(!text.contains("1.50"), "{text}");
    assert!(text.ends_with("FAILED: round 1, sqlite embedded: the log is wrong\n"), "{text}");
    assert_eq!(broken.all_errors().len(), 1);
}

#[test]
fn document_round_trips_through_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.json");
    let before = sample_document(vec![sample_round(sample_system(1.5, 1.0, None))]);
    before.write(&file).unwrap();
    assert_eq!(BenchDocument::read(&file).unwrap(), before);
}
