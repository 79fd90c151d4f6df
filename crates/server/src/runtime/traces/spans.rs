//! The spans of a run, from its log.

use std::collections::BTreeMap;

use noetl_engine::event::{CommandAt, Event, EventKind, Started, StepEnd};
use noetl_types::trace::TraceContext;
use noetl_types::{CommandId, ExecutionId, Json, StepName, TaskError, Timestamp};

/// Something that took a while.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    pub(super) context: TraceContext,
    pub(super) parent: Option<String>,
    /// The span of another trace that led to this one.
    pub(super) link: Option<TraceContext>,
    pub(super) name: String,
    pub(super) began: Timestamp,
    pub(super) ended: Timestamp,
    pub(super) facts: Vec<(&'static str, Json)>,
    /// The kind of its failure, if it failed.
    pub(super) failure: Option<String>,
}

/// The run that started a run.
pub(super) fn parent_of(events: &[Event]) -> Option<ExecutionId> {
    started(events.first())?.parent_execution_id
}

/// The span of a run, of which the first event is known where it is still kept.
pub(super) fn root(run: ExecutionId, first: Option<&Event>) -> TraceContext {
    TraceContext::of_run(run, started(first).and_then(started_in))
}

fn started(first: Option<&Event>) -> Option<&Started> {
    match &first?.kind {
        EventKind::PlaybookStarted(started) => Some(started),
        _ => None,
    }
}

/// The trace that a run was started in.
fn started_in(started: &Started) -> Option<TraceContext> {
    TraceContext::parse(started.trace.as_ref()?.get("traceparent")?.as_str()?)
}

/// The spans of a run, with the span of the run that started it; none where its log has no
/// beginning.
pub(super) fn of(run: ExecutionId, events: &[Event], parent: Option<TraceContext>) -> Vec<Span> {
    let (Some(first), Some(last)) = (events.first(), events.last()) else {
        return Vec::new();
    };
    let Some(started) = started(Some(first)) else {
        return Vec::new();
    };
    let given = started_in(started);
    let own = root(run, Some(first));
    let whole = Span {
        context: own,
        // A trace that the server itself began has the run at its root.
        parent: given
            .map(|given| given.span_id())
            .filter(|given| *given != own.span_id()),
        link: parent,
        name: started.path.to_string(),
        began: first.time,
        ended: last.time,
        facts: vec![
            ("noetl.execution_id", Json::from(run.to_string())),
            ("noetl.path", Json::from(started.path.to_string())),
            ("noetl.version", Json::from(started.version)),
        ],
        failure: None,
    };
    let mut fold = Fold {
        own,
        whole,
        steps: BTreeMap::new(),
        commands: BTreeMap::new(),
        done: Vec::new(),
    };
    for event in events {
        fold.take(event);
    }
    fold.finish()
}

/// A command, and the attempt at it that goes on.
struct Command {
    at: (StepName, u32),
    tool: &'static str,
    index: Option<u32>,
    attempt: u32,
    began: Timestamp,
    worker: Option<String>,
}

struct Fold {
    own: TraceContext,
    whole: Span,
    steps: BTreeMap<(StepName, u32), Timestamp>,
    commands: BTreeMap<CommandId, Command>,
    done: Vec<Span>,
}

impl Fold {
    fn take(&mut self, event: &Event) {
        let now = event.time;
        match &event.kind {
            EventKind::StepEntered(entered) => {
                self.steps.insert((entered.step.clone(), entered.run), now);
            }
            EventKind::StepExited(exited) => {
                let failure = match &exited.end {
                    StepEnd::Completed => None,
                    StepEnd::Failed { error, .. } => Some(kind(error)),
                    StepEnd::Cancelled => Some("cancelled".to_owned()),
                };
                self.leave(&(exited.step.clone(), exited.run), now, failure);
            }
            EventKind::CommandIssued(issued) => {
                let command = Command {
                    at: (issued.step.clone(), issued.run),
                    tool: issued.tool.as_str(),
                    index: issued.index,
                    attempt: 1,
                    began: now,
                    worker: None,
                };
                self.commands
                    .insert(CommandId::from(event.event_id), command);
            }
            EventKind::CommandClaimed(claimed) => {
                if let Some(command) = self.commands.get_mut(&claimed.at.command) {
                    command.began = now;
                    command.attempt = claimed.attempt;
                    command.worker = Some(claimed.worker.to_string());
                }
            }
            EventKind::CommandCompleted(at) => self.close(at, now, None),
            EventKind::CommandFailed(closed) => {
                self.close(&closed.at, now, Some(kind(&closed.why)));
            }
            EventKind::CommandCancelled(closed) => {
                self.close(&closed.at, now, Some("cancelled".to_owned()));
            }
            EventKind::CommandExpired(expired) => {
                self.expire(&expired.at, now, expired.reason.as_str());
            }
            EventKind::PlaybookCompleted { .. } => self.whole.ended = now,
            EventKind::PlaybookFailed(failed) => {
                self.whole.ended = now;
                self.whole.failure = Some(kind(&failed.error));
            }
            EventKind::PlaybookCancelled(_) => {
                self.whole.ended = now;
                self.whole.failure = Some("cancelled".to_owned());
            }
            _ => {}
        }
    }

    fn leave(&mut self, step: &(StepName, u32), now: Timestamp, failure: Option<String>) {
        let Some(began) = self.steps.remove(step) else {
            return;
        };
        let (name, run) = step;
        self.done.push(Span {
            context: self.own.of_step(name.as_str(), *run),
            parent: Some(self.own.span_id()),
            link: None,
            name: name.to_string(),
            began,
            ended: now,
            facts: vec![
                ("noetl.step", Json::from(name.to_string())),
                ("noetl.run", Json::from(*run)),
            ],
            failure,
        });
    }

    fn close(&mut self, at: &CommandAt, now: Timestamp, failure: Option<String>) {
        if let Some(command) = self.commands.remove(&at.command) {
            self.attempted(at.command, &command, now, failure);
        }
    }

    /// An attempt is over; the command may have another one, which begins when it is taken.
    fn expire(&mut self, at: &CommandAt, now: Timestamp, reason: &str) {
        if let Some(mut command) = self.commands.remove(&at.command) {
            self.attempted(at.command, &command, now, Some(reason.to_owned()));
            command.attempt += 1;
            command.began = now;
            command.worker = None;
            self.commands.insert(at.command, command);
        }
    }

    fn attempted(
        &mut self,
        id: CommandId,
        command: &Command,
        now: Timestamp,
        failure: Option<String>,
    ) {
        let (step, run) = &command.at;
        let mut facts = vec![
            ("noetl.command_id", Json::from(id.to_string())),
            ("noetl.tool", Json::from(command.tool)),
            ("noetl.attempt", Json::from(command.attempt)),
        ];
        if let Some(index) = command.index {
            facts.push(("noetl.index", Json::from(index)));
        }
        if let Some(worker) = &command.worker {
            facts.push(("noetl.worker", Json::from(&**worker)));
        }
        self.done.push(Span {
            context: self.own.of_attempt(id, command.attempt),
            parent: Some(self.own.of_step(step.as_str(), *run).span_id()),
            link: None,
            name: format!("{} {step}", command.tool),
            began: command.began,
            ended: now,
            facts,
            failure,
        });
    }

    /// What is still open ended with the run.
    fn finish(mut self) -> Vec<Span> {
        let ended = self.whole.ended;
        let given_up = || Some("cancelled".to_owned());
        for (id, command) in std::mem::take(&mut self.commands) {
            // One that waits for its next attempt, which never came, has nothing to tell.
            if command.worker.is_some() || command.attempt == 1 {
                self.attempted(id, &command, ended, given_up());
            }
        }
        let open: Vec<_> = self.steps.keys().cloned().collect();
        for step in open {
            self.leave(&step, ended, given_up());
        }
        self.done.insert(0, self.whole);
        self.done
    }
}

fn kind(error: &TaskError) -> String {
    error.kind.as_str().to_owned()
}
