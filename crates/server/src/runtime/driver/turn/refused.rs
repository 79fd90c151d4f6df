//! What to do about an append that did not go through.

use std::collections::VecDeque;
use std::sync::Arc;

use noetl_store::{AppendRefused, StoreError};
use noetl_types::ErrorCode;

use super::{Decided, Draft, Written};
use crate::runtime::Core;
use crate::runtime::driver::letter::{Before, Envelope, Reply};
use crate::runtime::driver::live::Live;
use crate::runtime::error::RuntimeError;

impl Draft {
    /// Finds out what to do about an append that did not go through.
    pub(super) async fn failed(self, core: &Arc<Core>, refused: AppendRefused) -> Written {
        let is_birth = self.live.birth.is_some();
        let together = |decided: Vec<Decided>| {
            let letters = decided.into_iter().map(|decided| decided.letter);
            Envelope::of(letters.collect())
        };
        let envelopes: VecDeque<Envelope> = self.decided.into_iter().filter_map(together).collect();
        match refused {
            // What nobody has written yet has no log to read: it is tried again as it is.
            AppendRefused::Conflict { .. } if is_birth => Written::Again {
                live: self.before.map(Box::new),
                envelopes,
                pause: true,
                error: None,
            },
            AppendRefused::Conflict { .. } | AppendRefused::Terminal => Written::Again {
                live: caught_up(core, self.before).await,
                envelopes,
                pause: false,
                error: None,
            },
            AppendRefused::Fenced { command_id } => Written::Again {
                live: self.before.map(Box::new),
                envelopes: envelopes
                    .into_iter()
                    .filter_map(|envelope| envelope.without_fence(command_id))
                    .collect(),
                pause: false,
                error: None,
            },
            // An id that was made is made once: the first try has gone through after all.
            AppendRefused::AlreadyExists => Written::Again {
                live: None,
                envelopes,
                pause: false,
                error: None,
            },
            // Somebody has used the id of an event before; the others have nothing to do with it.
            AppendRefused::IdTaken if envelopes.iter().any(Envelope::names_an_event) => {
                Written::Again {
                    live: self.before.map(Box::new),
                    envelopes: without_taken(envelopes),
                    pause: false,
                    error: None,
                }
            }
            // Whoever waited for a connection in vain has waited long enough.
            AppendRefused::Store(error) if error.saturated().is_some() => Written::Refused {
                envelopes,
                error: error.into(),
            },
            AppendRefused::Store(error @ StoreError::Retry { .. }) => {
                again_later(self.before, envelopes, error)
            }
            AppendRefused::Duplicate { execution_id } => {
                known(envelopes, &Before::Duplicate(execution_id))
            }
            AppendRefused::Replay(answered) => known(envelopes, &Before::Replay(answered)),
            refused => Written::Refused {
                envelopes,
                error: error_of(refused),
            },
        }
    }
}

/// The store failed, and perhaps only after it had written.
fn again_later(
    before: Option<Live>,
    mut envelopes: VecDeque<Envelope>,
    error: StoreError,
) -> Written {
    let may_be_there = matches!(
        error,
        StoreError::Retry {
            outcome_unknown: true,
            ..
        }
    );
    if may_be_there {
        let doubted = |envelope: Envelope| envelope.doubted(&error);
        envelopes = envelopes.into_iter().map(doubted).collect();
    }
    Written::Again {
        // Whether it was written is told by the log, and of a birth by trying it again.
        live: before
            .filter(|live| live.birth.is_some() || !may_be_there)
            .map(Box::new),
        envelopes,
        pause: true,
        error: Some(error),
    }
}

/// Tells everybody that it was done before: nothing was written, and the execution is not there.
fn known(envelopes: VecDeque<Envelope>, before: &Before) -> Written {
    for letter in envelopes.into_iter().flat_map(Envelope::into_letters) {
        let reply = Reply {
            before: Some(before.clone()),
            ..Reply::default()
        };
        drop(letter.reply.send(Ok(reply)));
    }
    Written::Again {
        live: None,
        envelopes: VecDeque::new(),
        pause: false,
        error: None,
    }
}

/// Refuses what brings an id that is taken. Where several bring ids, each is tried by itself: then
/// it is known which of them it is.
fn without_taken(envelopes: VecDeque<Envelope>) -> VecDeque<Envelope> {
    let named = envelopes
        .iter()
        .filter(|envelope| envelope.names_an_event());
    let is_found = named.count() == 1;
    let keep = |envelope: Envelope| match envelope.names_an_event() {
        true if is_found => {
            let text = "the id of the event is taken";
            envelope.refuse(RuntimeError::refused(ErrorCode::IdConflict, text));
            None
        }
        true => Some(envelope.suspected()),
        false => Some(envelope),
    };
    envelopes.into_iter().filter_map(keep).collect()
}

/// The state before a conflict with what others wrote since; nothing where it has to be loaded.
async fn caught_up(core: &Arc<Core>, before: Option<Live>) -> Option<Box<Live>> {
    let mut live = before.filter(|live| live.birth.is_none())?;
    live.catch_up(core).await.ok()?;
    Some(Box::new(live))
}

fn error_of(refused: AppendRefused) -> RuntimeError {
    match refused {
        AppendRefused::NotFound => RuntimeError::no_execution(),
        AppendRefused::Gone => RuntimeError::refused(
            ErrorCode::RetentionDropped,
            "the execution was dropped by retention",
        ),
        AppendRefused::DedupMismatch { execution_id } => RuntimeError::refused(
            ErrorCode::DedupMismatch,
            format!("another payload under the same dedup key has started {execution_id}"),
        ),
        AppendRefused::IdempotencyMismatch => RuntimeError::refused(
            ErrorCode::IdempotencyMismatch,
            "the idempotency key was used with another request",
        ),
        AppendRefused::Store(error) => error.into(),
        AppendRefused::Conflict { .. }
        | AppendRefused::Fenced { .. }
        | AppendRefused::AlreadyExists
        | AppendRefused::Terminal
        | AppendRefused::IdTaken
        | AppendRefused::Duplicate { .. }
        | AppendRefused::Replay(_)
        | AppendRefused::Invalid(_) => {
            tracing::error!(%refused, "an append was refused");
            RuntimeError::refused(ErrorCode::Internal, "the log does not take the decision")
        }
    }
}
