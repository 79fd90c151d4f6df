//! What an event is called.
//!
//! Owns the vocabulary of event types, who may send which of them, and the one table of aliases.
//! The event itself is [`crate::record`]; what an event does to a run is the engine's business.

mod alias;
mod kind;
mod name;

pub use alias::{Normalised, Sender, normalise};
pub use kind::EventType;
pub use name::{EventName, EventNameError, OtherName};
