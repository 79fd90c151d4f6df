//! One turn of a mailbox.
//!
//! A turn has three phases: `decide` computes what follows from the messages that have accumulated,
//! `append` writes it to the store, and `publish` answers the senders and wakes all others that wait
//! for it. A turn whose append conflicts with another server is taken again.

mod append;
mod decide;
mod publish;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use noetl_engine::event::Event;
use noetl_engine::{EngineInput, EventExtras, InputVerdict, SlotRequest};
use noetl_store::{Fence, NewResult, NewWait, StoreError};
use noetl_types::{CommandId, ErrorCode, EventId, Text, Timestamp};

use crate::driver::cross_run_effects::CrossRunEffects;
use crate::driver::fair_turns::{TurnOrder, TurnPermit};
use crate::driver::loaded_execution::LoadedExecution;
use crate::driver::mailbox::Mailbox;
use crate::driver::queue_delta::QueueDelta;
use crate::driver::{Driver, Message, MessageBatch};
use crate::error::RuntimeError;
use crate::rng;
use append::AppendResult;
use decide::AppendSize;

/// Maximum batches per append.
const MAX_BATCHES_PER_APPEND: usize = 256;
/// Attempts at an append before the senders get an error.
const MAX_APPEND_ATTEMPTS: u32 = 30;

/// Drains a mailbox until it is empty.
pub(super) async fn run_mailbox(driver: &Arc<Driver>, mailbox: &Arc<Mailbox>) {
    while let Some(batches) = mailbox.take_batches(MAX_BATCHES_PER_APPEND) {
        let mut guard = mailbox.execution.lock().await;
        let execution = guard.take();
        *guard = take_turn(driver, mailbox, execution, batches).await;
        let has_ended = guard.as_ref().is_none_or(|execution| execution.state.is_ended());
        drop(guard);
        if has_ended {
            driver.executions.remove_ended(mailbox);
        }
    }
}

/// Takes a turn, and retries it after a conflict or a failure of the store. Returns the execution
/// afterwards, unless its state is unknown.
async fn take_turn(
    driver: &Arc<Driver>,
    mailbox: &Mailbox,
    mut execution: Option<LoadedExecution>,
    mut batches: VecDeque<MessageBatch>,
) -> Option<LoadedExecution> {
    // Last error of the store.
    let mut last_error: Option<StoreError> = None;
    for attempt in 0..MAX_APPEND_ATTEMPTS {
        let current = match execution.take() {
            Some(execution) => execution,
            None => match LoadedExecution::load(driver, mailbox.execution_id).await {
                Ok(Some(execution)) => execution,
                Ok(None) => {
                    fail_batches(batches, RuntimeError::no_execution());
                    return None;
                }
                Err(error) => {
                    fail_batches(batches, error);
                    return None;
                }
            },
        };
        batches = reject_unauthorized(&current, batches);
        let order = if has_cancellation(&batches) { TurnOrder::First } else { TurnOrder::Last };
        let Some((slow_permit, mut permit)) = acquire_permits(driver, &current, order).await else {
            let text = "too many executions of the tenant wait for the server; try again later";
            fail_batches(batches, RuntimeError::refused(ErrorCode::StoreUnavailable, text));
            return Some(current);
        };
        let decided = Turn::decide(driver, current, batches).await;
        mailbox.return_batches(decided.rest);
        let turn = match decided.turn {
            Ok(turn) => turn,
            // There is nothing to write.
            Err(execution) => return execution.map(|execution| *execution),
        };
        permit.charge_events(turn.events.len());
        drop(slow_permit);
        match turn.append().await {
            AppendResult::Done(appended) => return Some(appended.publish()),
            AppendResult::Retry { execution: reloaded, batches: remaining, pause, error } => {
                if remaining.is_empty() {
                    return reloaded.map(|execution| *execution);
                }
                batches = remaining;
                last_error = error;
                execution = reloaded.map(|execution| *execution);
                drop(permit);
                if pause {
                    tokio::time::sleep(rng::backoff_delay(&*driver.infra.rng, attempt)).await;
                }
            }
            AppendResult::Refused { batches, error } => {
                fail_batches(batches, error);
                return None;
            }
        }
    }
    let error = last_error.map_or_else(
        || {
            let text = "too many concurrent writes to the execution; try again later";
            RuntimeError::refused(ErrorCode::StoreUnavailable, text)
        },
        RuntimeError::from,
    );
    fail_batches(batches, error);
    None
}

/// Waits for the permits of a turn: the one of slow decisions, if the execution needs it, and the one
/// of all turns. Returns `None` if too many turns of the tenant wait.
async fn acquire_permits(
    driver: &Driver,
    execution: &LoadedExecution,
    order: TurnOrder,
) -> Option<(Option<TurnPermit>, TurnPermit)> {
    let tenant_id = &execution.header.tenant_id;
    let slow_permit = if execution.definition.has_slow_decisions() {
        Some(driver.slow_turns.acquire_turn(tenant_id, order).await?)
    } else {
        None
    };
    Some((slow_permit, driver.turns.acquire_turn(tenant_id, order).await?))
}

/// Returns the batches whose senders may access the execution, and rejects the others.
fn reject_unauthorized(
    execution: &LoadedExecution,
    batches: VecDeque<MessageBatch>,
) -> VecDeque<MessageBatch> {
    let access_error = |message: &Message| {
        let auth = message.auth_context.as_ref()?;
        auth.check_execution_access(&execution.header.tenant_id, &execution.pool).err()
    };
    let keep = |batch: MessageBatch| match batch.messages().iter().find_map(access_error) {
        Some(error) => {
            batch.reject_all(error);
            None
        }
        None => Some(batch),
    };
    batches.into_iter().filter_map(keep).collect()
}

fn has_cancellation(batches: &VecDeque<MessageBatch>) -> bool {
    let is_cancellation = |message: &Message| matches!(message.input, EngineInput::Cancel(_));
    batches.iter().flat_map(MessageBatch::messages).any(is_cancellation)
}

fn fail_batches(batches: VecDeque<MessageBatch>, error: RuntimeError) {
    let problem = error.into_problem();
    for batch in batches {
        batch.fail_all(problem.clone().into());
    }
}

/// A turn: the decisions about the messages that have accumulated, until they are appended and
/// published.
struct Turn {
    driver: Arc<Driver>,
    now: Timestamp,
    /// Execution after the decisions.
    execution: LoadedExecution,
    /// Execution before the decisions, if it is cheap to keep.
    before: Option<LoadedExecution>,
    /// Decided messages, grouped by batch.
    decided: Vec<Vec<DecidedMessage>>,
    /// Fences that the decisions depend on, one per command.
    fences: BTreeMap<CommandId, Fence>,
    events: Vec<Event>,
    changes: QueueDelta,
    results: Vec<NewResult>,
    /// Size of the append.
    size: AppendSize,
    /// Extra data stored with some of the events.
    event_extras: BTreeMap<EventId, EventExtras>,
    /// Effects beyond the execution.
    effects: CrossRunEffects,
    /// Open waits before the decisions.
    waits: BTreeMap<CommandId, NewWait>,
    timers: BTreeMap<Text, Timestamp>,
    /// Timers that the append arms.
    armed: Vec<(Text, Timestamp)>,
}

struct DecidedMessage {
    message: Message,
    verdict: InputVerdict,
    issued: u32,
    slot_requests: Vec<SlotRequest>,
}
