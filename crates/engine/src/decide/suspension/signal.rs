//! Signals: incoming ones, and those received before a wait.

use noetl_playbook::bounds::{MAX_VALUE_DEPTH, fits_within, is_shallow};
use noetl_playbook::command_machine::ToolResult;
use noetl_playbook::value_schema::SchemaValidator;
use noetl_types::{CommandId, Json, JsonMap, Seq};

use super::begin::{end_at_once, find_suspended};
use super::conclude::{conclude_wait, or_null};
use super::schema;
use crate::decide::draft::Draft;
use crate::decide::input::IncomingSignal;
use crate::decide::{BroadcastLookback, DecisionError, FollowUp, InputVerdict, Result, report};
use crate::event::{
    APPROVAL_SIGNAL, CHILD_ENDED_SIGNAL, EventKind, SignalDelivery, SignalReceived, SignalWait,
    SuspensionKind, WaitMode,
};
use crate::state::{
    BufferedSignal, DeliveredSignal, MAX_BUFFERED_SIGNAL_BYTES, MAX_BUFFERED_SIGNALS, SuspendedTask,
};

/// Maximum size of the payload of a signal. Larger data belongs in the result store.
pub const MAX_SIGNAL_BYTES: usize = 64 << 10;

/// Accepts a signal. The oldest matching wait receives it. Without one, the signal is buffered.
pub(in crate::decide) fn accept_signal(
    draft: &mut Draft<'_>,
    signal: IncomingSignal,
) -> Result<InputVerdict> {
    draft.ensure_not_ended()?;
    if matches!(signal.name.as_str(), APPROVAL_SIGNAL | CHILD_ENDED_SIGNAL) {
        return Err(DecisionError::ReservedSignal(signal.name));
    }
    check_signal_payload(&signal.payload)?;
    if draft.state.is_paused() {
        return Err(DecisionError::Paused);
    }
    let broadcast = signal.broadcast;
    if broadcast.is_some_and(|broadcast| draft.state.signal_buffer.has_seen_broadcast(broadcast)) {
        return Ok(InputVerdict::Duplicate);
    }
    match find_matching_wait(draft, &signal)? {
        Some((command, awaited_index)) => {
            deliver_to_wait(draft, command, awaited_index, signal)?;
            if let Some(result) = completed_wait_result(draft, command)?
                && let Some(closed) = conclude_wait(draft, command, result)?
            {
                report::advance_unless_paused(draft, closed)?;
            }
            Ok(InputVerdict::Accepted)
        }
        None if broadcast.is_some() => Err(DecisionError::NotAwaited),
        None if draft.state.signal_buffer.is_full() => Err(DecisionError::TooManySignals {
            limit: MAX_BUFFERED_SIGNALS,
            limit_bytes: MAX_BUFFERED_SIGNAL_BYTES,
        }),
        None => {
            emit_signal(draft, signal, None)?;
            Ok(InputVerdict::Buffered)
        }
    }
}

/// Checks that the log can store a payload.
pub fn check_signal_payload(payload: &Json) -> Result<()> {
    if !is_shallow(payload, MAX_VALUE_DEPTH) {
        return Err(DecisionError::PayloadTooDeep);
    }
    if fits_within(payload, MAX_SIGNAL_BYTES) {
        return Ok(());
    }
    let limit = MAX_SIGNAL_BYTES;
    Err(DecisionError::SignalTooLarge { limit })
}

/// Finds the wait that a signal matches, and the index of the awaited signal.
fn find_matching_wait(
    draft: &Draft<'_>,
    signal: &IncomingSignal,
) -> Result<Option<(CommandId, u32)>> {
    let mut found: Option<(Seq, CommandId, u32, &SuspendedTask)> = None;
    for (id, command, suspended) in draft.state.suspended_tasks() {
        let awaited_index = suspended.find_awaited_index(&signal.name, signal.key.as_ref());
        let (Some(awaited_index), SuspensionKind::Wait(wait)) = (awaited_index, &suspended.kind)
        else {
            continue;
        };
        let is_in_time =
            signal.received_at.is_none_or(|at| at >= suspended.since.saturating_sub(wait.lookback));
        let is_first = found.is_none_or(|(issued, ..)| command.issued < issued);
        if is_in_time && is_first {
            found = Some((command.issued, id, awaited_index, suspended));
        }
    }
    let Some((_, command, awaited_index, suspended)) = found else {
        return Ok(None);
    };
    if let SuspensionKind::Wait(SignalWait { schema: Some(schema), .. }) = &suspended.kind {
        schema::check_matches(schema, &signal.payload, "payload")?;
    }
    Ok(Some((command, awaited_index)))
}

/// Delivers a new signal to a wait.
fn deliver_to_wait(
    draft: &mut Draft<'_>,
    command: CommandId,
    awaited_index: u32,
    signal: IncomingSignal,
) -> Result<()> {
    let Some((at, suspended)) = find_suspended(draft, command) else {
        return Err(draft.invariant_error("wait"));
    };
    let received_before_wait = signal.received_at.filter(|at| *at < suspended.since);
    let delivery = SignalDelivery {
        consumer: at,
        awaited_index,
        received_at: received_before_wait,
        buffered_seq: None,
    };
    emit_signal(draft, signal, Some(delivery))
}

fn emit_signal(
    draft: &mut Draft<'_>,
    signal: IncomingSignal,
    delivery: Option<SignalDelivery>,
) -> Result<()> {
    draft.emit_event(EventKind::SignalReceived(Box::new(SignalReceived {
        name: signal.name,
        key: signal.key,
        payload: signal.payload,
        actor: signal.actor,
        broadcast: signal.broadcast,
        delivery,
    })))?;
    Ok(())
}

/// Returns the outcome of a wait that has received all that it requires.
fn completed_wait_result(draft: &Draft<'_>, command: CommandId) -> Result<Option<ToolResult>> {
    let Some((_, suspended)) = find_suspended(draft, command) else {
        return Err(draft.invariant_error("wait"));
    };
    let SuspensionKind::Wait(wait) = &suspended.kind else {
        return Err(draft.invariant_error("wait"));
    };
    Ok(match wait.mode {
        WaitMode::Any => {
            suspended.signals.first().map(|delivered| ToolResult::ok(signal_data(delivered)))
        }
        WaitMode::All if suspended.signals.len() < wait.signals.len() => None,
        WaitMode::All => {
            let mut all = JsonMap::new();
            for delivered in &suspended.signals {
                let awaited = wait.signals.get(delivered.awaited_index as usize);
                let label = awaited.and_then(|awaited| awaited.label.clone());
                let label = label.unwrap_or_else(|| delivered.signal.name.clone());
                all.insert(label.into_shared(), signal_data(delivered));
            }
            Some(ToolResult::ok(Json::from(all)))
        }
    })
}

/// Converts a signal to the data of the task.
fn signal_data(delivered: &DeliveredSignal) -> Json {
    let BufferedSignal { name, key, payload, received_at, .. } = &delivered.signal;
    Json::object([
        ("name", Json::from(name)),
        ("key", or_null(key.as_ref())),
        ("payload", payload.clone()),
        ("received_at", Json::from(*received_at)),
    ])
}

/// Delivers signals that were received before the wait: first those that the execution has
/// buffered, oldest first, and then broadcasts, which the server stores.
pub(super) fn deliver_earlier_signals(draft: &mut Draft<'_>, command: CommandId) -> Result<()> {
    let Some((at, suspended)) = find_suspended(draft, command) else {
        return Err(draft.invariant_error("wait"));
    };
    let SuspensionKind::Wait(wait) = &suspended.kind else {
        return Err(draft.invariant_error("wait"));
    };
    if wait.lookback.is_zero() {
        return Ok(());
    }
    let since = suspended.since.saturating_sub(wait.lookback);
    let buffered = draft.state.signal_buffer.kept.clone();
    // All of them share the budget of one validator, which has checked the schema already.
    let mut validator = match wait.schema.as_ref().map(SchemaValidator::new) {
        Some(Ok(validator)) => Some(validator),
        Some(Err(_)) => return Err(draft.invariant_error("schema")),
        None => None,
    };
    let in_time = buffered.iter().filter(|(_, signal)| signal.received_at >= since);
    for (seq, signal) in in_time {
        let Some((_, current)) = find_suspended(draft, command) else {
            return Err(draft.invariant_error("wait"));
        };
        let Some(awaited_index) = current.find_awaited_index(&signal.name, signal.key.as_ref())
        else {
            continue;
        };
        if let Some(validator) = &mut validator
            && validator.check_value(&signal.payload).is_err()
        {
            continue;
        }
        let delivery = SignalDelivery {
            consumer: at.clone(),
            awaited_index,
            received_at: Some(signal.received_at),
            buffered_seq: Some(*seq),
        };
        emit_signal(draft, signal_from_buffered(signal), Some(delivery))?;
        if let Some(result) = completed_wait_result(draft, command)? {
            return end_at_once(draft, command, result);
        }
    }
    let names = wait.signals.iter();
    let names = names.map(|awaited| (awaited.name.clone(), awaited.key.clone()));
    draft.follow_ups.push(FollowUp::DeliverBroadcasts(BroadcastLookback {
        command,
        names: names.collect(),
        since,
    }));
    Ok(())
}

/// Converts a buffered signal to a new one.
fn signal_from_buffered(signal: &BufferedSignal) -> IncomingSignal {
    IncomingSignal {
        name: signal.name.clone(),
        key: signal.key.clone(),
        payload: signal.payload.clone(),
        actor: signal.actor.clone(),
        broadcast: None,
        received_at: None,
    }
}
