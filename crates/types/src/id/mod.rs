//! Ids: one type per kind of thing, all of them snowflakes.
//!
//! Owns their layout, their texts and the generator. An id says what and when, never in which
//! order: order inside of an execution is [`crate::record::Seq`]. Reads no clock; the generator is
//! told the time.

pub mod as_number;
mod command_label;
mod generator;
mod kinds;
mod machine;
mod snowflake;

pub use command_label::{CommandLabel, CommandLabelError};
pub use generator::{ClockError, HighWater, IdGenerator};
pub use kinds::{
    AuditId, CatalogId, CommandId, CredentialId, EventId, ExecutionId, Id, KeychainId, OutboxId,
    QuarantineId, ResultId, RuntimeId, ScheduleId, SignalId, SubscriptionId, TokenId,
};
pub use machine::{MachineId, MachineIdError};
pub use snowflake::{IdError, Snowflake, first_id_at};
