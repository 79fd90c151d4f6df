//! Timeline of a run: for each step, when it was queued, running, waiting and retrying.
//!
//! Converts events to bars. Performs no I/O.

use std::collections::BTreeMap;

use noetl_api::execution::EventView;
use noetl_types::{EventStatus, EventType, Millis, Timestamp};
use serde::Serialize;

/// Activity of a step. If several overlap, the greatest is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StepActivity {
    /// Waits for a signal, an approval, a time or another run.
    Waiting,
    /// Waits for a worker.
    Queued,
    /// Waits for its next attempt.
    Retrying,
    Running,
}

impl StepActivity {
    /// Character that represents it.
    pub(super) const fn symbol(self) -> char {
        match self {
            Self::Waiting => '┄',
            Self::Queued => '░',
            Self::Retrying => '▒',
            Self::Running => '█',
        }
    }
}

/// Time span of one activity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct ActivitySpan {
    pub(super) doing: StepActivity,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

/// Outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StepOutcome {
    Completed,
    Failed,
    Cancelled,
    Skipped,
    /// Has not ended.
    Open,
}

/// Bar of a step, with all its passes and iterations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct StepBar {
    pub(super) step: String,
    pub(super) ended: StepOutcome,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) runs: u32,
    /// Number of iterations of a loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) items: Option<u64>,
    pub(super) failed: u32,
    pub(super) retries: u32,
    /// Time of the next attempt, if the step waits for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    pub(super) spans: Vec<ActivitySpan>,
}

/// Bars of a run, in the order in which their steps started.
#[derive(Debug)]
pub(super) struct Timeline {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) bars: Vec<StepBar>,
}

/// A command that has not ended.
struct OpenCommand {
    step: String,
    activity: StepActivity,
    since: Timestamp,
    /// True if it waits without a worker.
    is_suspended: bool,
}

/// Kinds of tasks that wait without a worker.
const SUSPENDED_TOOL_KINDS: [&str; 4] = ["sleep", "wait", "approval", "playbook"];

/// Key of an open command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CommandKey {
    step: String,
    /// Iteration of a loop.
    iteration: Option<u64>,
}

struct TimelineBuilder {
    bars: Vec<StepBar>,
    /// Index of the bar of each step.
    bar_indexes: BTreeMap<String, usize>,
    open: BTreeMap<CommandKey, OpenCommand>,
}

impl Timeline {
    /// Builds the bars from a log. Open bars end at `now`.
    pub(super) fn from_events(events: &[EventView], now: Timestamp) -> Option<Self> {
        let first = events.first()?;
        let mut builder = TimelineBuilder {
            bars: Vec::new(),
            bar_indexes: BTreeMap::new(),
            open: BTreeMap::new(),
        };
        let mut end = None;
        for event in events {
            let Some(kind) = event.event_type.known_type() else {
                continue;
            };
            if kind.is_terminal() {
                end = Some(event.created_at);
            } else {
                builder.apply_event(kind, event);
            }
        }
        let last = events.iter().map(|event| event.created_at).max();
        let to = end.unwrap_or(now).max(last.unwrap_or(first.created_at));
        builder.close_all(to, end.is_some());
        Some(Self { from: first.created_at, to, bars: builder.bars })
    }
}

impl TimelineBuilder {
    fn apply_event(&mut self, kind: EventType, event: &EventView) {
        let Some(step) = event.node_name.as_ref().map(ToString::to_string) else {
            return;
        };
        let at = event.created_at;
        let key = CommandKey { step: step.clone(), iteration: iteration_index(event) };
        // Most event types do not change the activity of a step.
        match kind {
            EventType::StepEnter => {
                let items = meta_number(event, "collection_size");
                let bar = self.bar_mut(&step, at);
                bar.runs += 1;
                bar.ended = StepOutcome::Open;
                bar.items = match (bar.items, items) {
                    (Some(left), Some(right)) => Some(left + right),
                    (one, other) => one.or(other),
                };
            }
            EventType::StepSkipped => self.bar_mut(&step, at).ended = StepOutcome::Skipped,
            EventType::StepExit => self.exit_step(&step, event),
            EventType::CommandIssued => {
                let tool = meta_text(event, "tool_kind").unwrap_or_default();
                let is_suspended = SUSPENDED_TOOL_KINDS.contains(&tool);
                let activity =
                    if is_suspended { StepActivity::Waiting } else { StepActivity::Queued };
                self.open.insert(key, OpenCommand { step, activity, since: at, is_suspended });
            }
            EventType::CommandClaimed | EventType::CommandStarted => {
                self.change_activity(&key, StepActivity::Running, at);
            }
            EventType::CommandExpired => self.change_activity(&key, StepActivity::Queued, at),
            EventType::CallError => {
                if let Some(ms) = meta_number(event, "retry_in_ms") {
                    self.bar_mut(&step, at).retries += 1;
                    self.change_activity(&key, StepActivity::Retrying, at);
                    // The worker retries by itself and sends no event for it.
                    let retry_at = at.saturating_add(Millis::from_ms(ms));
                    self.change_activity(&key, StepActivity::Running, retry_at);
                }
            }
            EventType::CommandCompleted
            | EventType::CommandFailed
            | EventType::CommandCancelled => {
                if kind == EventType::CommandFailed {
                    self.bar_mut(&step, at).failed += 1;
                }
                self.close(&key, at);
            }
            _ => {}
        }
    }

    fn bar_mut(&mut self, step: &str, at: Timestamp) -> &mut StepBar {
        let index = *self.bar_indexes.entry(step.to_owned()).or_insert_with(|| {
            self.bars.push(StepBar {
                step: step.to_owned(),
                ended: StepOutcome::Open,
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
        let bar = &mut self.bars[index];
        bar.to = bar.to.max(at);
        bar
    }

    fn exit_step(&mut self, step: &str, event: &EventView) {
        let error = event.error.as_ref().map(ToString::to_string);
        let status = EventStatus::parse(&event.status).ok();
        let bar = self.bar_mut(step, event.created_at);
        bar.ended = match status {
            Some(EventStatus::Failed) => StepOutcome::Failed,
            Some(EventStatus::Cancelled) => StepOutcome::Cancelled,
            _ => StepOutcome::Completed,
        };
        bar.error = error;
    }

    /// Ends the current activity of a command and starts another.
    fn change_activity(&mut self, key: &CommandKey, activity: StepActivity, at: Timestamp) {
        let Some(mut open) = self.open.remove(key) else {
            return;
        };
        self.push_span(&open, at);
        if !open.is_suspended {
            open.activity = activity;
        }
        open.since = at;
        self.open.insert(key.clone(), open);
    }

    fn close(&mut self, key: &CommandKey, at: Timestamp) {
        if let Some(open) = self.open.remove(key) {
            self.push_span(&open, at);
        }
    }

    fn push_span(&mut self, open: &OpenCommand, to: Timestamp) {
        let (doing, from) = (open.activity, open.since);
        if to < from {
            // It ended before the attempt it was waiting for.
            return;
        }
        let bar = self.bar_mut(&open.step, to);
        bar.spans.push(ActivitySpan { doing, from, to });
    }

    fn close_all(&mut self, at: Timestamp, has_ended: bool) {
        for open in std::mem::take(&mut self.open).into_values() {
            // Its next attempt is in the future.
            if open.since > at && !has_ended {
                let bar = self.bar_mut(&open.step, at);
                let earlier = bar.retry_at.into_iter().chain([open.since]).min();
                bar.retry_at = earlier;
            }
            self.push_span(&open, at);
        }
        for bar in &mut self.bars {
            bar.to = bar.to.min(at);
            for span in &mut bar.spans {
                span.to = span.to.min(at);
            }
            if bar.ended == StepOutcome::Open {
                bar.to = at;
                if has_ended {
                    bar.ended = StepOutcome::Cancelled;
                }
            }
        }
    }
}

impl StepBar {
    /// The greatest activity of each column.
    pub(super) fn to_columns(
        &self,
        from: Timestamp,
        to: Timestamp,
        width: usize,
    ) -> Vec<Option<StepActivity>> {
        let total = to.duration_since(from).as_ms().max(1);
        let column_at = |time: Timestamp| {
            let offset = time.duration_since(from).as_ms().min(total);
            let width = u64::try_from(width).unwrap_or(u64::MAX);
            usize::try_from(offset.saturating_mul(width) / total).unwrap_or(usize::MAX)
        };
        let mut columns = vec![None; width];
        for span in &self.spans {
            let first = column_at(span.from).min(width.saturating_sub(1));
            // An activity shorter than a column is still drawn.
            let last = column_at(span.to).max(first + 1).min(width);
            for cell in columns.iter_mut().take(last).skip(first) {
                *cell = (*cell).max(Some(span.doing));
            }
        }
        columns
    }
}

/// Iteration that an event belongs to.
fn iteration_index(event: &EventView) -> Option<u64> {
    meta_number(event, "iter_index").or_else(|| meta_number(event, "index"))
}

fn meta_number(event: &EventView, key: &str) -> Option<u64> {
    event.meta.as_ref()?.get(key)?.as_u64()
}

fn meta_text<'e>(event: &'e EventView, key: &str) -> Option<&'e str> {
    event.meta.as_ref()?.get(key)?.as_str()
}

#[cfg(test)]
mod tests;
