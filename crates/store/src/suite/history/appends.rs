//! Appends of every kind.

use noetl_types::limits::Priority;
use noetl_types::{CommandId, EventType, Millis, Text, Version};

use super::super::fixture::{Run, claim, worker};
use super::super::result::result;
use super::History;
use crate::{
    Append, AppendRefused, CommandChange, CommandEnd, Fence, Head, Holder, LeaseToken, Store,
    TimerChange,
};

impl History {
    pub(super) async fn start(&mut self, store: &dyn Store) {
        // Now and then an execution is made that is there already.
        if self.runs.is_empty() || !self.dice.one_in(5) {
            self.runs.push(Run::new(self.next_run));
            self.next_run += 1;
        }
        let place = self.runs.len() - 1;
        let mut run = Run::new(self.next_run - 1);
        let mut append = run.start();
        if self.dice.one_in(4) {
            append.results = vec![result(self.next_result, b"[]")];
            self.next_result += 1;
        }
        append.now = self.now;
        append.outbox = self.dice.one_in(2);
        if self.dice.one_in(3) {
            append.dedup = Some(self.some_message());
        }
        if self.dice.one_in(4) {
            self.share(&mut append);
        }
        let answer = run.write(store, append).await;
        if answer.is_ok() {
            self.runs[place] = run;
        }
        let failed = matches!(answer, Err(AppendRefused::Store(_)));
        self.note(&answer.map(|it| it.head));
        if failed {
            self.look_again(store, place).await;
        }
    }

    pub(super) async fn append(&mut self, store: &dyn Store) {
        if self.runs.is_empty() {
            return;
        }
        let place = self.pick(self.runs.len());
        let (mut run, append) = self.some_append(place);
        let answer = run.write(store, append).await;
        self.runs[place] = run;
        let failed = matches!(answer, Err(AppendRefused::Store(_)));
        self.note(&answer.map(|it| it.head));
        if failed {
            self.look_again(store, place).await;
        }
    }

    /// Several in one call, some of them of the same run.
    pub(super) async fn append_together(&mut self, store: &dyn Store) {
        if self.runs.is_empty() {
            return;
        }
        let mut places = Vec::new();
        let mut appends = Vec::new();
        for _ in 0..=self.dice.roll(3) {
            let place = self.pick(self.runs.len());
            let (run, mut append) = self.some_append(place);
            // Rows of several executions of one call come in no particular order.
            append.outbox &= appends.is_empty();
            self.runs[place] = run;
            places.push(place);
            appends.push(append);
        }
        let answers = store.append(appends).await;
        for (place, answer) in places.into_iter().zip(answers) {
            if let Ok(appended) = &answer {
                self.runs[place].head = appended.head;
            }
            let failed = matches!(answer, Err(AppendRefused::Store(_)));
            self.note(&answer.map(|it| it.head));
            if failed {
                self.look_again(store, place).await;
            }
        }
    }

    /// After a failure nobody knows where the log stands; if that cannot be read either, the next
    /// append is stale.
    async fn look_again(&mut self, store: &dyn Store, place: usize) {
        let execution = store.execution(self.runs[place].id).await;
        if let Ok(found) = &execution {
            self.runs[place].head = found.as_ref().map_or(Head::START, |it| it.head);
        }
        self.note(&execution);
    }

    fn some_append(&mut self, place: usize) -> (Run, Append) {
        let mut run = self.runs[place].clone();
        let mut append = match self.dice.roll(9) {
            0..=2 => self.issue(&mut run, place),
            3 | 4 => self.change(&mut run, place),
            5 => Append {
                timers: self.timers(),
                ..run.step()
            },
            6 if self.dice.one_in(6) => run.end(),
            7 => self.with_results(&mut run),
            _ => run.step(),
        };
        append.now = self.now;
        append.outbox = self.dice.one_in(2);
        if self.dice.one_in(12) {
            append.expected.version = Version::new(append.expected.version.get() + 1).unwrap();
        }
        if self.dice.one_in(3) {
            self.share(&mut append);
        }
        if self.dice.one_in(12) {
            append.events[0].stack_trace = Some(Text::from("rare"));
            append.keep_checksums = true;
        }
        (run, append)
    }

    fn issue(&mut self, run: &mut Run, place: usize) -> Append {
        let mut events = Vec::new();
        let mut commands = Vec::new();
        for _ in 0..=self.dice.roll(3) {
            let (event, mut command) = run.new_command();
            command.pool = self.pool();
            command.priority = Priority::clamped(self.small(3));
            command.held = self.dice.one_in(8);
            if self.dice.one_in(4) {
                command.not_before = Some(self.later(Millis::from_secs(5)));
            }
            if self.dice.one_in(6) {
                command.deadline = Some(Millis::from_secs(20));
            }
            if self.dice.one_in(5) {
                command.born_claimed = Some(claim(&self.worker(1), 1));
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
        // Now and then it is a command of another run.
        let any_run = self.dice.one_in(16);
        let mine: Vec<_> = self
            .commands
            .iter()
            .filter(|(of, _)| *of == place || any_run)
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

    pub(super) fn fence(&mut self, command_id: CommandId) -> Fence {
        Fence {
            command_id,
            attempt: u32::try_from(self.dice.roll(3)).unwrap(),
            holder: match self.dice.roll(4) {
                0 => Holder::ExpiredBy(self.now),
                1 => Holder::Worker(worker(&self.worker(1))),
                _ => Holder::Token(LeaseToken::from_bytes([1; 16])),
            },
        }
    }

    fn timers(&mut self) -> Vec<TimerChange> {
        let timer_id = Text::from(format!("t{}-{}", self.lane, self.dice.roll(3)));
        if self.dice.one_in(3) {
            vec![TimerChange::Disarm { timer_id }]
        } else {
            let fire_at = self.later(Millis::from_secs(60));
            vec![TimerChange::Arm { timer_id, fire_at }]
        }
    }

    /// One or two results; now and then one has an id that was used before.
    fn with_results(&mut self, run: &mut Run) -> Append {
        let mut results = Vec::new();
        for _ in 0..=self.dice.roll(2) {
            let number = if self.dice.one_in(6) {
                1 + self.small(u64::try_from(self.next_result).unwrap())
            } else {
                self.next_result += 1;
                self.next_result - 1
            };
            let text = "x".repeat(self.pick(3_000));
            results.push(result(number, text.as_bytes()));
        }
        Append {
            results,
            ..run.step()
        }
    }
}
