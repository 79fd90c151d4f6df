//! Appends like those of a real run: a start, and reports that close one command and issue the next.

use noetl_store::{
    Append, AppendRefused, Appended, Claim, CommandChange, CommandEnd, ExecutionFacts,
    ExecutionView, Fence, Head, Holder, LeaseRequest, LeaseToken, NewCommand, Origin, StepInstance,
    Store,
};
use noetl_types::limits::{LeaseBatch, MaxAttempts, Priority};
use noetl_types::{
    CommandId, EventId, EventType, ExecutionId, ExecutionStatus, Json, NewEvent, OrganizationId,
    PlaybookPath, PoolName, StepName, TenantId, Text, Timestamp, WorkerId, json,
};

/// The noon at which everything happens.
pub(crate) fn noon() -> Timestamp {
    at("12:00:00")
}

fn at(time: &str) -> Timestamp {
    Timestamp::parse(&format!("2026-11-05T{time}Z")).expect("a time")
}

fn token() -> LeaseToken {
    LeaseToken::from_bytes([7; 16])
}

fn claim() -> Claim {
    Claim {
        worker: WorkerId::new("worker-1").expect("a name"),
        token: token(),
        lease_until: at("12:01:00"),
        now: noon(),
    }
}

pub(crate) fn lease_of(max: i64) -> LeaseRequest {
    LeaseRequest {
        pool: PoolName::shared(),
        kinds: None,
        max: LeaseBatch::clamped(max),
        claim: claim(),
    }
}

pub(crate) fn fence(command_id: CommandId, attempt: u32) -> Fence {
    Fence {
        command_id,
        attempt,
        holder: Holder::Token(token()),
    }
}

/// Some hundred bytes, as contexts of commands and results have.
fn context() -> Json {
    let text = br#"{"args":{"body":{"customer":"c-1042","items":[1,2,3,4],"region":"eu-west"},"method":"POST","url":"https://api.example.com/orders"},"idempotency_key":"378000000000000001:3","render":{"workload":{"limit":100}}}"#;
    json::parse(text).expect("JSON")
}

/// One execution as whoever drives it knows it.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) id: ExecutionId,
    head: Head,
    last_id: i64,
    command: Option<CommandId>,
}

impl Run {
    pub(crate) fn new(number: i64) -> Self {
        let id = 378_000_000_000_000_000 + number * 100_000;
        Self {
            id: ExecutionId::new(id).expect("an id"),
            head: Head::START,
            last_id: id,
            command: None,
        }
    }

    fn event(&mut self, event_type: EventType) -> NewEvent {
        self.last_id += 1;
        let id = EventId::new(self.last_id).expect("an id");
        NewEvent {
            node_name: Some(Text::from("load")),
            node_id: Some(Text::from("load")),
            node_type: Some(Text::from("http")),
            ..NewEvent::new(self.id, id, event_type, noon())
        }
    }

    fn append(&self, events: Vec<NewEvent>) -> Append {
        Append {
            execution_id: self.id,
            expected: self.head,
            now: noon(),
            events,
            keep_checksums: false,
            is_copy: false,
            outbox: false,
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
            errands: Vec::new(),
            slots: Vec::new(),
            cached: Vec::new(),
            dedup: None,
            idempotency: None,
        }
    }

    fn issue(&mut self, born_claimed: Option<Claim>) -> (NewEvent, CommandChange) {
        let mut event = self.event(EventType::CommandIssued);
        event.context = Some(context());
        event.meta = Some(json::parse(br#"{"attempts":3,"run":1,"tool":"http"}"#).expect("JSON"));
        let command = NewCommand {
            command_id: event.event_id.into(),
            instance: StepInstance {
                step_name: StepName::new("load").expect("a name"),
                run: 1,
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
            born_claimed,
        };
        self.command = Some(command.command_id);
        (event, CommandChange::Issue(Box::new(command)))
    }

    /// Three events and a command, which may be born claimed.
    pub(crate) fn start(&mut self, is_claimed: bool) -> Append {
        let mut events = vec![
            self.event(EventType::PlaybookStarted),
            self.event(EventType::StepEnter),
        ];
        let (event, issue) = self.issue(is_claimed.then(claim));
        events.push(event);
        Append {
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
                origin: Origin::Driven,
                pool: PoolName::shared(),
                priority: Priority::default(),
                labels: None,
                started_at: noon(),
            }),
            commands: vec![issue],
            ..self.append(events)
        }
    }

    /// Six events: a command is done, and the next one is issued to the same worker.
    pub(crate) fn report(&mut self) -> Append {
        let done = self.command;
        let mut events = vec![
            self.event(EventType::CommandClaimed),
            self.event(EventType::CallDone),
            self.event(EventType::CommandCompleted),
            self.event(EventType::StepExit),
            self.event(EventType::StepEnter),
        ];
        if let Some(event) = events.get_mut(1) {
            event.result = Some(context());
        }
        let (event, issue) = self.issue(Some(claim()));
        events.push(event);
        let close = done.map(|command_id| CommandChange::Close {
            command_id,
            end: CommandEnd::Completed,
            at: noon(),
            error: None,
        });
        Append {
            fences: done
                .map(|command_id| fence(command_id, 1))
                .into_iter()
                .collect(),
            commands: close.into_iter().chain([issue]).collect(),
            ..self.append(events)
        }
    }

    /// Appends, and follows the log.
    pub(crate) async fn write(&mut self, store: &dyn Store, append: Append) {
        let answer: Option<Result<Appended, AppendRefused>> =
            store.append(vec![append]).await.pop();
        self.head = answer.expect("a verdict").expect("accepted").head;
    }
}
