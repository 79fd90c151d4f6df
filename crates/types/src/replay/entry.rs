//! The entries.
//!
//! Ids in them are texts, and the numbers of events are numbers. The fields of each stand in the
//! order of their names.

use super::field::{EventNumber, entry};
use crate::event::EventName;
use crate::json::Json;
use crate::status::StatusName;
use crate::text::Text;

entry! {
    /// The execution as a whole.
    pub struct ExecutionEntry {
        /// The step that was last entered, left or finished.
        pub last_node_name: Option<Text>,
        /// All that its events refer to, in their order.
        pub payload_refs: Vec<PayloadRef>,
        /// Where it stands.
        pub status: StatusName,
    }
}

entry! {
    /// Data that an event refers to.
    pub struct PayloadRef {
        /// The event.
        pub event_id: Text,
        /// The reference as the event has it.
        pub reference: Json,
        /// What the reference tells about the data.
        pub summary: ReferenceSummary,
    }
}

entry! {
    /// What a reference tells about its data.
    #[derive(Default)]
    pub struct ReferenceSummary {
        /// What kind of data it is.
        pub media_type: Option<Text>,
        /// Where it is.
        pub r#ref: Option<Text>,
        /// How many rows it has.
        pub row_count: Option<i64>,
        /// The digest of its schema.
        pub schema_digest: Option<Text>,
        /// Its digest.
        pub sha256: Option<Text>,
    }
}

entry! {
    /// A stage: frames that belong together.
    pub struct StageEntry {
        /// The event that closed it.
        pub closed_event_id: Option<EventNumber>,
        /// How many events its frames wrote.
        pub events_emitted: i64,
        /// How many of its frames failed.
        pub failed_count: i64,
        /// How many frames it had.
        pub frame_count: i64,
        /// What it is.
        pub kind: Option<Text>,
        /// The last event about it.
        pub last_event_id: EventNumber,
        /// The loop that it belongs to.
        pub loop_event_id: Option<EventNumber>,
        /// The event that opened it.
        pub opened_event_id: Option<EventNumber>,
        /// The stage that it is part of.
        pub parent_stage_id: Option<Text>,
        /// How many rows its frames had.
        pub row_count: i64,
        /// Its id.
        pub stage_id: Text,
        /// Where it stands.
        pub status: StatusName,
        /// The step that it belongs to.
        pub step_name: Option<Text>,
    }
}

entry! {
    /// A frame: some rows that are worked on together.
    pub struct FrameEntry {
        /// How often it was tried.
        pub attempts: i64,
        /// The event that gave it to a worker.
        pub claimed_event_id: Option<EventNumber>,
        /// The command that works on it.
        pub command_id: Option<Text>,
        /// How many events it wrote.
        pub events_emitted: i64,
        /// Its id.
        pub frame_id: Text,
        /// The last event about it.
        pub last_event_id: EventNumber,
        /// Where its output is.
        pub output_ref: Option<Json>,
        /// What that reference tells.
        pub output_ref_summary: Option<ReferenceSummary>,
        /// The frame that it was cut from.
        pub parent_frame_id: Option<Text>,
        /// How many rows it had.
        pub row_count: i64,
        /// The stage that it belongs to.
        pub stage_id: Option<Text>,
        /// Where it stands.
        pub status: StatusName,
        /// The event that ended it.
        pub terminal_event_id: Option<EventNumber>,
    }
}

entry! {
    /// A command.
    pub struct CommandEntry {
        /// The last event that gave it to a worker.
        pub claimed_event_id: Option<EventNumber>,
        /// Its id.
        pub command_id: Text,
        /// The frame that it works on.
        pub frame_id: Option<Text>,
        /// The event that issued it.
        pub issued_event_id: Option<EventNumber>,
        /// The last event about it.
        pub last_event_id: EventNumber,
        /// The command that it belongs to.
        pub parent_command_id: Option<Text>,
        /// The stage that it belongs to.
        pub stage_id: Option<Text>,
        /// The last event with which a worker began it.
        pub started_event_id: Option<EventNumber>,
        /// Where it stands.
        pub status: StatusName,
        /// The event that ended it.
        pub terminal_event_id: Option<EventNumber>,
        /// The worker that has or had it.
        pub worker_id: Option<Text>,
        /// Where that worker is.
        pub worker_locator: Option<Text>,
    }
}

entry! {
    /// A business object that events are about.
    pub struct BusinessObjectEntry {
        /// What is known of it: a map.
        pub attributes: Json,
        /// The event that removed it.
        pub deleted_event_id: Option<EventNumber>,
        /// How many events are about it.
        pub event_count: i64,
        /// The first of them.
        pub first_event_id: EventNumber,
        /// The last of them.
        pub last_event_id: EventNumber,
        /// What the last of them is.
        pub last_event_type: EventName,
        /// The last reference of its events.
        pub last_payload_ref: Option<PayloadRef>,
        /// Its id.
        pub object_id: Text,
        /// Its key: type and id.
        pub object_key: Text,
        /// Its type.
        pub object_type: Text,
        /// All that its events refer to, in their order.
        pub payload_refs: Vec<PayloadRef>,
        /// Where it stands.
        pub status: StatusName,
        /// Its version.
        pub version: i64,
    }
}

entry! {
    /// A loop.
    pub struct LoopEntry {
        /// Whether it is over.
        pub completed: bool,
        /// How many of its parts went well.
        pub done: i64,
        /// How many of its parts failed.
        pub failed: i64,
        /// The last event about it.
        pub last_event_id: EventNumber,
        /// Its id.
        pub loop_id: Text,
        /// The step that it belongs to.
        pub step_name: Option<Text>,
        /// How many parts it has.
        pub total: Option<i64>,
    }
}
