//! Peers: other engines, measured by their own harness at the same time on the same machine.
//!
//! Owns the call of that harness and the parsing of its document. A peer that is a queue has no
//! durable steps, so it is an upper bound and not a competitor.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;
use serde_json::Value;
use tokio::process::Command;

use crate::error::BenchError;
use crate::workload::Workload;

/// Location and options of the peers' harness.
#[derive(Debug, Clone)]
pub struct PeerHarness {
    /// Its folder, with a program `run`.
    pub folder: PathBuf,
    /// True to do a tenth of the work.
    pub quick: bool,
}

/// Engines with durable runs, used for the comparison.
pub(crate) const DURABLE_PEERS: [&str; 3] = ["restate", "dbos-ts", "dbos-py"];

impl PeerHarness {
    /// Runs all peers. Returns their document unchanged, so that nothing is lost.
    pub(crate) async fn run(&self, workloads: &[Workload]) -> Result<Value, BenchError> {
        let folder = tempfile::tempdir().map_err(BenchError::io_error("a temporary folder"))?;
        let file = folder.path().join("peers.json");
        let supported = [Workload::W1, Workload::W2, Workload::W3, Workload::W4, Workload::W5];
        let selected: Vec<&str> = supported
            .into_iter()
            .filter(|workload| workloads.contains(workload))
            .map(Workload::as_str)
            .collect();
        let mut command = Command::new(self.folder.join("run"));
        command.arg("--json").arg(&file);
        if selected.is_empty() {
            command.args(["--peers", "raw"]);
        } else {
            command.args(["--workloads", &selected.join(",")]);
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
            .map_err(BenchError::io_error(format!("{}/run", self.folder.display())))?;
        // The document contains the errors of failed peers. Only a missing document is an error
        // here.
        read_peers_document(&file)
            .map_err(|error| BenchError::Peers(format!("{status}: {}", error.full_message())))
    }
}

fn read_peers_document(file: &Path) -> Result<Value, BenchError> {
    let bytes = std::fs::read(file).map_err(BenchError::io_error("the document of the peers"))?;
    serde_json::from_slice(&bytes)
        .map_err(|source| BenchError::Document { path: file.to_owned(), source })
}

/// Compared parts of the peers' document. The raw document keeps everything else.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct PeersDocument {
    #[serde(default)]
    pub(crate) peers: BTreeMap<String, PeerResult>,
}

impl PeersDocument {
    pub(crate) fn from_raw(raw: &Value) -> Result<Self, BenchError> {
        Self::deserialize(raw).map_err(|error| BenchError::Peers(error.to_string()))
    }
}

/// Results of one peer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct PeerResult {
    pub(crate) w1: BTreeMap<String, PeerFigure>,
    pub(crate) w2: BTreeMap<String, PeerFigure>,
    pub(crate) w3: BTreeMap<String, PeerFigure>,
    pub(crate) w4: BTreeMap<String, PeerFigure>,
    pub(crate) w5: Option<PeerIdle>,
    pub(crate) limits: BTreeMap<String, PeerFigure>,
    pub(crate) error: Option<String>,
}

/// Figures of one variant of one workload. Each has some of these.
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

/// An idle peer: memory by part, and start times in seconds by part. The last start time is that of
/// the first accepted run.
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
    fn parses_only_compared_fields() {
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
        let document = PeersDocument::from_raw(&raw).unwrap();
        let restate = &document.peers["restate"];
        assert_eq!(restate.w1["service"].p50_ms, Some(7.0));
        let last = restate.w5.as_ref().unwrap().first_start_s.values().next_back();
        assert_eq!(last.and_then(Value::as_f64), Some(1.83));
        let limit = &document.peers["raw"].limits["fdatasync, 8 kB write"];
        assert_eq!(limit.unit.as_deref(), Some("syncs/s"));
        assert_eq!(document.peers["dbos-ts"].error.as_deref(), Some("not installed"));
    }
}
