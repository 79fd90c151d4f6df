//! Drives the engine through the world that a playbook carries with it, in the order that the oracle
//! describes: what is due comes before any work, and time passes only when there is no work.

use std::collections::BTreeMap;
use std::rc::Rc;

use noetl_engine::event::TimerId;
use noetl_engine::{Input, Refused, SlotGrant, SlotHolder, SlotWant, Verdict};
use noetl_oracle::{Answer, Call as OracleCall, Outcomes as _, Script, World, start_workload};
use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::{LoopSource, Playbook, ToolKind};
use noetl_testkit::sim::{Call, Play, Sim};
use noetl_types::{CommandId, Json, Millis, Seq, TaskError, TaskErrorKind, Timestamp};

/// Runs a playbook to its end, with what an earlier run of it has left in the cache.
pub(crate) fn drive(playbook: &Playbook, earlier: Option<&Sim>) -> Sim {
    let workload = start_workload(playbook, &Json::Null).expect("workload renders");
    let world = Rc::new(World::of(&workload));
    let tools = tools(playbook, Rc::clone(&world));
    let mut sim = Sim::of_playbook(playbook.clone()).with_tools(tools);
    if let Some(earlier) = earlier {
        sim = sim.with_results_of(earlier);
    }
    let begins = sim.now();
    sim.start().expect("a run begins");
    let mut outside = Outside {
        world,
        begins,
        next_signal: 0,
        heard: BTreeMap::new(),
    };
    while outside.go_on(&mut sim) {}
    sim
}

/// What the tools do: what the playbook itself says.
fn tools(playbook: &Playbook, world: Rc<World>) -> impl Fn(&Call<'_>) -> Play + 'static {
    let rows = playbook.workflow.iter().filter_map(|step| {
        let looping = step.looping.as_ref()?;
        matches!(looping.source, LoopSource::Cursor(_)).then(|| step.name.value.to_string())
    });
    let cursors: Vec<String> = rows.collect();
    move |call| {
        let claims = call.label == "claim" && cursors.iter().any(|step| step == call.step);
        if claims {
            let most = call.config.get("command").and_then(Json::as_str);
            let most = most.and_then(|text| text.strip_prefix("SELECT ")?.parse().ok());
            let frame = call.index.unwrap_or_default() as usize;
            let rows = world.rows(call.step, frame, most.unwrap_or(1));
            return Play::Ok(Json::object([("rows", Json::list(rows))]));
        }
        if call.kind == ToolKind::Noop {
            return Play::AsWritten;
        }
        scripted(call)
    }
}

fn scripted(call: &Call<'_>) -> Play {
    let asked = OracleCall {
        step: call.step,
        run: u64::from(call.run),
        index: call.index.map(|index| index as usize),
        label: call.label,
        kind: call.kind,
        visit: 1,
        attempt: u64::from(call.attempt),
        config: call.config,
        input: call.input,
    };
    match Script.answer(&asked) {
        Answer::Ok(data) => Play::Ok(data),
        Answer::Error(error) => {
            let kind = TaskErrorKind::parse(error.kind.as_str()).unwrap_or(TaskErrorKind::Unknown);
            let told = TaskError::new(kind, error.message.as_str());
            Play::Fail(Box::new(told), error.data)
        }
    }
}

/// What comes next; the order is that of things at the same moment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// The signal with this number.
    Signal(usize),
    /// Somebody decides about a command.
    Decision(Seq, CommandId),
    /// The child of a command ends.
    ChildEnd(Seq, CommandId),
    /// Somebody else gives a slot back.
    Slot,
    /// A timer fires: that of the execution before those of steps, and those of commands last.
    Timer(Option<usize>, Option<Seq>, TimerId),
}

/// The world outside of a run.
pub(crate) struct Outside {
    pub(crate) world: Rc<World>,
    begins: Timestamp,
    /// The number of the signal that comes next.
    pub(crate) next_signal: usize,
    /// How many of those who are asked have spoken, for each attempt of a task.
    pub(crate) heard: BTreeMap<(CommandId, u32), usize>,
}

impl Outside {
    /// Lets one thing happen; whether there was one.
    fn go_on(&mut self, sim: &mut Sim) -> bool {
        if sim.state().is_ended() {
            return false;
        }
        if let Some(grant) = self.grantable(sim) {
            let verdict = sim.grant(grant);
            let is_fine = matches!(
                verdict,
                Ok(Verdict::Accepted | Verdict::Ignored(_)) | Err(Refused::NoSlotWanted(_))
            );
            assert!(is_fine, "{verdict:?}\n{}", sim.table());
            return true;
        }
        let due = self.next_due(sim);
        let has_work = !sim.available().is_empty();
        match due {
            Some((at, due)) if at <= self.since_start(sim) || !has_work => {
                self.happen(sim, at, due);
                true
            }
            Some(_) | None => has_work && sim.step(),
        }
    }

    /// Milliseconds since the run began.
    fn since_start(&self, sim: &Sim) -> u64 {
        self.millis(sim.now())
    }

    pub(crate) fn millis(&self, at: Timestamp) -> u64 {
        at.since(self.begins).as_ms()
    }

    /// The slot that is given next: by priority, then by how long it is waited for.
    fn grantable(&self, sim: &Sim) -> Option<SlotGrant> {
        let now = self.since_start(sim);
        let held = sim.state().held_slots(sim.plan());
        let is_free = |want: &&SlotWant| {
            let others = self.world.held_until(&want.slot.key);
            let others = others.iter().filter(|until| **until > now).count();
            let own = held.iter().filter(|held| held.key == want.slot.key).count();
            others + own < want.slot.limit as usize
        };
        let wants = sim.wants();
        let next = wants.iter().filter(is_free).min_by_key(|want| {
            let step = match &want.holder {
                SlotHolder::Run => None,
                SlotHolder::Step { step, .. } => sim.plan().find(step.as_str()),
            };
            let priority = -i32::from(want.priority);
            (priority, want.since, step.map(StepIndex::index))
        });
        next.map(|want| SlotGrant {
            holder: want.holder.clone(),
            key: want.slot.key.clone(),
        })
    }

    /// What comes next, and when.
    fn next_due(&self, sim: &Sim) -> Option<(u64, Due)> {
        let now = self.since_start(sim);
        let mut due = self.due_of_parked(sim);
        for want in sim.wants() {
            let others = self.world.held_until(&want.slot.key).into_iter();
            due.extend(
                others
                    .filter(|until| *until > now)
                    .map(|at| (at, Due::Slot)),
            );
        }
        for timer in sim.state().timers(sim.plan()) {
            let place = match &timer.id {
                TimerId::Start | TimerId::Execution => None,
                TimerId::Step { step, .. } => sim.plan().find(step.as_str()).map(StepIndex::index),
                TimerId::Command { .. } => Some(usize::MAX),
            };
            let issued = Self::issued(sim, &timer.id);
            due.push((
                self.millis(timer.fire_at),
                Due::Timer(place, issued, timer.id),
            ));
        }
        due.into_iter().min()
    }

    fn happen(&mut self, sim: &mut Sim, at: u64, due: Due) {
        let behind = at.saturating_sub(self.since_start(sim));
        sim.advance(Millis::from_ms(behind));
        match due {
            Due::Signal(number) => self.send(sim, number),
            Due::Decision(_, command) => self.let_decide(sim, command),
            Due::ChildEnd(_, command) => Self::end_child(sim, command),
            // Who waits for it is asked when all that is to enter has entered.
            Due::Slot => {}
            Due::Timer(_, _, timer) => {
                let verdict = sim.decide(Input::TimerFired(timer));
                assert_eq!(verdict, Ok(Verdict::Accepted), "{}", sim.table());
            }
        }
    }
}
