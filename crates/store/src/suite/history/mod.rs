//! A history: a sequence of calls that a seed makes, and every answer in words.
//!
//! Some of the calls are stale, fenced or contradictory on purpose. What a history does next
//! depends on the answers that it got, so two stores that answer alike see the same calls.

mod appends;
mod commons;
mod dice;
mod others;
mod outlets;
mod queue;

use std::fmt::Debug;

use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, FeedPosition, Millis, PoolName, ResultId, TenantId, Timestamp, Version,
};

use super::fixture::{Run, all_executions, at};
use crate::{ClaimedMessage, CommandChoice, CommandFilter, FeedLimit, LogPage, Store};
pub(crate) use dice::Dice;

/// Runs that one lane may make.
const LANE: i64 = 100_000;

/// What the caller of a store remembers.
pub(crate) struct History {
    dice: Dice,
    /// What is nobody else's when several histories share a store: runs, ids, a pool, a worker.
    lane: i64,
    /// Whether nobody else is there, so that lists over everything can be compared.
    is_alone: bool,
    runs: Vec<Run>,
    commands: Vec<(usize, CommandId)>,
    next_run: i64,
    next_result: i64,
    next_catalog: i64,
    next_refused: i64,
    /// Rows of the outbox that were claimed at some time.
    in_hand: Vec<ClaimedMessage>,
    now: Timestamp,
    words: Vec<String>,
}

impl History {
    /// A history that has a store to itself.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            lane: 0,
            is_alone: true,
            runs: Vec::new(),
            commands: Vec::new(),
            next_run: 1,
            next_result: 1,
            next_catalog: 1,
            next_refused: 1,
            in_hand: Vec::new(),
            now: at("12:00:00"),
            words: Vec::new(),
        }
    }

    /// A history beside others.
    pub(crate) fn in_lane(seed: u64, lane: i64) -> Self {
        Self {
            lane,
            is_alone: false,
            next_run: lane * LANE + 1,
            next_catalog: lane * LANE + 1,
            ..Self::new(seed)
        }
    }

    /// A run that nobody here drives.
    fn foreign_run(&mut self) -> i64 {
        Run::new(self.lane * LANE + LANE / 2 + self.small(3))
            .id
            .get()
    }

    fn pool(&self) -> PoolName {
        PoolName::new(format!("pool-{}", self.lane)).unwrap()
    }

    fn worker(&self, number: u64) -> String {
        format!("w{number}-{}", self.lane)
    }

    fn pick(&mut self, length: usize) -> usize {
        usize::try_from(self.dice.roll(u64::try_from(length.max(1)).unwrap())).unwrap()
    }

    fn small(&mut self, sides: u64) -> i64 {
        i64::try_from(self.dice.roll(sides)).unwrap()
    }

    fn later(&mut self, within: Millis) -> Timestamp {
        let ms = self.dice.roll(within.as_ms().max(1));
        self.now.saturating_add(Millis::from_ms(ms))
    }

    fn note(&mut self, answer: &impl Debug) {
        self.words.push(format!("{answer:?}"));
    }

    /// Does a number of things.
    pub(crate) async fn play(&mut self, store: &dyn Store, calls: usize) {
        for _ in 0..calls {
            self.now = self.later(Millis::from_secs(9));
            match self.dice.roll(33) {
                0 | 1 => self.start(store).await,
                2..=11 => self.append(store).await,
                12 => self.append_together(store).await,
                13..=16 => self.lease(store).await,
                17 | 18 => self.keep_or_give_back(store).await,
                19 => self.look(store).await,
                20 => self.snapshot(store).await,
                21 => self.define(store).await,
                22 => self.live(store).await,
                23..=27 => self.meet(store).await,
                28..=31 => self.go_out(store).await,
                _ => self.list(store).await,
            }
        }
    }

    /// Reads everything, and gives all answers.
    pub(crate) async fn end(mut self, store: &dyn Store) -> Vec<String> {
        for (_, command_id) in self.commands.clone() {
            let command = store.command(command_id).await.unwrap();
            self.note(&command);
        }
        for run in self.runs.clone() {
            let execution = store.execution(run.id).await.unwrap();
            self.note(&execution);
            let log = store.events(run.id, Version::EMPTY, LogPage::MAX).await;
            for event in log.unwrap() {
                self.note(&(event.record, event.chain));
            }
            for number in 1..self.next_result {
                let id = ResultId::new(number).unwrap();
                let result = store.result(run.id, id).await.unwrap();
                self.note(&result);
            }
        }
        self.read_commons(store).await;
        let mine = CommandFilter {
            choice: CommandChoice::All,
            execution_id: None,
            pool: Some(self.pool()),
            ..CommandFilter::open_of(TenantId::default(), Run::new(1).id)
        };
        let page = store.commands(mine).await.unwrap();
        self.note(&page);
        if self.is_alone {
            self.read_what_is_shared(store).await;
        }
        self.words
    }

    async fn read_what_is_shared(&mut self, store: &dyn Store) {
        let mut filter = all_executions();
        filter.limit = PageLimit::MAX;
        let page = store.executions(filter).await.unwrap();
        self.note(&page);
        let counts = store.pool_counts().await.unwrap();
        self.note(&counts);
        self.read_outbox(store).await;
        let versions = page.executions.iter().map(|it| it.head.version.get());
        let mut left: i64 = versions.sum();
        let mut after = FeedPosition::default();
        // Whoever else writes in the same cluster may hold the end of the feed back for a moment.
        let mut fed = Vec::new();
        while left > 0 {
            let batch = store.feed(after, FeedLimit::MAX).await.unwrap();
            left -= i64::try_from(batch.events.len()).unwrap();
            after = batch.next;
            fed.extend(batch.events);
        }
        // The order is promised within an execution; the places differ between backends.
        fed.sort_by_key(|event| event.record.event.execution_id);
        for event in fed {
            self.note(&(event.record, event.chain));
        }
    }
}
