//! Suspension: tasks that wait without a worker.
//!
//! A suspended task is a command that the server performs. It is issued with all templates
//! rendered, waits for a time, a signal, a person or a child execution, and ends according to its
//! `set` and its policy. These are evaluated by the same code as on a worker, see
//! [`noetl_playbook::command_machine::SuspendedCommand`].

mod approve;
mod begin;
mod cancellation;
mod child;
mod conclude;
mod config;
mod fire;
mod schema;
mod signal;

pub(super) use approve::accept_approval;
pub(super) use begin::{suspend_for_callback, suspend_task};
pub(super) use cancellation::{cancel_awaited_child, cancel_waits};
pub(super) use child::{accept_callback, accept_child_end};
pub(super) use fire::fire_command_timer;
pub(super) use signal::accept_signal;

pub use config::MAX_CHILD_DEPTH;
pub use signal::{MAX_SIGNAL_BYTES, check_signal_payload};
