//! A simulated run: the engine, a clock that stands still, and workers.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use noetl_engine::event::{CommandIssued, ExpiryReason, IssuedContext, Steering, TimerId};
use noetl_engine::{
    CacheAnswer, CacheKey, CommandPhase, Decision, Errand, Event, EventKind, ExecutionHeader,
    Input, LeaseExpired, Moment, Plan, Refused, Report, ReportOutcome, SlotHolder, Start, State,
    Verdict, decide, decode, encode, invariant,
};
use noetl_playbook::carried::Carried;
use noetl_playbook::model::Playbook;
use noetl_playbook::{CheckOptions, Document, Severity, check};
use noetl_types::id::HighWater;
use noetl_types::record::EventRecord;
use noetl_types::{
    CatalogId, CommandId, ExecutionId, ExecutionStatus, IdGenerator, Json, MachineId, Millis,
    OrganizationId, PlaybookPath, Seq, TenantId, Timestamp, WorkerId,
};

use super::desk::Desk;
use super::play::{Call, Play};
use super::table::table;
use super::worker::{Task, work};
use super::world::{Ask, Word};

type Tools = Rc<dyn Fn(&Call<'_>) -> Play>;
type World = Rc<dyn Fn(&Ask<'_>) -> Word>;
type Answers = BTreeMap<CacheKey, CacheAnswer>;

/// A run in one thread.
#[derive(Clone)]
pub struct Sim {
    plan: Arc<Plan>,
    header: ExecutionHeader,
    state: State,
    log: Vec<Event>,
    now: Timestamp,
    ids: IdGenerator,
    payloads: BTreeMap<Arc<str>, Json>,
    tools: Tools,
    /// Who answers tasks that wait; nobody where the test does that itself.
    world: Option<World>,
    /// What the server owes, in order.
    errands: Vec<Errand>,
    payload: Json,
    /// Commands that a worker has, without the log knowing.
    grants: BTreeMap<CommandId, Lease>,
    /// Every decision that led to events.
    history: Vec<Decided>,
    care: Care,
    /// Slots and results that lie outside of the run.
    pub(super) desk: Desk,
}

/// How closely a run is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Care {
    /// Every event is checked, and every decision kept.
    Full,
    /// Only the fold is compared.
    Light,
}

/// A decision that was made, with all that it took from outside.
#[derive(Debug, Clone)]
struct Decided {
    input: Input,
    now: Timestamp,
    ids: IdGenerator,
    /// What was found of earlier results.
    caches: Answers,
    /// How many events there were before and after it.
    before: usize,
    after: usize,
}

/// A command in the hands of a worker.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The command.
    pub command: CommandId,
    /// The attempt.
    pub attempt: u32,
    /// The worker.
    pub worker: WorkerId,
    seq: Seq,
    issued_at: Timestamp,
    issued: CommandIssued,
}

impl Sim {
    /// A run of a playbook, given by its text.
    pub fn new(text: &str) -> Self {
        let checked = check(text, &CheckOptions::default());
        let errors: Vec<String> = checked
            .diagnostics
            .iter()
            .filter(|found| found.severity == Severity::Error)
            .map(|found| format!("{found:?}"))
            .collect();
        assert!(
            errors.is_empty(),
            "the playbook has errors: {errors:#?}\n{text}"
        );
        let Some(Document::Playbook(playbook)) = checked.document else {
            panic!("not a playbook:\n{text}");
        };
        Self::of_playbook(*playbook)
    }

    /// A run of a playbook.
    pub fn of_playbook(playbook: Playbook) -> Self {
        let plan = Plan::new(Arc::new(playbook)).expect("a checked playbook has a plan");
        let plan = Arc::new(plan);
        let now = Timestamp::parse("2026-01-01T00:00:00Z").expect("a time");
        let mut ids = IdGenerator::new(MachineId::MIN, HighWater::NONE);
        let execution_id: ExecutionId = ids.mint(now.as_unix_ms()).expect("an id");
        Self {
            header: ExecutionHeader {
                execution_id,
                tenant_id: TenantId::default(),
                organization_id: OrganizationId::default(),
                path: PlaybookPath::new(Arc::clone(plan.playbook().path())).expect("a path"),
            },
            state: State::new(&plan),
            plan,
            log: Vec::new(),
            now,
            ids,
            payloads: BTreeMap::new(),
            tools: Rc::new(|_| Play::AsWritten),
            world: None,
            errands: Vec::new(),
            payload: Json::empty_map(),
            grants: BTreeMap::new(),
            history: Vec::new(),
            care: Care::Full,
            desk: Desk::default(),
        }
    }

    /// A run of a playbook, given by what follows its usual root keys.
    pub fn of(body: &str) -> Self {
        Self::new(&format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: example }}\n{body}"
        ))
    }

    /// The same with tools that do something.
    #[must_use]
    pub fn with_tools(self, tools: impl Fn(&Call<'_>) -> Play + 'static) -> Self {
        Self {
            tools: Rc::new(tools),
            ..self
        }
    }

    /// The same in a world that answers tasks that wait, and in which time passes.
    #[must_use]
    pub fn in_world(self, world: impl Fn(&Ask<'_>) -> Word + 'static) -> Self {
        Self {
            world: Some(Rc::new(world)),
            ..self
        }
    }

    /// What the world says to a task that waits; nothing where there is no world.
    pub(super) fn ask_world(&self, ask: &Ask<'_>) -> Option<Word> {
        self.world.as_ref().map(|world| world(ask))
    }

    /// What the server owes since the beginning, in order.
    pub fn errands(&self) -> &[Errand] {
        &self.errands
    }

    /// The same with a payload.
    #[must_use]
    pub fn with_payload(self, payload: Json) -> Self {
        Self { payload, ..self }
    }

    /// The same with the results that another run left for others to take over.
    #[must_use]
    pub fn with_results_of(self, other: &Self) -> Self {
        Self {
            desk: other.desk.results_only(),
            ..self
        }
    }

    /// The same, watched less closely: for tests of tens of thousands of runs.
    #[must_use]
    pub fn lightly(self) -> Self {
        Self {
            care: Care::Light,
            ..self
        }
    }

    /// The plan of the playbook.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What every record of the run says.
    pub fn header(&self) -> &ExecutionHeader {
        &self.header
    }

    /// What the run has come to.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// All events so far.
    pub fn log(&self) -> &[Event] {
        &self.log
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The log as a table.
    pub fn table(&self) -> String {
        table(&self.log, &self.header)
    }

    /// The records of the log.
    pub fn records(&self) -> Vec<EventRecord> {
        self.log
            .iter()
            .map(|event| record(event, &self.header))
            .collect()
    }

    /// Begins the run.
    pub fn start(&mut self) -> Result<Verdict, Refused> {
        self.begin(None)
    }

    /// Begins the run, whose first step is to be entered later.
    pub fn start_at(&mut self, time: Timestamp) -> Result<Verdict, Refused> {
        self.begin(Some(time))
    }

    fn begin(&mut self, start_at: Option<Timestamp>) -> Result<Verdict, Refused> {
        let catalog_id = CatalogId::new(77).expect("an id");
        let path = self.header.path.clone();
        let start = Start {
            payload: self.payload.clone(),
            start_at,
            ..Start::new(self.header.execution_id, catalog_id, path)
        };
        self.decide(Input::Start(Box::new(start)))
    }

    /// Decides an input, appends what follows, and checks it on the way.
    pub fn decide(&mut self, input: Input) -> Result<Verdict, Refused> {
        let before = self.state.clone();
        let ids = self.ids.clone();
        if let Input::SlotGranted(grant) = &input {
            self.desk.hand_out(grant);
        }
        let mut caches = Answers::new();
        let decision = match self.draft_with(&input, &mut caches) {
            Ok(decision) => decision,
            Err(refused) => {
                if let Input::SlotGranted(grant) = &input {
                    let keeps = grant.holder == SlotHolder::Run && refused == Refused::Paused;
                    if !keeps {
                        self.desk.take_back(grant);
                    }
                }
                return Err(refused);
            }
        };
        self.desk.change(&decision.slots);
        self.desk
            .keep(self.header.execution_id, &decision.cached, self.now);
        for payload in &decision.payloads {
            let uri = payload.reference.uri().into();
            self.payloads.insert(uri, payload.content.clone());
        }
        self.check(before, &decision);
        let verdict = decision.verdict;
        self.errands.extend(decision.errands.iter().cloned());
        let at = self.log.len();
        self.log.extend(decision.commit(&mut self.state));
        if self.care == Care::Full {
            self.history.push(Decided {
                input,
                now: self.now,
                ids,
                caches,
                before: at,
                after: self.log.len(),
            });
        }
        Ok(verdict)
    }

    /// What would follow from an input; payloads that it needs are fetched.
    pub fn draft(&mut self, input: &Input) -> Result<Decision, Refused> {
        self.draft_with(input, &mut Answers::new())
    }

    fn draft_with(&mut self, input: &Input, caches: &mut Answers) -> Result<Decision, Refused> {
        let mut at_hand = BTreeMap::new();
        loop {
            let mut moment = Moment {
                now: self.now,
                ids: &mut self.ids,
                payloads: &at_hand,
                caches: &*caches,
            };
            match decide(&self.state, &self.plan, input.clone(), &mut moment) {
                Err(Refused::NeedsPayload(uri)) => {
                    let payload = self.payloads.get(&uri).cloned();
                    let payload = payload.expect("only what was stored is referred to");
                    assert!(
                        at_hand.insert(uri, payload).is_none(),
                        "asked for the same twice"
                    );
                }
                Err(Refused::NeedsCache(key)) => {
                    let answer = self.desk.look_up(&key, self.now);
                    assert!(
                        caches.insert(key, answer).is_none(),
                        "asked for the same twice"
                    );
                }
                Err(Refused::Broken(error)) => panic!("{error}\n{}", self.table()),
                other => return other,
            }
        }
    }

    /// Every event reads back from its record, leaves a consistent state, and all of them fold to
    /// what the decision promised.
    fn check(&self, mut state: State, decision: &Decision) {
        for event in &decision.events {
            if self.care == Care::Light {
                state
                    .apply(&self.plan, event)
                    .expect("a decided event is legal");
                continue;
            }
            let back = decode(&record(event, &self.header)).expect("a record reads back");
            assert_eq!(back, *event);
            state
                .apply(&self.plan, event)
                .expect("a decided event is legal");
            if let Err(violation) = invariant::consistent(&state, &self.plan) {
                panic!("{violation} after event {}\n{}", event.seq, self.table());
            }
        }
        assert_eq!(state, decision.next, "the fold differs from the decision");
        for slot in state.held_slots(&self.plan) {
            assert!(
                self.desk.holds(&slot),
                "{slot:?} was not granted\n{}",
                self.table()
            );
        }
    }

    /// Makes every decision of the run again, from the fold of the log before it, and compares what
    /// follows.
    pub fn decide_again(&self) {
        let mut state = State::new(&self.plan);
        let mut folded = 0;
        for decided in &self.history {
            for event in &self.log[folded..decided.before] {
                state.apply(&self.plan, event).expect("a log folds");
            }
            folded = decided.before;
            let mut ids = decided.ids.clone();
            // A decision that first had to fetch something has drawn ids in vain.
            let (mut at_hand, mut caches) = (BTreeMap::new(), Answers::new());
            let again = loop {
                let mut moment = Moment {
                    now: decided.now,
                    ids: &mut ids,
                    payloads: &at_hand,
                    caches: &caches,
                };
                match decide(&state, &self.plan, decided.input.clone(), &mut moment) {
                    Err(Refused::NeedsPayload(uri)) => {
                        let payload = self.payloads.get(&uri).cloned();
                        at_hand.insert(uri, payload.expect("what was stored"));
                    }
                    Err(Refused::NeedsCache(key)) => {
                        let answer = decided.caches.get(&key).cloned();
                        caches.insert(key, answer.expect("what was looked for"));
                    }
                    other => break other.expect("what was decided is decided again"),
                }
            };
            assert_eq!(again.events, self.log[decided.before..decided.after]);
        }
    }

    /// Commands that a worker could take now, in the order of issue.
    pub fn available(&self) -> Vec<CommandId> {
        if self.state.is_paused() || self.state.is_ended() {
            return Vec::new();
        }
        let mut commands: Vec<(Seq, CommandId)> = self
            .state
            .commands()
            .filter(|(id, _)| !self.grants.contains_key(id))
            .filter_map(|(id, command)| match command.phase {
                CommandPhase::Pending { not_before, .. } => {
                    let is_due = not_before.is_none_or(|time| time <= self.now);
                    is_due.then_some((command.issued, id))
                }
                CommandPhase::Leased { .. }
                | CommandPhase::Parked(_)
                | CommandPhase::Spent
                | CommandPhase::Called(_) => None,
            })
            .collect();
        commands.sort_unstable();
        commands.into_iter().map(|(_, id)| id).collect()
    }

    /// Hands a command to a worker. Grants are no events.
    pub fn lease(&mut self, command: CommandId, worker: &str) -> Lease {
        let found = self.state.command(command).expect("an open command");
        let CommandPhase::Pending { attempt, .. } = found.phase else {
            panic!("command {command} is not pending");
        };
        let position = usize::try_from(found.issued.get() - 1).expect("a place in the log");
        let event = &self.log[position];
        let EventKind::CommandIssued(issued) = &event.kind else {
            panic!("event {} issued no command", event.seq);
        };
        let lease = Lease {
            command,
            attempt,
            worker: WorkerId::new(worker).expect("the name of a worker"),
            seq: event.seq,
            issued_at: event.time,
            issued: (**issued).clone(),
        };
        self.grants.insert(command, lease.clone());
        lease
    }

    /// Lets a worker do its work; nothing where it is lost in the middle.
    pub fn work(&self, lease: &Lease) -> Option<Report> {
        let carried = match &lease.issued.context {
            IssuedContext::Inline(carried) => carried.clone(),
            IssuedContext::External(reference) => {
                let content = self
                    .payloads
                    .get(reference.uri())
                    .expect("a stored context");
                Carried::from_json(content.as_map()).expect("a context")
            }
        };
        let mut finished = work(Task {
            playbook: self.plan.playbook(),
            issued: &lease.issued,
            carried,
            payloads: &self.payloads,
            execution_id: self.header.execution_id,
            command: lease.command,
            seq: lease.seq,
            attempt: lease.attempt,
            issued_at: lease.issued_at,
            tools: &*self.tools,
        })?;
        Some(Report {
            command: lease.command,
            attempt: lease.attempt,
            worker: lease.worker.clone(),
            lease_until: None,
            claimed_at: None,
            started_at: Some(self.now),
            retries: std::mem::take(&mut finished.retries),
            retries_before: 0,
            outcome: finished.into(),
        })
    }

    /// Takes the report of a worker.
    pub fn report(&mut self, report: Report) -> Result<Verdict, Refused> {
        let command = report.command;
        let closes = !matches!(report.outcome, ReportOutcome::Running { .. });
        let verdict = self.decide(Input::Report(Box::new(report)));
        if closes && verdict == Ok(Verdict::Accepted) {
            self.grants.remove(&command);
        }
        verdict
    }

    /// Lets the lease of a worker run out.
    pub fn expire(&mut self, lease: &Lease) -> Result<Verdict, Refused> {
        let verdict = self.decide(Input::LeaseExpired(LeaseExpired {
            command: lease.command,
            attempt: lease.attempt,
            worker: lease.worker.clone(),
            lease_until: None,
            reason: ExpiryReason::Lease,
        }));
        let granted = self
            .grants
            .get(&lease.command)
            .map(|granted| granted.attempt);
        if granted == Some(lease.attempt) {
            self.grants.remove(&lease.command);
        }
        verdict
    }

    /// Lets one worker take the first command and report it, or be lost over it; where there is none,
    /// grants the first slot that can be. Whether there was anything to do.
    pub fn step(&mut self) -> bool {
        let Some(command) = self.available().first().copied() else {
            if let Some(grant) = self.grantable().into_iter().next() {
                // A step that wanted it may be out of question by now: the run fails elsewhere.
                let verdict = self.grant(grant);
                let is_fine = matches!(verdict, Ok(_) | Err(Refused::NoSlotWanted(_)));
                assert!(is_fine, "{verdict:?}\n{}", self.table());
                return true;
            }
            return self.world.is_some() && (self.serve() || self.let_time_pass());
        };
        let lease = self.lease(command, "w1");
        if let Some(report) = self.work(&lease) {
            let verdict = self.report(report);
            assert_eq!(verdict, Ok(Verdict::Accepted), "{}", self.table());
        } else {
            let verdict = self.expire(&lease);
            assert_eq!(verdict, Ok(Verdict::Accepted), "{}", self.table());
            // The worker that comes next waits until it may.
            self.advance(Millis::from_secs(3));
        }
        true
    }

    /// Lets one worker do all there is to do.
    pub fn finish(&mut self) {
        while self.step() {}
    }

    /// Begins the run and lets one worker do all there is to do.
    #[must_use]
    pub fn run(mut self) -> Self {
        self.start().expect("a run begins");
        self.finish();
        self
    }

    /// Moves the clock to the next time at which something can happen; whether there is one.
    pub fn let_time_pass(&mut self) -> bool {
        if self.state.is_ended() || self.state.is_paused() {
            return false;
        }
        let pending = self
            .state
            .commands()
            .filter_map(|(_, command)| match command.phase {
                CommandPhase::Pending { not_before, .. } => not_before,
                CommandPhase::Leased { .. }
                | CommandPhase::Parked(_)
                | CommandPhase::Spent
                | CommandPhase::Called(_) => None,
            });
        let Some(next) = pending.chain(self.next_timer()).min() else {
            return false;
        };
        self.now = self.now.max(next);
        self.fire_timers();
        true
    }

    /// Moves the clock.
    pub fn advance(&mut self, by: Millis) {
        self.now = self.now.saturating_add(by);
    }

    /// Fires the timers that are due, the earliest first.
    pub fn fire_timers(&mut self) {
        loop {
            let timers = self.state.timers(&self.plan);
            let due = timers.filter(|timer| timer.fire_at <= self.now);
            let Some(timer) = due.min_by_key(|timer| timer.fire_at) else {
                return;
            };
            if self.decide(Input::TimerFired(timer.id)).is_err() {
                return;
            }
        }
    }

    /// When the next timer is due.
    pub fn next_timer(&self) -> Option<Timestamp> {
        self.state
            .timers(&self.plan)
            .map(|timer| timer.fire_at)
            .min()
    }

    /// The timers that are open.
    pub fn timers(&self) -> Vec<TimerId> {
        self.state
            .timers(&self.plan)
            .map(|timer| timer.id)
            .collect()
    }

    /// Pauses the run.
    pub fn pause(&mut self) -> Result<Verdict, Refused> {
        self.decide(Input::Pause(by("ann")))
    }

    /// Lets the run go on.
    pub fn resume(&mut self) -> Result<Verdict, Refused> {
        self.decide(Input::Resume(by("ann")))
    }

    /// Ends the run.
    pub fn cancel(&mut self) -> Result<Verdict, Refused> {
        let verdict = self.decide(Input::Cancel(by("ann")));
        self.grants.clear();
        verdict
    }

    /// The status of the run.
    pub fn status(&self) -> ExecutionStatus {
        self.state.status()
    }
}

fn by(actor: &str) -> Steering {
    Steering {
        actor: Some(actor.into()),
        reason: None,
    }
}

/// The record of an event, as a store would give it back.
pub(super) fn record(event: &Event, header: &ExecutionHeader) -> EventRecord {
    EventRecord {
        event: encode(event, header),
        seq: event.seq,
        ingest_time: event.time,
        envelope_checksum: None,
    }
}
