//! Runs to test with.

use noetl_types::limits::{LeaseBatch, MaxAttempts, PageLimit, Priority};
use noetl_types::{
    CommandId, EventId, EventType, ExecutionId, ExecutionStatus, NewEvent, OrganizationId,
    PlaybookPath, PoolName, StepName, TenantId, Text, Timestamp, WorkerId,
};

use crate::{
    Append, AppendRefused, Appended, Claim, CommandChange, ExecutionFacts, ExecutionFilter,
    ExecutionView, Head, LeaseRequest, LeaseToken, NewCommand, Origin, StepInstance, Store,
};

/// A time of the day that all tests happen on.
pub(crate) fn at(time: &str) -> Timestamp {
    Timestamp::parse(&format!("2026-11-05T{time}Z")).unwrap()
}

pub(crate) fn worker(name: &str) -> WorkerId {
    WorkerId::new(name).unwrap()
}

pub(crate) fn pool() -> PoolName {
    PoolName::shared()
}

/// The claim of a worker at noon, for a minute.
pub(crate) fn claim(name: &str, token: u8) -> Claim {
    Claim {
        worker: worker(name),
        token: LeaseToken::from_bytes([token; 16]),
        lease_until: at("12:01:00"),
        now: at("12:00:00"),
    }
}

pub(crate) fn lease_of(name: &str, token: u8, max: i64) -> LeaseRequest {
    LeaseRequest {
        pool: pool(),
        kinds: None,
        max: LeaseBatch::new(max).unwrap(),
        claim: claim(name, token),
    }
}

pub(crate) fn all_executions() -> ExecutionFilter {
    ExecutionFilter {
        tenant_id: TenantId::default(),
        status: None,
        path: None,
        parent_execution_id: None,
        after: None,
        limit: PageLimit::default(),
    }
}

/// What is fixed about a run of the tests.
pub(crate) fn facts() -> ExecutionFacts {
    ExecutionFacts {
        tenant_id: TenantId::default(),
        organization_id: OrganizationId::default(),
        catalog_id: None,
        path: Some(PlaybookPath::new("etl/nightly").unwrap()),
        playbook_version: Some(3),
        definition_sha256: Some(noetl_types::sha256(b"definition")),
        parent_execution_id: None,
        root_execution_id: None,
        forked_from: None,
        origin: Origin::Driven,
        pool: pool(),
        priority: Priority::default(),
        labels: None,
        started_at: at("12:00:00"),
    }
}

/// One execution, as whoever drives it knows it. Ids are made from its own by counting, so that
/// equal tests make equal ids.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) id: ExecutionId,
    pub(crate) head: Head,
    last_id: i64,
}

impl Run {
    /// The n-th run of a test; runs of a higher number have higher ids.
    pub(crate) fn new(number: i64) -> Self {
        // Somewhere in the autumn of 2026, with room for the ids of events between two runs.
        Self::with_id(378_000_000_000_000_000 + number * 1_000_000)
    }

    /// A run of another time.
    pub(crate) fn with_id(id: i64) -> Self {
        Self {
            id: ExecutionId::new(id).unwrap(),
            head: Head::START,
            last_id: id,
        }
    }

    /// A run that is started already.
    pub(crate) async fn started(store: &dyn Store, number: i64) -> Self {
        let mut run = Self::new(number);
        run.write(store, run.start()).await.unwrap();
        run
    }

    pub(crate) fn event(&mut self, event_type: EventType) -> NewEvent {
        self.last_id += 1;
        NewEvent::new(
            self.id,
            EventId::new(self.last_id).unwrap(),
            event_type,
            at("12:00:00"),
        )
    }

    pub(crate) fn start(&self) -> Append {
        let mut run = self.clone();
        let event = run.event(EventType::PlaybookStarted);
        Append {
            start: Some(facts()),
            ..run.append(vec![event])
        }
    }

    pub(crate) fn append(&self, events: Vec<NewEvent>) -> Append {
        Append {
            execution_id: self.id,
            expected: self.head,
            now: at("12:00:00"),
            events,
            keep_checksums: false,
            is_copy: false,
            outbox: false,
            start: None,
            view: ExecutionView {
                status: ExecutionStatus::Running,
                paused: false,
                last_node_name: None,
                ended_at: None,
                error: None,
            },
            fences: Vec::new(),
            commands: Vec::new(),
            timers: Vec::new(),
            results: Vec::new(),
            waits: Vec::new(),
            errands: Vec::new(),
            slots: Vec::new(),
            cached: Vec::new(),
            dedup: None,
            idempotency: None,
        }
    }

    /// An append of one event that says little.
    pub(crate) fn step(&mut self) -> Append {
        let event = self.event(EventType::StepEnter);
        self.append(vec![event])
    }

    /// An append that ends the run.
    pub(crate) fn end(&mut self) -> Append {
        let event = self.event(EventType::PlaybookCompleted);
        let mut append = self.append(vec![event]);
        append.view.status = ExecutionStatus::Completed;
        append.view.ended_at = Some(at("12:30:00"));
        append
    }

    pub(crate) fn new_command(&mut self) -> (NewEvent, NewCommand) {
        let event = self.event(EventType::CommandIssued);
        let command = NewCommand {
            command_id: event.event_id.into(),
            instance: StepInstance {
                step_name: StepName::new("load").unwrap(),
                run: 1,
                iter_index: None,
                frame_no: None,
                segment: 0,
                server_retry: 0,
            },
            tool_kind: Text::from("http"),
            pool: pool(),
            priority: Priority::default(),
            max_attempts: MaxAttempts::default(),
            deadline: None,
            not_before: None,
            held: false,
            born_claimed: None,
        };
        (event, command)
    }

    /// Appends, and follows the log where that worked.
    pub(crate) async fn write(
        &mut self,
        store: &dyn Store,
        append: Append,
    ) -> Result<Appended, AppendRefused> {
        let ids = append.events.iter().map(|event| event.event_id.get());
        self.last_id = ids.fold(self.last_id, i64::max);
        let result = one(store, append).await;
        if let Ok(appended) = &result {
            self.head = appended.head;
        }
        result
    }

    /// Issues a command that a function has a say in.
    pub(crate) async fn issue_with(
        &mut self,
        store: &dyn Store,
        change: impl FnOnce(&mut NewCommand),
    ) -> CommandId {
        let (event, mut command) = self.new_command();
        change(&mut command);
        let command_id = command.command_id;
        let append = Append {
            commands: vec![CommandChange::Issue(Box::new(command))],
            ..self.append(vec![event])
        };
        self.write(store, append).await.unwrap();
        command_id
    }

    pub(crate) async fn issue(&mut self, store: &dyn Store) -> CommandId {
        self.issue_with(store, |_| {}).await
    }
}

pub(crate) async fn one(store: &dyn Store, append: Append) -> Result<Appended, AppendRefused> {
    let mut results = store.append(vec![append]).await;
    assert_eq!(results.len(), 1);
    results.remove(0)
}
