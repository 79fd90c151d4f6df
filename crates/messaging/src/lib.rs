//! In-process wake-ups and messaging.
//!
//! Owns the matching of work with waiting workers ([`Matcher`]), the followers of executions
//! ([`ExecutionFollowers`]) and watches of commands ([`CommandWatches`]) within one process, and the
//! connection to other processes by NATS ([`nats`]). It is never the source of truth: anything lost
//! here is found in the store a little later.
//!
//! Must not depend on the content of commands or the logic of executions.

mod command_watches;
mod followers;
mod matcher;
pub mod nats;

pub use command_watches::{CommandWatch, CommandWatches};
pub use followers::{ExecutionFollower, ExecutionFollowers};
pub use matcher::{BacklogMark, Matcher, PollWait, Poller, Reservation, WakeReason};
