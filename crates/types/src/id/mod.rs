//! Typed ids, all based on snowflakes.
//!
//! Owns their layout, their text forms and the generator. An id states kind and time, not order:
//! the order within an execution is [`crate::record::Seq`]. Reads no clock: the caller passes the
//! time to the generator.

mod as_number;
mod command_label;
mod generator;
mod kinds;
mod machine;
mod snowflake;

pub use as_number::IdNumber;
pub use command_label::{CommandLabel, CommandLabelError};
pub use generator::{ClockError, HighWaterMark, IdGenerator};
pub use kinds::{
    AuditId, CatalogId, CommandId, CredentialId, EventId, ExecutionId, KeychainId, OutboxId,
    QuarantineId, ResultId, RuntimeId, SignalId, TokenId, TypedId,
};
pub use machine::{MachineId, MachineIdError};
pub use snowflake::{IdError, Snowflake, first_id_at};
