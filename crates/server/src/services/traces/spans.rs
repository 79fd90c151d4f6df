//! Builds the spans of an execution from its log.

use std::collections::BTreeMap;

use noetl_engine::event::{CommandRef, Event, EventKind, PlaybookStarted, StepEnd};
use noetl_types::trace::TraceContext;
use noetl_types::{CommandId, ExecutionId, Json, StepName, TaskError, Timestamp};

/// A span of a trace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) context: TraceContext,
    pub(crate) parent: Option<String>,
    /// Span of another trace that caused this one.
    pub(crate) link: Option<TraceContext>,
    pub(crate) name: String,
    pub(crate) began: Timestamp,
    pub(crate) ended: Timestamp,
    pub(crate) attributes: Vec<(&'static str, Json)>,
    /// Error kind, if it failed.
    pub(crate) failure: Option<String>,
}

/// Returns the parent of an execution.
pub(crate) fn parent_execution(events: &[Event]) -> Option<ExecutionId> {
    start_event(events.first())?.parent_execution_id
}

/// Returns the root span of an execution, whose first event may no longer be stored.
pub(crate) fn root_context(execution_id: ExecutionId, first: Option<&Event>) -> TraceContext {
    TraceContext::for_execution(execution_id, start_event(first).and_then(start_trace_context))
}

fn start_event(first: Option<&Event>) -> Option<&PlaybookStarted> {
    match &first?.kind {
        EventKind::PlaybookStarted(started) => Some(started),
        _ => None,
    }
}

/// Returns the trace context that an execution was started with.
fn start_trace_context(started: &PlaybookStarted) -> Option<TraceContext> {
    TraceContext::parse(started.trace.as_ref()?.get("traceparent")?.as_str()?)
}

/// Builds the spans of an execution, linked to the span of its parent. Returns none if the log has
/// no start event.
pub(crate) fn build_spans(
    execution_id: ExecutionId,
    events: &[Event],
    parent: Option<TraceContext>,
) -> Vec<Span> {
    let (Some(first), Some(last)) = (events.first(), events.last()) else {
        return Vec::new();
    };
    let Some(started) = start_event(Some(first)) else {
        return Vec::new();
    };
    let requested = start_trace_context(started);
    let root = root_context(execution_id, Some(first));
    let root_span = Span {
        context: root,
        // In a trace that the server began, the execution is the root.
        parent: requested
            .map(|context| context.span_id())
            .filter(|span_id| *span_id != root.span_id()),
        link: parent,
        name: started.path.to_string(),
        began: first.time,
        ended: last.time,
        attributes: vec![
            ("noetl.execution_id", Json::from(execution_id.to_string())),
            ("noetl.path", Json::from(started.path.to_string())),
            ("noetl.version", Json::from(started.version)),
        ],
        failure: None,
    };
    let mut builder = SpanBuilder {
        root_context: root,
        root_span,
        steps: BTreeMap::new(),
        commands: BTreeMap::new(),
        finished: Vec::new(),
    };
    for event in events {
        builder.add_event(event);
    }
    builder.into_spans()
}

/// One pass through a step.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct StepPass {
    step: StepName,
    run: u32,
}

/// An open command with its current attempt.
struct OpenCommand {
    step_pass: StepPass,
    tool: &'static str,
    index: Option<u32>,
    attempt: u32,
    began: Timestamp,
    worker: Option<String>,
}

struct SpanBuilder {
    root_context: TraceContext,
    root_span: Span,
    steps: BTreeMap<StepPass, Timestamp>,
    commands: BTreeMap<CommandId, OpenCommand>,
    finished: Vec<Span>,
}

impl SpanBuilder {
    fn add_event(&mut self, event: &Event) {
        let now = event.time;
        match &event.kind {
            EventKind::StepEntered(entered) => {
                let pass = StepPass { step: entered.step.clone(), run: entered.run };
                self.steps.insert(pass, now);
            }
            EventKind::StepExited(exited) => {
                let failure = match &exited.end {
                    StepEnd::Completed => None,
                    StepEnd::Failed { error, .. } => Some(error_kind(error)),
                    StepEnd::Cancelled => Some("cancelled".to_owned()),
                };
                let pass = StepPass { step: exited.step.clone(), run: exited.run };
                self.close_step(&pass, now, failure);
            }
            EventKind::CommandIssued(issued) => {
                let command = OpenCommand {
                    step_pass: StepPass { step: issued.step.clone(), run: issued.run },
                    tool: issued.tool.as_str(),
                    index: issued.index,
                    attempt: 1,
                    began: now,
                    worker: None,
                };
                self.commands.insert(CommandId::from(event.event_id), command);
            }
            EventKind::CommandClaimed(claimed) => {
                if let Some(command) = self.commands.get_mut(&claimed.at.command) {
                    command.began = now;
                    command.attempt = claimed.attempt;
                    command.worker = Some(claimed.worker.to_string());
                }
            }
            EventKind::CommandCompleted(at) => self.close_command(at, now, None),
            EventKind::CommandFailed(closed) => {
                self.close_command(&closed.at, now, Some(error_kind(&closed.reason)));
            }
            EventKind::CommandCancelled(closed) => {
                self.close_command(&closed.at, now, Some("cancelled".to_owned()));
            }
            EventKind::CommandExpired(expired) => {
                self.expire_attempt(&expired.at, now, expired.reason.as_str());
            }
            EventKind::PlaybookCompleted { .. } => self.root_span.ended = now,
            EventKind::PlaybookFailed(failed) => {
                self.root_span.ended = now;
                self.root_span.failure = Some(error_kind(&failed.error));
            }
            EventKind::PlaybookCancelled(_) => {
                self.root_span.ended = now;
                self.root_span.failure = Some("cancelled".to_owned());
            }
            _ => {}
        }
    }

    fn close_step(&mut self, pass: &StepPass, now: Timestamp, failure: Option<String>) {
        let Some(began) = self.steps.remove(pass) else {
            return;
        };
        let StepPass { step, run } = pass;
        self.finished.push(Span {
            context: self.root_context.for_step(step.as_str(), *run),
            parent: Some(self.root_context.span_id()),
            link: None,
            name: step.to_string(),
            began,
            ended: now,
            attributes: vec![
                ("noetl.step", Json::from(step.to_string())),
                ("noetl.run", Json::from(*run)),
            ],
            failure,
        });
    }

    fn close_command(&mut self, at: &CommandRef, now: Timestamp, failure: Option<String>) {
        if let Some(command) = self.commands.remove(&at.command) {
            self.push_attempt_span(at.command, &command, now, failure);
        }
    }

    /// Closes an expired attempt. The command may get another one, which begins when it is leased.
    fn expire_attempt(&mut self, at: &CommandRef, now: Timestamp, reason: &str) {
        if let Some(mut command) = self.commands.remove(&at.command) {
            self.push_attempt_span(at.command, &command, now, Some(reason.to_owned()));
            command.attempt += 1;
            command.began = now;
            command.worker = None;
            self.commands.insert(at.command, command);
        }
    }

    fn push_attempt_span(
        &mut self,
        id: CommandId,
        command: &OpenCommand,
        now: Timestamp,
        failure: Option<String>,
    ) {
        let StepPass { step, run } = &command.step_pass;
        let mut attributes = vec![
            ("noetl.command_id", Json::from(id.to_string())),
            ("noetl.tool", Json::from(command.tool)),
            ("noetl.attempt", Json::from(command.attempt)),
        ];
        if let Some(index) = command.index {
            attributes.push(("noetl.index", Json::from(index)));
        }
        if let Some(worker) = &command.worker {
            attributes.push(("noetl.worker", Json::from(&**worker)));
        }
        self.finished.push(Span {
            context: self.root_context.for_attempt(id, command.attempt),
            parent: Some(self.root_context.for_step(step.as_str(), *run).span_id()),
            link: None,
            name: format!("{} {step}", command.tool),
            began: command.began,
            ended: now,
            attributes,
            failure,
        });
    }

    /// Closes everything that is still open at the end of the execution.
    fn into_spans(mut self) -> Vec<Span> {
        let ended = self.root_span.ended;
        let cancelled = || Some("cancelled".to_owned());
        for (id, command) in std::mem::take(&mut self.commands) {
            // A command that was waiting for its next attempt has no span.
            if command.worker.is_some() || command.attempt == 1 {
                self.push_attempt_span(id, &command, ended, cancelled());
            }
        }
        let open: Vec<_> = self.steps.keys().cloned().collect();
        for pass in open {
            self.close_step(&pass, ended, cancelled());
        }
        self.finished.insert(0, self.root_span);
        self.finished
    }
}

fn error_kind(error: &TaskError) -> String {
    error.kind.as_str().to_owned()
}
