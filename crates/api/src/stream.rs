//! The stream of all events: where it stands, and what it carries.

use noetl_types::{FeedPosition, Json, Text, Timestamp};
use serde::{Deserialize, Serialize};

/// Where the stream stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamStatus {
    /// Whether this server takes part in publishing.
    pub enabled: bool,
    /// What it does: `off`, `starting`, `standby`, `publishing` or `troubled`.
    pub state: Text,
    /// What keeps it from publishing, or what the stream has otherwise than it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Text>,
    /// Which server publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Text>,
    /// How often the publisher has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Everything up to here is published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<FeedPosition>,
    /// The life of the log.
    pub log_epoch: u64,
    /// When the broker made the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_created_at: Option<Timestamp>,
    /// Events that are still to be published.
    pub lag_events: u64,
    /// For how long the first of them has waited.
    pub lag_ms: u64,
    /// For how long an open transaction has held the log back.
    pub horizon_age_ms: u64,
    /// Messages that the broker acknowledged since this server began.
    pub published: u64,
    /// Those of them that it had already.
    pub duplicates: u64,
    /// Those that refer to an event which is too large.
    pub by_reference: u64,
    /// Events that can never be published and were put aside.
    pub parked: u64,
    /// Messages that the broker had lost.
    pub restored: u64,
    /// How often the stream was made anew.
    pub rebuilds: u64,
    /// Whether the broker is reached.
    pub nats_connected: bool,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nats_version: Option<Text>,
}

/// A part of the feed of all events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FeedAnswer {
    /// The events, as the stream carries them.
    pub events: Vec<Json>,
    /// Where the next part begins.
    pub next: FeedPosition,
    /// Whether there may be more right now.
    pub is_full: bool,
}
