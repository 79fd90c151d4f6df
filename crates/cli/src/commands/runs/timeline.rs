//! A run as bars: for each step, when it queued, ran, waited and was tried again.
//!
//! Owns the way from events to bars. Nothing here asks anybody.

use std::collections::BTreeMap;

use noetl_api::execution::EventView;
use noetl_types::{EventStatus, EventType, Millis, Timestamp};
use serde::Serialize;

/// What a step does at a time; of several, the greatest is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Doing {
    /// It waits for a signal, a person, a time, another run.
    Waiting,
    /// It waits for a worker.
    Queued,
    /// It waits for its next attempt.
    Retrying,
    /// It runs.
    Running,
}

impl Doing {
    /// How it is drawn.
    pub(super) const fn letter(self) -> char {
        match self {
            Self::Waiting => '┄',
            Self::Queued => '░',
            Self::Retrying => '▒',
            Self::Running => '█',
        }
    }
}

/// A time in which a step did one thing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Span {
    pub(super) doing: Doing,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ended {
    Completed,
    Failed,
    Cancelled,
    Skipped,
    /// It has not.
    Open,
}

/// A step, all runs and iterations of it together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Bar {
    pub(super) step: String,
    pub(super) ended: Ended,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) runs: u32,
    /// Iterations, where it loops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) items: Option<u64>,
    pub(super) failed: u32,
    pub(super) retries: u32,
    /// When it is tried again, where it waits for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    pub(super) spans: Vec<Span>,
}

/// The bars of a run, in the order in which their steps began.
#[derive(Debug)]
pub(super) struct Timeline {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) bars: Vec<Bar>,
}

/// A command that is open.
struct Open {
    step: String,
    doing: Doing,
    since: Timestamp,
    /// Whether it waits without a worker.
    is_parked: bool,
}

/// Kinds of tasks that wait without a worker.
const PARKED: [&str; 4] = ["sleep", "wait", "approval", "playbook"];

struct Builder {
    bars: Vec<Bar>,
    /// Where the bar of a step is.
    places: BTreeMap<String, usize>,
    open: BTreeMap<(String, Option<u64>), Open>,
}

impl Timeline {
    /// The bars of a log; `now` is where those end that are open.
    pub(super) fn of(events: &[EventView], now: Timestamp) -> Option<Self> {
        let first = events.first()?;
        let mut builder = Builder {
            bars: Vec::new(),
            places: BTreeMap::new(),
            open: BTreeMap::new(),
        };
        let mut end = None;
        for event in events {
            let Some(kind) = event.event_type.known() else {
                continue;
            };
            if kind.is_terminal() {
                end = Some(event.created_at);
            } else {
                builder.take(kind, event);
            }
        }
        let last = events.iter().map(|event| event.created_at).max();
        let to = end.unwrap_or(now).max(last.unwrap_or(first.created_at));
        builder.close_all(to, end.is_some());
        Some(Self {
            from: first.created_at,
            to,
            bars: builder.bars,
        })
    }
}

impl Builder {
    fn take(&mut self, kind: EventType, event: &EventView) {
        let Some(step) = event.node_name.as_ref().map(ToString::to_string) else {
            return;
        };
        let at = event.created_at;
        let key = (step.clone(), index(event));
        // No arm for the rest: most types of events do not change what a step does.
        match kind {
            EventType::StepEnter => {
                let items = number(event, "collection_size");
                let bar = self.bar(&step, at);
                bar.runs += 1;
                bar.ended = Ended::Open;
                bar.items = match (bar.items, items) {
                    (Some(left), Some(right)) => Some(left + right),
                    (one, other) => one.or(other),
                };
            }
            EventType::StepSkipped => self.bar(&step, at).ended = Ended::Skipped,
            EventType::StepExit => self.exit(&step, event),
            EventType::CommandIssued => {
                let tool = text(event, "tool_kind").unwrap_or_default();
                let is_parked = PARKED.contains(&tool.as_str());
                let doing = if is_parked {
                    Doing::Waiting
                } else {
                    Doing::Queued
                };
                self.open.insert(
                    key,
                    Open {
                        step,
                        doing,
                        since: at,
                        is_parked,
                    },
                );
            }
            EventType::CommandClaimed | EventType::CommandStarted => {
                self.turn(&key, Doing::Running, at);
            }
            EventType::CommandExpired => self.turn(&key, Doing::Queued, at),
            EventType::CallError => {
                if let Some(ms) = number(event, "retry_in_ms") {
                    self.bar(&step, at).retries += 1;
                    self.turn(&key, Doing::Retrying, at);
                    // Its worker goes on by itself, without a word.
                    let again = at.saturating_add(Millis::from_ms(ms));
                    self.turn(&key, Doing::Running, again);
                }
            }
            EventType::CommandCompleted
            | EventType::CommandFailed
            | EventType::CommandCancelled => {
                if kind == EventType::CommandFailed {
                    self.bar(&step, at).failed += 1;
                }
                self.close(&key, at);
            }
            _ => {}
        }
    }

    fn bar(&mut self, step: &str, at: Timestamp) -> &mut Bar {
        let place = *self.places.entry(step.to_owned()).or_insert_with(|| {
            self.bars.push(Bar {
                step: step.to_owned(),
                ended: Ended::Open,
                from: at,
                to: at,
                runs: 0,
                items: None,
                failed: 0,
                retries: 0,
                retry_at: None,
                error: None,
                spans: Vec::new(),
            });
            self.bars.len() - 1
        });
        let bar = &mut self.bars[place];
        bar.to = bar.to.max(at);
        bar
    }

    fn exit(&mut self, step: &str, event: &EventView) {
        let error = event.error.as_ref().map(ToString::to_string);
        let status = EventStatus::parse(&event.status).ok();
        let bar = self.bar(step, event.created_at);
        bar.ended = match status {
            Some(EventStatus::Failed) => Ended::Failed,
            Some(EventStatus::Cancelled) => Ended::Cancelled,
            _ => Ended::Completed,
        };
        bar.error = error;
    }

    /// A command does something else from now on.
    fn turn(&mut self, key: &(String, Option<u64>), doing: Doing, at: Timestamp) {
        let Some(mut open) = self.open.remove(key) else {
            return;
        };
        self.span(&open, at);
        if !open.is_parked {
            open.doing = doing;
        }
        open.since = at;
        self.open.insert(key.clone(), open);
    }

    fn close(&mut self, key: &(String, Option<u64>), at: Timestamp) {
        if let Some(open) = self.open.remove(key) {
            self.span(&open, at);
        }
    }

    fn span(&mut self, open: &Open, to: Timestamp) {
        let (doing, from) = (open.doing, open.since);
        if to < from {
            // It ended before the attempt that it was waiting for.
            return;
        }
        let bar = self.bar(&open.step, to);
        bar.spans.push(Span { doing, from, to });
    }

    fn close_all(&mut self, at: Timestamp, is_over: bool) {
        for open in std::mem::take(&mut self.open).into_values() {
            // Its next attempt is still to come.
            if open.since > at && !is_over {
                let bar = self.bar(&open.step, at);
                let earlier = bar.retry_at.into_iter().chain([open.since]).min();
                bar.retry_at = earlier;
            }
            self.span(&open, at);
        }
        for bar in &mut self.bars {
            bar.to = bar.to.min(at);
            for span in &mut bar.spans {
                span.to = span.to.min(at);
            }
            if bar.ended == Ended::Open {
                bar.to = at;
                if is_over {
                    bar.ended = Ended::Cancelled;
                }
            }
        }
    }
}

impl Bar {
    /// The bar as letters: what the step did most in each column.
    pub(super) fn drawn(&self, from: Timestamp, to: Timestamp, width: usize) -> Vec<Option<Doing>> {
        let whole = to.since(from).as_ms().max(1);
        let column = |time: Timestamp| {
            let offset = time.since(from).as_ms().min(whole);
            let width = u64::try_from(width).unwrap_or(u64::MAX);
            usize::try_from(offset.saturating_mul(width) / whole).unwrap_or(usize::MAX)
        };
        let mut drawn = vec![None; width];
        for span in &self.spans {
            let first = column(span.from).min(width.saturating_sub(1));
            // What is too short for a column is still to be seen.
            let last = column(span.to).max(first + 1).min(width);
            for cell in drawn.iter_mut().take(last).skip(first) {
                *cell = (*cell).max(Some(span.doing));
            }
        }
        drawn
    }
}

/// The iteration that an event belongs to.
fn index(event: &EventView) -> Option<u64> {
    number(event, "iter_index").or_else(|| number(event, "index"))
}

fn number(event: &EventView, key: &str) -> Option<u64> {
    event.meta.as_ref()?.get(key)?.as_u64()
}

fn text(event: &EventView, key: &str) -> Option<String> {
    event.meta.as_ref()?.get(key)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(ms: i64, kind: &str, step: &str, status: &str, meta: &str) -> EventView {
        let at = Timestamp::from_unix_ms(1_800_000_000_000 + ms).unwrap();
        let text = format!(
            r#"{{"event_id":"1","seq":1,"execution_id":"1","event_type":"{kind}","node_name":"{step}",
            "status":"{status}","created_at":"{at}","timestamp":"{at}","result":null,"error":null,"meta":{meta}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn drawn(timeline: &Timeline, at: usize) -> String {
        let bar = &timeline.bars[at];
        let drawn = bar.drawn(timeline.from, timeline.to, 10);
        let letter = |doing: Option<Doing>| doing.map_or('.', Doing::letter);
        drawn.into_iter().map(letter).collect()
    }

    #[test]
    fn a_step_queues_runs_and_is_tried_again() {
        let events = [
            event(0, "playbook.started", "p", "STARTED", "{}"),
            event(0, "step.enter", "a", "ENTERED", r#"{"run":1}"#),
            event(
                0,
                "command.issued",
                "a",
                "PENDING",
                r#"{"tool_kind":"python"}"#,
            ),
            event(200, "command.claimed", "a", "CLAIMED", "{}"),
            event(500, "call.error", "a", "FAILED", r#"{"retry_in_ms":200}"#),
            event(800, "command.completed", "a", "COMPLETED", "{}"),
            event(800, "step.exit", "a", "COMPLETED", "{}"),
            event(800, "step.enter", "b", "ENTERED", "{}"),
            event(
                800,
                "command.issued",
                "b",
                "PENDING",
                r#"{"tool_kind":"wait"}"#,
            ),
        ];
        let now = Timestamp::from_unix_ms(1_800_000_001_000).unwrap();
        let timeline = Timeline::of(&events, now).unwrap();
        assert_eq!(drawn(&timeline, 0), "░░███▒▒█..");
        assert_eq!(drawn(&timeline, 1), "........┄┄");
        let told: Vec<_> = timeline
            .bars
            .iter()
            .map(|bar| (bar.ended, bar.retries))
            .collect();
        assert_eq!(told, [(Ended::Completed, 1), (Ended::Open, 0)]);
    }

    /// A worker that waits out a delay by itself has said until when.
    #[test]
    fn a_step_that_waits_for_its_next_attempt_is_drawn_so_until_now() {
        let mut events = vec![
            event(0, "playbook.started", "p", "STARTED", "{}"),
            event(0, "step.enter", "a", "ENTERED", r#"{"run":1}"#),
            event(
                0,
                "command.issued",
                "a",
                "PENDING",
                r#"{"tool_kind":"http"}"#,
            ),
            event(200, "command.claimed", "a", "CLAIMED", "{}"),
            event(200, "command.started", "a", "RUNNING", "{}"),
        ];
        let now = Timestamp::from_unix_ms(1_800_000_001_000).unwrap();
        let timeline = Timeline::of(&events, now).unwrap();
        assert_eq!(drawn(&timeline, 0), "░░████████");
        assert_eq!(timeline.bars[0].retry_at, None);

        let retried = r#"{"retry_in_ms":30000}"#;
        events.push(event(500, "call.error", "a", "FAILED", retried));
        let timeline = Timeline::of(&events, now).unwrap();
        assert_eq!(drawn(&timeline, 0), "░░███▒▒▒▒▒");
        let bar = &timeline.bars[0];
        let again = Timestamp::from_unix_ms(1_800_000_030_500).unwrap();
        assert_eq!((bar.retry_at, bar.to), (Some(again), now));
        assert!(bar.spans.iter().all(|span| span.to <= now));

        let then = again.saturating_add(Millis::from_secs(1));
        let timeline = Timeline::of(&events, then).unwrap();
        assert_eq!(timeline.bars[0].retry_at, None);
        let last = timeline.bars[0].spans.last().unwrap();
        assert_eq!((last.doing, last.from), (Doing::Running, again));

        // A run that is cancelled meanwhile tries nothing again.
        events.push(event(900, "playbook.cancelled", "p", "CANCELLED", "{}"));
        let timeline = Timeline::of(&events, then).unwrap();
        assert_eq!(timeline.bars[0].retry_at, None);
        assert_eq!(timeline.bars[0].to, timeline.to);
    }

    #[test]
    fn iterations_share_a_bar_and_none_is_lost_for_being_short() {
        let issued = |ms, at| {
            event(
                ms,
                "command.issued",
                "l",
                "PENDING",
                &format!(r#"{{"tool_kind":"noop","iter_index":{at}}}"#),
            )
        };
        let closed = |ms, kind: &str, at| {
            event(
                ms,
                kind,
                "l",
                "COMPLETED",
                &format!(r#"{{"iter_index":{at}}}"#),
            )
        };
        let events = [
            event(0, "playbook.started", "p", "STARTED", "{}"),
            event(0, "step.enter", "l", "ENTERED", r#"{"collection_size":2}"#),
            issued(0, 0),
            closed(1, "command.completed", 0),
            issued(990, 1),
            closed(995, "command.failed", 1),
            event(1000, "playbook.failed", "p", "FAILED", "{}"),
        ];
        let timeline = Timeline::of(&events, Timestamp::MAX).unwrap();
        assert_eq!(drawn(&timeline, 0), "░........░");
        assert_eq!(
            (timeline.bars[0].items, timeline.bars[0].failed),
            (Some(2), 1)
        );
        assert_eq!(timeline.bars[0].ended, Ended::Cancelled);
    }
}
