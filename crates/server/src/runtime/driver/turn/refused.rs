//! What to do about an append that did not go through.

use std::collections::VecDeque;
use std::sync::Arc;

use noetl_store::{AppendRefused, StoreError};
use noetl_types::ErrorCode;

use super::{Draft, Written, refuse_all};
use crate::runtime::Core;
use crate::runtime::driver::letter::{Before, Letter, Reply};
use crate::runtime::driver::live::Live;
use crate::runtime::error::RuntimeError;

impl Draft {
    /// Finds out what to do about an append that did not go through.
    pub(super) async fn failed(self, core: &Arc<Core>, refused: AppendRefused) -> Written {
        let is_birth = self.live.birth.is_some();
        let letters: VecDeque<Letter> = self
            .decided
            .into_iter()
            .map(|decided| decided.letter)
            .collect();
        match refused {
            // What nobody has written yet has no log to read: it is tried again as it is.
            AppendRefused::Conflict { .. } if is_birth => Written::Again {
                live: self.before.map(Box::new),
                letters,
                pause: true,
            },
            AppendRefused::Conflict { .. } | AppendRefused::Terminal => Written::Again {
                live: caught_up(core, self.before).await,
                letters,
                pause: false,
            },
            AppendRefused::Fenced { command_id } => Written::Again {
                live: self.before.map(Box::new),
                letters: letters
                    .into_iter()
                    .filter_map(|letter| {
                        if letter.is_fenced_by(command_id) {
                            letter.without_fence()
                        } else {
                            Some(letter)
                        }
                    })
                    .collect(),
                pause: false,
            },
            // An id that was made is made once: the first try has gone through after all.
            AppendRefused::AlreadyExists => Written::Again {
                live: None,
                letters,
                pause: false,
            },
            // Somebody has used the id of an event before; the others have nothing to do with it.
            AppendRefused::IdTaken if letters.iter().any(Letter::names_an_event) => {
                let (named, letters) = letters.into_iter().partition(Letter::names_an_event);
                refuse_all(named, || {
                    let text = "the id of the event is taken";
                    RuntimeError::refused(ErrorCode::IdConflict, text)
                });
                Written::Again {
                    live: self.before.map(Box::new),
                    letters,
                    pause: false,
                }
            }
            AppendRefused::Store(StoreError::Retry {
                outcome_unknown, ..
            }) => Written::Again {
                // Whether it was written is told by the log, and of a birth by trying it again.
                live: self
                    .before
                    .filter(|_| is_birth || !outcome_unknown)
                    .map(Box::new),
                letters,
                pause: true,
            },
            AppendRefused::Duplicate { execution_id } => {
                known(letters, &Before::Duplicate(execution_id))
            }
            AppendRefused::Replay(answered) => known(letters, &Before::Replay(answered)),
            refused => Written::Refused {
                letters,
                error: error_of(refused),
            },
        }
    }
}

/// Tells everybody that it was done before: nothing was written, and the execution is not there.
fn known(letters: VecDeque<Letter>, before: &Before) -> Written {
    for letter in letters {
        let reply = Reply {
            before: Some(before.clone()),
            ..Reply::default()
        };
        drop(letter.reply.send(Ok(reply)));
    }
    Written::Again {
        live: None,
        letters: VecDeque::new(),
        pause: false,
    }
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
