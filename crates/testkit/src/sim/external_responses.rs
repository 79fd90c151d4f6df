//! Responses from outside of an execution: people, other executions and callbacks.

use noetl_engine::event::{ApprovalSpec, ChildCall, SignalWait, SuspensionKind};
use noetl_engine::{
    ApprovalChoice, ApprovalDecision, CallbackResult, ChildEnded, ChildOutcome, DecisionError,
    EngineInput, EventData, IncomingSignal, InputVerdict, SuspendedTask,
};
use noetl_types::{CommandId, ExecutionId, Json, TaskError, TaskErrorKind, Text};

use super::simulation::Simulation;

/// A suspended task that can receive a response.
#[derive(Debug)]
pub struct ResponseRequest<'a> {
    pub step: &'a str,
    /// Iteration, in a loop.
    pub index: Option<u32>,
    /// Attempt of the task, from 1.
    pub attempt: u32,
    /// Suspension of the task.
    pub suspension: &'a SuspensionKind,
}

/// Response to a suspended task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExternalResponse {
    /// Success: the signal, the approval, the result.
    Accept,
    /// A rejection or a failure. Waits for signals ignore it.
    Reject,
    NoResponse,
}

impl Simulation {
    /// Returns the tasks that could receive a response now, in order of issue.
    pub fn response_requests(&self) -> Vec<CommandId> {
        if self.state().is_paused() || self.state().is_ended() {
            return Vec::new();
        }
        let mut requests: Vec<_> = self
            .state()
            .suspended_tasks()
            .filter(|(_, _, task)| !task.is_awaiting_retry())
            .filter(|(id, _, _)| self.response_input(*id).is_some())
            .map(|(id, command, _)| (command.issued, id))
            .collect();
        requests.sort_unstable();
        requests.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns the input that responds to a suspended task, if any.
    pub fn response_input(&self, command: CommandId) -> Option<EngineInput> {
        let state = self.state().command(command)?;
        let task = state.suspended_task()?;
        let name = &self.plan().step(state.step).name;
        let response = self.response_to(&ResponseRequest {
            step: name.as_str(),
            index: state.index,
            attempt: task.attempt,
            suspension: &task.kind,
        })?;
        match (&task.kind, response) {
            (_, ExternalResponse::NoResponse)
            | (SuspensionKind::Wait(_), ExternalResponse::Reject)
            | (SuspensionKind::Sleep(_) | SuspensionKind::Broken(_), _) => None,
            (SuspensionKind::Wait(wait), ExternalResponse::Accept) => missing_signal(task, wait),
            (SuspensionKind::Approval(approval), response) => {
                let decision = next_decision(task, approval, response);
                let (step, index) = (name.clone(), state.index);
                Some(EngineInput::Approve(Box::new(ApprovalDecision { step, index, ..decision })))
            }
            (SuspensionKind::Child(call), response) => Some(child_end_input(call, response)),
            (SuspensionKind::Callback(_), response) => Some(callback_input(command, response)),
        }
    }

    /// Responds to the task that has waited longest. Returns false if there is no such task.
    pub fn respond_to_oldest(&mut self) -> bool {
        let Some(command) = self.response_requests().first().copied() else {
            return false;
        };
        self.respond_to(command);
        true
    }

    /// Responds to a suspended task.
    pub fn respond_to(&mut self, command: CommandId) {
        let input = self.response_input(command).expect("a response");
        let verdict = self.decide(input);
        assert_eq!(verdict, Ok(InputVerdict::Accepted), "{}", self.format_log());
    }

    pub fn send_signal(
        &mut self,
        name: &str,
        key: Option<&str>,
        payload: Json,
    ) -> Result<InputVerdict, DecisionError> {
        self.decide(EngineInput::Signal(Box::new(IncomingSignal {
            key: key.map(Text::from),
            payload,
            actor: Some("ann".into()),
            ..IncomingSignal::new(name)
        })))
    }

    /// Sends a decision about an approval.
    pub fn send_decision(
        &mut self,
        step: &str,
        actor: &str,
        decision: ApprovalChoice,
    ) -> Result<InputVerdict, DecisionError> {
        self.decide(EngineInput::Approve(Box::new(ApprovalDecision {
            step: step.parse().expect("a step"),
            actor: actor.into(),
            decision,
            ..blank_decision()
        })))
    }

    /// Reports the end of a child.
    pub fn report_child_end(
        &mut self,
        child: ExecutionId,
        outcome: ChildOutcome,
    ) -> Result<InputVerdict, DecisionError> {
        self.decide(EngineInput::ChildEnded(Box::new(ChildEnded { child, outcome })))
    }

    /// Children that are awaited.
    pub fn awaited_children(&self) -> Vec<ExecutionId> {
        let children = self.state().awaited_children();
        children.map(|(_, call)| call.child).collect()
    }
}

/// Returns the first signal that a wait has not received.
fn missing_signal(task: &SuspendedTask, wait: &SignalWait) -> Option<EngineInput> {
    let is_received = |slot: u32| task.signals.iter().any(|signal| signal.awaited_index == slot);
    let mut missing = (0..).zip(&wait.signals).filter(|(slot, _)| !is_received(*slot));
    let (_, awaited) = missing.next()?;
    Some(EngineInput::Signal(Box::new(IncomingSignal {
        key: awaited.key.clone(),
        payload: Json::object([("said", Json::from(&awaited.name))]),
        actor: Some("ann".into()),
        ..IncomingSignal::new(awaited.name.clone())
    })))
}

fn blank_decision() -> ApprovalDecision {
    ApprovalDecision {
        step: "nowhere".parse().expect("a step"),
        index: None,
        decision: ApprovalChoice::Approve,
        actor: "nobody".into(),
        groups: Vec::new(),
        comment: None,
        values: None,
    }
}

/// Returns the decision of the next approver.
fn next_decision(
    task: &SuspendedTask,
    approval: &ApprovalSpec,
    response: ExternalResponse,
) -> ApprovalDecision {
    let decided = task.signals.len();
    let actor = approval.approvers.get(decided).cloned();
    ApprovalDecision {
        actor: actor.unwrap_or_else(|| Text::from(format!("person-{decided}"))),
        decision: match response {
            ExternalResponse::Accept => ApprovalChoice::Approve,
            ExternalResponse::Reject | ExternalResponse::NoResponse => ApprovalChoice::Reject,
        },
        ..blank_decision()
    }
}

/// Returns the end of a child that completes with its input, or fails.
fn child_end_input(call: &ChildCall, response: ExternalResponse) -> EngineInput {
    let outcome = match response {
        ExternalResponse::Accept => ChildOutcome::Completed {
            result: match &call.input {
                EventData::Inline(input) => EventData::Inline(input.clone()),
                external @ EventData::External(_) => external.clone(),
            },
        },
        ExternalResponse::Reject | ExternalResponse::NoResponse => ChildOutcome::Failed {
            error: TaskError::new(TaskErrorKind::Transform, "the child failed"),
        },
    };
    let child = call.child;
    EngineInput::ChildEnded(Box::new(ChildEnded { child, outcome }))
}

fn callback_input(command: CommandId, response: ExternalResponse) -> EngineInput {
    let error = || TaskError::new(TaskErrorKind::Transform, "exit code 1");
    EngineInput::Callback(Box::new(CallbackResult {
        command,
        data: Json::object([(
            "exit_code",
            Json::from(u32::from(response != ExternalResponse::Accept)),
        )]),
        error: (response != ExternalResponse::Accept).then(error),
    }))
}
