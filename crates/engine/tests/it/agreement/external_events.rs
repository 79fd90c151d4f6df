//! External events for suspended tasks: signals, decisions, ends of children and timers.

use noetl_engine::event::{SuspensionKind, TimerId};
use noetl_engine::{
    ApprovalChoice, ApprovalDecision, ChildEnded, ChildOutcome, DecisionError, EngineInput,
    EventData, IncomingSignal, InputVerdict, SuspendedTask,
};
use noetl_oracle::{ChildStatus, parse_child_end, parse_decisions};
use noetl_testkit::sim::Simulation;
use noetl_types::{CommandId, Json, Seq, TaskError, TaskErrorKind};

use crate::agreement::drive::{ExternalEvent, ExternalWorld};

impl ExternalWorld {
    /// Upcoming events for suspended tasks with their times in milliseconds since the start.
    pub(crate) fn suspension_events(&self, sim: &Simulation) -> Vec<(u64, ExternalEvent)> {
        let mut due = Vec::new();
        let signal = self.inputs.signals.get(self.next_signal);
        due.extend(signal.map(|signal| (signal.at, ExternalEvent::Signal(self.next_signal))));
        for (id, command, suspended) in sim.state().suspended_tasks() {
            if suspended.is_awaiting_retry() {
                continue;
            }
            let since = self.ms_since_start(suspended.since);
            let attempt = (id, suspended.attempt);
            match &suspended.kind {
                SuspensionKind::Approval(approval) => {
                    let scripted = parse_decisions(approval.message.as_deref().unwrap_or_default());
                    let made_so_far =
                        self.decisions_made.get(&attempt).copied().unwrap_or_default();
                    let next = scripted.get(made_so_far).map(|decision| since + decision.after);
                    due.extend(next.map(|at| (at, ExternalEvent::Decision(command.issued, id))));
                }
                SuspensionKind::Child(call) if call.waits => {
                    let end =
                        parse_child_end(inline_input(&call.input), u64::from(suspended.attempt));
                    let at = end.map(|end| since + end.after);
                    due.extend(at.map(|at| (at, ExternalEvent::ChildEnd(command.issued, id))));
                }
                SuspensionKind::Child(_)
                | SuspensionKind::Sleep(_)
                | SuspensionKind::Wait(_)
                | SuspensionKind::Callback(_)
                | SuspensionKind::Broken(_) => {}
            }
        }
        due
    }

    pub(crate) fn send_signal(&mut self, sim: &mut Simulation, number: usize) {
        self.next_signal = number + 1;
        let signal = &self.inputs.signals[number];
        let verdict = sim.decide(EngineInput::Signal(Box::new(IncomingSignal {
            key: signal.key.as_deref().map(Into::into),
            payload: signal.payload.clone(),
            ..IncomingSignal::new(signal.name.as_str())
        })));
        let is_expected = matches!(verdict, Ok(InputVerdict::Accepted | InputVerdict::Buffered));
        assert!(is_expected, "{verdict:?}\n{}", sim.format_log());
    }

    /// Makes the next scripted decision of an approval.
    pub(crate) fn decide_approval(&mut self, sim: &mut Simulation, command: CommandId) {
        let open = sim.state().command(command).expect("an open command");
        let suspended = open.suspended_task().expect("a task that waits");
        let SuspensionKind::Approval(approval) = &suspended.kind else {
            panic!("the command is not an approval");
        };
        let scripted = parse_decisions(approval.message.as_deref().unwrap_or_default());
        let made_so_far = self.decisions_made.entry((command, suspended.attempt)).or_default();
        let decision = scripted[*made_so_far].clone();
        *made_so_far += 1;
        let input = EngineInput::Approve(Box::new(ApprovalDecision {
            step: sim.plan().step(open.step).name.clone(),
            index: open.index,
            decision: if decision.approves {
                ApprovalChoice::Approve
            } else {
                ApprovalChoice::Reject
            },
            actor: decision.actor.as_str().into(),
            groups: Vec::new(),
            comment: None,
            values: None,
        }));
        // A decision without permission and a repeated decision are expected errors.
        let verdict = sim.decide(input);
        let is_expected = !matches!(&verdict, Err(DecisionError::InvariantBroken(_)));
        assert!(is_expected, "{verdict:?}\n{}", sim.format_log());
    }

    pub(crate) fn end_child(sim: &mut Simulation, command: CommandId) {
        let open = sim.state().command(command).expect("an open command");
        let suspended: &SuspendedTask = open.suspended_task().expect("a task that waits");
        let SuspensionKind::Child(call) = &suspended.kind else {
            panic!("there is no child");
        };
        let end = parse_child_end(inline_input(&call.input), u64::from(suspended.attempt))
            .expect("an end");
        let result_step = call.result_step.as_deref();
        let result = || EventData::Inline(end.step_data(result_step));
        let input = EngineInput::ChildEnded(Box::new(ChildEnded {
            child: call.child,
            outcome: match end.status {
                ChildStatus::Completed => ChildOutcome::Completed { result: result() },
                ChildStatus::Failed => ChildOutcome::Failed {
                    error: TaskError::new(TaskErrorKind::Transform, "scripted"),
                },
                ChildStatus::Cancelled => ChildOutcome::Cancelled { reason: None },
            },
        }));
        let verdict = sim.decide(input);
        assert_eq!(verdict, Ok(InputVerdict::Accepted), "{}", sim.format_log());
    }

    /// Seq of the event that issued the command of a timer.
    pub(crate) fn issued_seq(sim: &Simulation, id: &TimerId) -> Option<Seq> {
        match id {
            TimerId::Command { command, .. } => Some(sim.state().command(*command)?.issued),
            TimerId::Start | TimerId::Execution | TimerId::Step { .. } => None,
        }
    }
}

fn inline_input(data: &EventData) -> &Json {
    match data {
        EventData::Inline(input) => input,
        EventData::External(_) => panic!("generated data is small"),
    }
}
