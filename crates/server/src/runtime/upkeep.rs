//! What the store needs from time to time, and whether it had it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use noetl_api::health::Health;
use noetl_types::{Millis, Text, Timestamp};

use super::Core;
use super::error::causes;

/// How often it is looked after.
const LOOK: Duration = Duration::from_mins(1);

/// Room in the log for less than this is a reason to worry.
const LITTLE_ROOM: Millis = Millis::from_days(14);

/// An event that waits to be published for longer than this is one too.
const LONG_WAIT: Millis = Millis::from_minutes(10);

/// What is not as it should be, as of the last look: so that whoever asks costs the store nothing.
#[derive(Debug, Default)]
pub(crate) struct Worries(Mutex<Vec<Worry>>);

/// Something that is not as it should be.
#[derive(Debug, Clone)]
pub(crate) struct Worry {
    pub(crate) what: &'static str,
    pub(crate) health: Health,
    pub(crate) reason: Text,
}

impl Worries {
    /// What is not as it should be.
    pub(crate) fn all(&self) -> Vec<Worry> {
        let worries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        worries.clone()
    }

    fn are_now(&self, worries: Vec<Worry>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = worries;
    }
}

impl Core {
    /// Keeps room in the log ahead of time, and looks at what waits for too long.
    pub(super) async fn look_after_store(self: std::sync::Arc<Self>) {
        loop {
            let now = self.clock.now();
            let ahead = self.settings.partitions_ahead;
            if let Err(error) = self.store.keep_months(now, ahead).await {
                tracing::error!(error = %causes(&error), "no room was made in the log");
            }
            let worries = [self.room(now).await, self.unpublished(now).await];
            self.worries
                .are_now(worries.into_iter().flatten().collect());
            if !self.pause(LOOK).await {
                return;
            }
        }
    }

    async fn room(&self, now: Timestamp) -> Option<Worry> {
        let until = self.store.months_until().await.ok()??;
        let left = until.since(now);
        if left >= LITTLE_ROOM {
            return None;
        }
        let days = left.as_ms() / Millis::from_days(1).as_ms();
        Some(Worry {
            what: "partitions",
            health: if left == Millis::ZERO {
                Health::Failed
            } else {
                Health::Degraded
            },
            reason: format!("the log has room for {days} days").into(),
        })
    }

    async fn unpublished(&self, now: Timestamp) -> Option<Worry> {
        if !self.settings.outbox {
            return None;
        }
        let facts = self.store.outbox_facts().await.ok()?;
        let waits = now.since(facts.oldest_unpublished?);
        (waits > LONG_WAIT).then(|| Worry {
            what: "outbox",
            health: Health::Degraded,
            reason: format!(
                "an event waits to be published for {} s",
                waits.as_ms() / 1000
            )
            .into(),
        })
    }
}
