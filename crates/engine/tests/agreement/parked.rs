//! What comes to tasks that wait without a worker: signals, decisions, ends of children, and timers.

use noetl_engine::event::{Park, TimerId};
use noetl_engine::{
    Approve, ChildEnd, ChildEnded, Data, Decided, Input, Parked, Refused, Signal, Verdict,
};
use noetl_oracle::{ChildStatus, child_end, decisions};
use noetl_testkit::sim::Sim;
use noetl_types::{CommandId, Json, Seq, TaskError, TaskErrorKind};

use crate::drive::{Due, Outside};

impl Outside {
    /// What will come to a task that waits, and when.
    pub(crate) fn due_of_parked(&self, sim: &Sim) -> Vec<(u64, Due)> {
        let mut due = Vec::new();
        let signal = self.world.signals.get(self.next_signal);
        due.extend(signal.map(|signal| (signal.at, Due::Signal(self.next_signal))));
        for (id, command, parked) in sim.state().parked() {
            if parked.is_between_attempts() {
                continue;
            }
            let since = self.millis(parked.since);
            let attempt = (id, parked.attempt);
            match &parked.park {
                Park::Approval(approval) => {
                    let said = decisions(approval.message.as_deref().unwrap_or_default());
                    let heard = self.heard.get(&attempt).copied().unwrap_or_default();
                    let next = said.get(heard).map(|decided| since + decided.after);
                    due.extend(next.map(|at| (at, Due::Decision(command.issued, id))));
                }
                Park::Child(call) if call.waits => {
                    let end = child_end(input(&call.input), u64::from(parked.attempt));
                    let at = end.map(|end| since + end.after);
                    due.extend(at.map(|at| (at, Due::ChildEnd(command.issued, id))));
                }
                Park::Child(_)
                | Park::Sleep(_)
                | Park::Wait(_)
                | Park::Callback(_)
                | Park::Broken(_) => {}
            }
        }
        due
    }

    /// A signal is sent.
    pub(crate) fn send(&mut self, sim: &mut Sim, number: usize) {
        self.next_signal = number + 1;
        let signal = &self.world.signals[number];
        let verdict = sim.decide(Input::Signal(Box::new(Signal {
            key: signal.key.as_deref().map(Into::into),
            payload: signal.payload.clone(),
            ..Signal::new(signal.name.as_str())
        })));
        let is_fine = matches!(verdict, Ok(Verdict::Accepted | Verdict::Kept));
        assert!(is_fine, "{verdict:?}\n{}", sim.table());
    }

    /// The next of the people who are asked decides.
    pub(crate) fn let_decide(&mut self, sim: &mut Sim, command: CommandId) {
        let open = sim.state().command(command).expect("an open command");
        let parked = open.parked().expect("a task that waits");
        let Park::Approval(approval) = &parked.park else {
            panic!("nobody is asked");
        };
        let said = decisions(approval.message.as_deref().unwrap_or_default());
        let heard = self.heard.entry((command, parked.attempt)).or_default();
        let decided = said[*heard].clone();
        *heard += 1;
        let input = Input::Approve(Box::new(Approve {
            step: sim.plan().step(open.step).name.clone(),
            index: open.index,
            decision: if decided.approves {
                Decided::Approve
            } else {
                Decided::Reject
            },
            actor: decided.actor.as_str().into(),
            groups: Vec::new(),
            comment: None,
            values: None,
        }));
        // Who may not decide, or has decided already, is told so.
        let verdict = sim.decide(input);
        let is_fine = !matches!(&verdict, Err(Refused::Broken(_)));
        assert!(is_fine, "{verdict:?}\n{}", sim.table());
    }

    /// A child ends.
    pub(crate) fn end_child(sim: &mut Sim, command: CommandId) {
        let open = sim.state().command(command).expect("an open command");
        let parked: &Parked = open.parked().expect("a task that waits");
        let Park::Child(call) = &parked.park else {
            panic!("there is no child");
        };
        let end = child_end(input(&call.input), u64::from(parked.attempt)).expect("an end");
        let named = call.result_step.as_deref();
        let result = || Data::Inline(end.data_of(named));
        let input = Input::ChildEnded(Box::new(ChildEnded {
            child: call.child,
            end: match end.status {
                ChildStatus::Completed => ChildEnd::Completed { result: result() },
                ChildStatus::Failed => ChildEnd::Failed {
                    error: TaskError::new(TaskErrorKind::Transform, "scripted"),
                },
                ChildStatus::Cancelled => ChildEnd::Cancelled { reason: None },
            },
        }));
        let verdict = sim.decide(input);
        assert_eq!(verdict, Ok(Verdict::Accepted), "{}", sim.table());
    }

    /// The place of the command of a timer in the order of issue.
    pub(crate) fn issued(sim: &Sim, id: &TimerId) -> Option<Seq> {
        match id {
            TimerId::Command { command, .. } => Some(sim.state().command(*command)?.issued),
            TimerId::Start | TimerId::Execution | TimerId::Step { .. } => None,
        }
    }
}

fn input(data: &Data) -> &Json {
    match data {
        Data::Inline(input) => input,
        Data::External(_) => panic!("generated data is small"),
    }
}
