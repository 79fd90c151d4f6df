//! What is asked of an execution, and what is answered.

use std::sync::{Arc, Mutex, PoisonError};

use noetl_api::command::LeasedCommand;
use noetl_bus::Taker;
use noetl_engine::{IgnoredResult, Input, Late, SlotWant, Told, Verdict};
use noetl_store::{Answered, DedupClaim, Fence, IdempotencyClaim, StoreError};
use noetl_types::{CommandId, ErrorCode, ExecutionId, Version};
use tokio::sync::oneshot;

use crate::runtime::behalf::Behalf;
use crate::runtime::error::RuntimeError;
use crate::runtime::outcome::Outcome;

/// Letters for which the state before them is kept.
pub(super) const FEW_LETTERS: usize = 8;

/// Something that happens to an execution, with somebody who waits for the answer.
pub(crate) struct Letter {
    pub(super) input: Input,
    /// What must be true of a lease for the input to count.
    pub(super) fence: Option<Fence>,
    /// Who would take commands that follow.
    pub(super) offer: Option<Arc<Offer>>,
    /// What must not have been done before for the input to count.
    pub(super) claims: Claims,
    /// Whether the sender ends the runs that are not waited for any more.
    pub(super) ends_children: bool,
    /// Whom it comes from, where it may be somebody whom the execution is none of the business.
    pub(super) behalf: Option<Behalf>,
    /// Whether an append of it with others was refused for what one of them brings.
    pub(super) is_suspect: bool,
    /// How an append of it failed that may be there all the same.
    doubt: Option<StoreError>,
    pub(super) reply: oneshot::Sender<Result<Reply, RuntimeError>>,
}

/// What an input may be the first to do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claims {
    /// The message that starts an execution.
    pub(crate) dedup: Option<DedupClaim>,
    /// The request that it is the effect of.
    pub(crate) idempotency: Option<IdempotencyClaim>,
}

/// What was done before in the place of an input.
#[derive(Debug, Clone)]
pub(crate) enum Before {
    /// The message has started this execution.
    Duplicate(ExecutionId),
    /// The request was answered.
    Replay(Box<Answered>),
}

/// What came of it, durably.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// What was done before, so that this was not.
    pub(crate) before: Option<Before>,
    /// What the engine makes of it.
    pub(crate) verdict: Option<Verdict>,
    /// The end of the log after it.
    pub(crate) version: Version,
    /// How many commands it issued.
    pub(crate) issued: u32,
    /// Those of them that are the sender's already.
    pub(crate) leased: Vec<LeasedCommand>,
    /// How the execution ended, if it has.
    pub(crate) outcome: Option<Outcome>,
    /// Slots that it turned out to want, where nothing was written that could tell.
    pub(crate) wants: Vec<SlotWant>,
    /// Runs that nobody waits for any more, and that the sender ends.
    pub(crate) children: Vec<ExecutionId>,
}

/// A worker that reports and can take what follows.
pub(crate) struct Offer {
    pub(crate) pool: noetl_types::PoolName,
    pub(crate) taker: Taker,
    left: Mutex<usize>,
}

impl Offer {
    pub(crate) fn new(pool: noetl_types::PoolName, taker: Taker) -> Self {
        Self {
            pool,
            left: Mutex::new(taker.max),
            taker,
        }
    }

    /// Takes one place, if there is one left.
    pub(super) fn take(&self) -> bool {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = *left > 0;
        *left = left.saturating_sub(1);
        has_room
    }

    /// Gives a place back.
    pub(super) fn put_back(&self) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left += 1;
    }

    /// How many places are left.
    pub(crate) fn left(&self) -> usize {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Letter {
    /// An input, and where its answer arrives.
    pub(crate) fn new(input: Input) -> (Self, oneshot::Receiver<Result<Reply, RuntimeError>>) {
        let (reply, answer) = oneshot::channel();
        let letter = Self {
            input,
            fence: None,
            offer: None,
            claims: Claims::default(),
            ends_children: false,
            behalf: None,
            is_suspect: false,
            doubt: None,
            reply,
        };
        (letter, answer)
    }

    /// The same, only to count where a lease is what the fence says.
    pub(crate) fn fenced(self, fence: Fence) -> Self {
        Self {
            fence: Some(fence),
            ..self
        }
    }

    /// The same from somebody who may only speak about what is theirs.
    pub(crate) fn on_behalf_of(self, behalf: Behalf) -> Self {
        Self {
            behalf: Some(behalf),
            ..self
        }
    }

    /// The same, only to count where it is the first to do something.
    pub(crate) fn claiming(self, claims: Claims) -> Self {
        Self { claims, ..self }
    }

    /// The same, from somebody who ends the runs that are not waited for any more, and is told of
    /// them. They are owed all the same, should the sender fail to.
    pub(crate) fn ending_children(self) -> Self {
        Self {
            ends_children: true,
            ..self
        }
    }

    /// The same, from somebody who takes what follows.
    pub(crate) fn offering(self, offer: Option<Arc<Offer>>) -> Self {
        Self { offer, ..self }
    }

    fn is_fenced_by(&self, command: CommandId) -> bool {
        self.fence
            .as_ref()
            .is_some_and(|fence| fence.command_id == command)
    }

    /// Whether it brings an event whose id its sender has made.
    fn names_an_event(&self) -> bool {
        matches!(self.input, Input::Told(_) | Input::Remark(_))
    }

    /// Whether an append that holds it holds nothing else. A start comes first anyway.
    fn stands_alone(&self) -> bool {
        self.is_suspect
            || self.claims.idempotency.is_some() && !matches!(self.input, Input::Start(_))
    }

    /// What is left of it once its fence has fallen: a report is noted as too late, and a lease that
    /// did not run out after all is no news.
    fn without_fence(self) -> Option<Self> {
        let code = ErrorCode::NotLeaseHolder;
        let input = match self.input {
            Input::Report(report) => Input::Ignored(Box::new(IgnoredResult::of(&report, code))),
            Input::Told(told) => Input::Told(Box::new(Told {
                again: None,
                late: Some(Late::Superseded(code)),
                ..*told
            })),
            _ => {
                let known = Reply {
                    verdict: Some(Verdict::Duplicate),
                    ..Reply::default()
                };
                // Nobody may wait any more.
                drop(self.reply.send(Ok(known)));
                return None;
            }
        };
        Some(Self {
            input,
            fence: None,
            claims: Claims::default(),
            ..self
        })
    }
}

/// Letters that are decided in sequence and written together: what follows from all of them is in
/// one append, or nothing is. Most hold one letter, and none holds nothing.
pub(crate) struct Envelope(Vec<Letter>);

impl From<Letter> for Envelope {
    fn from(letter: Letter) -> Self {
        Self(vec![letter])
    }
}

impl Envelope {
    /// Letters to be answered together, if there are any.
    pub(crate) fn of(letters: Vec<Letter>) -> Option<Self> {
        (!letters.is_empty()).then_some(Self(letters))
    }

    pub(super) fn letters(&self) -> &[Letter] {
        &self.0
    }

    pub(super) fn into_letters(self) -> Vec<Letter> {
        self.0
    }

    /// Whether it holds so many letters that no state is kept for each of them.
    pub(super) fn is_long(&self) -> bool {
        self.0.len() > FEW_LETTERS
    }

    /// Whether an append that holds it holds nothing else.
    pub(super) fn stands_alone(&self) -> bool {
        self.is_long() || self.0.iter().any(Letter::stands_alone)
    }

    /// Whether it brings an event whose id its sender has made.
    pub(super) fn names_an_event(&self) -> bool {
        self.0.iter().any(Letter::names_an_event)
    }

    /// The same, to be appended by itself.
    pub(super) fn suspected(mut self) -> Self {
        for letter in &mut self.0 {
            letter.is_suspect = true;
        }
        self
    }

    /// The same after an append of it that failed, and may be there all the same.
    pub(super) fn doubted(mut self, failed: &StoreError) -> Self {
        for letter in &mut self.0 {
            letter.doubt.get_or_insert_with(|| failed.clone());
        }
        self
    }

    /// What is left of it once a fence has fallen.
    pub(super) fn without_fence(self, command: CommandId) -> Option<Self> {
        let left = self.0.into_iter().filter_map(|letter| {
            if letter.is_fenced_by(command) {
                letter.without_fence()
            } else {
                Some(letter)
            }
        });
        Self::of(left.collect())
    }

    /// Tells the senders why it is not done, as the log has it.
    pub(super) fn refuse(self, error: RuntimeError) {
        let problem = error.into_problem();
        for letter in self.0 {
            // Nobody may wait any more.
            drop(letter.reply.send(Err(problem.clone().into())));
        }
    }

    /// Tells the senders what went wrong. Where an append of it may be there all the same, that is
    /// told instead: nobody is told that nothing was done.
    pub(super) fn give_up(self, error: RuntimeError) {
        let doubt = self.0.iter().find_map(|letter| letter.doubt.clone());
        self.refuse(doubt.map_or(error, RuntimeError::from));
    }
}
