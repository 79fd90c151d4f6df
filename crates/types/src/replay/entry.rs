//! The replay entries.
//!
//! Ids in entries are strings, and event ids are numbers. The fields of each entry are in
//! alphabetical order.

use serde::{Deserialize, Serialize};

use crate::event::EventName;
use crate::id::{EventId, IdNumber};
use crate::json::{CanonicalWriter, Json, WriteCanonical};
use crate::status::StatusName;
use crate::text::Text;

/// Id of an event that is serialized as a number.
pub type EventNumber = IdNumber<EventId>;

/// Declares an entry. Its fields must be in alphabetical order, which is the order of the canonical
/// form. Absent fields are omitted there and on the wire.
macro_rules! entry {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$field_meta:meta])* pub $field:ident: $kind:ty, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[serde(skip_serializing_if = "WriteCanonical::is_absent")]
                pub $field: $kind,
            )+
        }

        impl WriteCanonical for $name {
            fn write_canonical(&self, writer: &mut CanonicalWriter) {
                let mut object = writer.begin_object();
                $(
                    // A field named by a Rust keyword has the prefix `r#`.
                    let name = stringify!($field);
                    let name = name.strip_prefix("r#").unwrap_or(name);
                    object.write_field(name, &self.$field);
                )+
            }
        }
    };
}

entry! {
    /// The execution as a whole.
    pub struct ExecutionEntry {
        /// The step that was last entered, left or finished.
        pub last_node_name: Option<Text>,
        /// References in the events, in log order.
        pub payload_refs: Vec<PayloadRef>,
        /// Current status.
        pub status: StatusName,
    }
}

entry! {
    /// A reference to data in an event.
    pub struct PayloadRef {
        /// Id of the event.
        pub event_id: Text,
        /// The reference as it is in the event.
        pub reference: Json,
        /// Summary of the referenced data.
        pub summary: ReferenceSummary,
    }
}

entry! {
    /// Summary of referenced data.
    #[derive(Default)]
    pub struct ReferenceSummary {
        /// Media type of the data.
        pub media_type: Option<Text>,
        /// Address of the data.
        pub r#ref: Option<Text>,
        /// Number of rows.
        pub row_count: Option<i64>,
        /// Digest of the schema.
        pub schema_digest: Option<Text>,
        /// SHA-256 digest of the data.
        pub sha256: Option<Text>,
    }
}

entry! {
    /// A stage: frames that belong together.
    pub struct StageEntry {
        /// Event that closed the stage.
        pub closed_event_id: Option<EventNumber>,
        /// Number of events that its frames wrote.
        pub events_emitted: i64,
        /// Number of failed frames.
        pub failed_count: i64,
        /// Number of frames.
        pub frame_count: i64,
        /// Kind of the stage.
        pub kind: Option<Text>,
        /// Last event about the stage.
        pub last_event_id: EventNumber,
        /// Event of the loop that the stage belongs to.
        pub loop_event_id: Option<EventNumber>,
        /// Event that opened the stage.
        pub opened_event_id: Option<EventNumber>,
        /// Parent stage.
        pub parent_stage_id: Option<Text>,
        /// Number of rows of its frames.
        pub row_count: i64,
        /// Id of the stage.
        pub stage_id: Text,
        /// Current status.
        pub status: StatusName,
        /// Step of the stage.
        pub step_name: Option<Text>,
    }
}

entry! {
    /// A frame: a group of rows that are processed together.
    pub struct FrameEntry {
        /// Number of attempts.
        pub attempts: i64,
        /// Event that assigned the frame to a worker.
        pub claimed_event_id: Option<EventNumber>,
        /// Command that processes the frame.
        pub command_id: Option<Text>,
        /// Number of events that the frame wrote.
        pub events_emitted: i64,
        /// Id of the frame.
        pub frame_id: Text,
        /// Last event about the frame.
        pub last_event_id: EventNumber,
        /// Reference to the output.
        pub output_ref: Option<Json>,
        /// Summary of the output reference.
        pub output_ref_summary: Option<ReferenceSummary>,
        /// Frame that this one was split from.
        pub parent_frame_id: Option<Text>,
        /// Number of rows.
        pub row_count: i64,
        /// Stage of the frame.
        pub stage_id: Option<Text>,
        /// Current status.
        pub status: StatusName,
        /// Event that ended the frame.
        pub terminal_event_id: Option<EventNumber>,
    }
}

entry! {
    /// A command.
    pub struct CommandEntry {
        /// Last event that assigned the command to a worker.
        pub claimed_event_id: Option<EventNumber>,
        /// Id of the command.
        pub command_id: Text,
        /// Frame that the command processes.
        pub frame_id: Option<Text>,
        /// Event that issued the command.
        pub issued_event_id: Option<EventNumber>,
        /// Last event about the command.
        pub last_event_id: EventNumber,
        /// Parent command.
        pub parent_command_id: Option<Text>,
        /// Stage of the command.
        pub stage_id: Option<Text>,
        /// Last event with which a worker started the command.
        pub started_event_id: Option<EventNumber>,
        /// Current status.
        pub status: StatusName,
        /// Event that ended the command.
        pub terminal_event_id: Option<EventNumber>,
        /// Current or last worker.
        pub worker_id: Option<Text>,
        /// Location of the worker.
        pub worker_locator: Option<Text>,
    }
}

entry! {
    /// A business object that events are about.
    pub struct BusinessObjectEntry {
        /// Attributes of the object: a map.
        pub attributes: Json,
        /// Event that deleted the object.
        pub deleted_event_id: Option<EventNumber>,
        /// Number of events about the object.
        pub event_count: i64,
        /// First event about the object.
        pub first_event_id: EventNumber,
        /// Last event about the object.
        pub last_event_id: EventNumber,
        /// Type of the last event.
        pub last_event_type: EventName,
        /// Last reference in its events.
        pub last_payload_ref: Option<PayloadRef>,
        /// Id of the object.
        pub object_id: Text,
        /// Key of the object: type and id.
        pub object_key: Text,
        /// Type of the object.
        pub object_type: Text,
        /// References in its events, in log order.
        pub payload_refs: Vec<PayloadRef>,
        /// Current status.
        pub status: StatusName,
        /// Version of the object.
        pub version: i64,
    }
}

entry! {
    /// A loop.
    pub struct LoopEntry {
        /// True if the loop has ended.
        pub completed: bool,
        /// Number of completed parts.
        pub done: i64,
        /// Number of failed parts.
        pub failed: i64,
        /// Last event about the loop.
        pub last_event_id: EventNumber,
        /// Id of the loop.
        pub loop_id: Text,
        /// Step of the loop.
        pub step_name: Option<Text>,
        /// Number of parts.
        pub total: Option<i64>,
    }
}
