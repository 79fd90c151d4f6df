//! A random history: a sequence of calls generated from a seed, with every answer as text.
//!
//! Some of the calls are stale, fenced or contradictory on purpose. The next call depends on the
//! answers so far, so two stores that give equal answers get the same calls.

mod appends;
mod catalog_and_runtimes;
mod coordination;
mod publishing;
mod queue;
mod rng;

use std::fmt::Debug;

use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, ExecutionVersion, FeedPosition, Millis, PoolName, ResultId, TenantId, Timestamp,
};

use super::fixture::{TestExecution, all_executions, test_time};
use crate::{ClaimedMessage, CommandFilter, CommandStatusFilter, FeedLimit, LogPageLimit, Store};
pub(crate) use rng::SeededRng;

/// Maximum runs of one lane.
const RUNS_PER_LANE: i64 = 100_000;

/// State of the caller of a store.
pub(crate) struct RandomHistory {
    rng: SeededRng,
    /// Separates the runs, ids, pool and workers of histories that share a store.
    lane: i64,
    /// True if no other history uses the store, so that global lists can be compared.
    is_exclusive: bool,
    runs: Vec<TestExecution>,
    commands: Vec<(usize, CommandId)>,
    next_run: i64,
    next_result: i64,
    next_catalog: i64,
    next_quarantined: i64,
    /// Outbox rows claimed so far.
    claimed_rows: Vec<ClaimedMessage>,
    now: Timestamp,
    answers: Vec<String>,
}

impl RandomHistory {
    /// Creates a history with exclusive use of its store.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rng: SeededRng::new(seed),
            lane: 0,
            is_exclusive: true,
            runs: Vec::new(),
            commands: Vec::new(),
            next_run: 1,
            next_result: 1,
            next_catalog: 1,
            next_quarantined: 1,
            claimed_rows: Vec::new(),
            now: test_time("12:00:00"),
            answers: Vec::new(),
        }
    }

    /// Creates a history that shares its store with others.
    pub(crate) fn in_lane(seed: u64, lane: i64) -> Self {
        Self {
            lane,
            is_exclusive: false,
            next_run: lane * RUNS_PER_LANE + 1,
            next_catalog: lane * RUNS_PER_LANE + 1,
            ..Self::new(seed)
        }
    }

    /// Returns the id of an execution that is not driven here.
    fn foreign_execution_id(&mut self) -> i64 {
        TestExecution::new(self.lane * RUNS_PER_LANE + RUNS_PER_LANE / 2 + self.random_below(3))
            .id
            .get()
    }

    fn lane_pool(&self) -> PoolName {
        PoolName::new(format!("pool-{}", self.lane)).unwrap()
    }

    fn worker_name(&self, number: u64) -> String {
        format!("w{number}-{}", self.lane)
    }

    fn random_index(&mut self, length: usize) -> usize {
        usize::try_from(self.rng.next_below(u64::try_from(length.max(1)).unwrap())).unwrap()
    }

    fn random_below(&mut self, bound: u64) -> i64 {
        i64::try_from(self.rng.next_below(bound)).unwrap()
    }

    fn random_time_within(&mut self, range: Millis) -> Timestamp {
        let ms = self.rng.next_below(range.as_ms().max(1));
        self.now.saturating_add(Millis::from_ms(ms))
    }

    fn record_answer(&mut self, answer: &impl Debug) {
        self.answers.push(format!("{answer:?}"));
    }

    /// Makes a number of random calls.
    pub(crate) async fn play_calls(&mut self, store: &dyn Store, calls: usize) {
        for _ in 0..calls {
            self.now = self.random_time_within(Millis::from_secs(9));
            match self.rng.next_below(33) {
                0 | 1 => self.start_execution(store).await,
                2..=11 => self.append_random(store).await,
                12 => self.append_batch(store).await,
                13..=16 => self.lease_commands(store).await,
                17 | 18 => self.extend_or_release(store).await,
                19 => self.list_expired_and_due(store).await,
                20 => self.write_and_load_snapshot(store).await,
                21 => self.register_definition(store).await,
                22 => self.change_runtime(store).await,
                23..=27 => self.call_coordination(store).await,
                28..=31 => self.call_publishing(store).await,
                _ => self.list_commands_and_executions(store).await,
            }
        }
    }

    /// Reads the final state, and returns all answers.
    pub(crate) async fn read_final_answers(mut self, store: &dyn Store) -> Vec<String> {
        for (_, command_id) in self.commands.clone() {
            let command = store.find_command(command_id).await.unwrap();
            self.record_answer(&command);
        }
        for run in self.runs.clone() {
            let execution = store.find_execution(run.id).await.unwrap();
            self.record_answer(&execution);
            let log = store.read_events(run.id, ExecutionVersion::EMPTY, LogPageLimit::MAX).await;
            for event in log.unwrap() {
                self.record_answer(&(event.record, event.chain));
            }
            for number in 1..self.next_result {
                let id = ResultId::new(number).unwrap();
                let result = store.find_result(run.id, id).await.unwrap();
                self.record_answer(&result);
            }
        }
        self.read_coordination_state(store).await;
        let filter = CommandFilter {
            status: CommandStatusFilter::All,
            execution_id: None,
            pool: Some(self.lane_pool()),
            ..CommandFilter::open_in_execution(TenantId::default(), TestExecution::new(1).id)
        };
        let page = store.list_commands(filter).await.unwrap();
        self.record_answer(&page);
        if self.is_exclusive {
            self.read_global_state(store).await;
        }
        self.answers
    }

    async fn read_global_state(&mut self, store: &dyn Store) {
        let mut filter = all_executions();
        filter.limit = PageLimit::MAX;
        let page = store.list_executions(filter).await.unwrap();
        self.record_answer(&page);
        let counts = store.pool_counts().await.unwrap();
        self.record_answer(&counts);
        self.read_outbox_state(store).await;
        let versions = page.executions.iter().map(|it| it.head.version.get());
        let mut remaining: i64 = versions.sum();
        let mut after = FeedPosition::default();
        // Other writers in the same cluster may briefly hold back the end of the feed.
        let mut events = Vec::new();
        while remaining > 0 {
            let batch = store.read_feed(after, FeedLimit::MAX).await.unwrap();
            remaining -= i64::try_from(batch.events.len()).unwrap();
            after = batch.next;
            events.extend(batch.events);
        }
        // The order is guaranteed within an execution. Positions differ between backends.
        events.sort_by_key(|event| event.record.event.execution_id);
        for event in events {
            self.record_answer(&(event.record, event.chain));
        }
    }
}
