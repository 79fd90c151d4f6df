//! Outbox, streams, copies.
//!
//! Numbers of rows differ between backends, since a database does not give one twice; what is noted
//! of a row is everything else.

use noetl_types::record::{Arrival, read_projected};
use noetl_types::{
    FeedPosition, Json, OrganizationId, QuarantineId, TenantId, Text, Timestamp, json,
};

use super::super::outbox::{all, claim, failure, mark};
use super::super::stream::take;
use super::History;
use crate::{
    ClaimedMessage, CopyBatch, CopyScope, OutboxClaim, OutboxFailure, OutboxMark, OutboxRow,
    QuarantineFilter, Quarantined, Store, StoreError, StreamMove, StreamOwner, project,
};

fn said(row: &OutboxRow) -> impl std::fmt::Debug {
    let mut words = format!("{row:?}");
    // Everything but the number, which comes first.
    let own = words.find("event_id").unwrap_or_default();
    words.split_off(own)
}

fn claimed(row: &ClaimedMessage) -> impl std::fmt::Debug {
    (
        row.message_id.clone(),
        row.subject.clone(),
        row.attempts,
        row.payload.clone().into_canonical(),
    )
}

impl History {
    /// Publishers, streams and projectors, as they come between appends.
    pub(super) async fn go_out(&mut self, store: &dyn Store) {
        match self.dice.roll(7) {
            0 => self.stream(store).await,
            1 | 2 => self.copy(store).await,
            3 => self.refuse(store).await,
            // The outbox is everybody's: only a history by itself can tell.
            _ if !self.is_alone => {}
            4 | 5 => self.claim_rows(store).await,
            _ => self.settle_rows(store).await,
        }
    }

    async fn claim_rows(&mut self, store: &dyn Store) {
        let pending = store.outbox_pending(self.now).await;
        self.note(&pending);
        let limit = 1 + self.small(6);
        let asked = OutboxClaim {
            max_attempts: 3,
            ..claim(&self.worker(1), limit, self.now)
        };
        let given = store.claim_outbox(asked).await;
        let words = given.as_ref().map(|given| {
            let words: Vec<_> = given.rows.iter().map(claimed).collect();
            format!("{words:?} {:?}", given.dead)
        });
        self.note(&words.map_err(StoreError::clone));
        self.in_hand.extend(given.unwrap_or_default().rows);
    }

    async fn settle_rows(&mut self, store: &dyn Store) {
        if self.in_hand.is_empty() {
            return;
        }
        let place = self.pick(self.in_hand.len());
        let row = self.in_hand[place].clone();
        match self.dice.roll(8) {
            0 => {
                let answer = store.replay_outbox(vec![row.outbox_id], self.now).await;
                self.note(&answer);
            }
            1 => {
                let answer = store.discard_outbox(vec![row.outbox_id], self.now).await;
                self.note(&answer);
            }
            2 => {
                let limit = noetl_types::limits::PageLimit::clamped(1 + self.small(3));
                let answer = store.purge_outbox(self.now, limit).await;
                self.note(&answer);
            }
            3 | 4 => {
                let attempts = [None, Some(0), Some(row.attempts)][self.pick(3)];
                let failed = OutboxFailure {
                    max_attempts: 3,
                    ..failure(row.outbox_id, attempts, self.now)
                };
                let answer = store.mark_failed(failed).await;
                self.note(&answer);
            }
            _ => {
                let unfenced = OutboxMark {
                    attempts: None,
                    ..mark(&row)
                };
                let marks = vec![if self.dice.one_in(3) {
                    unfenced
                } else {
                    mark(&row)
                }];
                let answer = store.mark_published(marks, self.now).await;
                self.note(&answer);
            }
        }
    }

    async fn stream(&mut self, store: &dyn Store) {
        let name = format!("stream{}-{}", self.lane, self.dice.roll(2));
        let number = self.dice.roll(2);
        let wish = take(&name, &self.worker(number), self.now);
        let name = Text::from(name);
        match self.dice.roll(4) {
            0 => {
                let taken = store.take_stream(wish).await;
                self.note(&taken);
            }
            1 => {
                let cursor = store.stream_cursor(&name).await;
                self.note(&cursor);
            }
            _ => self.use_stream(store, name).await,
        }
    }

    async fn use_stream(&mut self, store: &dyn Store, name: Text) {
        let kept = store.stream_cursor(&name).await.ok().flatten();
        let Some(cursor) = kept else {
            return;
        };
        let owner = StreamOwner {
            name,
            // Now and then it is somebody else's.
            epoch: cursor.epoch - u64::from(self.dice.one_in(5)),
            now: self.now,
        };
        let further = FeedPosition {
            tx: cursor.position.tx + self.dice.roll(2),
            position: cursor.position.position + self.small(3) - 1,
        };
        let answer = match self.dice.roll(5) {
            0 => store.release_stream(owner).await,
            1 => {
                store
                    .renew_stream(owner, self.later(noetl_types::Millis::from_secs(30)))
                    .await
            }
            2 => {
                let restart = StreamMove::Restart {
                    to: further,
                    stream_created_at: Some(self.now),
                };
                store.move_stream(owner, restart).await
            }
            _ => {
                let forward = StreamMove::Forward {
                    from: cursor.position,
                    to: further,
                };
                store.move_stream(owner, forward).await
            }
        };
        self.note(&answer);
    }

    /// Events of others, some of them twice, some with another body, some of runs of our own.
    async fn copy(&mut self, store: &dyn Store) {
        let arrival = Arrival {
            now: Timestamp::parse("2026-11-10T12:00:00Z").unwrap(),
            tenant_id: TenantId::default(),
            organization_id: OrganizationId::default(),
        };
        let mut events = Vec::new();
        // Rows of several executions of one call come in no particular order.
        let outbox = self.dice.one_in(2);
        let only = self.some_run();
        for _ in 0..=self.dice.roll(5) {
            let run = if outbox { only } else { self.some_run() };
            let types = ["step_enter", "playbook.completed", "odd one", "step.exit"];
            let text = format!(
                r#"{{"execution_id":{run},"event_id":{},"event_type":"{}","node_name":"n{}"}}"#,
                run + 500_000 + self.small(12),
                types[self.pick(4)],
                self.dice.roll(2)
            );
            let value = json::parse(text.as_bytes()).unwrap();
            events.push(read_projected(&value, &arrival).unwrap());
        }
        let batch = CopyBatch {
            events,
            scope: CopyScope::OfExecution,
            now: self.now,
            outbox,
        };
        let verdicts = project(store, batch).await;
        self.note(&verdicts);
        // Whatever drives a run of our own has to look again.
        for place in 0..self.runs.len() {
            if let Ok(Some(found)) = store.execution(self.runs[place].id).await {
                self.runs[place].head = found.head;
            }
        }
    }

    fn some_run(&mut self) -> i64 {
        if self.runs.is_empty() || self.dice.one_in(2) {
            return self.foreign_run();
        }
        let place = self.pick(self.runs.len());
        self.runs[place].id.get()
    }

    async fn refuse(&mut self, store: &dyn Store) {
        let source = Text::from(format!("source{}", self.lane));
        let refused = Quarantined {
            quarantine_id: QuarantineId::new(self.lane * 10_000 + self.next_refused).unwrap(),
            source: source.clone(),
            raw: Text::from(format!("raw {}", self.dice.roll(3))),
            code: Text::from("bad_value"),
            message: Text::from("no"),
            created_at: self.now,
        };
        self.next_refused += 1;
        let answer = store.quarantine(vec![refused]).await;
        self.note(&answer);
        let filter = QuarantineFilter {
            source: Some(source),
            after: None,
            limit: noetl_types::limits::PageLimit::MAX,
        };
        let list = store.quarantined(filter).await;
        self.note(&list);
    }

    /// Everything that is in the outbox at the end.
    pub(super) async fn read_outbox(&mut self, store: &dyn Store) {
        let rows = store.outbox(all()).await.unwrap();
        for row in &rows {
            self.note(&said(row));
        }
        let facts = store.outbox_facts().await.unwrap();
        self.note(&facts);
        let epoch = store.log_epoch().await.unwrap();
        self.note(&(epoch, Json::Null));
    }
}
