//! Publishing of events during a measurement.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Publishing mode of a system: the outbox and the stream.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum PublishingMode {
    /// Events stay in the store
    #[default]
    Off,
    /// Each event has a row in the outbox and is published to a NATS server
    On,
}
