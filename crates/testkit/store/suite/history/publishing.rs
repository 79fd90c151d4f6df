//! Random calls about the outbox, streams and projected events.
//!
//! Outbox ids differ between backends, since a database does not reuse an id. All other fields of a
//! row are compared.

use noetl_types::record::{ProjectionContext, parse_projected_event};
use noetl_types::{
    FeedPosition, Json, OrganizationId, QuarantineId, TenantId, Text, Timestamp, json,
};

use super::super::fixture::payload_bytes;
use super::super::outbox::{all_outbox_rows, outbox_claim, outbox_failure, outbox_mark};
use super::super::stream::stream_lease_request;
use super::RandomHistory;
use crate::{
    ClaimedMessage, CursorMove, OutboxClaim, OutboxFailure, OutboxMark, OutboxRow, ProjectionBatch,
    ProjectionScope, QuarantineFilter, QuarantinedItem, Store, StoreError, StreamOwner,
    project_events,
};

fn describe_row(row: &OutboxRow) -> impl std::fmt::Debug {
    let mut text = format!("{row:?}");
    // Everything except the id, which comes first.
    let start = text.find("event_id").unwrap_or_default();
    text.split_off(start)
}

fn describe_claimed(row: &ClaimedMessage) -> impl std::fmt::Debug {
    (row.message_id.clone(), row.subject.clone(), row.attempts, payload_bytes(row.payload.clone()))
}

impl RandomHistory {
    /// Makes a call as a publisher, stream or projector, as they occur between appends.
    pub(super) async fn call_publishing(&mut self, store: &dyn Store) {
        match self.rng.next_below(7) {
            0 => self.lease_or_read_stream(store).await,
            1 | 2 => self.project_random_events(store).await,
            3 => self.quarantine_item(store).await,
            // The outbox is global, so it is only compared without other histories.
            _ if !self.is_exclusive => {}
            4 | 5 => self.claim_outbox_rows(store).await,
            _ => self.mark_outbox_rows(store).await,
        }
    }

    async fn claim_outbox_rows(&mut self, store: &dyn Store) {
        let pending = store.count_claimable_outbox_rows(self.now).await;
        self.record_answer(&pending);
        let limit = 1 + self.random_below(6);
        let request =
            OutboxClaim { max_attempts: 3, ..outbox_claim(&self.worker_name(1), limit, self.now) };
        let batch = store.claim_outbox(request).await;
        let text = batch.as_ref().map(|batch| {
            let text: Vec<_> = batch.rows.iter().map(describe_claimed).collect();
            format!("{text:?} {:?}", batch.dead)
        });
        self.record_answer(&text.map_err(StoreError::clone));
        self.claimed_rows.extend(batch.unwrap_or_default().rows);
    }

    async fn mark_outbox_rows(&mut self, store: &dyn Store) {
        if self.claimed_rows.is_empty() {
            return;
        }
        let index = self.random_index(self.claimed_rows.len());
        let row = self.claimed_rows[index].clone();
        match self.rng.next_below(8) {
            0 => {
                let answer = store.requeue_outbox_rows(vec![row.outbox_id], self.now).await;
                self.record_answer(&answer);
            }
            1 => {
                let answer = store.discard_outbox_rows(vec![row.outbox_id], self.now).await;
                self.record_answer(&answer);
            }
            2 => {
                let limit = noetl_types::limits::PageLimit::clamped(1 + self.random_below(3));
                let answer = store.purge_outbox_rows(self.now, limit).await;
                self.record_answer(&answer);
            }
            3 | 4 => {
                let attempts = [None, Some(0), Some(row.attempts)][self.random_index(3)];
                let failure = OutboxFailure {
                    max_attempts: 3,
                    ..outbox_failure(row.outbox_id, attempts, self.now)
                };
                let answer = store.mark_failed(failure).await;
                self.record_answer(&answer);
            }
            _ => {
                let unfenced = OutboxMark { attempts: None, ..outbox_mark(&row) };
                let marks = vec![if self.rng.one_in(3) { unfenced } else { outbox_mark(&row) }];
                let answer = store.mark_published(marks, self.now).await;
                self.record_answer(&answer);
            }
        }
    }

    async fn lease_or_read_stream(&mut self, store: &dyn Store) {
        let name = format!("stream{}-{}", self.lane, self.rng.next_below(2));
        let number = self.rng.next_below(2);
        let request = stream_lease_request(&name, &self.worker_name(number), self.now);
        let name = Text::from(name);
        match self.rng.next_below(4) {
            0 => {
                let outcome = store.lease_stream(request).await;
                self.record_answer(&outcome);
            }
            1 => {
                let cursor = store.find_stream_cursor(&name).await;
                self.record_answer(&cursor);
            }
            _ => self.change_stream(store, name).await,
        }
    }

    async fn change_stream(&mut self, store: &dyn Store, name: Text) {
        let found = store.find_stream_cursor(&name).await.ok().flatten();
        let Some(cursor) = found else {
            return;
        };
        let owner = StreamOwner {
            name,
            // Sometimes it is a former owner.
            epoch: cursor.epoch - u64::from(self.rng.one_in(5)),
            now: self.now,
        };
        let target = FeedPosition {
            tx: cursor.position.tx + self.rng.next_below(2),
            position: cursor.position.position + self.random_below(3) - 1,
        };
        let answer = match self.rng.next_below(5) {
            0 => store.release_stream_lease(owner).await,
            1 => {
                store
                    .renew_stream_lease(
                        owner,
                        self.random_time_within(noetl_types::Millis::from_secs(30)),
                    )
                    .await
            }
            2 => {
                let restart = CursorMove::Restart { to: target, stream_created_at: Some(self.now) };
                store.move_stream_cursor(owner, restart).await
            }
            _ => {
                let forward = CursorMove::Forward { from: cursor.position, to: target };
                store.move_stream_cursor(owner, forward).await
            }
        };
        self.record_answer(&answer);
    }

    /// Projects external events, some of them twice, some with another body, some of driven runs.
    async fn project_random_events(&mut self, store: &dyn Store) {
        let context = ProjectionContext {
            now: Timestamp::parse("2026-11-10T12:00:00Z").unwrap(),
            tenant_id: TenantId::default(),
            organization_id: OrganizationId::default(),
        };
        let mut events = Vec::new();
        // Outbox rows of several executions of one call have no defined order.
        let use_outbox = self.rng.one_in(2);
        let single_id = self.random_execution_id();
        for _ in 0..=self.rng.next_below(5) {
            let execution_id = if use_outbox { single_id } else { self.random_execution_id() };
            let types = ["step_enter", "playbook.completed", "odd one", "step.exit"];
            let text = format!(
                r#"{{"execution_id":{execution_id},"event_id":{},"event_type":"{}","node_name":"n{}"}}"#,
                execution_id + 500_000 + self.random_below(12),
                types[self.random_index(4)],
                self.rng.next_below(2)
            );
            let value = json::parse(text.as_bytes()).unwrap();
            events.push(parse_projected_event(&value, &context).unwrap());
        }
        let batch = ProjectionBatch {
            events,
            scope: ProjectionScope::ExecutionOwner,
            now: self.now,
            use_outbox,
        };
        let outcomes = project_events(store, batch).await;
        self.record_answer(&outcomes);
        // The head of a driven run may have moved, so it is read again.
        for index in 0..self.runs.len() {
            if let Ok(Some(found)) = store.find_execution(self.runs[index].id).await {
                self.runs[index].head = found.head;
            }
        }
    }

    fn random_execution_id(&mut self) -> i64 {
        if self.runs.is_empty() || self.rng.one_in(2) {
            return self.foreign_execution_id();
        }
        let index = self.random_index(self.runs.len());
        self.runs[index].id.get()
    }

    async fn quarantine_item(&mut self, store: &dyn Store) {
        let source = Text::from(format!("source{}", self.lane));
        let item = QuarantinedItem {
            quarantine_id: QuarantineId::new(self.lane * 10_000 + self.next_quarantined).unwrap(),
            source: source.clone(),
            raw: Text::from(format!("raw {}", self.rng.next_below(3))),
            code: Text::from("bad_value"),
            message: Text::from("no"),
            created_at: self.now,
        };
        self.next_quarantined += 1;
        let answer = store.quarantine_items(vec![item]).await;
        self.record_answer(&answer);
        let filter = QuarantineFilter {
            source: Some(source),
            after: None,
            limit: noetl_types::limits::PageLimit::MAX,
        };
        let items = store.list_quarantined_items(filter).await;
        self.record_answer(&items);
    }

    /// Reads the outbox at the end.
    pub(super) async fn read_outbox_state(&mut self, store: &dyn Store) {
        let rows = store.list_outbox_rows(all_outbox_rows()).await.unwrap();
        for row in &rows {
            self.record_answer(&describe_row(row));
        }
        let stats = store.outbox_stats().await.unwrap();
        self.record_answer(&stats);
        let epoch = store.log_epoch().await.unwrap();
        self.record_answer(&(epoch, Json::Null));
    }
}
