//! The same history on two backends must be answered alike.
//!
//! A seed makes a sequence of calls, some of them stale, fenced or contradictory; every answer and
//! finally all that can be read is put into words and compared with those of the model.

use noetl_types::limits::{LeaseBatch, PageLimit, Priority};
use noetl_types::{CommandId, EventType, FeedPosition, Millis, Text, Timestamp, Version};

use super::fixture::{Run, all_executions, at, claim, lease_of};
use crate::{
    Append, CommandChange, CommandEnd, FeedLimit, Fence, Holder, LeaseToken, LogPage, MemoryStore,
    Release, Store, TimerChange,
};

/// A small generator: the same numbers for the same seed, everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // The multiplier and the increment are Knuth's for 64 bits; the high bits are the good ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}

/// What the caller of a store remembers.
pub(crate) struct History {
    dice: Dice,
    runs: Vec<Run>,
    commands: Vec<(usize, CommandId)>,
    next_run: i64,
    now: Timestamp,
    words: Vec<String>,
}

impl History {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Dice(seed),
            runs: Vec::new(),
            commands: Vec::new(),
            next_run: 1,
            now: at("12:00:00"),
            words: Vec::new(),
        }
    }

    fn pick(&mut self, length: usize) -> usize {
        usize::try_from(self.dice.roll(u64::try_from(length.max(1)).unwrap())).unwrap()
    }

    /// Does a number of things, then reads everything.
    pub(crate) async fn play(mut self, store: &dyn Store, calls: usize) -> Vec<String> {
        for _ in 0..calls {
            self.now = self
                .now
                .saturating_add(Millis::from_ms(self.dice.roll(9_000)));
            match self.dice.roll(10) {
                0 => self.start(store).await,
                1..=5 => self.append(store).await,
                6 | 7 => self.lease(store).await,
                8 => self.keep_or_give_back(store).await,
                _ => self.look(store).await,
            }
        }
        self.read_everything(store).await;
        self.words
    }

    async fn start(&mut self, store: &dyn Store) {
        // Now and then an execution is made that is there already.
        if self.runs.is_empty() || !self.dice.one_in(5) {
            self.runs.push(Run::new(self.next_run));
            self.next_run += 1;
        }
        let place = self.runs.len() - 1;
        let mut run = Run::new(self.next_run - 1);
        let append = run.start();
        let answer = run.write(store, append).await;
        if answer.is_ok() {
            self.runs[place] = run;
        }
        self.note(format!("{:?}", answer.map(|it| it.head)));
    }

    async fn append(&mut self, store: &dyn Store) {
        if self.runs.is_empty() {
            return;
        }
        let place = self.pick(self.runs.len());
        let mut run = self.runs[place].clone();
        let mut append = match self.dice.roll(8) {
            0..=2 => self.issue(&mut run, place),
            3 | 4 => self.change(&mut run, place),
            5 => Append {
                timers: self.timers(),
                ..run.step()
            },
            6 if self.dice.one_in(6) => run.end(),
            _ => run.step(),
        };
        append.now = self.now;
        if self.dice.one_in(7) {
            append.expected.version = Version::new(append.expected.version.get() + 1).unwrap();
        }
        let answer = run.write(store, append).await;
        self.note(format!("{:?}", answer.map(|it| it.head)));
        self.runs[place] = run;
    }

    fn issue(&mut self, run: &mut Run, place: usize) -> Append {
        let mut events = Vec::new();
        let mut commands = Vec::new();
        for _ in 0..=self.dice.roll(3) {
            let (event, mut command) = run.new_command();
            command.priority = Priority::clamped(i64::try_from(self.dice.roll(3)).unwrap());
            command.held = self.dice.one_in(8);
            if self.dice.one_in(4) {
                command.not_before = Some(self.now.saturating_add(Millis::from_secs(5)));
            }
            if self.dice.one_in(6) {
                command.deadline_at = Some(self.now.saturating_add(Millis::from_secs(20)));
            }
            if self.dice.one_in(5) {
                command.born_claimed = Some(claim("born", 1));
            }
            self.commands.push((place, command.command_id));
            events.push(event);
            commands.push(CommandChange::Issue(Box::new(command)));
        }
        Append {
            commands,
            ..run.append(events)
        }
    }

    fn change(&mut self, run: &mut Run, place: usize) -> Append {
        let event = run.event(EventType::CommandCompleted);
        let mut append = run.append(vec![event]);
        let mine: Vec<_> = self
            .commands
            .iter()
            .filter(|(of, _)| *of == place || self.dice.0.is_multiple_of(16))
            .map(|(_, command_id)| *command_id)
            .collect();
        if mine.is_empty() {
            return append;
        }
        let command_id = mine[self.pick(mine.len())];
        append.commands = vec![match self.dice.roll(5) {
            0 => CommandChange::Requeue {
                command_id,
                not_before: Some(self.now),
            },
            1 => CommandChange::Hold {
                command_id,
                held: self.dice.one_in(2),
            },
            2 => CommandChange::Run {
                command_id,
                at: self.now,
            },
            _ => CommandChange::Close {
                command_id,
                end: CommandEnd::Failed,
                at: self.now,
                error: Some(Text::from("it's over")),
            },
        }];
        if self.dice.one_in(2) {
            append.fences = vec![self.fence(command_id)];
        }
        append
    }

    fn fence(&mut self, command_id: CommandId) -> Fence {
        Fence {
            command_id,
            attempt: u32::try_from(self.dice.roll(3)).unwrap(),
            holder: match self.dice.roll(4) {
                0 => Holder::ExpiredBy(self.now),
                1 => Holder::Worker(super::fixture::worker("w1")),
                _ => Holder::Token(LeaseToken::from_bytes([1; 16])),
            },
        }
    }

    fn timers(&mut self) -> Vec<TimerChange> {
        let timer_id = Text::from(format!("t{}", self.dice.roll(3)));
        if self.dice.one_in(3) {
            vec![TimerChange::Disarm { timer_id }]
        } else {
            let fire_at = self
                .now
                .saturating_add(Millis::from_ms(self.dice.roll(60_000)));
            vec![TimerChange::Arm { timer_id, fire_at }]
        }
    }

    async fn lease(&mut self, store: &dyn Store) {
        let number = u8::try_from(1 + self.dice.roll(2)).unwrap();
        let mut request = lease_of(&format!("w{number}"), number, 1);
        request.max = LeaseBatch::clamped(i64::try_from(self.dice.roll(5)).unwrap());
        request.claim.now = self.now;
        request.claim.lease_until = self.now.saturating_add(Millis::from_secs(30));
        let leased = store.lease(request).await.unwrap();
        self.note(format!("{leased:?}"));
    }

    async fn keep_or_give_back(&mut self, store: &dyn Store) {
        if self.commands.is_empty() {
            return;
        }
        let count = 1 + self.pick(4);
        let mut fences = Vec::new();
        for _ in 0..count {
            let place = self.pick(self.commands.len());
            let command_id = self.commands[place].1;
            fences.push(self.fence(command_id));
        }
        fences.sort_by_key(|fence| fence.command_id);
        fences.dedup_by_key(|fence| fence.command_id);
        if self.dice.one_in(3) {
            let releases = fences
                .into_iter()
                .map(|fence| Release {
                    fence,
                    not_before: Some(self.now),
                })
                .collect();
            let released = store.release(releases).await.unwrap();
            self.note(format!("{released:?}"));
        } else {
            let until = self.now.saturating_add(Millis::from_secs(30));
            let extended = store.extend(fences, until).await.unwrap();
            self.note(format!("{extended:?}"));
        }
    }

    async fn look(&mut self, store: &dyn Store) {
        let limit = PageLimit::clamped(i64::try_from(1 + self.dice.roll(6)).unwrap());
        let expired = store.expired(self.now, limit).await.unwrap();
        let due = store.due(self.now, limit).await.unwrap();
        self.note(format!("{expired:?} {due:?}"));
    }

    async fn read_everything(&mut self, store: &dyn Store) {
        let mut filter = all_executions();
        filter.limit = PageLimit::MAX;
        let page = store.executions(filter).await.unwrap();
        for execution in &page.executions {
            self.note(format!("{execution:?}"));
        }
        for (_, command_id) in self.commands.clone() {
            let command = store.command(command_id).await.unwrap();
            self.note(format!("{command:?}"));
        }
        let versions = page.executions.iter().map(|it| it.head.version.get());
        let mut left: i64 = versions.sum();
        let mut after = FeedPosition::default();
        // Whoever else writes in the same cluster may hold the end of the feed back for a moment.
        while left > 0 {
            let batch = store.feed(after, FeedLimit::MAX).await.unwrap();
            for event in &batch.events {
                // The places differ between backends; their order does not.
                self.note(format!("{:?} {}", event.record, event.chain));
                left -= 1;
            }
            after = batch.next;
        }
        for run in self.runs.clone() {
            let log = store.events(run.id, Version::EMPTY, LogPage::MAX).await;
            self.note(format!("{} events", log.unwrap().len()));
        }
    }

    fn note(&mut self, words: String) {
        self.words.push(words);
    }
}

/// Plays a history on the model and on a backend, and stops at the first difference.
pub(crate) async fn differ(store: &dyn Store, seed: u64, calls: usize) {
    let model = MemoryStore::new();
    let expected = History::new(seed).play(&model, calls).await;
    let found = History::new(seed).play(store, calls).await;
    for (place, (expected, found)) in expected.iter().zip(&found).enumerate() {
        assert_eq!(expected, found, "seed {seed}, answer {place}");
    }
    assert_eq!(expected.len(), found.len(), "seed {seed}");
}
