//! Parking: tasks that wait without a worker.
//!
//! A task that parks is a command of the server's: it is issued with everything rendered, waits for
//! a time, a signal, a person or another run, and is ended by what its `set` and its policy make of
//! the outcome. The same code as on a worker says so; see [`noetl_playbook::shift::Parking`].

mod approve;
mod begin;
mod child;
mod conclude;
mod config;
mod fire;
mod give_up;
mod schema;
mod signal;

pub(super) use approve::approve;
pub(super) use begin::{park, park_callback};
pub(super) use child::{called, child_ended};
pub(super) use fire::fire;
pub(super) use give_up::{forget_children, give_up};
pub(super) use signal::signal;

pub use config::MAX_CHILD_DEPTH;
pub use signal::MAX_SIGNAL_BYTES;
