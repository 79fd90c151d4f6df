//! The work of one command, without doing any of it.
//!
//! Owns what the tasks of a step mean on a worker: which templates are rendered when and against
//! what, what a policy makes of an attempt, where the pipeline goes, and what is reported in the end.
//! Tools, clocks, chance and stores belong to the caller: a [`Shift`] says what to do next, is told
//! what came of it, and goes on. So the worker of a cluster and that of a simulation are the same
//! but for their tools, and the same answers lead to the same calls.
//!
//! ```text
//! Shift::next ──► Call ──► Calling::called ──┐
//!      ▲     ├──► Fetch ─► Fetching::fetched ┤
//!      │     ├──► Unlock ► Unlocking::unlocked
//!      │     ├──► Wait ──────────────────────┤
//!      │     └──► Done                       │
//!      └─────────────────────────────────────┘
//! ```
//!
//! Bounded: what is kept does not grow with the number of attempts.

mod call;
mod job;
mod keychain;
mod kinds;
mod onward;
mod parking;
mod result;
mod scope;
mod work;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use noetl_types::redact::Hidden;
use noetl_types::{Digest, Json, Millis, TaskError, Timestamp};

pub use call::{Answer, CallSpec, Surroundings};
pub use job::{Job, MAX_DATA, MAX_TASK_RUNS, NoSuchStep};
pub use keychain::EntrySpec;
pub use kinds::asks_for_everything;
pub use onward::{Onward, Relay};
pub use parking::{Again, Hitch, Parking, Ruled};
pub use result::{Ahead, Finished, FrameReport, RetriedCall, RowError, TaskReport, TaskStatus};

use keychain::Lacking;
use work::{Side, Turn, Want, Work};

/// The work of a command, ready to go on.
pub struct Shift(Box<Work>);

/// The work of a command while a tool runs.
pub struct Calling(Box<Work>);

/// The work of a command while a payload is fetched.
pub struct Fetching(Box<Work>, Arc<str>);

/// The work of a command while an entry of the keychain is resolved.
pub struct Unlocking(Box<Work>, Arc<str>);

/// What a shift takes from outside when it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moment {
    /// The time, where it is to be recorded.
    pub now: Option<Timestamp>,
    /// A number from 0 to below 1, for a delay by chance.
    pub dice: f64,
}

/// What is to be done next.
#[derive(Debug)]
pub enum Do {
    /// Run a tool.
    Call(Box<CallSpec>, Calling),
    /// Let time pass before going on.
    Wait(Millis, Shift),
    /// Get the payload that a template reads.
    Fetch(Wanted, Fetching),
    /// Resolve the entry of the keychain that a template reads.
    Unlock(Box<EntrySpec>, Unlocking),
    /// Nothing: report.
    Done(Box<Finished>),
}

/// A payload that a template reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The address in its reference.
    pub uri: Arc<str>,
    /// The digest that it must have, as its reference tells.
    pub sha256: Option<Digest>,
}

impl Shift {
    /// The work of a command.
    pub fn new(job: Job) -> Result<Self, NoSuchStep> {
        Work::new(job, Side::Worker).map(|work| Self(Box::new(work)))
    }

    /// Notes whatever it makes from secrets among what is hidden.
    #[must_use]
    pub fn hiding(mut self, hidden: Hidden) -> Self {
        self.0.hidden = hidden;
        self
    }

    /// Takes what a tool said that was called elsewhere, in an attempt from 1. What follows is that
    /// attempt's `set` and policy.
    #[must_use]
    pub fn answered(mut self, attempt: u32, answer: Answer) -> Self {
        self.0.answered(attempt, answer);
        self
    }

    /// What is to be done next.
    pub fn next(self, moment: Moment) -> Do {
        let mut work = self.0;
        loop {
            match work.turn(moment) {
                Turn::On => {}
                Turn::Call(spec) => return Do::Call(spec, Calling(work)),
                Turn::Wait(delay) => return Do::Wait(delay, Self(work)),
                Turn::Fetch(Want::Payload(uri)) => return fetch(work, uri),
                Turn::Fetch(Want::Secret(name)) => match work.entry(&name) {
                    Ok(spec) => {
                        let name = Arc::clone(&spec.name);
                        return Do::Unlock(Box::new(spec), Unlocking(work, name));
                    }
                    Err(Lacking::Payload(uri)) => return fetch(work, uri),
                    Err(Lacking::Hope(error)) => work.unlocked(name, Err(error)),
                },
                Turn::End(error) => return Do::Done(Box::new(work.close(error))),
                Turn::Onward(at) => return Do::Done(Box::new(work.hand_on(at))),
                Turn::Park(data) => return Do::Done(Box::new(work.park(data))),
            }
        }
    }

    /// Takes the attempts that failed and are made again, as far as they were not taken before: what
    /// is told of them before the end is not in its report.
    pub fn take_retries(&mut self) -> Vec<RetriedCall> {
        self.0.take_retries()
    }

    /// Ends the work where it is, failed.
    pub fn stop(self, error: TaskError) -> Finished {
        self.0.stop(error)
    }
}

fn fetch(work: Box<Work>, uri: Arc<str>) -> Do {
    let wanted = Wanted {
        sha256: work.digest_of(&uri),
        uri: Arc::clone(&uri),
    };
    Do::Fetch(wanted, Fetching(work, uri))
}

impl Calling {
    /// Goes on with what the tool said.
    pub fn called(mut self, answer: Answer) -> Shift {
        self.0.called(answer);
        Shift(self.0)
    }

    /// Ends the work in the middle of the call, failed.
    pub fn stop(self, error: TaskError) -> Finished {
        self.0.stop(error)
    }
}

impl Fetching {
    /// Goes on with the payload, or with why it cannot be had.
    pub fn fetched(mut self, payload: Result<Json, TaskError>) -> Shift {
        self.0.fetched(self.1, payload);
        Shift(self.0)
    }

    /// Ends the work in the middle of the fetch, failed.
    pub fn stop(self, error: TaskError) -> Finished {
        self.0.stop(error)
    }
}

impl Unlocking {
    /// Goes on with the secret, or with why it cannot be had.
    pub fn unlocked(mut self, secret: Result<Json, TaskError>) -> Shift {
        self.0.unlocked(self.1, secret);
        Shift(self.0)
    }

    /// Ends the work in the middle of it, failed.
    pub fn stop(self, error: TaskError) -> Finished {
        self.0.stop(error)
    }
}

/// What a command works on may be a secret, so its work tells no more than where it is.
macro_rules! debug_as_place {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.0.place()).finish()
            }
        }
    )*};
}

debug_as_place!(Shift, Calling, Fetching, Unlocking);
