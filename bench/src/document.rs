//! Document with all measurements, as stored in a file.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::BenchError;
use crate::peers::PeersDocument;
use crate::publishing::PublishingMode;
use crate::scale::WorkloadScale;
use crate::store_site::StoreKind;
use crate::system::ShapeKind;
use crate::workload::Measurement;

/// All rounds of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchDocument {
    pub meta: SessionMeta,
    pub rounds: Vec<MeasurementRound>,
}

/// Environment of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionMeta {
    /// Start of the session.
    pub date: String,
    /// Number of processors.
    pub cores: usize,
    pub kernel: String,
    /// File system of the stores.
    pub filesystem: String,
    /// Version of the product.
    pub version: String,
    /// True for a release build.
    pub optimised: bool,
    /// Amount of work.
    pub scale: WorkloadScale,
}

/// One pass over the peers and over all systems.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MeasurementRound {
    /// Results of NoETL.
    pub systems: Vec<SystemResult>,
    /// Unchanged document of the peers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<Value>,
    /// Reason for which the peers' document is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers_error: Option<String>,
}

/// Result of one system in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemResult {
    pub store: StoreKind,
    pub shape: ShapeKind,
    /// Publishing mode of its events.
    #[serde(default)]
    pub publishing: PublishingMode,
    /// Durability settings as reported by the store.
    pub durability: BTreeMap<String, String>,
    pub measurements: Vec<Measurement>,
    /// Number of runs that were found complete in the log.
    pub checked_runs: u64,
    /// Error, if the measurement failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl SystemResult {
    /// Name in tables.
    pub(crate) fn display_name(&self) -> String {
        system_name(self.store, self.shape, self.publishing)
    }
}

pub(crate) fn system_name(
    store: StoreKind,
    shape: ShapeKind,
    publishing: PublishingMode,
) -> String {
    let (store, shape) = (store.as_str(), shape.as_str());
    match publishing {
        PublishingMode::Off => format!("{store} {shape}"),
        PublishingMode::On => format!("{store} {shape}, publishing"),
    }
}

impl BenchDocument {
    pub fn read(path: &Path) -> Result<Self, BenchError> {
        let bytes =
            std::fs::read(path).map_err(BenchError::io_error(path.display().to_string()))?;
        serde_json::from_slice(&bytes)
            .map_err(|source| BenchError::Document { path: path.to_owned(), source })
    }

    pub fn write(&self, path: &Path) -> Result<(), BenchError> {
        let document_error = |source| BenchError::Document { path: path.to_owned(), source };
        let mut text = serde_json::to_string_pretty(self).map_err(document_error)?;
        text.push('\n');
        std::fs::write(path, text).map_err(BenchError::io_error(path.display().to_string()))
    }

    /// Returns all errors, each with its round and system.
    pub fn all_errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        for (number, round) in self.rounds.iter().enumerate() {
            let label = format!("round {}", number + 1);
            for system in &round.systems {
                if let Some(error) = &system.error {
                    errors.push(format!("{label}, {}: {error}", system.display_name()));
                }
            }
            errors.extend(round.peer_errors().map(|error| format!("{label}, {error}")));
        }
        errors
    }
}

impl MeasurementRound {
    /// Parses the compared parts of the peers' document, if there is one.
    pub(crate) fn peers(&self) -> Option<PeersDocument> {
        PeersDocument::from_raw(self.peers.as_ref()?).ok()
    }

    fn peer_errors(&self) -> impl Iterator<Item = String> {
        let harness_error = self.peers_error.clone();
        let peers = self.peers().unwrap_or_default().peers.into_iter();
        let peer_errors = peers.filter_map(|(name, peer)| Some(format!("{name}: {}", peer.error?)));
        harness_error.into_iter().chain(peer_errors)
    }
}
