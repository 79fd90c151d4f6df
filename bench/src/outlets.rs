//! Whether events leave the store while something is measured.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The outlets of a system: the outbox and the stream.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum Outlets {
    /// Events stay in the store.
    #[default]
    Off,
    /// Each event has a row in the outbox, and goes to a NATS server.
    On,
}
