//! The world outside of a run: people, other runs and whatever tells its end by itself.

use noetl_engine::event::{Approval, ChildCall, Park, Wait};
use noetl_engine::{
    Approve, Called, ChildEnd, ChildEnded, Data, Decided, Input, Parked, Refused, Signal, Verdict,
};
use noetl_types::{CommandId, ExecutionId, Json, TaskError, TaskErrorKind, Text};

use super::run::Sim;

/// A task that waits for the world.
#[derive(Debug)]
pub struct Ask<'a> {
    /// The step.
    pub step: &'a str,
    /// The iteration, in a loop.
    pub index: Option<u32>,
    /// The attempt of the task, from 1.
    pub attempt: u32,
    /// What it waits for.
    pub park: &'a Park,
}

/// What the world does about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// What is hoped for: the signal, the approval, the result.
    Yes,
    /// A rejection or a failure; a signal cannot fail, so there is none.
    No,
    /// Nothing at all.
    Silence,
}

impl Sim {
    /// Tasks that the world could say something to now, in the order of issue.
    pub fn asks(&self) -> Vec<CommandId> {
        if self.state().is_paused() || self.state().is_ended() {
            return Vec::new();
        }
        let mut asks: Vec<_> = self
            .state()
            .parked()
            .filter(|(_, _, parked)| !parked.is_between_attempts())
            .filter(|(id, _, _)| self.word_for(*id).is_some())
            .map(|(id, command, _)| (command.issued, id))
            .collect();
        asks.sort_unstable();
        asks.into_iter().map(|(_, id)| id).collect()
    }

    /// What the world sends to a task that waits, if anything.
    pub fn word_for(&self, command: CommandId) -> Option<Input> {
        let open = self.state().command(command)?;
        let parked = open.parked()?;
        let name = &self.plan().step(open.step).name;
        let word = self.ask_world(&Ask {
            step: name.as_str(),
            index: open.index,
            attempt: parked.attempt,
            park: &parked.park,
        })?;
        match (&parked.park, word) {
            (_, Word::Silence)
            | (Park::Wait(_), Word::No)
            | (Park::Sleep(_) | Park::Broken(_), _) => None,
            (Park::Wait(wait), Word::Yes) => signal(parked, wait),
            (Park::Approval(approval), word) => {
                let decision = decision(parked, approval, word);
                let (step, index) = (name.clone(), open.index);
                Some(Input::Approve(Box::new(Approve {
                    step,
                    index,
                    ..decision
                })))
            }
            (Park::Child(call), word) => Some(ended(call, word)),
            (Park::Callback(_), word) => Some(called(command, word)),
        }
    }

    /// Says one thing to the task that waits longest; whether there was one.
    pub fn serve(&mut self) -> bool {
        let Some(command) = self.asks().first().copied() else {
            return false;
        };
        self.answer(command);
        true
    }

    /// Says to a task that waits what the world has to say.
    pub fn answer(&mut self, command: CommandId) {
        let word = self.word_for(command).expect("a word");
        let verdict = self.decide(word);
        assert_eq!(verdict, Ok(Verdict::Accepted), "{}", self.table());
    }

    /// Sends a signal.
    pub fn signal(
        &mut self,
        name: &str,
        key: Option<&str>,
        payload: Json,
    ) -> Result<Verdict, Refused> {
        self.decide(Input::Signal(Box::new(Signal {
            key: key.map(Text::from),
            payload,
            actor: Some("ann".into()),
            ..Signal::new(name)
        })))
    }

    /// Lets somebody decide.
    pub fn approve(
        &mut self,
        step: &str,
        actor: &str,
        decision: Decided,
    ) -> Result<Verdict, Refused> {
        self.decide(Input::Approve(Box::new(Approve {
            step: step.parse().expect("a step"),
            actor: actor.into(),
            decision,
            ..nobody()
        })))
    }

    /// Tells the end of a child.
    pub fn child_ended(&mut self, child: ExecutionId, end: ChildEnd) -> Result<Verdict, Refused> {
        self.decide(Input::ChildEnded(Box::new(ChildEnded { child, end })))
    }

    /// The children that are waited for.
    pub fn children(&self) -> Vec<ExecutionId> {
        let children = self.state().children();
        children.map(|(_, call)| call.child).collect()
    }
}

/// The first signal that a wait still lacks.
fn signal(parked: &Parked, wait: &Wait) -> Option<Input> {
    let taken = |slot: u32| parked.signals.iter().any(|taken| taken.slot == slot);
    let mut open = (0..).zip(&wait.signals).filter(|(slot, _)| !taken(*slot));
    let (_, awaited) = open.next()?;
    Some(Input::Signal(Box::new(Signal {
        key: awaited.key.clone(),
        payload: Json::object([("said", Json::from(&awaited.name))]),
        actor: Some("ann".into()),
        ..Signal::new(awaited.name.clone())
    })))
}

fn nobody() -> Approve {
    Approve {
        step: "nowhere".parse().expect("a step"),
        index: None,
        decision: Decided::Approve,
        actor: "nobody".into(),
        groups: Vec::new(),
        comment: None,
        values: None,
    }
}

/// The next one to decide.
fn decision(parked: &Parked, approval: &Approval, word: Word) -> Approve {
    let decided = parked.signals.len();
    let actor = approval.approvers.get(decided).cloned();
    Approve {
        actor: actor.unwrap_or_else(|| Text::from(format!("person-{decided}"))),
        decision: match word {
            Word::Yes => Decided::Approve,
            Word::No | Word::Silence => Decided::Reject,
        },
        ..nobody()
    }
}

/// A child that yields its input, or fails.
fn ended(call: &ChildCall, word: Word) -> Input {
    let end = match word {
        Word::Yes => ChildEnd::Completed {
            result: match &call.input {
                Data::Inline(input) => Data::Inline(input.clone()),
                external @ Data::External(_) => external.clone(),
            },
        },
        Word::No | Word::Silence => ChildEnd::Failed {
            error: TaskError::new(TaskErrorKind::Transform, "the child has no mood"),
        },
    };
    let child = call.child;
    Input::ChildEnded(Box::new(ChildEnded { child, end }))
}

fn called(command: CommandId, word: Word) -> Input {
    let no = || TaskError::new(TaskErrorKind::Transform, "exit code 1");
    Input::Callback(Box::new(Called {
        command,
        data: Json::object([("exit_code", Json::from(u32::from(word != Word::Yes)))]),
        error: (word != Word::Yes).then(no),
    }))
}
