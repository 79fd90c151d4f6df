//! A run that is only driven: no worker renders anything and nothing is checked, so what is measured
//! is the engine.

use std::collections::VecDeque;
use std::sync::Arc;

use noetl_engine::{
    Data, Decision, Event, EventKind, Input, Moment, NoCaches, Plan, Report, ReportOutcome, Start,
    State, TaskResult, decide,
};
use noetl_playbook::carried::NoPayloads;
use noetl_playbook::{CheckOptions, Document, check};
use noetl_types::id::HighWater;
use noetl_types::{
    CatalogId, CommandId, ExecutionId, IdGenerator, Json, MachineId, Millis, PlaybookPath,
    Timestamp, WorkerId,
};

/// A run to measure.
#[derive(Clone)]
pub struct Drive {
    plan: Arc<Plan>,
    state: State,
    ids: IdGenerator,
    now: Timestamp,
    worker: WorkerId,
    /// Commands in order of issue.
    open: VecDeque<CommandId>,
}

impl Drive {
    /// A run of a playbook, given by what follows its usual root keys; begun.
    pub fn of(body: &str) -> (Self, Vec<Event>) {
        let text = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: measured }}\n{body}"
        );
        let Some(Document::Playbook(playbook)) = check(&text, &CheckOptions::default()).document
        else {
            panic!("not a playbook:\n{text}");
        };
        let plan = Arc::new(Plan::new(Arc::from(playbook)).expect("a plan"));
        let mut drive = Self {
            state: State::new(&plan),
            plan,
            ids: IdGenerator::new(MachineId::MIN, HighWater::NONE),
            now: Timestamp::parse("2026-01-01T00:00:00Z").expect("a time"),
            worker: WorkerId::new("w1").expect("a name"),
            open: VecDeque::new(),
        };
        let start = Start::new(
            ExecutionId::new(1).expect("an id"),
            CatalogId::new(2).expect("an id"),
            PlaybookPath::new("measured").expect("a path"),
        );
        let decision = drive.decide(Input::Start(Box::new(start)));
        let events = drive.commit(decision);
        (drive, events)
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The report of the oldest open command; none when the run has ended.
    pub fn next_report(&self) -> Option<Input> {
        self.report_of(*self.open.front()?)
    }

    fn report_of(&self, command: CommandId) -> Option<Input> {
        let open = self.state.command(command)?;
        let data = Json::object([
            ("index", Json::from(open.index)),
            ("text", Json::from("some result of a task")),
        ]);
        Some(Input::Report(Box::new(Report {
            command,
            attempt: 1,
            worker: self.worker.clone(),
            lease_until: None,
            claimed_at: None,
            started_at: Some(self.now),
            retries: Vec::new(),
            retries_before: 0,
            outcome: ReportOutcome::Completed(TaskResult::from(Data::Inline(data))),
        })))
    }

    /// What follows from an input. The run itself stays as it is.
    pub fn decide(&mut self, input: Input) -> Decision {
        let mut moment = Moment {
            now: self.now,
            ids: &mut self.ids,
            payloads: &NoPayloads,
            caches: &NoCaches,
        };
        decide(&self.state, &self.plan, input, &mut moment).expect("a decision")
    }

    /// Takes a decision over.
    pub fn commit(&mut self, decision: Decision) -> Vec<Event> {
        let events = decision.commit(&mut self.state);
        for event in &events {
            match &event.kind {
                EventKind::CommandIssued(_) => self.open.push_back(event.event_id.into()),
                EventKind::CommandCompleted(at) if self.open.front() == Some(&at.command) => {
                    self.open.pop_front();
                }
                _ => {}
            }
        }
        events
    }

    /// Reports the oldest open command; nothing when the run has ended.
    pub fn step(&mut self) -> Option<Vec<Event>> {
        let report = self.next_report()?;
        // Ids are bound to the clock, which so many reports would outrun.
        self.now = self.now.saturating_add(Millis::from_ms(1));
        let decision = self.decide(report);
        Some(self.commit(decision))
    }

    /// Reports so many commands.
    pub fn steps(&mut self, count: usize) -> Vec<Event> {
        (0..count).map_while(|_| self.step()).flatten().collect()
    }
}
