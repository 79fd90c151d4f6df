//! Executions for tests.

use noetl_types::limits::{LeaseBatchSize, MaxAttempts, PageLimit, Priority};
use noetl_types::{
    CommandId, EventId, EventType, ExecutionId, ExecutionStatus, LeaseToken, NewEvent,
    OrganizationId, PlaybookPath, PoolName, StepName, StoredEvent, TenantId, Text, Timestamp,
    WorkerId, json,
};

use crate::{
    AppendError, AppendReceipt, AppendRequest, CommandChange, EventBody, ExecutionFacts,
    ExecutionFilter, ExecutionOrigin, ExecutionView, FeedMessage, LeaseRequest, LeaseTerms,
    LogHead, NewCommand, OutboxPayload, StepInstance, Store, encode_event_body, event_subject,
};

/// Returns a time of the day on which all tests take place.
pub(crate) fn test_time(time: &str) -> Timestamp {
    Timestamp::parse(&format!("2026-11-05T{time}Z")).unwrap()
}

/// Returns the feed message of an event.
pub(crate) fn feed_message(event: &StoredEvent) -> FeedMessage {
    let (record, new_event) = (&event.record, &event.record.event);
    FeedMessage {
        feed: event.feed,
        ingest_time: record.ingest_time,
        subject: event_subject(&new_event.tenant_id, &new_event.event_type),
        body: EventBody {
            execution_id: new_event.execution_id,
            event_id: new_event.event_id,
            seq: record.seq,
            event_type: new_event.event_type.clone(),
            bytes: encode_event_body(record).into(),
        },
    }
}

/// Returns a payload as canonical JSON.
pub(crate) fn payload_bytes(payload: OutboxPayload) -> Vec<u8> {
    match payload {
        OutboxPayload::Event(body) => body.bytes.into(),
        OutboxPayload::External(payload) => json::to_canonical(&payload),
    }
}

pub(crate) fn worker_id(name: &str) -> WorkerId {
    WorkerId::new(name).unwrap()
}

pub(crate) fn shared_pool() -> PoolName {
    PoolName::shared()
}

/// Returns terms for a lease from 12:00 to 12:01.
pub(crate) fn lease_terms(name: &str, token: u8) -> LeaseTerms {
    LeaseTerms {
        worker: worker_id(name),
        token: LeaseToken::from_bytes([token; 16]),
        lease_until: test_time("12:01:00"),
        now: test_time("12:00:00"),
    }
}

pub(crate) fn lease_request(name: &str, token: u8, max: i64) -> LeaseRequest {
    LeaseRequest {
        pool: shared_pool(),
        kinds: None,
        max_commands: LeaseBatchSize::new(max).unwrap(),
        terms: lease_terms(name, token),
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

/// Returns the immutable properties of a test execution.
pub(crate) fn execution_facts() -> ExecutionFacts {
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
        origin: ExecutionOrigin::Driven,
        pool: shared_pool(),
        priority: Priority::default(),
        labels: None,
        started_at: test_time("12:00:00"),
    }
}

/// An execution as seen by its driver. Event ids are counted up from the execution id, so equal
/// tests generate equal ids.
#[derive(Debug, Clone)]
pub(crate) struct TestExecution {
    pub(crate) id: ExecutionId,
    pub(crate) head: LogHead,
    last_id: i64,
}

impl TestExecution {
    /// Returns the n-th execution of a test. Higher numbers have higher ids.
    pub(crate) fn new(number: i64) -> Self {
        // In autumn 2026, with enough ids between two executions for their events.
        Self::with_id(378_000_000_000_000_000 + number * 1_000_000)
    }

    /// Returns an execution with a given id, such as one of another month.
    pub(crate) fn with_id(id: i64) -> Self {
        Self { id: ExecutionId::new(id).unwrap(), head: LogHead::START, last_id: id }
    }

    /// Returns an execution whose start is already appended.
    pub(crate) async fn create_started(store: &dyn Store, number: i64) -> Self {
        let mut run = Self::new(number);
        run.append_to(store, run.start_request()).await.unwrap();
        run
    }

    pub(crate) fn next_event(&mut self, event_type: EventType) -> NewEvent {
        self.last_id += 1;
        NewEvent::new(
            self.id,
            EventId::new(self.last_id).unwrap(),
            event_type,
            test_time("12:00:00"),
        )
    }

    pub(crate) fn start_request(&self) -> AppendRequest {
        let mut run = self.clone();
        let event = run.next_event(EventType::PlaybookStarted);
        AppendRequest { start: Some(execution_facts()), ..run.append_request(vec![event]) }
    }

    pub(crate) fn append_request(&self, events: Vec<NewEvent>) -> AppendRequest {
        AppendRequest {
            execution_id: self.id,
            expected_head: self.head,
            now: test_time("12:00:00"),
            events,
            keep_checksums: false,
            is_projected: false,
            use_outbox: false,
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
            follow_ups: Vec::new(),
            slots: Vec::new(),
            cache_puts: Vec::new(),
            dedup: None,
            idempotency: None,
        }
    }

    /// Builds an append of one minimal event.
    pub(crate) fn step_request(&mut self) -> AppendRequest {
        let event = self.next_event(EventType::StepEnter);
        self.append_request(vec![event])
    }

    /// Builds an append that ends the execution.
    pub(crate) fn end_request(&mut self) -> AppendRequest {
        let event = self.next_event(EventType::PlaybookCompleted);
        let mut append = self.append_request(vec![event]);
        append.view.status = ExecutionStatus::Completed;
        append.view.ended_at = Some(test_time("12:30:00"));
        append
    }

    pub(crate) fn new_command(&mut self) -> (NewEvent, NewCommand) {
        let event = self.next_event(EventType::CommandIssued);
        let command = NewCommand {
            command_id: event.event_id.into(),
            instance: StepInstance {
                step_name: StepName::new("load").unwrap(),
                step_pass: 1,
                iter_index: None,
                frame_no: None,
                segment: 0,
                server_retry: 0,
            },
            tool_kind: Text::from("http"),
            pool: shared_pool(),
            priority: Priority::default(),
            max_attempts: MaxAttempts::default(),
            deadline: None,
            not_before: None,
            held: false,
            eager_lease: None,
        };
        (event, command)
    }

    /// Appends, and stores the new head on success.
    pub(crate) async fn append_to(
        &mut self,
        store: &dyn Store,
        append: AppendRequest,
    ) -> Result<AppendReceipt, AppendError> {
        let ids = append.events.iter().map(|event| event.event_id.get());
        self.last_id = ids.fold(self.last_id, i64::max);
        let result = append_one(store, append).await;
        if let Ok(appended) = &result {
            self.head = appended.head;
        }
        result
    }

    /// Issues a command that `change` may modify.
    pub(crate) async fn issue_command_with(
        &mut self,
        store: &dyn Store,
        change: impl FnOnce(&mut NewCommand),
    ) -> CommandId {
        let (event, mut command) = self.new_command();
        change(&mut command);
        let command_id = command.command_id;
        let append = AppendRequest {
            commands: vec![CommandChange::Issue(Box::new(command))],
            ..self.append_request(vec![event])
        };
        self.append_to(store, append).await.unwrap();
        command_id
    }

    pub(crate) async fn issue_command(&mut self, store: &dyn Store) -> CommandId {
        self.issue_command_with(store, |_| {}).await
    }
}

pub(crate) async fn append_one(
    store: &dyn Store,
    append: AppendRequest,
) -> Result<AppendReceipt, AppendError> {
    let mut results = store.append_events(vec![append]).await;
    assert_eq!(results.len(), 1);
    results.remove(0)
}
