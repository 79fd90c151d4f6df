//! Drives the engine with the external events that a playbook scripts, in the order of the oracle:
//! due events come before any work, and time advances only when there is no work.

use std::collections::BTreeMap;
use std::rc::Rc;

use noetl_engine::event::TimerId;
use noetl_engine::{DecisionError, EngineInput, InputVerdict, SlotGrant, SlotHolder, SlotRequest};
use noetl_oracle::{
    ExternalInputs, ScriptedOutcomes, TaskCall as OracleCall, ToolAnswer, ToolOutcomes as _,
    start_workload,
};
use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::{LoopSource, Playbook, ToolKind};
use noetl_testkit::sim::{SimulatedCall, Simulation, ToolBehavior};
use noetl_types::{CommandId, Json, Millis, Seq, TaskError, TaskErrorKind, Timestamp};

/// Runs a playbook to its end. Results of `earlier` are in the cache.
pub(crate) fn run_playbook(playbook: &Playbook, earlier: Option<&Simulation>) -> Simulation {
    let workload = start_workload(playbook, &Json::Null).expect("workload renders");
    let inputs = Rc::new(ExternalInputs::from_workload(&workload));
    let tools = playbook_tools(playbook, Rc::clone(&inputs));
    let mut sim = Simulation::from_playbook(playbook.clone()).with_tools(tools);
    if let Some(earlier) = earlier {
        sim = sim.with_cached_results_of(earlier);
    }
    let started_at = sim.now();
    sim.start().expect("a run begins");
    let mut world =
        ExternalWorld { inputs, started_at, next_signal: 0, decisions_made: BTreeMap::new() };
    while world.advance_once(&mut sim) {}
    sim
}

/// Tool behaviour as scripted in the playbook.
fn playbook_tools(
    playbook: &Playbook,
    inputs: Rc<ExternalInputs>,
) -> impl Fn(&SimulatedCall<'_>) -> ToolBehavior + 'static {
    let cursor_steps = playbook.workflow.iter().filter_map(|step| {
        let looping = step.looping.as_ref()?;
        matches!(looping.source, LoopSource::Cursor(_)).then(|| step.name.value.to_string())
    });
    let cursors: Vec<String> = cursor_steps.collect();
    move |call| {
        let claims = call.label == "claim" && cursors.iter().any(|step| step == call.step);
        if claims {
            let max_rows = call.config.get("command").and_then(Json::as_str);
            let max_rows = max_rows.and_then(|text| text.strip_prefix("SELECT ")?.parse().ok());
            let frame = call.index.unwrap_or_default() as usize;
            let cursor_steps = inputs.frame_rows(call.step, frame, max_rows.unwrap_or(1));
            return ToolBehavior::Ok(Json::object([("rows", Json::list(cursor_steps))]));
        }
        if call.kind == ToolKind::Noop {
            return ToolBehavior::Configured;
        }
        scripted_call(call)
    }
}

fn scripted_call(call: &SimulatedCall<'_>) -> ToolBehavior {
    let oracle_call = OracleCall {
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
    match ScriptedOutcomes.answer_call(&oracle_call) {
        ToolAnswer::Ok(data) => ToolBehavior::Ok(data),
        ToolAnswer::Error(error) => {
            let kind = TaskErrorKind::parse(error.kind.as_str()).unwrap_or(TaskErrorKind::Unknown);
            let task_error = TaskError::new(kind, error.message.as_str());
            ToolBehavior::Fail(Box::new(task_error), error.data)
        }
    }
}

/// An external event. The ordering of the variants breaks ties at the same time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExternalEvent {
    /// Index of a scripted signal.
    Signal(usize),
    /// An approver decides about a command.
    Decision(Seq, CommandId),
    /// The child of a command ends.
    ChildEnd(Seq, CommandId),
    /// Another execution releases a slot.
    SlotRelease,
    /// A timer fires: execution timers before step timers before command timers.
    Timer(Option<usize>, Option<Seq>, TimerId),
}

/// External events around one run: signals, decisions, children, slots and timers.
pub(crate) struct ExternalWorld {
    pub(crate) inputs: Rc<ExternalInputs>,
    started_at: Timestamp,
    /// Index of the next signal to send.
    pub(crate) next_signal: usize,
    /// Number of decisions made so far, by command and attempt.
    pub(crate) decisions_made: BTreeMap<(CommandId, u32), usize>,
}

impl ExternalWorld {
    /// Performs the next event or unit of work. Returns false if nothing is left.
    fn advance_once(&mut self, sim: &mut Simulation) -> bool {
        if sim.state().is_ended() {
            return false;
        }
        if let Some(grant) = self.next_grant(sim) {
            let verdict = sim.grant_slot(grant);
            let is_expected = matches!(
                verdict,
                Ok(InputVerdict::Accepted | InputVerdict::Ignored(_))
                    | Err(DecisionError::SlotNotRequested(_))
            );
            assert!(is_expected, "{verdict:?}\n{}", sim.format_log());
            return true;
        }
        let due = self.next_event(sim);
        let has_work = !sim.available_commands().is_empty();
        match due {
            Some((at, due)) if at <= self.elapsed_ms(sim) || !has_work => {
                self.perform(sim, at, due);
                true
            }
            Some(_) | None => has_work && sim.advance_once(),
        }
    }

    /// Milliseconds since the run began.
    fn elapsed_ms(&self, sim: &Simulation) -> u64 {
        self.ms_since_start(sim.now())
    }

    pub(crate) fn ms_since_start(&self, at: Timestamp) -> u64 {
        at.duration_since(self.started_at).as_ms()
    }

    /// The next slot to grant, by priority and then by waiting time.
    fn next_grant(&self, sim: &Simulation) -> Option<SlotGrant> {
        let now = self.elapsed_ms(sim);
        let held = sim.state().held_slots(sim.plan());
        let is_free = |request: &&SlotRequest| {
            let others = self.inputs.slot_release_times(&request.slot.key);
            let others = others.iter().filter(|until| **until > now).count();
            let own = held.iter().filter(|held| held.key == request.slot.key).count();
            others + own < request.slot.limit as usize
        };
        let requests = sim.requested_slots();
        let next = requests.iter().filter(is_free).min_by_key(|request| {
            let step = match &request.holder {
                SlotHolder::Execution => None,
                SlotHolder::Step { step, .. } => sim.plan().find_step(step.as_str()),
            };
            let priority = -i32::from(request.priority);
            (priority, request.since, step.map(StepIndex::index))
        });
        next.map(|request| SlotGrant {
            holder: request.holder.clone(),
            key: request.slot.key.clone(),
        })
    }

    /// The next external event and its time in milliseconds since the start.
    fn next_event(&self, sim: &Simulation) -> Option<(u64, ExternalEvent)> {
        let now = self.elapsed_ms(sim);
        let mut due = self.suspension_events(sim);
        for request in sim.requested_slots() {
            let others = self.inputs.slot_release_times(&request.slot.key).into_iter();
            due.extend(
                others.filter(|until| *until > now).map(|at| (at, ExternalEvent::SlotRelease)),
            );
        }
        for timer in sim.state().pending_timers(sim.plan()) {
            let step_order = match &timer.id {
                TimerId::Start | TimerId::Execution => None,
                TimerId::Step { step, .. } => {
                    sim.plan().find_step(step.as_str()).map(StepIndex::index)
                }
                TimerId::Command { .. } => Some(usize::MAX),
            };
            let issued = Self::issued_seq(sim, &timer.id);
            due.push((
                self.ms_since_start(timer.fire_at),
                ExternalEvent::Timer(step_order, issued, timer.id),
            ));
        }
        due.into_iter().min()
    }

    fn perform(&mut self, sim: &mut Simulation, at: u64, due: ExternalEvent) {
        let delay_ms = at.saturating_sub(self.elapsed_ms(sim));
        sim.advance_clock(Millis::from_ms(delay_ms));
        match due {
            ExternalEvent::Signal(number) => self.send_signal(sim, number),
            ExternalEvent::Decision(_, command) => self.decide_approval(sim, command),
            ExternalEvent::ChildEnd(_, command) => Self::end_child(sim, command),
            // The grant follows once no further step can be entered.
            ExternalEvent::SlotRelease => {}
            ExternalEvent::Timer(_, _, timer) => {
                let verdict = sim.decide(EngineInput::TimerFired(timer));
                assert_eq!(verdict, Ok(InputVerdict::Accepted), "{}", sim.format_log());
            }
        }
    }
}
