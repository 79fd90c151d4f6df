//! Minimal driver for measurements: no worker renders anything and nothing is checked, so only the
//! engine is measured.

use std::collections::VecDeque;
use std::sync::Arc;

use noetl_engine::{
    Decision, DecisionContext, EmptyCache, EngineInput, Event, EventData, EventKind,
    ExecutionState, Plan, ReportOutcome, StartInput, TaskResult, WorkerReport, decide,
};
use noetl_playbook::command_context::EmptyPayloads;
use noetl_playbook::{CheckOptions, Document, check};
use noetl_types::id::HighWaterMark;
use noetl_types::{
    CatalogId, CommandId, ExecutionId, IdGenerator, Json, MachineId, Millis, PlaybookPath,
    Timestamp, WorkerId,
};

/// An execution to measure.
#[derive(Clone)]
pub struct EngineDriver {
    plan: Arc<Plan>,
    state: ExecutionState,
    ids: IdGenerator,
    now: Timestamp,
    worker: WorkerId,
    /// Open commands in order of issue.
    open: VecDeque<CommandId>,
}

impl EngineDriver {
    /// Starts an execution of a playbook, given without its root keys.
    pub fn start_body(body: &str) -> (Self, Vec<Event>) {
        let text = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: measured }}\n{body}"
        );
        let Some(Document::Playbook(playbook)) = check(&text, &CheckOptions::default()).document
        else {
            panic!("not a playbook:\n{text}");
        };
        let plan = Arc::new(Plan::new(Arc::from(playbook)).expect("a plan"));
        let mut driver = Self {
            state: ExecutionState::new(&plan),
            plan,
            ids: IdGenerator::new(MachineId::MIN, HighWaterMark::NONE),
            now: Timestamp::parse("2026-01-01T00:00:00Z").expect("a time"),
            worker: WorkerId::new("w1").expect("a name"),
            open: VecDeque::new(),
        };
        let start = StartInput::new(
            ExecutionId::new(1).expect("an id"),
            CatalogId::new(2).expect("an id"),
            PlaybookPath::new("measured").expect("a path"),
        );
        let decision = driver.decide(EngineInput::Start(Box::new(start)));
        let events = driver.commit_decision(decision);
        (driver, events)
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn state(&self) -> &ExecutionState {
        &self.state
    }

    /// Returns the report of the oldest open command. `None` when the execution has ended.
    pub fn next_report(&self) -> Option<EngineInput> {
        self.report_for(*self.open.front()?)
    }

    fn report_for(&self, command: CommandId) -> Option<EngineInput> {
        let state = self.state.command(command)?;
        let data = Json::object([
            ("index", Json::from(state.index)),
            ("text", Json::from("some result of a task")),
        ]);
        Some(EngineInput::Report(Box::new(WorkerReport {
            command,
            attempt: 1,
            worker: self.worker.clone(),
            lease_until: None,
            claimed_at: None,
            started_at: Some(self.now),
            retries: Vec::new(),
            retries_before: 0,
            outcome: ReportOutcome::Completed(TaskResult::from(EventData::Inline(data))),
        })))
    }

    /// Decides an input without changing the execution.
    pub fn decide(&mut self, input: EngineInput) -> Decision {
        let mut context = DecisionContext {
            now: self.now,
            ids: &mut self.ids,
            payloads: &EmptyPayloads,
            caches: &EmptyCache,
        };
        decide(&self.state, &self.plan, input, &mut context).expect("a decision")
    }

    /// Applies a decision.
    pub fn commit_decision(&mut self, decision: Decision) -> Vec<Event> {
        let events = decision.commit_to(&mut self.state);
        for event in &events {
            match &event.kind {
                EventKind::CommandIssued(_) => self.open.push_back(event.event_id.into()),
                EventKind::CommandCompleted(completed)
                    if self.open.front() == Some(&completed.command) =>
                {
                    self.open.pop_front();
                }
                _ => {}
            }
        }
        events
    }

    /// Reports the oldest open command. Returns `None` when the execution has ended.
    pub fn report_next(&mut self) -> Option<Vec<Event>> {
        let report = self.next_report()?;
        // Ids depend on the clock, so it must advance with the reports.
        self.now = self.now.saturating_add(Millis::from_ms(1));
        let decision = self.decide(report);
        Some(self.commit_decision(decision))
    }

    /// Reports up to `count` commands.
    pub fn report_many(&mut self, count: usize) -> Vec<Event> {
        (0..count).map_while(|_| self.report_next()).flatten().collect()
    }
}
