//! What a run looked like at any moment of it, folded from its log.
//!
//! Ids are numbers here, for the clients that have always read them so; those inside of entries are
//! texts.

use noetl_types::replay::{Projection, ProjectionChecksums, ReferenceSummary, Replayed};
use noetl_types::{Digest, EventId, ExecutionId, Json, OrganizationId, TenantId, Text, Timestamp};
use serde::{Deserialize, Serialize};

/// Where a replay stops, that event included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cut {
    /// At the end of the log.
    #[default]
    End,
    /// At an event.
    Event(EventId),
    /// At a place of the log; 0 is before the first event.
    Position(i64),
    /// At what was recorded by a time.
    Time(Timestamp),
}

/// Places of a log are far below this, and ids of events far above it.
pub const LEAST_EVENT_ID: i64 = 1 << 40;

/// What to replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayQuery {
    /// The run.
    pub execution_id: ExecutionId,
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Whose it is, inside of the tenant.
    pub organization_id: OrganizationId,
    /// Where to stop.
    pub cut: Cut,
    /// What the caller wants to see.
    pub projection: Projection,
    /// How many events at most; a longer log is told to be cut.
    pub limit: Option<u32>,
    /// Whether to look at the data that events refer to.
    pub resolve_payloads: bool,
}

impl ReplayQuery {
    /// The whole of a run.
    pub fn new(execution_id: ExecutionId) -> Self {
        Self {
            execution_id,
            tenant_id: TenantId::default(),
            organization_id: OrganizationId::default(),
            cut: Cut::End,
            projection: Projection::All,
            limit: None,
            resolve_payloads: false,
        }
    }

    /// The parameters of a request, those that say the usual left out.
    pub fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = vec![("execution_id", self.execution_id.to_string())];
        match self.cut {
            Cut::End => {}
            Cut::Event(id) => pairs.push(("as_of_event_id", id.to_string())),
            Cut::Position(seq) => pairs.push(("as_of_position", seq.to_string())),
            Cut::Time(time) => pairs.push(("as_of_time", time.to_string())),
        }
        if self.tenant_id != TenantId::default() {
            pairs.push(("tenant_id", self.tenant_id.to_string()));
        }
        if self.organization_id != OrganizationId::default() {
            pairs.push(("organization_id", self.organization_id.to_string()));
        }
        if self.projection != Projection::All {
            pairs.push(("projection", self.projection.as_str().to_owned()));
        }
        if let Some(limit) = self.limit {
            pairs.push(("limit", limit.to_string()));
        }
        if self.resolve_payloads {
            pairs.push(("resolve_payloads", "true".to_owned()));
        }
        pairs
    }
}

/// A run as of a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplayAnswer {
    /// All that the checksum covers.
    #[serde(flatten)]
    pub state: Replayed,
    /// What the caller wants to see. It changes nothing: every part is there.
    pub projection: Projection,
    /// The snapshot that the fold went on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_snapshot: Option<ReplaySnapshot>,
    /// Of the whole; none where the log was cut by a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Checksum>,
    /// Of each part; none where the log was cut by a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projection_checksums: Option<ProjectionChecksums>,
    /// Whether a limit cut the log: then this is not the state that was asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// What is odd about the log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Text>,
    /// What was found out about the data that events refer to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_resolution: Option<Vec<PayloadResolution>>,
    /// The same in numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_resolution_summary: Option<ResolutionSummary>,
}

/// A checksum, and how it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Checksum {
    /// `sha256`.
    #[serde(rename = "type")]
    pub kind: Text,
    /// The digest of the canonical form.
    pub value: Digest,
    /// Which fold made the state.
    pub fold_version: u32,
}

/// A snapshot that a fold went on from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplaySnapshot {
    /// `execution/<id>/all`.
    pub aggregate_id: Text,
    /// `replay_state`.
    pub aggregate_type: Text,
    /// The last event that it holds.
    pub version: i64,
    /// Its checksum.
    pub checksum: Digest,
    /// What else is known of it.
    pub meta: Json,
}

/// What was found out about the data that one event refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PayloadResolution {
    /// Whose list it stands in.
    pub scope: ResolutionScope,
    /// The event.
    pub event_id: Text,
    /// The frame, of that scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_id: Option<Text>,
    /// The object, of that scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_key: Option<Text>,
    /// What the reference says.
    pub reference_summary: ReferenceSummary,
    /// What is there.
    pub resolution: Resolution,
}

/// Whose list a reference stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ResolutionScope {
    /// The run's.
    Execution,
    /// A frame's.
    Frame,
    /// A business object's.
    BusinessObject,
}

/// What is at the other end of a reference; never the data itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resolution {
    /// The address.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Text>,
    /// Whether the data is there.
    pub resolved: bool,
    /// Its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Digest>,
    /// How large it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// How many rows it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_count: Option<i64>,
    /// What kind of JSON it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_type: Option<Text>,
    /// Why it was not looked at or not found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}

/// References in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResolutionSummary {
    /// How many there are.
    pub total: u64,
    /// How many lead to data.
    pub resolved: u64,
    /// How many do not, or were not looked at.
    pub unresolved: u64,
    /// How many addresses there are.
    pub unique_refs: u64,
    /// Whether every one leads to data.
    pub all_resolved: bool,
    /// Of the canonical form of the list.
    pub checksum: Digest,
}
