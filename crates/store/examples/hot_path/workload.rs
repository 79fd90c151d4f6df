//! Appends like those of a real run: a start, and reports that close one command and issue the
//! next.

use noetl_store::{
    AppendError, AppendReceipt, AppendRequest, CommandChange, CommandEnd, ExecutionFacts,
    ExecutionOrigin, ExecutionView, Fence, LeaseCondition, LeaseRequest, LeaseTerms, LogHead,
    NewCommand, StepInstance, Store,
};
use noetl_types::limits::{LeaseBatchSize, MaxAttempts, Priority};
use noetl_types::{
    CommandId, EventId, EventType, ExecutionId, ExecutionStatus, Json, LeaseToken, NewEvent,
    OrganizationId, PlaybookPath, PoolName, StepName, TenantId, Text, Timestamp, WorkerId, json,
};

/// The fixed current time of the benchmark.
pub(crate) fn noon() -> Timestamp {
    test_time("12:00:00")
}

fn test_time(time: &str) -> Timestamp {
    Timestamp::parse(&format!("2026-11-05T{time}Z")).expect("a time")
}

fn lease_token() -> LeaseToken {
    LeaseToken::from_bytes([7; 16])
}

fn lease_terms() -> LeaseTerms {
    LeaseTerms {
        worker: WorkerId::new("worker-1").expect("a name"),
        token: lease_token(),
        lease_until: test_time("12:01:00"),
        now: noon(),
    }
}

pub(crate) fn lease_request(max: i64) -> LeaseRequest {
    LeaseRequest {
        pool: PoolName::shared(),
        kinds: None,
        max_commands: LeaseBatchSize::clamped(max),
        terms: lease_terms(),
    }
}

pub(crate) fn lease_fence(command_id: CommandId, attempt: u32) -> Fence {
    Fence { command_id, attempt, condition: LeaseCondition::Token(lease_token()) }
}

/// Returns a context of a few hundred bytes, as commands and results have.
fn sample_context() -> Json {
    let text = br#"{"args":{"body":{"customer":"c-1042","items":[1,2,3,4],"region":"eu-west"},"method":"POST","url":"https://api.example.com/orders"},"idempotency_key":"378000000000000001:3","render":{"workload":{"limit":100}}}"#;
    json::parse(text).expect("JSON")
}

/// An execution as seen by its driver.
#[derive(Debug, Clone)]
pub(crate) struct TestExecution {
    pub(crate) id: ExecutionId,
    head: LogHead,
    last_id: i64,
    command: Option<CommandId>,
}

impl TestExecution {
    pub(crate) fn new(number: i64) -> Self {
        let id = 378_000_000_000_000_000 + number * 100_000;
        Self {
            id: ExecutionId::new(id).expect("an id"),
            head: LogHead::START,
            last_id: id,
            command: None,
        }
    }

    fn next_event(&mut self, event_type: EventType) -> NewEvent {
        self.last_id += 1;
        let id = EventId::new(self.last_id).expect("an id");
        NewEvent {
            node_name: Some(Text::from("load")),
            node_id: Some(Text::from("load")),
            node_type: Some(Text::from("http")),
            ..NewEvent::new(self.id, id, event_type, noon())
        }
    }

    fn append_request(&self, events: Vec<NewEvent>) -> AppendRequest {
        AppendRequest {
            execution_id: self.id,
            expected_head: self.head,
            now: noon(),
            events,
            keep_checksums: false,
            is_projected: false,
            use_outbox: false,
            start: None,
            view: ExecutionView {
                status: ExecutionStatus::Running,
                paused: false,
                last_node_name: Some(Text::from("load")),
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

    fn issue_command(&mut self, eager_lease: Option<LeaseTerms>) -> (NewEvent, CommandChange) {
        let mut event = self.next_event(EventType::CommandIssued);
        event.context = Some(sample_context());
        event.meta = Some(json::parse(br#"{"attempts":3,"run":1,"tool":"http"}"#).expect("JSON"));
        let command = NewCommand {
            command_id: event.event_id.into(),
            instance: StepInstance {
                step_name: StepName::new("load").expect("a name"),
                step_pass: 1,
                iter_index: None,
                frame_no: None,
                segment: 0,
                server_retry: 0,
            },
            tool_kind: Text::from("http"),
            pool: PoolName::shared(),
            priority: Priority::default(),
            max_attempts: MaxAttempts::default(),
            deadline: None,
            not_before: None,
            held: false,
            eager_lease,
        };
        self.command = Some(command.command_id);
        (event, CommandChange::Issue(Box::new(command)))
    }

    /// Builds an append of three events and a command, optionally with an eager lease.
    pub(crate) fn start_request(&mut self, with_eager_lease: bool) -> AppendRequest {
        let mut events = vec![
            self.next_event(EventType::PlaybookStarted),
            self.next_event(EventType::StepEnter),
        ];
        let (event, issue) = self.issue_command(with_eager_lease.then(lease_terms));
        events.push(event);
        AppendRequest {
            start: Some(ExecutionFacts {
                tenant_id: TenantId::default(),
                organization_id: OrganizationId::default(),
                catalog_id: None,
                path: PlaybookPath::new("etl/nightly").ok(),
                playbook_version: Some(3),
                definition_sha256: Some(noetl_types::sha256(b"definition")),
                parent_execution_id: None,
                root_execution_id: None,
                forked_from: None,
                origin: ExecutionOrigin::Driven,
                pool: PoolName::shared(),
                priority: Priority::default(),
                labels: None,
                started_at: noon(),
            }),
            commands: vec![issue],
            ..self.append_request(events)
        }
    }

    /// Builds an append of six events: one command is completed, and the next one is issued to the
    /// same worker.
    pub(crate) fn report_request(&mut self) -> AppendRequest {
        let completed = self.command;
        let mut events = vec![
            self.next_event(EventType::CommandClaimed),
            self.next_event(EventType::CallDone),
            self.next_event(EventType::CommandCompleted),
            self.next_event(EventType::StepExit),
            self.next_event(EventType::StepEnter),
        ];
        if let Some(event) = events.get_mut(1) {
            event.result = Some(sample_context());
        }
        let (event, issue) = self.issue_command(Some(lease_terms()));
        events.push(event);
        let close = completed.map(|command_id| CommandChange::Close {
            command_id,
            end: CommandEnd::Completed,
            at: noon(),
            error: None,
        });
        AppendRequest {
            fences: completed.map(|command_id| lease_fence(command_id, 1)).into_iter().collect(),
            commands: close.into_iter().chain([issue]).collect(),
            ..self.append_request(events)
        }
    }

    /// Appends, and stores the new head.
    pub(crate) async fn append_to(&mut self, store: &dyn Store, append: AppendRequest) {
        let result: Option<Result<AppendReceipt, AppendError>> =
            store.append_events(vec![append]).await.pop();
        self.head = result.expect("a verdict").expect("accepted").head;
    }
}
