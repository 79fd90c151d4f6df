//! Names of events.
//!
//! Owns the vocabulary of event types, the rules about who may send which of them, and the table of
//! aliases. The event itself is in [`crate::record`]; the effect of an event on an execution is
//! defined by the engine.

mod alias;
mod kind;
mod name;

pub use alias::{EventSender, NormalizedEventName, normalize_event_name};
pub use kind::EventType;
pub use name::{CustomEventName, EventName, EventNameError};
