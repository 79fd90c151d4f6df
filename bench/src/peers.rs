//! The peers: other engines, measured by their own harness in the same hour on the same machine.
//!
//! Owns how that harness is called and how its document is read. A peer that is a queue has no
//! durable steps, so it is a ceiling and not a rival.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;
use serde_json::Value;
use tokio::process::Command;

use crate::error::BenchError;
use crate::workload::Workload;

/// Where the harness of the peers is, and how it is called.
#[derive(Debug, Clone)]
pub struct Peers {
    /// Its folder, with a program `run`.
    pub folder: PathBuf,
    /// Whether a tenth of the work is enough.
    pub quick: bool,
}

/// Engines whose runs are durable: those that are compared with.
pub(crate) const DURABLE: [&str; 3] = ["restate", "dbos-ts", "dbos-py"];

impl Peers {
    /// Runs all peers. The document comes back as it was written, so that nothing of it is lost.
    pub(crate) async fn run(&self, workloads: &[Workload]) -> Result<Value, BenchError> {
        let folder = tempfile::tempdir().map_err(BenchError::io("a temporary folder"))?;
        let file = folder.path().join("peers.json");
        let known = [
            Workload::W1,
            Workload::W2,
            Workload::W3,
            Workload::W4,
            Workload::W5,
        ];
        let wanted: Vec<&str> = known
            .into_iter()
            .filter(|workload| workloads.contains(workload))
            .map(Workload::as_str)
            .collect();
        let mut command = Command::new(self.folder.join("run"));
        command.arg("--json").arg(&file);
        if wanted.is_empty() {
            command.args(["--peers", "raw"]);
        } else {
            command.args(["--workloads", &wanted.join(",")]);
        }
        if self.quick {
            command.arg("--quick");
        }
        let status = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .status()
            .await
            .map_err(BenchError::io(format!("{}/run", self.folder.display())))?;
        // A peer that failed says so in the document; only without one there is nothing to read.
        read(&file).map_err(|error| BenchError::Peers(format!("{status}: {}", error.told())))
    }
}

fn read(file: &Path) -> Result<Value, BenchError> {
    let bytes = std::fs::read(file).map_err(BenchError::io("their document"))?;
    serde_json::from_slice(&bytes).map_err(|source| BenchError::Document {
        path: file.to_owned(),
        source,
    })
}

/// What of the peers' document is compared. All else stays in the raw one.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct PeersDocument {
    #[serde(default)]
    pub(crate) peers: BTreeMap<String, Peer>,
}

impl PeersDocument {
    /// Reads the parts that are compared.
    pub(crate) fn of(raw: &Value) -> Result<Self, BenchError> {
        Self::deserialize(raw).map_err(|error| BenchError::Peers(error.to_string()))
    }
}

/// One peer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Peer {
    pub(crate) w1: BTreeMap<String, PeerFigure>,
    pub(crate) w2: BTreeMap<String, PeerFigure>,
    pub(crate) w3: BTreeMap<String, PeerFigure>,
    pub(crate) w4: BTreeMap<String, PeerFigure>,
    pub(crate) w5: Option<PeerIdle>,
    pub(crate) limits: BTreeMap<String, PeerFigure>,
    pub(crate) error: Option<String>,
}

/// One variant of one workload; each has some of these.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct PeerFigure {
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) runs_per_s: Option<f64>,
    pub(crate) seconds: Option<f64>,
    pub(crate) value: Option<f64>,
    pub(crate) unit: Option<String>,
    pub(crate) cpu: BTreeMap<String, f64>,
}

/// An idle peer: memory by part, and the seconds of its starts by part, the last of which is when a
/// run is accepted.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct PeerIdle {
    pub(crate) idle_mib: BTreeMap<String, BTreeMap<String, f64>>,
    pub(crate) first_start_s: serde_json::Map<String, Value>,
    pub(crate) restart_s: serde_json::Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compared_is_read_and_the_rest_is_passed_over() {
        let raw = serde_json::json!({
            "meta": {"date": "today"},
            "peers": {
                "restate": {
                    "versions": {},
                    "w1": {"service": {"n": 200, "p50_ms": 7.0, "p99_ms": 19.1, "cpu": {"other": 9.0}}},
                    "w5": {"idle_mib": {"server": {"rss": 267.0, "pss": 260.0}},
                           "first_start_s": {"a": 1.0, "b": 1.83}, "restart_s": {"b": 0.79}}
                },
                "raw": {"limits": {"fdatasync, 8 kB write":
                    {"value": 6269.0, "unit": "syncs/s", "cpu": {"other": 1.0}, "attempts": 1}}},
                "dbos-ts": {"error": "not installed"}
            }
        });
        let document = PeersDocument::of(&raw).unwrap();
        let restate = &document.peers["restate"];
        assert_eq!(restate.w1["service"].p50_ms, Some(7.0));
        let last = restate
            .w5
            .as_ref()
            .unwrap()
            .first_start_s
            .values()
            .next_back();
        assert_eq!(last.and_then(Value::as_f64), Some(1.83));
        let limit = &document.peers["raw"].limits["fdatasync, 8 kB write"];
        assert_eq!(limit.unit.as_deref(), Some("syncs/s"));
        assert_eq!(
            document.peers["dbos-ts"].error.as_deref(),
            Some("not installed")
        );
    }
}
