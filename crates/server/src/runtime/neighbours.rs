//! The other servers on the same store, and what they tell each other: where to look.
//!
//! Whatever is committed here may be waited for there: work by a worker, the log of a run by a
//! follower, the feed by a publisher. A hint goes out behind the commit, over a line of its own, and
//! only while there is somebody to hear it. Nothing depends on it: what a hint is lost of is found by
//! the looks that every server takes now and then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noetl_store::{Growth, Hints, Line, Places, StoreError};
use noetl_types::{ExecutionId, PoolName};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::error::causes;
use super::{Core, entropy};

/// The shortest time between two words to the others: what comes meanwhile goes together.
const APART: Duration = Duration::from_millis(5);

/// How long a line lasts that is worth having.
const STEADY: Duration = Duration::from_secs(10);

/// What is to be told.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    /// Whether there is a line, and so somebody to tell.
    is_on_line: AtomicBool,
    hints: Mutex<Hints>,
    /// There is something to tell.
    bell: Notify,
}

/// Why a line is not used any more.
enum HungUp {
    /// There is no other server.
    Alone,
    /// The process ends.
    Over,
    /// It broke.
    Broken(StoreError),
}

/// For as long as there is a line.
struct OnLine<'n>(&'n Neighbours);

impl Drop for OnLine<'_> {
    fn drop(&mut self) {
        self.0.is_on_line.store(false, Ordering::Release);
        *self.0.hints() = Hints::default();
    }
}

impl Neighbours {
    /// Whether anybody is told anything.
    fn are_told(&self) -> bool {
        self.is_on_line.load(Ordering::Acquire)
    }

    /// Keeps in mind what to tell.
    fn note(&self, add: impl FnOnce(&mut Hints)) {
        add(&mut self.hints());
        self.bell.notify_one();
    }

    /// Waits until there is something to tell, and it is time for it.
    async fn due(&self, not_before: Instant) {
        while self.hints().is_empty() {
            self.bell.notified().await;
        }
        tokio::time::sleep_until(not_before).await;
    }

    fn hints(&self) -> MutexGuard<'_, Hints> {
        // Hints are whole between any two of their steps.
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until so many others are known as is asked for.
async fn until(others: &mut watch::Receiver<usize>, is_so: impl Fn(usize) -> bool) {
    if others.wait_for(|others| is_so(*others)).await.is_err() {
        // Nobody counts them any more.
        std::future::pending::<()>().await;
    }
}

impl Core {
    /// Lets other servers know of a commit: what was left in a queue, and which log has grown.
    pub(super) fn tell_neighbours(
        &self,
        (queue, left): (&PoolName, usize),
        (execution_id, has_ended): (ExecutionId, bool),
    ) {
        if !self.neighbours.are_told() {
            return;
        }
        // Commands are told by NATS where there is one.
        let left = if self.reaches_nats() { 0 } else { left };
        let growth = if has_ended {
            Growth::End
        } else {
            Growth::Events
        };
        self.neighbours.note(|hints| {
            if left > 0 {
                hints.left(queue.clone(), left);
            }
            hints.grew(execution_id, growth);
        });
    }

    /// Lets other servers know that commands went back to queues.
    pub(super) fn tell_neighbours_of_work(&self) {
        if self.neighbours.are_told() {
            self.neighbours.note(|hints| hints.queues = Places::All);
        }
    }

    fn reaches_nats(&self) -> bool {
        let messaging = self.messaging.as_ref();
        messaging.is_some_and(|messaging| messaging.link().facts().is_connected)
    }

    /// Keeps a line to the other servers for as long as there are any. A line that breaks is made
    /// anew for ever; meanwhile everything is found by looking.
    pub(super) async fn keep_in_touch(self: Arc<Self>) {
        let mut others = self.ids.others();
        let mut tries = 0;
        loop {
            let some = until(&mut others, |others| others > 0);
            if self.shutdown.run_until_cancelled(some).await.is_none() {
                return;
            }
            let opened = self.shutdown.run_until_cancelled(self.store.line()).await;
            let ended = match opened {
                // A store that is never shared, or the end.
                Some(Ok(None)) | None => return,
                Some(Ok(Some(line))) => {
                    let since = Instant::now();
                    let ended = self.talk(line).await;
                    // One that breaks as soon as it is made is not made anew all the time.
                    if since.elapsed() > STEADY {
                        tries = 0;
                    }
                    ended
                }
                Some(Err(error)) => HungUp::Broken(error),
            };
            match ended {
                HungUp::Over => return,
                HungUp::Alone => continue,
                HungUp::Broken(error) if tries == 0 => {
                    tracing::warn!(error = %causes(&error), "other servers are not heard for now");
                }
                HungUp::Broken(_) => {}
            }
            tries += 1;
            if !self.pause(entropy::backoff(&*self.chance, tries)).await {
                return;
            }
        }
    }

    /// Tells and hears over a line, until that is over.
    async fn talk(&self, mut line: Box<dyn Line>) -> HungUp {
        let mut others = self.ids.others();
        self.neighbours.is_on_line.store(true, Ordering::Release);
        self.metrics.neighbours().heard(true);
        let on_line = OnLine(&self.neighbours);
        // Nobody knows what was missed in both directions while there was no line.
        self.heed(Hints::EVERYTHING);
        self.neighbours.note(|hints| *hints = Hints::EVERYTHING);
        let mut not_before = Instant::now();
        let ended = loop {
            tokio::select! {
                // Telling keeps to its pace, so hearing has its turns.
                biased;
                () = self.shutdown.cancelled() => break HungUp::Over,
                () = until(&mut others, |others| others == 0) => break HungUp::Alone,
                () = self.neighbours.due(not_before) => {
                    let hints = std::mem::take(&mut *self.neighbours.hints());
                    if let Err(error) = line.tell(&hints).await {
                        break HungUp::Broken(error);
                    }
                    self.metrics.neighbours().told();
                    not_before = Instant::now() + APART;
                }
                heard = line.hear() => match heard {
                    Ok(hints) => {
                        self.metrics.neighbours().was_told();
                        self.heed(hints);
                    }
                    Err(error) => break HungUp::Broken(error),
                },
            }
        };
        drop(on_line);
        self.metrics.neighbours().heard(false);
        ended
    }

    /// Lets those who wait here look where others have been.
    fn heed(&self, hints: Hints) {
        let have_grown = !hints.runs.is_empty();
        match hints.queues {
            Places::All => self.desk.look_again(),
            Places::Named(queues) => {
                for (queue, count) in queues {
                    self.desk.left(&queue, count);
                }
            }
        }
        match hints.runs {
            Places::All => self.followers.look_again(),
            Places::Named(runs) => {
                for (execution_id, growth) in runs {
                    self.followers.look(execution_id, growth == Growth::End);
                }
            }
        }
        if have_grown {
            self.log_has_grown();
        }
    }

    /// Lets those look who follow all events.
    pub(super) fn log_has_grown(&self) {
        self.appended
            .send_modify(|count| *count = count.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests;
