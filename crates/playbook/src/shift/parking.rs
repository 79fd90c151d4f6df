//! A task that parks: begun at one time, ended at another, perhaps by another server.
//!
//! Nothing of it is kept in between but what the log says. Whoever ends it sets its work up again,
//! tells what became of the wait, and learns what the task's `set` and policy make of that.

use std::fmt;
use std::sync::Arc;

use noetl_types::{JsonMap, Millis, TaskError, TaskErrorKind};

use super::call::{Answer, CallSpec};
use super::job::{Job, NoSuchStep};
use super::result::Finished;
use super::work::{Side, Stuck, Turn, Want, Work};
use super::{Moment, RetriedCall};
use crate::carried::Payloads;

/// The work of a task that parks.
pub struct Parking {
    work: Box<Work>,
    /// Whether no attempt may follow this one.
    is_last: bool,
}

/// Why a task that parks cannot be begun.
#[derive(Debug, Clone, PartialEq)]
pub enum Hitch {
    /// A template reads a payload that is not at hand.
    Needs(Arc<str>),
    /// The attempt has failed already.
    Failed(Box<TaskError>),
}

/// What comes of a wait that has ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ruled {
    /// It begins again.
    Again(Box<Again>),
    /// The command is over.
    Over(Box<Finished>),
}

/// A wait that begins again.
#[derive(Debug, Clone, PartialEq)]
pub struct Again {
    /// After how long.
    pub delay: Millis,
    /// What the attempt failed with; nothing where a rule wants it again though it went well.
    pub error: Option<TaskError>,
    /// All that was written so far, by the keys of `set`.
    pub set: JsonMap,
    /// The end of the command, for a task whose next attempt is a command of its own.
    pub handed_on: Finished,
}

impl fmt::Debug for Parking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Parking").field(&self.work.place()).finish()
    }
}

impl Parking {
    /// The work of the task at which a command begins, at one of its attempts, from 1, with what
    /// earlier ones wrote.
    pub fn new(job: Job, attempt: u32, set: &JsonMap) -> Result<Self, NoSuchStep> {
        let mut work = Work::new(job, Side::Server)?;
        work.take_up(attempt, set);
        Ok(Self {
            work: Box::new(work),
            is_last: false,
        })
    }

    /// The same where no attempt may follow this one: a task that wants another one fails with its
    /// last error, and what it wrote is kept.
    #[must_use]
    pub fn for_the_last_time(self) -> Self {
        Self {
            is_last: true,
            ..self
        }
    }

    /// What the task is to do, everything rendered.
    pub fn call(&mut self, payloads: &dyn Payloads) -> Result<CallSpec, Hitch> {
        loop {
            match self.work.prepare() {
                Ok(spec) => return Ok(spec),
                Err(Stuck::Broken(error)) => return Err(Hitch::Failed(Box::new(error))),
                Err(Stuck::Needs(want)) => self.obtain(want, payloads).map_err(Hitch::Needs)?,
            }
        }
    }

    /// What the task makes of the end of its wait, or the payload that it takes to tell.
    pub fn rule(
        mut self,
        answer: Answer,
        moment: Moment,
        payloads: &dyn Payloads,
    ) -> Result<Ruled, Arc<str>> {
        while let Err(uri) = self.work.render_input() {
            self.fetch(uri, payloads)?;
        }
        self.work.called(answer);
        loop {
            match self.work.turn(moment) {
                Turn::On => {}
                Turn::Fetch(want) => self.obtain(want, payloads)?,
                Turn::End(error) => return Ok(Ruled::Over(Box::new(self.work.close(error)))),
                Turn::Onward(at) => return Ok(Ruled::Over(Box::new(self.work.hand_on(at)))),
                Turn::Wait(_) if self.is_last => return Ok(Ruled::Over(Box::new(self.given_up()))),
                Turn::Wait(delay) => return Ok(Ruled::Again(Box::new(self.again(delay)))),
                // A task that the server ends is neither called nor parked by it.
                Turn::Call(_) | Turn::Park(_) => {
                    return Ok(Ruled::Again(Box::new(self.again(Millis::ZERO))));
                }
            }
        }
    }

    fn given_up(mut self) -> Finished {
        let error = self.work.take_back_retry();
        let cancelled = || TaskError::new(TaskErrorKind::Cancelled, "no attempt may follow");
        let error = error.unwrap_or_else(|| self.work.located(cancelled()));
        self.work.close(Some(error))
    }

    fn again(self, delay: Millis) -> Again {
        let set = self.work.written().clone();
        let mut handed_on = self.work.hand_on_again(delay);
        let error = handed_on
            .retries
            .pop()
            .map(|RetriedCall { error, .. }| error);
        Again {
            delay,
            error,
            set,
            handed_on,
        }
    }

    fn obtain(&mut self, want: Want, payloads: &dyn Payloads) -> Result<(), Arc<str>> {
        match want {
            Want::Payload(uri) => self.fetch(uri, payloads),
            Want::Secret(name) => {
                let text = "the server reads no keychain";
                let refused = TaskError::new(TaskErrorKind::Auth, text);
                self.work.unlocked(name, Err(refused));
                Ok(())
            }
        }
    }

    fn fetch(&mut self, uri: Arc<str>, payloads: &dyn Payloads) -> Result<(), Arc<str>> {
        match payloads.get(&uri) {
            Some(payload) => {
                self.work.fetched(uri, Ok(payload));
                Ok(())
            }
            None => Err(uri),
        }
    }
}
