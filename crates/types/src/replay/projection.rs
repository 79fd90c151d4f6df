//! The whole replayed state, and the names of its parts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::entry::{
    BusinessObjectEntry, CommandEntry, EventNumber, ExecutionEntry, FrameEntry, LoopEntry,
    StageEntry,
};
use crate::event::EventName;
use crate::id::{ExecutionId, IdNumber};
use crate::name::{OrganizationId, TenantId};
use crate::status::{EventStatus, StatusName};
use crate::string_enum::string_enum;
use crate::text::Text;

string_enum! {
    /// A part of a replayed state.
    pub enum ProjectionKind("a projection") {
        Execution = "execution",
        Stage = "stage",
        Frame = "frame",
        Command = "command",
        BusinessObject = "business_object",
        Loop = "loop",
        /// Every part.
        All = "all",
    }
}

/// State folded from the events of an execution: everything that the checksum covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplayedState {
    /// Tenant of the execution.
    pub tenant_id: TenantId,
    /// Organization within the tenant.
    pub organization_id: OrganizationId,
    /// The execution.
    pub execution_id: IdNumber<ExecutionId>,
    /// Number of folded events.
    pub event_count: i64,
    /// Last folded event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event_id: Option<EventNumber>,
    /// Type of the last folded event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event_type: Option<EventName>,
    /// The execution as a whole.
    pub execution: ExecutionEntry,
    /// Stages by id.
    pub stages: BTreeMap<Text, StageEntry>,
    /// Frames by id.
    pub frames: BTreeMap<Text, FrameEntry>,
    /// Commands by id.
    pub commands: BTreeMap<Text, CommandEntry>,
    /// Business objects by key.
    pub business_objects: BTreeMap<Text, BusinessObjectEntry>,
    /// Loops by id.
    pub loops: BTreeMap<Text, LoopEntry>,
}

impl ReplayedState {
    /// Creates the state of an execution without events.
    pub fn new(
        tenant_id: TenantId,
        organization_id: OrganizationId,
        execution_id: ExecutionId,
    ) -> Self {
        Self {
            tenant_id,
            organization_id,
            execution_id: execution_id.into(),
            event_count: 0,
            last_event_id: None,
            last_event_type: None,
            execution: ExecutionEntry {
                last_node_name: None,
                payload_refs: Vec::new(),
                status: StatusName::Known(EventStatus::Unknown),
            },
            stages: BTreeMap::new(),
            frames: BTreeMap::new(),
            commands: BTreeMap::new(),
            business_objects: BTreeMap::new(),
            loops: BTreeMap::new(),
        }
    }
}
