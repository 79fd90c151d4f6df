//! A whole replayed state, and the names of its parts.

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
use crate::text::Text;
use crate::words::words;

words! {
    /// A part of a replayed state.
    pub enum Projection("a projection") {
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

/// What the events of an execution fold to: all that the checksum covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Replayed {
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Whose it is, inside of the tenant.
    pub organization_id: OrganizationId,
    /// The execution.
    #[serde(with = "as_number")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::IdNumber"))]
    pub execution_id: ExecutionId,
    /// How many events were folded.
    pub event_count: i64,
    /// The last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event_id: Option<EventNumber>,
    /// What the last of them is.
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

impl Replayed {
    /// What no events fold to.
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

impl WriteCanonical for Replayed {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        let mut object = writer.object();
        put_map(&mut object, "business_objects", &self.business_objects);
        put_map(&mut object, "commands", &self.commands);
        object
            .field("event_count", &self.event_count)
            .field("execution", &self.execution)
            .field("execution_id", &self.execution_id.get());
        put_map(&mut object, "frames", &self.frames);
        object
            .optional("last_event_id", self.last_event_id.as_ref())
            .optional("last_event_type", self.last_event_type.as_ref());
        put_map(&mut object, "loops", &self.loops);
        object.field("organization_id", self.organization_id.as_str());
        put_map(&mut object, "stages", &self.stages);
        object.field("tenant_id", self.tenant_id.as_str());
    }
}

fn put_map<E: WriteCanonical>(
    object: &mut CanonicalObject<'_>,
    name: &str,
    map: &BTreeMap<Text, E>,
) {
    let mut entries = object.key(name).object();
    for (key, entry) in map {
        entries.field(key, entry);
    }
}
