//! Replay: the state of an execution at any point, folded from its log.
//!
//! Ids are numbers, for existing clients. Ids inside entries are strings.

use noetl_types::replay::{ProjectionChecksums, ProjectionKind, ReferenceSummary, ReplayedState};
use noetl_types::{Digest, EventId, ExecutionId, Json, OrganizationId, TenantId, Text, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Point at which a replay stops, inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplayCutoff {
    /// End of the log.
    #[default]
    End,
    /// An event.
    Event(EventId),
    /// A position in the log; 0 is before the first event.
    Position(i64),
    /// Events recorded by a time.
    Time(Timestamp),
}

/// Lower bound of event ids. Log positions are far below it, event ids far above.
pub const MIN_EVENT_ID: i64 = 1 << 40;

/// Selects the state to replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayQuery {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Tenant of the execution.
    pub tenant_id: TenantId,
    /// Organization within the tenant.
    pub organization_id: OrganizationId,
    /// Point at which to stop.
    pub cutoff: ReplayCutoff,
    /// Requested projection.
    pub projection: ProjectionKind,
    /// Maximum number of events. If the log is longer, the response is marked as truncated.
    pub limit: Option<u32>,
    /// Check the data that events refer to.
    pub resolve_payloads: bool,
}

impl ReplayQuery {
    /// Selects the whole log of an execution.
    pub fn new(execution_id: ExecutionId) -> Self {
        Self {
            execution_id,
            tenant_id: TenantId::default(),
            organization_id: OrganizationId::default(),
            cutoff: ReplayCutoff::End,
            projection: ProjectionKind::All,
            limit: None,
            resolve_payloads: false,
        }
    }

    /// Returns the query parameters, without default values.
    pub fn to_query_pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = vec![("execution_id", self.execution_id.to_string())];
        match self.cutoff {
            ReplayCutoff::End => {}
            ReplayCutoff::Event(id) => pairs.push(("as_of_event_id", id.to_string())),
            ReplayCutoff::Position(seq) => pairs.push(("as_of_position", seq.to_string())),
            ReplayCutoff::Time(time) => pairs.push(("as_of_time", time.to_string())),
        }
        if self.tenant_id != TenantId::default() {
            pairs.push(("tenant_id", self.tenant_id.to_string()));
        }
        if self.organization_id != OrganizationId::default() {
            pairs.push(("organization_id", self.organization_id.to_string()));
        }
        if self.projection != ProjectionKind::All {
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

/// State of an execution at a point of its log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayResponse {
    /// Everything that the checksum covers.
    #[serde(flatten)]
    pub state: ReplayedState,
    /// Requested projection. It has no effect: all parts are returned.
    pub projection: ProjectionKind,
    /// Snapshot that the fold started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_snapshot: Option<ReplaySnapshot>,
    /// Checksum of the whole state; absent if the log was truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<StateChecksum>,
    /// Checksum of each part; absent if the log was truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projection_checksums: Option<ProjectionChecksums>,
    /// True if the limit truncated the log. Then this is not the requested state.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Anomalies in the log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Text>,
    /// Check results of the referenced data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_resolution: Option<Vec<PayloadResolution>>,
    /// Summary of the check results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_resolution_summary: Option<ResolutionSummary>,
}

/// A checksum and its type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateChecksum {
    /// `sha256`.
    #[serde(rename = "type")]
    pub kind: Text,
    /// Digest of the canonical form.
    pub value: Digest,
    /// Version of the fold function.
    pub fold_version: u32,
}

/// Snapshot that a fold started from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplaySnapshot {
    /// `execution/<id>/all`.
    pub aggregate_id: Text,
    /// `replay_state`.
    pub aggregate_type: Text,
    /// Last event in the snapshot.
    pub version: i64,
    /// Checksum of the snapshot.
    pub checksum: Digest,
    /// Metadata.
    pub meta: Json,
}

/// Check result of one reference in an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PayloadResolution {
    /// Owner of the reference.
    pub scope: ResolutionScope,
    /// Id of the event.
    pub event_id: Text,
    /// Id of the frame, if a frame is the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_id: Option<Text>,
    /// Key of the business object, if one is the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_key: Option<Text>,
    /// Summary in the reference.
    pub reference_summary: ReferenceSummary,
    /// Referenced data.
    pub resolution: ReferenceResolution,
}

/// Owner of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolutionScope {
    /// The execution.
    Execution,
    /// A frame.
    Frame,
    /// A business object.
    BusinessObject,
}

/// Facts about referenced data. Never the data itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReferenceResolution {
    /// Address of the data.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Text>,
    /// True if the data exists.
    pub resolved: bool,
    /// Digest of the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Digest>,
    /// Size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Number of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_count: Option<i64>,
    /// JSON type of the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_type: Option<Text>,
    /// Reason why the data was not checked or not found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}

/// Summary of all references.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolutionSummary {
    /// Number of references.
    pub total: u64,
    /// Number of references whose data exists.
    pub resolved: u64,
    /// Number of references whose data is missing or was not checked.
    pub unresolved: u64,
    /// Number of distinct addresses.
    pub unique_refs: u64,
    /// True if the data of all references exists.
    pub all_resolved: bool,
    /// Digest of the canonical form of the list.
    pub checksum: Digest,
}
