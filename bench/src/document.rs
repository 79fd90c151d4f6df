//! Everything that was measured, as it is kept in a file.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::BenchError;
use crate::outlets::Outlets;
use crate::peers::PeersDocument;
use crate::scale::Scale;
use crate::site::StoreKind;
use crate::system::ShapeKind;
use crate::workload::Measurement;

/// All rounds of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Where and when.
    pub meta: Meta,
    /// What each round gave.
    pub rounds: Vec<Round>,
}

/// Where and when something was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// When it began.
    pub date: String,
    /// How many processors the machine has.
    pub cores: usize,
    /// Its kernel.
    pub kernel: String,
    /// What the stores lie on.
    pub filesystem: String,
    /// The version of the product.
    pub version: String,
    /// Whether it was built for speed.
    pub optimised: bool,
    /// How much was done.
    pub scale: Scale,
}

/// One pass over the peers and over all systems.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Round {
    /// Our systems.
    pub systems: Vec<SystemResult>,
    /// The document of the peers, as they wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<Value>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers_error: Option<String>,
}

/// What one system gave in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemResult {
    /// Its database.
    pub store: StoreKind,
    /// Its shape.
    pub shape: ShapeKind,
    /// Whether its events leave it.
    #[serde(default)]
    pub outlets: Outlets,
    /// What durability rests on, as the store told.
    pub durability: BTreeMap<String, String>,
    /// What was measured.
    pub measurements: Vec<Measurement>,
    /// How many runs were found whole in the log.
    pub checked_runs: u64,
    /// What went wrong, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl SystemResult {
    /// How tables call it.
    pub(crate) fn name(&self) -> String {
        system_name(self.store, self.shape, self.outlets)
    }
}

pub(crate) fn system_name(store: StoreKind, shape: ShapeKind, outlets: Outlets) -> String {
    let (store, shape) = (store.as_str(), shape.as_str());
    match outlets {
        Outlets::Off => format!("{store} {shape}"),
        Outlets::On => format!("{store} {shape}, outlets"),
    }
}

impl Document {
    /// Reads a document.
    pub fn read(path: &Path) -> Result<Self, BenchError> {
        let bytes = std::fs::read(path).map_err(BenchError::io(path.display().to_string()))?;
        serde_json::from_slice(&bytes).map_err(|source| BenchError::Document {
            path: path.to_owned(),
            source,
        })
    }

    /// Writes it.
    pub fn write(&self, path: &Path) -> Result<(), BenchError> {
        let document = |source| BenchError::Document {
            path: path.to_owned(),
            source,
        };
        let mut text = serde_json::to_string_pretty(self).map_err(document)?;
        text.push('\n');
        std::fs::write(path, text).map_err(BenchError::io(path.display().to_string()))
    }

    /// All that went wrong, each with its place.
    pub fn errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        for (number, round) in self.rounds.iter().enumerate() {
            let place = format!("round {}", number + 1);
            for system in &round.systems {
                if let Some(error) = &system.error {
                    errors.push(format!("{place}, {}: {error}", system.name()));
                }
            }
            errors.extend(round.peer_errors().map(|error| format!("{place}, {error}")));
        }
        errors
    }
}

impl Round {
    /// What of the peers' document is compared; nothing where there is none.
    pub(crate) fn peers(&self) -> Option<PeersDocument> {
        PeersDocument::of(self.peers.as_ref()?).ok()
    }

    fn peer_errors(&self) -> impl Iterator<Item = String> {
        let of_harness = self.peers_error.clone();
        let peers = self.peers().unwrap_or_default().peers.into_iter();
        let of_peers = peers.filter_map(|(name, peer)| Some(format!("{name}: {}", peer.error?)));
        of_harness.into_iter().chain(of_peers)
    }
}
