//! Deciding what has come together, as far as one append can hold what follows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use noetl_engine::{Decision, Input, Moment, Refused, State, Verdict, decide};
use noetl_types::{Json, Version};

use super::weight::Weight;
use super::{Decided, Draft};
use crate::runtime::Core;
use crate::runtime::driver::letter::{Envelope, Letter};
use crate::runtime::driver::live::Live;
use crate::runtime::error::RuntimeError;

/// Letters that were decided, and those that have to wait for the next append.
pub(super) struct Batch {
    /// What is to be written; else the execution as it is, unless that is not known.
    pub(super) draft: Result<Draft, Option<Box<Live>>>,
    pub(super) rest: VecDeque<Envelope>,
}

/// Why letters led to no decision.
enum Undecided {
    /// The engine says no, as far as the state tells.
    Refused(Refused),
    /// No append holds what follows, as far as the state tells.
    TooMuch,
    /// Something that it needs could not be had.
    Failed(RuntimeError),
}

impl Undecided {
    /// Tells the senders of letters.
    fn tell(self, envelope: Envelope) {
        match self {
            Self::Refused(refused) => envelope.refuse(refused.into()),
            Self::TooMuch => envelope.refuse(Weight::refusal()),
            Self::Failed(error) => envelope.give_up(error),
        }
    }

    /// Whether the state tells so. No append checks that, so it has to be the newest state.
    fn depends_on_state(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::TooMuch)
    }
}

impl Batch {
    /// Decides letters in sequence, as far as one append can hold what follows.
    pub(super) async fn decide(
        core: &Arc<Core>,
        live: Live,
        mut envelopes: VecDeque<Envelope>,
    ) -> Self {
        let mut draft = Draft::new(live, &envelopes, core.clock.now());
        let mut payloads = BTreeMap::new();
        // Nobody else can have written to an execution that the store does not know.
        let mut is_newest = draft.live.birth.is_some();
        while let Some(envelope) = envelopes.pop_front() {
            // What may have been done before has an append of its own, so that it fails no others.
            let is_alone = envelope.stands_alone();
            if is_alone && !draft.decided.is_empty() {
                envelopes.push_front(envelope);
                break;
            }
            if envelope.is_long() {
                return Self {
                    draft: draft.of_many(core, envelope, is_newest).await,
                    rest: envelopes,
                };
            }
            if draft.has_begun_by(&envelope) {
                draft.take_begun(envelope);
                continue;
            }
            match draft.decisions(core, &envelope, &mut payloads).await {
                Err(undecided) if undecided.depends_on_state() && !is_newest => {
                    if !draft.decided.is_empty() {
                        envelopes.push_front(envelope);
                        break;
                    }
                    match draft.catch_up(core).await {
                        Ok(()) => {
                            is_newest = true;
                            envelopes.push_front(envelope);
                        }
                        // What is not known is not refused: whoever asks takes a refusal for good.
                        Err(error) => envelope.give_up(error),
                    }
                }
                Err(undecided) => undecided.tell(envelope),
                Ok(decisions) if draft.collides_with(&envelope, &decisions) => {
                    envelopes.push_front(envelope);
                    break;
                }
                Ok(decisions) => {
                    let letters = envelope.into_letters().into_iter().zip(decisions);
                    let decided = letters.map(|(letter, decision)| draft.take(letter, decision));
                    let decided = decided.collect();
                    draft.decided.push(decided);
                }
            }
            if draft.weight.is_much() || is_alone && !draft.decided.is_empty() {
                break;
            }
        }
        Self {
            draft: draft.or_answered(),
            rest: envelopes,
        }
    }
}

impl Draft {
    /// What is to be written. Where that is nothing, everybody is answered.
    fn or_answered(self) -> Result<Self, Option<Box<Live>>> {
        if self.events.is_empty() {
            Err(Some(self.answer_without_writing()))
        } else {
            Ok(self)
        }
    }

    /// Decides many letters that are one. Each is taken before the next one is decided, so that only
    /// one state is there at a time, however many they are. Where one of them is refused the state
    /// has gone too far, and the log has to be read again.
    async fn of_many(
        mut self,
        core: &Arc<Core>,
        envelope: Envelope,
        is_newest: bool,
    ) -> Result<Self, Option<Box<Live>>> {
        if !is_newest && let Err(error) = self.catch_up(core).await {
            envelope.give_up(error);
            return Err(None);
        }
        let mut payloads = BTreeMap::new();
        let mut letters = VecDeque::from(envelope.into_letters());
        let mut decided = Vec::with_capacity(letters.len());
        let refused = loop {
            if self.weight.is_too_much() {
                break Undecided::TooMuch;
            }
            let Some(letter) = letters.pop_front() else {
                self.decided.push(decided);
                return self.or_answered();
            };
            let state = &self.live.state;
            match self.decision(core, state, &letter, &mut payloads).await {
                Ok(decision) => decided.push(self.take(letter, decision)),
                Err(undecided) => {
                    letters.push_front(letter);
                    break undecided;
                }
            }
        };
        let taken = decided.into_iter().map(|decided| decided.letter);
        if let Some(envelope) = Envelope::of(taken.chain(letters).collect()) {
            refused.tell(envelope);
        }
        Err(None)
    }

    /// What follows from letters that are one, each decided on what the one before it leads to.
    async fn decisions(
        &self,
        core: &Arc<Core>,
        envelope: &Envelope,
        payloads: &mut BTreeMap<Arc<str>, Json>,
    ) -> Result<Vec<Decision>, Undecided> {
        let mut decisions: Vec<Decision> = Vec::with_capacity(envelope.letters().len());
        let mut weight = Weight::default();
        for letter in envelope.letters() {
            let state = decisions.last().map_or(&self.live.state, |last| &last.next);
            let decision = self.decision(core, state, letter, payloads).await?;
            weight = weight.and(&decision);
            if weight.is_too_much() {
                return Err(Undecided::TooMuch);
            }
            decisions.push(decision);
        }
        Ok(decisions)
    }

    /// What follows from a letter, with whatever has to be fetched for it.
    async fn decision(
        &self,
        core: &Arc<Core>,
        state: &State,
        letter: &Letter,
        payloads: &mut BTreeMap<Arc<str>, Json>,
    ) -> Result<Decision, Undecided> {
        let mut caches = BTreeMap::new();
        loop {
            let plan = &self.live.definition.plan;
            let lent = core.ids.with(self.now, |ids| {
                let mut moment = Moment {
                    now: self.now,
                    ids,
                    payloads: &*payloads,
                    caches: &caches,
                };
                decide(state, plan, letter.input.clone(), &mut moment)
            });
            match lent.map_err(|error| Undecided::Failed(error.into()))? {
                Ok(decision) => {
                    for payload in &decision.payloads {
                        payloads.insert(payload.reference.uri().into(), payload.content.clone());
                    }
                    return Ok(decision);
                }
                Err(Refused::NeedsPayload(uri)) if !payloads.contains_key(&uri) => {
                    let payload = core.fetch(&uri).await.map_err(Undecided::Failed)?;
                    payloads.insert(uri, payload);
                }
                Err(Refused::NeedsCache(key)) if !caches.contains_key(&key) => {
                    let tenant_id = &self.live.header.tenant_id;
                    let found = core.cached(tenant_id, &key, self.now).await;
                    caches.insert(key, found.map_err(Undecided::Failed)?);
                }
                Err(refused) => return Err(Undecided::Refused(refused)),
            }
        }
    }

    /// Whether decisions need an append of their own: they are too much for this one, change a
    /// command that has a change already, or depend on its lease in another way. Letters that are one
    /// say of a command what their sender knows of it, of which the last counts.
    fn collides_with(&self, envelope: &Envelope, decisions: &[Decision]) -> bool {
        let fences = envelope
            .letters()
            .iter()
            .filter_map(|letter| letter.fence.as_ref());
        let differs = |fence: &noetl_store::Fence| {
            let known = self.fences.get(&fence.command_id);
            known.is_some_and(|known| known != fence)
        };
        let weight = decisions.iter().fold(self.weight, Weight::and);
        let mut decided = decisions.iter();
        weight.is_too_much()
            || decided.any(|decision| self.changes.collide_with(&decision.events))
            || fences.into_iter().any(differs)
    }

    /// Whether a letter begins what has begun. Ids are made once, so an earlier try of the same
    /// letter went through, though nobody could tell.
    fn has_begun_by(&self, envelope: &Envelope) -> bool {
        let is_start = |letter: &Letter| matches!(letter.input, Input::Start(_));
        envelope.letters().iter().any(is_start) && self.live.state.version() > Version::EMPTY
    }

    fn take_begun(&mut self, envelope: Envelope) {
        let issued = u32::try_from(self.live.state.open_commands()).unwrap_or(u32::MAX);
        let begun = envelope.into_letters().into_iter().map(|letter| Decided {
            letter,
            verdict: Verdict::Accepted,
            issued,
            wants: Vec::new(),
        });
        self.decided.push(begun.collect());
    }
}
