//! The whole replayed state, and the names of its parts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::entry::{
    BusinessObjectEntry, CommandEntry, ExecutionEntry, FrameEntry, LoopEntry, StageEntry,
};
use super::field::EventNumber;
use crate::event::EventName;
use crate::id::{ExecutionId, as_number};
use crate::json::{CanonicalObject, CanonicalWriter, WriteCanonical};
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
    #[serde(with = "as_number")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::IdNumber"))]
    pub execution_id: ExecutionId,
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
            execution_id,
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

impl WriteCanonical for ReplayedState {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        let mut object = writer.begin_object();
        write_map(&mut object, "business_objects", &self.business_objects);
        write_map(&mut object, "commands", &self.commands);
        object
            .write_field("event_count", &self.event_count)
            .write_field("execution", &self.execution)
            .write_field("execution_id", &self.execution_id.get());
        write_map(&mut object, "frames", &self.frames);
        object
            .write_optional("last_event_id", self.last_event_id.as_ref())
            .write_optional("last_event_type", self.last_event_type.as_ref());
        write_map(&mut object, "loops", &self.loops);
        object.write_field("organization_id", self.organization_id.as_str());
        write_map(&mut object, "stages", &self.stages);
        object.write_field("tenant_id", self.tenant_id.as_str());
    }
}

fn write_map<E: WriteCanonical>(
    object: &mut CanonicalObject<'_>,
    name: &str,
    map: &BTreeMap<Text, E>,
) {
    let mut entries = object.write_key(name).begin_object();
    for (key, entry) in map {
        entries.write_field(key, entry);
    }
}
