//! A server on a socket: clients that are slow, large, many, or cut off.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use noetl_api::catalog::RegisterRequest;
use noetl_api::command::{
    CommandReport, HeartbeatRequest, HeldLease, LeaseRequest, ReportRequest, ReportStatus,
    ReportVerdict,
};
use noetl_api::execute::ExecuteRequest;
use noetl_api::execution::CancelRequest;
use noetl_api::health::Health;
use noetl_api::query::{DetailQuery, EventsQuery, ExecutionsQuery, PoolsQuery};
use noetl_api::runtime::{RegisterWorker, WorkerName};
use noetl_api::{ApiError, Client, ClientSettings, WorkerApi as _};
use noetl_store::MemoryStore;
use noetl_types::limits::{LeaseBatch, PageLimit};
use noetl_types::{
    ErrorCode, ExecutionStatus, Json, JsonMap, Millis, PlaybookPath, PoolName, Text, WorkerId,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{TWO_STEPS, runtime_on};
use crate::http::{HttpSettings, InternalToken, ServeError, serve};

struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), ServeError>>,
}

async fn server(settings: HttpSettings) -> Server {
    let runtime = runtime_on(Arc::new(MemoryStore::new())).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(serve(runtime, listener, settings, shutdown.clone()));
    Server {
        address,
        shutdown,
        task,
    }
}

impl Server {
    fn client(&self) -> Client {
        let base = format!("http://{}", self.address);
        Client::new(&base, ClientSettings::default()).unwrap()
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes as they are and reads until the server hangs up.
    async fn said(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        read_all(&mut stream).await
    }
}

async fn read_all(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    // A server that hangs up on somebody who still sends may reset the line: what came counts.
    while let Ok(length @ 1..) = stream.read(&mut piece).await {
        all.extend_from_slice(&piece[..length]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn lease(wait_ms: u64) -> LeaseRequest {
    LeaseRequest {
        worker_id: WorkerId::new("w1").unwrap(),
        pool: PoolName::shared(),
        max: LeaseBatch::default(),
        wait_ms,
        kinds: None,
        lease_ms: None,
    }
}

fn execute() -> ExecuteRequest {
    ExecuteRequest {
        path: Some(PlaybookPath::new("demo/two").unwrap()),
        ..ExecuteRequest::default()
    }
}

async fn register(client: &Client) {
    let request = RegisterRequest {
        content: TWO_STEPS.to_owned(),
        resource_type: None,
        dry_run: false,
    };
    client.catalog_register(&request).await.unwrap();
}

fn worker_name() -> WorkerName {
    WorkerName {
        name: "w1".into(),
        kind: None,
    }
}

/// One step of a worker: takes a command, keeps it, and says that it went well.
async fn work(client: &Client) {
    let leased = client.lease(lease(10_000)).await.unwrap();
    let command = &leased.commands[0];
    let definition = client.definition(command.meta.catalog_id).await.unwrap();
    assert_eq!(definition.content, TWO_STEPS);
    let held = HeldLease {
        execution_id: command.execution_id,
        command_id: command.command_id,
        lease_token: command.lease_token,
        attempt: command.attempt,
    };
    let kept = HeartbeatRequest {
        worker_id: WorkerId::new("w1").unwrap(),
        leases: vec![held],
        extend_ms: None,
    };
    assert!(client.heartbeat(kept).await.unwrap().leases[0].ok);
    let report = CommandReport {
        execution_id: command.execution_id,
        command_id: command.command_id,
        attempt: command.attempt,
        lease_token: command.lease_token,
        status: ReportStatus::Completed,
        result: Some(Json::from("x".repeat(100_000))),
        labels: None,
        onward: None,
        set: JsonMap::new(),
        error: None,
        tasks: Vec::new(),
        frame: None,
        task_attempt: 1,
        retries: Vec::new(),
        retries_before: 0,
        claimed_at: None,
        lease_until: None,
        started_at: None,
        finished_at: None,
    };
    let request = ReportRequest {
        worker_id: WorkerId::new("w1").unwrap(),
        reports: vec![report],
        lease: None,
    };
    let answer = client.report(request).await.unwrap();
    assert_eq!(answer.results[0].status, ReportVerdict::Accepted);
}

#[tokio::test]
async fn the_client_and_the_server_understand_each_other() {
    let server = server(HttpSettings::default()).await;
    let client = server.client();
    assert_eq!(client.readyz().await.unwrap().status, Health::Ok);
    register(&client).await;
    let worker = RegisterWorker {
        name: "w1".into(),
        kind: None,
        uri: None,
        status: None,
        labels: JsonMap::new(),
        capabilities: None,
        capacity: Some(2),
        runtime: None,
        hostname: None,
    };
    assert_eq!(client.register(worker).await.unwrap().name, "w1");
    assert_eq!(
        client.pool_heartbeat(worker_name()).await.unwrap().status,
        "ok"
    );

    let started = client.execute(&execute()).await.unwrap();
    work(&client).await;
    work(&client).await;
    let status = client.status(started.execution_id).await.unwrap();
    assert_eq!(status.status, ExecutionStatus::Completed);
    assert_eq!(
        status.completed_steps,
        [Text::from("start"), Text::from("last")]
    );
    let detail = client
        .execution(started.execution_id, &DetailQuery::default())
        .await
        .unwrap();
    assert_eq!(detail.line.execution_id, started.execution_id);
    let done = detail
        .events
        .iter()
        .find(|event| event.event_type.as_str() == "call.done");
    let reference = done.and_then(|done| done.result.as_ref()?.get("reference")?.get("ref"));
    let value = client
        .resolve(reference.and_then(Json::as_str).unwrap())
        .await
        .unwrap();
    assert_eq!(value.as_str().map(str::len), Some(100_000));
    let events = client
        .events(started.execution_id, &EventsQuery::default())
        .await
        .unwrap();
    assert_eq!(events.events, detail.events);

    assert_eq!(client.pools(&PoolsQuery::default()).await.unwrap().count, 1);
    client.deregister(worker_name()).await.unwrap();
    let refused = client.pool_heartbeat(worker_name()).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::NotFound));
}

#[tokio::test]
async fn the_client_goes_through_the_list() {
    let server = server(HttpSettings::default()).await;
    let client = server.client();
    register(&client).await;
    let started = client.execute(&execute()).await.unwrap();
    let second = client.execute(&execute()).await.unwrap();
    let cancelled = client
        .cancel(second.execution_id, &CancelRequest::default())
        .await
        .unwrap();
    assert_eq!(cancelled.cancelled_executions, [second.execution_id]);
    let query = ExecutionsQuery {
        limit: PageLimit::MIN,
        ..ExecutionsQuery::default()
    };
    let page = client.executions(&query).await.unwrap();
    assert_eq!(page.executions[0].execution_id, second.execution_id);
    let query = ExecutionsQuery {
        cursor: page.next_cursor,
        ..query
    };
    let page = client.executions(&query).await.unwrap();
    assert_eq!(page.executions[0].execution_id, started.execution_id);
}

#[tokio::test]
async fn a_listener_that_others_can_reach_is_refused() {
    let runtime = runtime_on(Arc::new(MemoryStore::new())).await;
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused = serve(
        runtime,
        listener,
        HttpSettings::default(),
        CancellationToken::new(),
    )
    .await
    .unwrap_err();
    assert!(matches!(refused, ServeError::OpenToAll(_)));
    assert!(
        refused.to_string().contains("listen on a loopback address"),
        "{refused}"
    );
}

#[tokio::test]
async fn tokens_do_not_travel_in_the_open() {
    let runtime = runtime_on(Arc::new(MemoryStore::new())).await;
    let closed = HttpSettings {
        is_dev: false,
        ..HttpSettings::default()
    };
    let listener = || async { TcpListener::bind("0.0.0.0:0").await.unwrap() };
    let stop = CancellationToken::new();
    let served = serve(
        runtime.clone(),
        listener().await,
        closed.clone(),
        stop.clone(),
    );
    let refused = served.await.unwrap_err();
    assert!(matches!(refused, ServeError::Plaintext(_)));
    assert!(refused.to_string().contains("NOETL_TLS_CERT"), "{refused}");

    // Who insists is let, and everybody can see it.
    let insists = HttpSettings {
        unsafe_plaintext: true,
        internal_token: Some(InternalToken::new("fifteen letters")),
        ..closed
    };
    let listener = listener().await;
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(serve(runtime, listener, insists, stop.clone()));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let said = read_all(&mut stream).await;
    assert!(
        said.contains(
            r#""unsafe":["NOETL_UNSAFE_PLAINTEXT","NOETL_INTERNAL_API_TOKEN is shorter than 16 characters"]"#
        ),
        "{said}"
    );
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_answers_who_waits_and_lets_nobody_in() {
    let server = server(HttpSettings::default()).await;
    let client = server.client();
    // A first call, so that the wait below is on its way once the second has been sent.
    client.readyz().await.unwrap();
    let mut waiting = server.connect().await;
    let body = r#"{"worker_id":"w","pool":"shared","wait_ms":30000}"#;
    let head = format!(
        "POST /api/commands/lease HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    waiting.write_all(head.as_bytes()).await.unwrap();
    waiting.write_all(body.as_bytes()).await.unwrap();
    // Another request is answered meanwhile.
    client.readyz().await.unwrap();
    server.shutdown.cancel();
    let answer = read_all(&mut waiting).await;
    // A request that had not begun when the stop came may go without an answer, but never waits.
    assert!(
        answer.is_empty() || answer.contains(r#"{"commands":[],"poll_after_ms":0}"#),
        "{answer}"
    );
    server.task.await.unwrap().unwrap();
    let refused = client.readyz().await.unwrap_err();
    assert!(matches!(refused, ApiError::Unreachable(_)));
}

#[tokio::test]
async fn who_does_not_go_is_cut_off() {
    let server = server(HttpSettings {
        drain: Millis::from_ms(10),
        ..HttpSettings::default()
    })
    .await;
    let mut stuck = server.connect().await;
    stuck
        .write_all(b"POST /api/execute HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
        .await
        .unwrap();
    server.client().readyz().await.unwrap();
    server.shutdown.cancel();
    server.task.await.unwrap().unwrap();
    read_all(&mut stuck).await;
}

#[tokio::test]
async fn who_sends_a_head_too_slowly_is_hung_up_on() {
    let server = server(HttpSettings {
        head_timeout: Millis::from_ms(20),
        ..HttpSettings::default()
    })
    .await;
    let said = server.said(b"GET /livez HTTP/1.1\r\nhost: loc").await;
    assert!(!said.contains("200"), "{said}");
    // The same goes for one that says nothing at all.
    assert_eq!(server.said(b"").await, "");
}

#[tokio::test]
async fn who_sends_a_body_too_slowly_is_told_so() {
    let server = server(HttpSettings {
        body_timeout: Millis::from_ms(20),
        ..HttpSettings::default()
    })
    .await;
    let said = server
        .said(b"POST /api/execute HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{\"pa")
        .await;
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
    assert!(said.contains("\"code\":\"timeout\""), "{said}");
}

#[tokio::test]
async fn a_huge_body_is_refused_by_its_length() {
    let server = server(HttpSettings::default()).await;
    let said = server
        .said(b"POST /api/execute HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000000\r\n\r\n")
        .await;
    assert!(said.starts_with("HTTP/1.1 413"), "{said}");
    assert!(said.contains("too_large"), "{said}");
}

#[tokio::test]
async fn a_huge_body_without_a_length_is_refused_once_it_is_too_large() {
    let server = server(HttpSettings {
        max_body: noetl_types::ByteSize::from_kib(1),
        ..HttpSettings::default()
    })
    .await;
    let mut request =
        b"POST /api/execute HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec();
    request.extend(b"800\r\n");
    request.extend([b' '; 0x800]);
    let said = server.said(&request).await;
    assert!(said.starts_with("HTTP/1.1 413"), "{said}");
}

#[tokio::test]
async fn a_head_has_a_bound() {
    let server = server(HttpSettings::default()).await;
    let head = |bytes: usize| {
        let filler = "x".repeat(bytes);
        format!(
            "GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: {filler}\r\n\r\n"
        )
    };
    let said = server.said(head(15 << 10).as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    let said = server.said(head(17 << 10).as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 431"), "{said}");
}

#[tokio::test]
async fn who_finds_no_room_is_told_to_come_back() {
    let server = server(HttpSettings {
        max_connections: 1,
        ..HttpSettings::default()
    })
    .await;
    let mut first = server.connect().await;
    first
        .write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut begin = [0; 12];
    first.read_exact(&mut begin).await.unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200");
    let mut second = server.connect().await;
    let said = read_all(&mut second).await;
    assert!(said.starts_with("HTTP/1.1 503"), "{said}");
    assert!(said.contains("pool_saturated"), "{said}");
    drop(first);
    // Once the first is gone there is room again.
    let client = server.client();
    let answered = async {
        while client.readyz().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), answered)
        .await
        .unwrap();
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    let server = server(HttpSettings::default()).await;
    for nonsense in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"[..],
        b"GET\r\n\r\n",
    ] {
        let said = server.said(nonsense).await;
        assert!(
            said.is_empty() || said.starts_with("HTTP/1.1 400"),
            "{said}"
        );
    }
    // Two lengths that differ could hide a second request.
    let smuggled = b"POST /api/execute HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\
        content-length: 3\r\n\r\n{} ";
    let said = server.said(smuggled).await;
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
}
