//! Simulated execution: the engine, a manual clock, and workers.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use noetl_engine::event::{CommandIssued, ControlInfo, ExpiryReason, IssuedContext, TimerId};
use noetl_engine::{
    CacheKey, CacheLookupResult, CancelInput, CommandPhase, Decision, DecisionContext,
    DecisionError, EngineInput, Event, EventKind, ExecutionHeader, ExecutionState, FollowUp,
    InputVerdict, LeaseExpired, Plan, ReportOutcome, SlotHolder, StartInput, WorkerReport, decide,
    decode_record, encode_event, invariant,
};
use noetl_playbook::command_context::CommandContext;
use noetl_playbook::model::Playbook;
use noetl_playbook::{CheckOptions, Document, Severity, check};
use noetl_types::id::HighWaterMark;
use noetl_types::record::EventRecord;
use noetl_types::{
    CatalogId, CommandId, ExecutionId, ExecutionStatus, IdGenerator, Json, MachineId, Millis,
    OrganizationId, PlaybookPath, Seq, TenantId, Timestamp, WorkerId,
};

use super::coordination::CoordinationStub;
use super::external_responses::{ExternalResponse, ResponseRequest};
use super::log_table::format_log_table;
use super::tool_behavior::{SimulatedCall, ToolBehavior};
use super::worker::{WorkerTask, execute_command};

type ToolFn = Rc<dyn Fn(&SimulatedCall<'_>) -> ToolBehavior>;
type ResponderFn = Rc<dyn Fn(&ResponseRequest<'_>) -> ExternalResponse>;
type CacheLookups = BTreeMap<CacheKey, CacheLookupResult>;

/// An execution in one thread.
#[derive(Clone)]
pub struct Simulation {
    plan: Arc<Plan>,
    header: ExecutionHeader,
    state: ExecutionState,
    log: Vec<Event>,
    now: Timestamp,
    ids: IdGenerator,
    payloads: BTreeMap<Arc<str>, Json>,
    tools: ToolFn,
    /// Responds to suspended tasks. `None` if the test does so itself.
    responder: Option<ResponderFn>,
    /// Follow-ups of the server, in order.
    follow_ups: Vec<FollowUp>,
    payload: Json,
    /// Leases that are not in the log.
    leases: BTreeMap<CommandId, SimulatedLease>,
    /// Every decision that produced events.
    decisions: Vec<RecordedDecision>,
    check_level: CheckLevel,
    /// Slots and cached results outside of the execution.
    pub(super) coordination: CoordinationStub,
}

/// Level of checking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CheckLevel {
    /// Checks every event, and records every decision.
    Full,
    /// Compares only the resulting state.
    Light,
}

/// A recorded decision, with all of its external inputs.
#[derive(Debug, Clone)]
struct RecordedDecision {
    input: EngineInput,
    now: Timestamp,
    ids: IdGenerator,
    /// Results of cache lookups.
    caches: CacheLookups,
    /// Number of events before and after it.
    before: usize,
    after: usize,
}

/// A command leased by a worker.
#[derive(Debug, Clone)]
pub struct SimulatedLease {
    pub command: CommandId,
    pub attempt: u32,
    pub worker: WorkerId,
    seq: Seq,
    issued_at: Timestamp,
    issued: CommandIssued,
}

impl Simulation {
    /// Creates an execution of a playbook from its text.
    pub fn new(text: &str) -> Self {
        let checked = check(text, &CheckOptions::default());
        let errors: Vec<String> = checked
            .diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.severity == Severity::Error)
            .map(|diagnostic| format!("{diagnostic:?}"))
            .collect();
        assert!(errors.is_empty(), "the playbook has errors: {errors:#?}\n{text}");
        let Some(Document::Playbook(playbook)) = checked.document else {
            panic!("not a playbook:\n{text}");
        };
        Self::from_playbook(*playbook)
    }

    /// Creates an execution of a playbook.
    pub fn from_playbook(playbook: Playbook) -> Self {
        let plan = Plan::new(Arc::new(playbook)).expect("a checked playbook has a plan");
        let plan = Arc::new(plan);
        let now = Timestamp::parse("2026-01-01T00:00:00Z").expect("a time");
        let mut ids = IdGenerator::new(MachineId::MIN, HighWaterMark::NONE);
        let execution_id: ExecutionId = ids.next_id(now.as_unix_ms()).expect("an id");
        Self {
            header: ExecutionHeader {
                execution_id,
                tenant_id: TenantId::default(),
                organization_id: OrganizationId::default(),
                path: PlaybookPath::new(Arc::clone(plan.playbook().path())).expect("a path"),
            },
            state: ExecutionState::new(&plan),
            plan,
            log: Vec::new(),
            now,
            ids,
            payloads: BTreeMap::new(),
            tools: Rc::new(|_| ToolBehavior::Configured),
            responder: None,
            follow_ups: Vec::new(),
            payload: Json::empty_map(),
            leases: BTreeMap::new(),
            decisions: Vec::new(),
            check_level: CheckLevel::Full,
            coordination: CoordinationStub::default(),
        }
    }

    /// Creates an execution of a playbook, given without its root keys.
    pub fn from_body(body: &str) -> Self {
        Self::new(&format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: example }}\n{body}"
        ))
    }

    /// Sets the behavior of the tools.
    #[must_use]
    pub fn with_tools(self, tools: impl Fn(&SimulatedCall<'_>) -> ToolBehavior + 'static) -> Self {
        Self { tools: Rc::new(tools), ..self }
    }

    /// Sets the responses to suspended tasks, and lets time pass.
    #[must_use]
    pub fn with_responses(
        self,
        responder: impl Fn(&ResponseRequest<'_>) -> ExternalResponse + 'static,
    ) -> Self {
        Self { responder: Some(Rc::new(responder)), ..self }
    }

    /// Returns the response to a suspended task, if responses are set.
    pub(super) fn response_to(&self, request: &ResponseRequest<'_>) -> Option<ExternalResponse> {
        self.responder.as_ref().map(|responder| responder(request))
    }

    /// Follow-ups of the server since the start, in order.
    pub fn follow_ups(&self) -> &[FollowUp] {
        &self.follow_ups
    }

    /// Sets the payload.
    #[must_use]
    pub fn with_payload(self, payload: Json) -> Self {
        Self { payload, ..self }
    }

    /// Adds the cached results of another execution.
    #[must_use]
    pub fn with_cached_results_of(self, other: &Self) -> Self {
        Self { coordination: other.coordination.without_slots(), ..self }
    }

    /// Reduces the checks, for tests with tens of thousands of executions.
    #[must_use]
    pub fn with_light_checks(self) -> Self {
        Self { check_level: CheckLevel::Light, ..self }
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Header of every record of the execution.
    pub fn header(&self) -> &ExecutionHeader {
        &self.header
    }

    pub fn state(&self) -> &ExecutionState {
        &self.state
    }

    /// Events so far.
    pub fn log(&self) -> &[Event] {
        &self.log
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Formats the log as a table.
    pub fn format_log(&self) -> String {
        format_log_table(&self.log, &self.header)
    }

    /// Returns the log as records.
    pub fn to_records(&self) -> Vec<EventRecord> {
        self.log.iter().map(|event| to_record(event, &self.header)).collect()
    }

    /// Starts the execution.
    pub fn start(&mut self) -> Result<InputVerdict, DecisionError> {
        self.start_with_time(None)
    }

    /// Starts the execution with a scheduled time for its first step.
    pub fn start_at(&mut self, time: Timestamp) -> Result<InputVerdict, DecisionError> {
        self.start_with_time(Some(time))
    }

    fn start_with_time(
        &mut self,
        start_at: Option<Timestamp>,
    ) -> Result<InputVerdict, DecisionError> {
        let catalog_id = CatalogId::new(77).expect("an id");
        let path = self.header.path.clone();
        let start = StartInput {
            payload: self.payload.clone(),
            start_at,
            ..StartInput::new(self.header.execution_id, catalog_id, path)
        };
        self.decide(EngineInput::Start(Box::new(start)))
    }

    /// Decides an input, appends the resulting events, and checks them.
    pub fn decide(&mut self, input: EngineInput) -> Result<InputVerdict, DecisionError> {
        let state_before = self.state.clone();
        let ids = self.ids.clone();
        if let EngineInput::SlotGranted(grant) = &input {
            self.coordination.grant_slot(grant);
        }
        let mut caches = CacheLookups::new();
        let decision = match self.draft_with_cache(&input, &mut caches) {
            Ok(decision) => decision,
            Err(error) => {
                if let EngineInput::SlotGranted(grant) = &input {
                    let keeps_grant =
                        grant.holder == SlotHolder::Execution && error == DecisionError::Paused;
                    if !keeps_grant {
                        self.coordination.release_slot(grant);
                    }
                }
                return Err(error);
            }
        };
        self.coordination.apply_slot_changes(&decision.slots);
        self.coordination
            .cache_results(self.header.execution_id, &decision.cache_entries, self.now);
        for payload in &decision.payloads {
            let uri = payload.reference.uri().into();
            self.payloads.insert(uri, payload.content.clone());
        }
        self.check_decision(state_before, &decision);
        let verdict = decision.verdict;
        self.follow_ups.extend(decision.follow_ups.iter().cloned());
        let before = self.log.len();
        self.log.extend(decision.commit_to(&mut self.state));
        if self.check_level == CheckLevel::Full {
            self.decisions.push(RecordedDecision {
                input,
                now: self.now,
                ids,
                caches,
                before,
                after: self.log.len(),
            });
        }
        Ok(verdict)
    }

    /// Decides an input without applying it, and fetches the payloads that it needs.
    pub fn draft_decision(&mut self, input: &EngineInput) -> Result<Decision, DecisionError> {
        self.draft_with_cache(input, &mut CacheLookups::new())
    }

    fn draft_with_cache(
        &mut self,
        input: &EngineInput,
        caches: &mut CacheLookups,
    ) -> Result<Decision, DecisionError> {
        let mut fetched = BTreeMap::new();
        loop {
            let mut context = DecisionContext {
                now: self.now,
                ids: &mut self.ids,
                payloads: &fetched,
                caches: &*caches,
            };
            match decide(&self.state, &self.plan, input.clone(), &mut context) {
                Err(DecisionError::NeedsPayload(uri)) => {
                    let payload = self.payloads.get(&uri).cloned();
                    let payload = payload.expect("references point to stored payloads");
                    assert!(
                        fetched.insert(uri, payload).is_none(),
                        "requested the same value twice"
                    );
                }
                Err(DecisionError::NeedsCache(key)) => {
                    let lookup = self.coordination.lookup_cache(&key, self.now);
                    assert!(caches.insert(key, lookup).is_none(), "requested the same value twice");
                }
                Err(DecisionError::InvariantBroken(error)) => {
                    panic!("{error}\n{}", self.format_log())
                }
                other => return other,
            }
        }
    }

    /// Checks that every event decodes from its record and leaves a consistent state, and that all
    /// of them produce the state that the decision announced.
    fn check_decision(&self, mut state: ExecutionState, decision: &Decision) {
        for event in &decision.events {
            if self.check_level == CheckLevel::Light {
                state.apply(&self.plan, event).expect("a decided event is legal");
                continue;
            }
            let decoded =
                decode_record(&to_record(event, &self.header)).expect("a record reads back");
            assert_eq!(decoded, *event);
            state.apply(&self.plan, event).expect("a decided event is legal");
            if let Err(violation) = invariant::check_consistent(&state, &self.plan) {
                panic!("{violation} after event {}\n{}", event.seq, self.format_log());
            }
        }
        assert_eq!(state, decision.next, "the fold differs from the decision");
        for slot in state.held_slots(&self.plan) {
            assert!(
                self.coordination.is_held(&slot),
                "{slot:?} was not granted\n{}",
                self.format_log()
            );
        }
    }

    /// Repeats every decision from the state before it, and compares the resulting events.
    pub fn repeat_decisions(&self) {
        let mut state = ExecutionState::new(&self.plan);
        let mut folded = 0;
        for recorded in &self.decisions {
            for event in &self.log[folded..recorded.before] {
                state.apply(&self.plan, event).expect("a log folds");
            }
            folded = recorded.before;
            let mut ids = recorded.ids.clone();
            // A decision that first had to fetch something has already used ids.
            let (mut fetched, mut caches) = (BTreeMap::new(), CacheLookups::new());
            let decision = loop {
                let mut context = DecisionContext {
                    now: recorded.now,
                    ids: &mut ids,
                    payloads: &fetched,
                    caches: &caches,
                };
                match decide(&state, &self.plan, recorded.input.clone(), &mut context) {
                    Err(DecisionError::NeedsPayload(uri)) => {
                        let payload = self.payloads.get(&uri).cloned();
                        fetched.insert(uri, payload.expect("a stored payload"));
                    }
                    Err(DecisionError::NeedsCache(key)) => {
                        let lookup = recorded.caches.get(&key).cloned();
                        caches.insert(key, lookup.expect("a recorded lookup"));
                    }
                    other => break other.expect("a repeated decision succeeds"),
                }
            };
            assert_eq!(decision.events, self.log[recorded.before..recorded.after]);
        }
    }

    /// Returns the commands that a worker could lease now, in order of issue.
    pub fn available_commands(&self) -> Vec<CommandId> {
        if self.state.is_paused() || self.state.is_ended() {
            return Vec::new();
        }
        let mut commands: Vec<(Seq, CommandId)> = self
            .state
            .commands()
            .filter(|(id, _)| !self.leases.contains_key(id))
            .filter_map(|(id, command)| match command.phase {
                CommandPhase::Pending { not_before, .. } => {
                    let is_due = not_before.is_none_or(|time| time <= self.now);
                    is_due.then_some((command.issued, id))
                }
                CommandPhase::Leased { .. }
                | CommandPhase::Suspended(_)
                | CommandPhase::Spent
                | CommandPhase::Called(_) => None,
            })
            .collect();
        commands.sort_unstable();
        commands.into_iter().map(|(_, id)| id).collect()
    }

    /// Leases a command to a worker. A lease is not an event.
    pub fn lease_command(&mut self, command: CommandId, worker: &str) -> SimulatedLease {
        let state = self.state.command(command).expect("an open command");
        let CommandPhase::Pending { attempt, .. } = state.phase else {
            panic!("command {command} is not pending");
        };
        let position = usize::try_from(state.issued.get() - 1).expect("a position in the log");
        let event = &self.log[position];
        let EventKind::CommandIssued(issued) = &event.kind else {
            panic!("event {} issued no command", event.seq);
        };
        let lease = SimulatedLease {
            command,
            attempt,
            worker: WorkerId::new(worker).expect("the name of a worker"),
            seq: event.seq,
            issued_at: event.time,
            issued: (**issued).clone(),
        };
        self.leases.insert(command, lease.clone());
        lease
    }

    /// Executes a leased command. Returns `None` if the worker is lost during it.
    pub fn execute_lease(&self, lease: &SimulatedLease) -> Option<WorkerReport> {
        let context = match &lease.issued.context {
            IssuedContext::Inline(context) => context.clone(),
            IssuedContext::External(reference) => {
                let content = self.payloads.get(reference.uri()).expect("a stored context");
                CommandContext::from_json(content.as_map()).expect("a context")
            }
        };
        let mut outcome = execute_command(WorkerTask {
            playbook: self.plan.playbook(),
            issued: &lease.issued,
            context,
            payloads: &self.payloads,
            execution_id: self.header.execution_id,
            command: lease.command,
            seq: lease.seq,
            attempt: lease.attempt,
            issued_at: lease.issued_at,
            tools: &*self.tools,
        })?;
        Some(WorkerReport {
            command: lease.command,
            attempt: lease.attempt,
            worker: lease.worker.clone(),
            lease_until: None,
            claimed_at: None,
            started_at: Some(self.now),
            retries: std::mem::take(&mut outcome.retries),
            retries_before: 0,
            outcome: outcome.into(),
        })
    }

    /// Submits the report of a worker.
    pub fn submit_report(&mut self, report: WorkerReport) -> Result<InputVerdict, DecisionError> {
        let command = report.command;
        let closes = !matches!(report.outcome, ReportOutcome::Running { .. });
        let verdict = self.decide(EngineInput::Report(Box::new(report)));
        if closes && verdict == Ok(InputVerdict::Accepted) {
            self.leases.remove(&command);
        }
        verdict
    }

    /// Lets the lease of a worker expire.
    pub fn expire_lease(&mut self, lease: &SimulatedLease) -> Result<InputVerdict, DecisionError> {
        let verdict = self.decide(EngineInput::LeaseExpired(LeaseExpired {
            command: lease.command,
            attempt: lease.attempt,
            worker: lease.worker.clone(),
            lease_until: None,
            reason: ExpiryReason::Lease,
        }));
        let granted = self.leases.get(&lease.command).map(|granted| granted.attempt);
        if granted == Some(lease.attempt) {
            self.leases.remove(&lease.command);
        }
        verdict
    }

    /// Lets one worker execute the first command, or be lost during it. Without a command, grants
    /// the first available slot. Returns false if there was nothing to do.
    pub fn advance_once(&mut self) -> bool {
        let Some(command) = self.available_commands().first().copied() else {
            if let Some(grant) = self.grantable_slots().into_iter().next() {
                // The step that requested it may no longer need it, because the execution has
                // failed elsewhere.
                let verdict = self.grant_slot(grant);
                let is_expected =
                    matches!(verdict, Ok(_) | Err(DecisionError::SlotNotRequested(_)));
                assert!(is_expected, "{verdict:?}\n{}", self.format_log());
                return true;
            }
            return self.responder.is_some()
                && (self.respond_to_oldest() || self.advance_to_next_event());
        };
        let lease = self.lease_command(command, "w1");
        if let Some(report) = self.execute_lease(&lease) {
            let verdict = self.submit_report(report);
            assert_eq!(verdict, Ok(InputVerdict::Accepted), "{}", self.format_log());
        } else {
            let verdict = self.expire_lease(&lease);
            assert_eq!(verdict, Ok(InputVerdict::Accepted), "{}", self.format_log());
            // The next worker waits until the command may be leased again.
            self.advance_clock(Millis::from_secs(3));
        }
        true
    }

    /// Lets one worker execute everything.
    pub fn run_to_end(&mut self) {
        while self.advance_once() {}
    }

    /// Starts the execution and lets one worker execute everything.
    #[must_use]
    pub fn run(mut self) -> Self {
        self.start().expect("an execution starts");
        self.run_to_end();
        self
    }

    /// Advances the clock to the next time at which something can happen. Returns false if there is
    /// no such time.
    pub fn advance_to_next_event(&mut self) -> bool {
        if self.state.is_ended() || self.state.is_paused() {
            return false;
        }
        let pending = self.state.commands().filter_map(|(_, command)| match command.phase {
            CommandPhase::Pending { not_before, .. } => not_before,
            CommandPhase::Leased { .. }
            | CommandPhase::Suspended(_)
            | CommandPhase::Spent
            | CommandPhase::Called(_) => None,
        });
        let Some(next) = pending.chain(self.next_timer_at()).min() else {
            return false;
        };
        self.now = self.now.max(next);
        self.fire_timers();
        true
    }

    pub fn advance_clock(&mut self, duration: Millis) {
        self.now = self.now.saturating_add(duration);
    }

    /// Fires the timers that are due, the earliest first.
    pub fn fire_timers(&mut self) {
        loop {
            let timers = self.state.pending_timers(&self.plan);
            let due = timers.filter(|timer| timer.fire_at <= self.now);
            let Some(timer) = due.min_by_key(|timer| timer.fire_at) else {
                return;
            };
            if self.decide(EngineInput::TimerFired(timer.id)).is_err() {
                return;
            }
        }
    }

    /// Time at which the next timer is due.
    pub fn next_timer_at(&self) -> Option<Timestamp> {
        self.state.pending_timers(&self.plan).map(|timer| timer.fire_at).min()
    }

    pub fn open_timers(&self) -> Vec<TimerId> {
        self.state.pending_timers(&self.plan).map(|timer| timer.id).collect()
    }

    pub fn pause_execution(&mut self) -> Result<InputVerdict, DecisionError> {
        self.decide(EngineInput::Pause(control_by("ann")))
    }

    pub fn resume_execution(&mut self) -> Result<InputVerdict, DecisionError> {
        self.decide(EngineInput::Resume(control_by("ann")))
    }

    pub fn cancel_execution(&mut self) -> Result<InputVerdict, DecisionError> {
        let verdict = self.decide(EngineInput::Cancel(control_by("ann").into()));
        if verdict == Ok(InputVerdict::Accepted) {
            self.leases.clear();
        }
        verdict
    }

    /// Cancels the execution without its final step.
    pub fn force_cancel(&mut self) -> Result<InputVerdict, DecisionError> {
        let cancel = CancelInput { is_forced: true, ..control_by("ann").into() };
        self.decide(EngineInput::Cancel(cancel))
    }

    pub fn status(&self) -> ExecutionStatus {
        self.state.status()
    }
}

fn control_by(actor: &str) -> ControlInfo {
    ControlInfo { actor: Some(actor.into()), reason: None }
}

/// Returns the record of an event as a store would read it.
pub(super) fn to_record(event: &Event, header: &ExecutionHeader) -> EventRecord {
    EventRecord {
        event: encode_event(event, header),
        seq: event.seq,
        ingest_time: event.time,
        envelope_checksum: None,
    }
}
