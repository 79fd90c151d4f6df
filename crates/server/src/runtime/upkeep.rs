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
        little_room(until.since(now))
    }

    async fn unpublished(&self, now: Timestamp) -> Option<Worry> {
        if !self.settings.outbox {
            return None;
        }
        let degraded = |reason: Text| Worry {
            what: "outbox",
            health: Health::Degraded,
            reason,
        };
        let facts = match self.store.outbox_facts().await {
            Ok(facts) => facts,
            // Nobody knows how it stands, which is no reason to call it well.
            Err(error) => {
                tracing::warn!(error = %causes(&error), "nobody knows how the outbox stands");
                return Some(degraded("how it stands could not be found out".into()));
            }
        };
        if facts.has_dead {
            let reason = "rows failed too often and wait for an operator: noetl outbox dead";
            return Some(degraded(reason.into()));
        }
        let waits = now.since(facts.oldest_unpublished?);
        (waits > LONG_WAIT).then(|| {
            let secs = waits.as_ms() / 1000;
            degraded(format!("an event waits to be published for {secs} s").into())
        })
    }
}

fn little_room(left: Millis) -> Option<Worry> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noetl_api::internal::{MarkFailedRequest, OutboxClaimRequest, OutboxIds, ProjectRequest};
    use noetl_store::faulty::{Fault, FaultyStore, Method};
    use noetl_store::{CopyScope, MemoryStore};
    use noetl_types::Json;

    use super::*;
    use crate::clock::SystemClock;
    use crate::runtime::{Runtime, Settings};

    #[test]
    fn little_room_worries_and_none_stops() {
        let health = |left: Millis| little_room(left).map(|worry| worry.health);
        assert_eq!(health(Millis::from_days(14)), None);
        let almost = Millis::from_ms(Millis::from_days(14).as_ms() - 1);
        assert_eq!(health(almost), Some(Health::Degraded));
        assert_eq!(health(Millis::ZERO), Some(Health::Failed));
        let worry = little_room(almost).unwrap();
        assert_eq!(worry.reason, "the log has room for 13 days");
    }

    #[tokio::test]
    async fn an_outbox_that_cannot_be_looked_at_is_not_called_well() {
        let plan = |method| match method {
            Method::OutboxFacts => Fault::Before,
            _ => Fault::None,
        };
        let store = FaultyStore::new(MemoryStore::new(), Box::new(plan));
        let settings = Settings {
            outbox: true,
            ..Settings::default()
        };
        let runtime = Runtime::open(Arc::new(store), Arc::new(SystemClock), settings)
            .await
            .unwrap();
        let told = runtime.core.unpublished(runtime.now()).await.unwrap();
        assert_eq!((told.what, told.health), ("outbox", Health::Degraded));
        // What else is counted is still told.
        let text = runtime.metrics_text().await.unwrap();
        assert!(text.contains("noetl_event_stream_lag_events 0\n"), "{text}");
        assert!(!text.contains("noetl_outbox_rows{"), "{text}");
    }

    #[tokio::test]
    async fn dead_rows_worry_until_somebody_gives_them_up() {
        let settings = Settings {
            outbox: true,
            outbox_max_attempts: 1,
            ..Settings::default()
        };
        let store = Arc::new(MemoryStore::new());
        let runtime = Runtime::open(store, Arc::new(SystemClock), settings)
            .await
            .unwrap();
        let event = Json::object([
            ("execution_id", Json::from(7)),
            ("event_id", Json::from(8)),
            ("event_type", Json::from("step.enter")),
        ]);
        let events = vec![event];
        let copied = runtime
            .project(ProjectRequest { events }, CopyScope::OfExecution)
            .await
            .unwrap();
        assert_eq!(copied.projected, 1, "{copied:?}");
        let worry = async || runtime.core.unpublished(runtime.now()).await;
        assert!(worry().await.is_none());
        let claimed = runtime.claim_outbox(OutboxClaimRequest::default());
        let row = claimed.await.unwrap().rows.remove(0);
        let failed = MarkFailedRequest {
            outbox_id: row.outbox_id,
            error: "no route".into(),
            attempts: None,
            max_delay_seconds: None,
        };
        assert!(runtime.mark_outbox_failed(failed).await.unwrap().marked);
        let told = worry().await.unwrap();
        assert_eq!((told.what, told.health), ("outbox", Health::Degraded));
        assert!(told.reason.contains("noetl outbox dead"), "{told:?}");
        let outbox_ids = vec![row.outbox_id];
        runtime
            .discard_outbox(OutboxIds { outbox_ids })
            .await
            .unwrap();
        assert!(worry().await.is_none());
    }
}
