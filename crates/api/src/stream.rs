//! The stream of all events: its status and its feed.

use noetl_types::{FeedPosition, Json, Text, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Status of event publishing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamStatus {
    /// True if this server takes part in publishing.
    pub enabled: bool,
    /// State of the publisher: `off`, `starting`, `standby`, `publishing` or `failing`.
    pub state: Text,
    /// Problem that prevents publishing, or a difference between the stream and its expected
    /// configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Text>,
    /// Server that publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Text>,
    /// Number of publisher changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Position up to which all events are published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<FeedPosition>,
    /// Log epoch.
    pub log_epoch: u64,
    /// Time at which the broker created the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_created_at: Option<Timestamp>,
    /// Number of events still to publish.
    pub lag_events: u64,
    /// Waiting time of the oldest of them, in milliseconds.
    pub lag_ms: u64,
    /// Age of the open transaction that holds back the feed, in milliseconds.
    pub horizon_age_ms: u64,
    /// Messages that the broker has acknowledged since this server started.
    pub published: u64,
    /// Acknowledged messages that the broker already had.
    pub duplicates: u64,
    /// Messages that refer to an event because it is too large.
    pub by_reference: u64,
    /// Events that can never be published and were set aside.
    pub undeliverable: u64,
    /// Messages that the broker had lost and that were published again.
    pub restored: u64,
    /// Number of times the stream was rebuilt.
    pub rebuilds: u64,
    /// True if the broker is connected.
    pub nats_connected: bool,
    /// Version of the broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nats_version: Option<Text>,
}

/// A page of the feed of all events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FeedResponse {
    /// Events in the form of the stream.
    pub events: Vec<Json>,
    /// Position of the next page.
    pub next: FeedPosition,
    /// True if more events may be available immediately.
    pub is_full: bool,
}
