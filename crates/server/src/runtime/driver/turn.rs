//! One turn of an execution: decide what has come together, append it, tell everybody.

mod batch;
mod refused;
mod weight;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use noetl_api::command::LeasedCommand;
use noetl_engine::event::Event;
use noetl_engine::{Beside, Decision, SlotChange, SlotWant, Verdict, encode};
use noetl_store::{
    Append, AppendRefused, Appended, Fence, NewResult, NewWait, StoreError, TimerChange,
};
use noetl_types::{
    CommandId, ErrorCode, EventId, Json, JsonMap, NewEvent, Text, Timestamp, sha256,
};

use self::batch::Batch;
use self::weight::Weight;
use super::beyond::{Beyond, wait_changes};
use super::cell::Cell;
use super::changes::{Changes, Queueing, timer_changes};
use super::grant::{Grants, Offering};
use super::letter::{Claims, Envelope, FEW_LETTERS, Letter, Reply};
use super::live::Live;
use crate::metrics::EventLabels;
use crate::runtime::error::RuntimeError;
use crate::runtime::outcome::Outcome;
use crate::runtime::{Core, entropy};

/// Letters that one append may answer; such that are one count once.
const MOST_ENVELOPES: usize = 256;
/// How often an append is tried before its senders are told that it did not work out.
const MOST_TRIES: u32 = 30;

/// Takes turns until the mailbox is empty.
pub(super) async fn take_turns(core: &Arc<Core>, cell: &Arc<Cell>) {
    while let Some(envelopes) = cell.take(MOST_ENVELOPES) {
        let mut slot = cell.live.lock().await;
        let live = slot.take();
        *slot = take_turn(core, cell, live, envelopes).await;
        let has_ended = slot.as_ref().is_none_or(|live| live.state.is_ended());
        drop(slot);
        if has_ended {
            core.driver.cells.forget(cell);
        }
    }
}

/// Answers letters; gives the execution as it is afterwards, unless that is not known.
async fn take_turn(
    core: &Arc<Core>,
    cell: &Cell,
    mut live: Option<Live>,
    mut envelopes: VecDeque<Envelope>,
) -> Option<Live> {
    // How the store failed last, where it did.
    let mut failed: Option<StoreError> = None;
    for attempt in 0..MOST_TRIES {
        let current = match live.take() {
            Some(live) => live,
            None => match Live::load(core, cell.execution_id).await {
                Ok(Some(live)) => live,
                Ok(None) => {
                    give_up_all(envelopes, RuntimeError::no_execution());
                    return None;
                }
                Err(error) => {
                    give_up_all(envelopes, error);
                    return None;
                }
            },
        };
        envelopes = of_its_own(&current, envelopes);
        let batch = Batch::decide(core, current, envelopes).await;
        cell.put_back(batch.rest);
        let draft = match batch.draft {
            Ok(draft) => draft,
            // Nothing is to be written.
            Err(live) => return live.map(|live| *live),
        };
        match draft.write(core).await {
            Written::Done(live) => return Some(*live),
            Written::Again {
                live: known,
                envelopes: again,
                pause,
                error,
            } => {
                if again.is_empty() {
                    return known.map(|live| *live);
                }
                envelopes = again;
                failed = error;
                live = known.map(|live| *live);
                if pause {
                    tokio::time::sleep(entropy::backoff(&*core.chance, attempt)).await;
                }
            }
            Written::Refused { envelopes, error } => {
                give_up_all(envelopes, error);
                return None;
            }
        }
    }
    let error = failed.map_or_else(
        || {
            let text = "others keep writing to the execution; try again later";
            RuntimeError::refused(ErrorCode::StoreUnavailable, text)
        },
        RuntimeError::from,
    );
    give_up_all(envelopes, error);
    None
}

/// The letters of those whom an execution is the business of; the others are refused.
fn of_its_own(live: &Live, envelopes: VecDeque<Envelope>) -> VecDeque<Envelope> {
    let foreign = |letter: &Letter| {
        let behalf = letter.behalf.as_ref()?;
        behalf.check(&live.header.tenant_id, &live.pool).err()
    };
    let keep = |envelope: Envelope| match envelope.letters().iter().find_map(foreign) {
        Some(error) => {
            envelope.refuse(error);
            None
        }
        None => Some(envelope),
    };
    envelopes.into_iter().filter_map(keep).collect()
}

fn give_up_all(envelopes: VecDeque<Envelope>, error: RuntimeError) {
    let problem = error.into_problem();
    for envelope in envelopes {
        envelope.give_up(problem.clone().into());
    }
}

/// Decisions that are to be appended.
struct Draft {
    now: Timestamp,
    /// The execution after them.
    live: Live,
    /// The execution before them, where it is cheap to keep.
    before: Option<Live>,
    /// What was decided about each letter; such that are one stand together.
    decided: Vec<Vec<Decided>>,
    /// What must be true of leases for the decisions to count; a command has one fence.
    fences: BTreeMap<CommandId, Fence>,
    events: Vec<Event>,
    changes: Changes,
    results: Vec<NewResult>,
    /// What they weigh together.
    weight: Weight,
    /// What is stored beside some of the events.
    beside: BTreeMap<EventId, Beside>,
    /// What they mean beyond the execution.
    beyond: Beyond,
    /// The waits before them.
    waits: BTreeMap<CommandId, NewWait>,
    timers: BTreeMap<Text, Timestamp>,
    /// Timers that open with the append.
    armed: Vec<(Text, Timestamp)>,
}

struct Decided {
    letter: Letter,
    verdict: Verdict,
    issued: u32,
    wants: Vec<SlotWant>,
}

impl Decided {
    /// What it may be the first to do. Only now is known how many commands a start issues, which its
    /// answer tells whenever it is given.
    fn claims(&self) -> Claims {
        let mut claims = self.letter.claims.clone();
        if let Some(claim) = &mut claims.idempotency
            && let Json::Map(answer) = &claim.answer
            && answer.contains_key(ISSUED)
        {
            let mut answer = JsonMap::clone(answer);
            answer.insert(ISSUED.into(), Json::from(i64::from(self.issued)));
            claim.answer = Json::from(answer);
        }
        claims
    }
}

/// The part of the answer to a start that says how many commands it issued.
const ISSUED: &str = "commands_generated";

/// What came of an append.
enum Written {
    Done(Box<Live>),
    /// To be decided again.
    Again {
        /// The execution as it is now, where that is known.
        live: Option<Box<Live>>,
        envelopes: VecDeque<Envelope>,
        /// Whether to wait a little first.
        pause: bool,
        /// How the store failed, where it did.
        error: Option<StoreError>,
    },
    Refused {
        envelopes: VecDeque<Envelope>,
        error: RuntimeError,
    },
}

impl Draft {
    /// No decision yet about letters.
    fn new(live: Live, envelopes: &VecDeque<Envelope>, now: Timestamp) -> Self {
        let letters = envelopes.iter().map(|envelope| envelope.letters().len());
        Self {
            now,
            timers: live.open_timers(),
            waits: live.open_waits(),
            // A conflict of few letters costs only the tail of the log.
            before: (letters.sum::<usize>() <= FEW_LETTERS).then(|| live.copy()),
            live,
            decided: Vec::with_capacity(envelopes.len()),
            fences: BTreeMap::new(),
            events: Vec::new(),
            changes: Changes::default(),
            results: Vec::new(),
            weight: Weight::default(),
            beside: BTreeMap::new(),
            beyond: Beyond::default(),
            armed: Vec::new(),
        }
    }

    /// Folds what others wrote, so that the state is the newest.
    async fn catch_up(&mut self, core: &Arc<Core>) -> Result<(), RuntimeError> {
        let few = self.before.is_some();
        self.before = None;
        let caught_up = self.live.catch_up(core).await;
        self.before = few.then(|| self.live.copy());
        self.timers = self.live.open_timers();
        self.waits = self.live.open_waits();
        caught_up
    }

    /// What is decided about a letter, added to what was decided before it.
    fn take(&mut self, letter: Letter, mut decision: Decision) -> Decided {
        let verdict = decision.verdict;
        self.weight = self.weight.and(&decision);
        self.beside.append(&mut decision.beside);
        let results = decision.payloads.iter().map(|payload| NewResult {
            result_id: payload.result_id,
            name: payload.name.as_str().into(),
            sha256: sha256(&payload.bytes),
            bytes: Arc::clone(&payload.bytes),
            media_type: "application/json".into(),
        });
        self.results.extend(results);
        let fence = letter.fence.clone();
        if let (Verdict::Accepted, Some(fence)) = (verdict, fence) {
            self.fences.insert(fence.command_id, fence);
        }
        let queueing = Queueing {
            pool: &self.live.pool,
            priority: self.live.priority,
        };
        let states = (&self.live.state, &decision.next);
        self.changes.add(&decision.events, states, &queueing);
        self.beyond
            .add(&letter.input, &decision, &self.live, self.now);
        let is_issue =
            |event: &&Event| matches!(event.kind, noetl_engine::EventKind::CommandIssued(_));
        let issued = decision.events.iter().filter(is_issue).count();
        let wants = decision.slots.iter().filter_map(|change| match change {
            SlotChange::Want(want) => Some(want.clone()),
            SlotChange::Free(_) | SlotChange::Clear => None,
        });
        let wants = wants.collect();
        let events = decision.commit(&mut self.live.state);
        self.live.note(&events);
        self.events.extend(events);
        Decided {
            letter,
            verdict,
            issued: u32::try_from(issued).unwrap_or(u32::MAX),
            wants,
        }
    }

    /// All letters told what was known already.
    fn answer_without_writing(self) -> Box<Live> {
        let version = self.live.head.version;
        for decided in self.decided.into_iter().flatten() {
            let reply = Reply {
                verdict: Some(decided.verdict),
                version,
                wants: decided.wants,
                ..Reply::default()
            };
            drop(decided.letter.reply.send(Ok(reply)));
        }
        Box::new(self.live)
    }

    fn offers(&self) -> Vec<Offering> {
        let offering = |(index, decided): (usize, &Decided)| {
            let offer = decided.letter.offer.as_ref()?;
            Some(Offering {
                letter: index,
                offer: Arc::clone(offer),
            })
        };
        let decided = self.decided.iter().flatten().enumerate();
        decided.filter_map(offering).collect()
    }

    async fn write(mut self, core: &Arc<Core>) -> Written {
        let offers = self.offers();
        let whose = (self.live.header.execution_id, self.now);
        let grants = Grants::assign(core, &mut self.changes, &offers, whose);
        let append = Append {
            outbox: core.settings.outbox && !self.live.is_publisher(),
            ..self.append()
        };
        let outcome = self.events.iter().rev().find_map(Outcome::of);
        let counted: Vec<_> = append.events.iter().map(EventLabels::of).collect();
        let began = tokio::time::Instant::now();
        match core.append(append).await {
            Ok(appended) => {
                core.metrics.appended(&counted, began.elapsed());
                let left = grants.left;
                let (catalog_id, execution_id) = (
                    self.live.definition.entry.catalog_id,
                    self.live.header.execution_id,
                );
                let leased = grants.hand_out(core, &self.events, catalog_id, execution_id);
                Written::Done(self.committed(core, appended, leased, (left, outcome)))
            }
            Err(refused) => {
                if matches!(refused, AppendRefused::Conflict { .. }) {
                    core.metrics.conflicted();
                }
                grants.take_back(core, &offers);
                self.failed(core, refused).await
            }
        }
    }

    fn append(&mut self) -> Append {
        let live = &self.live;
        let timers = timer_changes(&self.timers, &live.open_timers());
        self.armed = timers.iter().filter_map(armed).collect();
        let catalog_id = live.definition.entry.catalog_id;
        let beside = &self.beside;
        let record = |event: &Event| {
            let record = NewEvent {
                catalog_id: Some(catalog_id),
                ..encode(event, &live.header)
            };
            match beside.get(&event.event_id) {
                Some(beside) => beside.on(record),
                None => record,
            }
        };
        let commands = std::mem::take(&mut self.changes).into_vec();
        let claims = self.decided.iter().flatten().map(Decided::claims);
        let claims = claims.fold(Claims::default(), |found, claims| Claims {
            dedup: found.dedup.or(claims.dedup),
            idempotency: found.idempotency.or(claims.idempotency),
        });
        Append {
            execution_id: live.header.execution_id,
            expected: live.head,
            now: self.now,
            events: self.events.iter().map(record).collect(),
            keep_checksums: false,
            is_copy: false,
            outbox: false,
            start: live.birth.clone(),
            view: live.view(),
            fences: self.fences.values().cloned().collect(),
            commands,
            timers,
            results: std::mem::take(&mut self.results),
            waits: wait_changes(&self.waits, live.open_waits()),
            errands: self.beyond.errands(self.now),
            slots: self.beyond.slots(),
            cached: self.beyond.cached(),
            dedup: claims.dedup,
            idempotency: claims.idempotency,
        }
    }

    /// Tells everybody what was written.
    fn committed(
        self,
        core: &Arc<Core>,
        appended: Appended,
        mut leased: BTreeMap<usize, Vec<LeasedCommand>>,
        (left, outcome): (usize, Option<Outcome>),
    ) -> Box<Live> {
        let mut live = self.live;
        live.head = appended.head;
        live.birth = None;
        if let Some(before) = self.before {
            // Only one state is left now, so its changes need not be kept apart.
            drop(before);
            live.state.settle();
        }
        if left > 0 {
            core.desk.left(&live.pool, left);
        }
        let execution_id = live.header.execution_id;
        let version = appended.head.version;
        core.alarms.set(execution_id, self.armed);
        let ends_children = |decided: &Decided| decided.letter.ends_children;
        let ending = self.decided.iter().flatten().position(ends_children);
        let (owed, mut children) = self.beyond.into_owed(ending.is_some());
        core.run_errands(execution_id, owed);
        if outcome.is_some() {
            core.trace(execution_id);
        }
        core.followers.tell(execution_id, version, outcome.clone());
        core.log_has_grown();
        core.tell_neighbours((&live.pool, left), (execution_id, outcome.is_some()));
        for (index, decided) in self.decided.into_iter().flatten().enumerate() {
            let reply = Reply {
                before: None,
                verdict: Some(decided.verdict),
                version,
                issued: decided.issued,
                leased: leased.remove(&index).unwrap_or_default(),
                outcome: outcome.clone(),
                // The append has told them.
                wants: Vec::new(),
                children: match ending {
                    Some(ending) if ending == index => std::mem::take(&mut children),
                    Some(_) | None => Vec::new(),
                },
            };
            if let Err(Ok(lost)) = decided.letter.reply.send(Ok(reply)) {
                core.give_back(lost.leased);
            }
        }
        core.snapshot_if_due(&mut live);
        Box::new(live)
    }
}

fn armed(change: &TimerChange) -> Option<(Text, Timestamp)> {
    match change {
        TimerChange::Arm { timer_id, fire_at } => Some((timer_id.clone(), *fire_at)),
        TimerChange::Disarm { .. } => None,
    }
}
