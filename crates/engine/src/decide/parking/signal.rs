//! Signals: those that come, those that came before.

use noetl_playbook::bounds::{MAX_VALUE_DEPTH, fits, is_shallow};
use noetl_playbook::shift::Answer;
use noetl_types::{CommandId, Json, JsonMap, Seq};

use super::begin::{end_at_once, find};
use super::conclude::{conclude, or_null};
use super::schema;
use crate::decide::draft::Draft;
use crate::decide::input::Signal;
use crate::decide::{Errand, LookBack, Refused, Verdict, report};
use crate::event::{APPROVAL, CHILD_ENDED, EventKind, Park, SignalReceived, Taken, Wait, WaitMode};
use crate::state::{KeptSignal, Parked, TakenSignal};

/// Bytes of the payload of a signal. What is larger belongs into the result store.
pub const MAX_SIGNAL_BYTES: usize = 64 << 10;

/// Somebody sends a signal: the wait that is open longest takes it; nobody's is kept.
pub(in crate::decide) fn signal(draft: &mut Draft<'_>, signal: Signal) -> Result<Verdict, Refused> {
    draft.must_go_on()?;
    if matches!(signal.name.as_str(), APPROVAL | CHILD_ENDED) {
        return Err(Refused::ReservedSignal(signal.name));
    }
    must_be_small(&signal.payload)?;
    if draft.state.is_paused() {
        return Err(Refused::Paused);
    }
    let broadcast = signal.broadcast;
    if broadcast.is_some_and(|broadcast| draft.state.mailbox.knows(broadcast)) {
        return Ok(Verdict::Duplicate);
    }
    match taker(draft, &signal)? {
        Some((command, slot)) => {
            take(draft, command, slot, signal)?;
            if let Some(answer) = answer(draft, command)?
                && let Some(closing) = conclude(draft, command, answer)?
            {
                report::follow_up(draft, closing)?;
            }
            Ok(Verdict::Accepted)
        }
        None if broadcast.is_some() => Err(Refused::NotAwaited),
        None => {
            record(draft, signal, None)?;
            Ok(Verdict::Kept)
        }
    }
}

/// Refuses what the log cannot hold.
pub(super) fn must_be_small(payload: &Json) -> Result<(), Refused> {
    if !is_shallow(payload, MAX_VALUE_DEPTH) {
        return Err(Refused::DeepPayload);
    }
    if fits(payload, MAX_SIGNAL_BYTES) {
        return Ok(());
    }
    let limit = MAX_SIGNAL_BYTES;
    Err(Refused::LargeMessage { limit })
}

/// The wait that a signal is for, and which of its signals that is.
fn taker(draft: &Draft<'_>, signal: &Signal) -> Result<Option<(CommandId, u32)>, Refused> {
    let mut found: Option<(Seq, CommandId, u32, &Parked)> = None;
    for (id, command, parked) in draft.state.parked() {
        let slot = parked.slot_for(&signal.name, signal.key.as_ref());
        let (Some(slot), Park::Wait(wait)) = (slot, &parked.park) else {
            continue;
        };
        let is_in_time = signal
            .received_at
            .is_none_or(|at| at >= parked.since.saturating_sub(wait.lookback));
        let is_first = found.is_none_or(|(issued, ..)| command.issued < issued);
        if is_in_time && is_first {
            found = Some((command.issued, id, slot, parked));
        }
    }
    let Some((_, command, slot, parked)) = found else {
        return Ok(None);
    };
    if let Park::Wait(Wait {
        schema: Some(schema),
        ..
    }) = &parked.park
    {
        schema::must_match(schema, &signal.payload, "payload")?;
    }
    Ok(Some((command, slot)))
}

/// Hands a signal that has just come to a wait.
fn take(
    draft: &mut Draft<'_>,
    command: CommandId,
    slot: u32,
    signal: Signal,
) -> Result<(), Refused> {
    let Some((by, parked)) = find(draft, command) else {
        return Err(draft.broken("wait"));
    };
    let lookback = signal.received_at.filter(|at| *at < parked.since);
    let taken = Taken {
        by,
        slot,
        lookback,
        kept: None,
    };
    record(draft, signal, Some(taken))
}

fn record(draft: &mut Draft<'_>, signal: Signal, taken: Option<Taken>) -> Result<(), Refused> {
    draft.emit(EventKind::SignalReceived(Box::new(SignalReceived {
        name: signal.name,
        key: signal.key,
        payload: signal.payload,
        actor: signal.actor,
        broadcast: signal.broadcast,
        taken,
    })))?;
    Ok(())
}

/// What a wait comes to, once it has what it waits for.
fn answer(draft: &Draft<'_>, command: CommandId) -> Result<Option<Answer>, Refused> {
    let Some((_, parked)) = find(draft, command) else {
        return Err(draft.broken("wait"));
    };
    let Park::Wait(wait) = &parked.park else {
        return Err(draft.broken("wait"));
    };
    Ok(match wait.mode {
        WaitMode::Any => parked.signals.first().map(|taken| Answer::ok(told(taken))),
        WaitMode::All if parked.signals.len() < wait.signals.len() => None,
        WaitMode::All => {
            let mut all = JsonMap::new();
            for taken in &parked.signals {
                let awaited = wait.signals.get(taken.slot as usize);
                let label = awaited.and_then(|awaited| awaited.label.clone());
                let label = label.unwrap_or_else(|| taken.signal.name.clone());
                all.insert(label.into_shared(), told(taken));
            }
            Some(Answer::ok(Json::from(all)))
        }
    })
}

/// A signal as the data of the task has it.
fn told(taken: &TakenSignal) -> Json {
    let KeptSignal {
        name,
        key,
        payload,
        received_at,
        ..
    } = &taken.signal;
    Json::object([
        ("name", Json::from(name)),
        ("key", or_null(key.as_ref())),
        ("payload", payload.clone()),
        ("received_at", Json::from(*received_at)),
    ])
}

/// Looks for signals that came before the wait: those that the run has kept, oldest first, and then
/// broadcasts, which the server has.
pub(super) fn look_back(draft: &mut Draft<'_>, command: CommandId) -> Result<(), Refused> {
    let Some((at, parked)) = find(draft, command) else {
        return Err(draft.broken("wait"));
    };
    let Park::Wait(wait) = &parked.park else {
        return Err(draft.broken("wait"));
    };
    if wait.lookback.is_zero() {
        return Ok(());
    }
    let since = parked.since.saturating_sub(wait.lookback);
    let kept = draft.state.mailbox.kept.clone();
    let in_time = kept
        .iter()
        .filter(|(_, signal)| signal.received_at >= since);
    for (seq, signal) in in_time {
        let Some((_, now)) = find(draft, command) else {
            return Err(draft.broken("wait"));
        };
        let Some(slot) = now.slot_for(&signal.name, signal.key.as_ref()) else {
            continue;
        };
        let schema = wait.schema.as_ref();
        if schema.is_some_and(|schema| schema::violation(schema, &signal.payload).is_some()) {
            continue;
        }
        let taken = Taken {
            by: at.clone(),
            slot,
            lookback: Some(signal.received_at),
            kept: Some(*seq),
        };
        record(draft, again(signal), Some(taken))?;
        if let Some(answer) = answer(draft, command)? {
            return end_at_once(draft, command, answer);
        }
    }
    let names = wait.signals.iter();
    let names = names.map(|awaited| (awaited.name.clone(), awaited.key.clone()));
    draft.errands.push(Errand::LookBack(LookBack {
        command,
        names: names.collect(),
        since,
    }));
    Ok(())
}

/// A signal that was kept.
fn again(signal: &KeptSignal) -> Signal {
    Signal {
        name: signal.name.clone(),
        key: signal.key.clone(),
        payload: signal.payload.clone(),
        actor: signal.actor.clone(),
        broadcast: None,
        received_at: None,
    }
}
