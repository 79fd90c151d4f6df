//! A server on a socket: slow, large, many, or disconnected clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use noetl_api::catalog::RegisterRequest;
use noetl_api::command::{
    CommandReport, HeartbeatRequest, HeldLease, LeaseRequest, ReportDisposition, ReportRequest,
    ReportStatus,
};
use noetl_api::execute::ExecuteRequest;
use noetl_api::execution::CancelRequest;
use noetl_api::health::HealthStatus;
use noetl_api::query::{EventsQuery, ExecutionDetailQuery, ExecutionsQuery, PoolsQuery};
use noetl_api::runtime::{RegisterWorkerRequest, WorkerName};
use noetl_api::{ApiError, Client, ClientSettings, WorkerApi as _};
use noetl_store::SqliteStore;
use noetl_types::limits::{LeaseBatchSize, PageLimit};
use noetl_types::{
    ErrorCode, ExecutionStatus, Json, JsonMap, Millis, PlaybookPath, PoolName, Text, WorkerId,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{TWO_STEPS, open_services};
use crate::http::{HttpSettings, InternalToken, ServeError, serve_http};

struct SocketServer {
    address: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), ServeError>>,
}

async fn start_socket_server(settings: HttpSettings) -> SocketServer {
    let services = open_services(Arc::new(SqliteStore::in_memory().unwrap())).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(serve_http(services, listener, settings, shutdown.clone()));
    SocketServer { address, shutdown, task }
}

impl SocketServer {
    fn client(&self) -> Client {
        let base = format!("http://{}", self.address);
        Client::new(&base, ClientSettings::default()).unwrap()
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends raw bytes and reads until the server closes the connection.
    async fn send_raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        read_all(&mut stream).await
    }
}

async fn read_all(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut chunk = [0; 4096];
    // If the server closes while the client still sends, the connection may be reset. The received
    // bytes count.
    while let Ok(length @ 1..) = stream.read(&mut chunk).await {
        all.extend_from_slice(&chunk[..length]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn lease_request(wait_ms: u64) -> LeaseRequest {
    LeaseRequest {
        worker_id: WorkerId::new("w1").unwrap(),
        pool: PoolName::shared(),
        max: LeaseBatchSize::default(),
        wait_ms,
        kinds: None,
        lease_ms: None,
    }
}

fn execute_request() -> ExecuteRequest {
    ExecuteRequest {
        path: Some(PlaybookPath::new("demo/two").unwrap()),
        ..ExecuteRequest::default()
    }
}

async fn register_playbook(client: &Client) {
    let request =
        RegisterRequest { content: TWO_STEPS.to_owned(), resource_type: None, dry_run: false };
    client.catalog_register(&request).await.unwrap();
}

fn worker_name() -> WorkerName {
    WorkerName { name: "w1".into(), kind: None }
}

/// Leases a command, renews the lease, and reports it as completed.
async fn complete_one_command(client: &Client) {
    let leased = client.lease_commands(lease_request(10_000)).await.unwrap();
    let command = &leased.commands[0];
    let definition = client.fetch_definition(command.meta.catalog_id).await.unwrap();
    assert_eq!(definition.content, TWO_STEPS);
    let held = HeldLease {
        execution_id: command.execution_id,
        command_id: command.command_id,
        lease_token: command.lease_token,
        attempt: command.attempt,
    };
    let heartbeat = HeartbeatRequest {
        worker_id: WorkerId::new("w1").unwrap(),
        leases: vec![held],
        extend_ms: None,
        wait_ms: 0,
    };
    assert!(client.renew_leases(heartbeat).await.unwrap().leases[0].ok);
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
        outputs: Vec::new(),
    };
    let response = client.report_commands(request).await.unwrap();
    assert_eq!(response.results[0].status, ReportDisposition::Accepted);
}

#[tokio::test]
async fn client_and_server_interoperate() {
    let server = start_socket_server(HttpSettings::default()).await;
    let client = server.client();
    assert_eq!(client.check_readiness().await.unwrap().status, HealthStatus::Ok);
    register_playbook(&client).await;
    let worker = RegisterWorkerRequest {
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
    assert_eq!(client.register_worker(worker).await.unwrap().name, "w1");
    assert_eq!(client.pool_heartbeat(worker_name()).await.unwrap().status, "ok");

    let started = client.execute_playbook(&execute_request()).await.unwrap();
    complete_one_command(&client).await;
    complete_one_command(&client).await;
    let status = client.get_execution_status(started.execution_id).await.unwrap();
    assert_eq!(status.status, ExecutionStatus::Completed);
    assert_eq!(status.completed_steps, [Text::from("start"), Text::from("last")]);
    let detail =
        client.get_execution(started.execution_id, &ExecutionDetailQuery::default()).await.unwrap();
    assert_eq!(detail.summary.execution_id, started.execution_id);
    let done = detail.events.iter().find(|event| event.event_type.as_str() == "call.done");
    let reference = done.and_then(|done| done.result.as_ref()?.get("reference")?.get("ref"));
    let value = client.resolve_result(reference.and_then(Json::as_str).unwrap()).await.unwrap();
    assert_eq!(value.as_str().map(str::len), Some(100_000));
    let events = client.list_events(started.execution_id, &EventsQuery::default()).await.unwrap();
    assert_eq!(events.events, detail.events);

    assert_eq!(client.list_pools(&PoolsQuery::default()).await.unwrap().count, 1);
    client.deregister_worker(worker_name()).await.unwrap();
    let refused = client.pool_heartbeat(worker_name()).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::NotFound));
}

#[tokio::test]
async fn client_pages_through_list() {
    let server = start_socket_server(HttpSettings::default()).await;
    let client = server.client();
    register_playbook(&client).await;
    let started = client.execute_playbook(&execute_request()).await.unwrap();
    let second = client.execute_playbook(&execute_request()).await.unwrap();
    let cancelled =
        client.cancel_execution(second.execution_id, &CancelRequest::default()).await.unwrap();
    assert_eq!(cancelled.cancelled_executions, [second.execution_id]);
    let query = ExecutionsQuery { limit: PageLimit::MIN, ..ExecutionsQuery::default() };
    let page = client.list_executions(&query).await.unwrap();
    assert_eq!(page.executions[0].execution_id, second.execution_id);
    let query = ExecutionsQuery { cursor: page.next_cursor, ..query };
    let page = client.list_executions(&query).await.unwrap();
    assert_eq!(page.executions[0].execution_id, started.execution_id);
}

#[tokio::test]
async fn rejects_exposed_dev_listener() {
    let services = open_services(Arc::new(SqliteStore::in_memory().unwrap())).await;
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let error = serve_http(services, listener, HttpSettings::default(), CancellationToken::new())
        .await
        .unwrap_err();
    assert!(matches!(error, ServeError::DevModeExposed(_)));
    assert!(error.to_string().contains("listen on a loopback address"), "{error}");
}

#[tokio::test]
async fn rejects_tokens_without_tls() {
    let services = open_services(Arc::new(SqliteStore::in_memory().unwrap())).await;
    let settings = HttpSettings { is_dev: false, ..HttpSettings::default() };
    let listener = || async { TcpListener::bind("0.0.0.0:0").await.unwrap() };
    let shutdown = CancellationToken::new();
    let serving =
        serve_http(services.clone(), listener().await, settings.clone(), shutdown.clone());
    let error = serving.await.unwrap_err();
    assert!(matches!(error, ServeError::Plaintext(_)));
    assert!(error.to_string().contains("NOETL_TLS_CERT"), "{error}");

    // The check can be overridden, and this is reported.
    let override_settings = HttpSettings {
        unsafe_plaintext: true,
        internal_token: Some(InternalToken::new("fifteen letters")),
        ..settings
    };
    let listener = listener().await;
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(serve_http(services, listener, override_settings, shutdown.clone()));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let received = read_all(&mut stream).await;
    assert!(
        received.contains(
            r#""unsafe":["NOETL_UNSAFE_PLAINTEXT","NOETL_INTERNAL_API_TOKEN is shorter than 16 characters"]"#
        ),
        "{received}"
    );
    shutdown.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn shutdown_answers_waiters_and_rejects_new_connections() {
    let server = start_socket_server(HttpSettings::default()).await;
    let client = server.client();
    // A first call ensures that the second request is waiting when it has been sent.
    client.check_readiness().await.unwrap();
    let mut waiting = server.connect().await;
    let body = r#"{"worker_id":"w","pool":"shared","wait_ms":30000}"#;
    let head = format!(
        "POST /api/commands/lease HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    waiting.write_all(head.as_bytes()).await.unwrap();
    waiting.write_all(body.as_bytes()).await.unwrap();
    // Another request is answered in the meantime.
    client.check_readiness().await.unwrap();
    server.shutdown.cancel();
    let answer = read_all(&mut waiting).await;
    // A request that had not started at shutdown may get no answer, but never hangs.
    assert!(
        answer.is_empty() || answer.contains(r#"{"commands":[],"poll_after_ms":0,"waited_ms":"#),
        "{answer}"
    );
    server.task.await.unwrap().unwrap();
    let refused = client.check_readiness().await.unwrap_err();
    assert!(matches!(refused, ApiError::Unreachable(_)));
}

#[tokio::test]
async fn shutdown_cuts_remaining_connections() {
    let server = start_socket_server(HttpSettings {
        drain_timeout: Millis::from_ms(10),
        ..HttpSettings::default()
    })
    .await;
    let mut stuck = server.connect().await;
    stuck
        .write_all(b"POST /api/execute HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
        .await
        .unwrap();
    server.client().check_readiness().await.unwrap();
    server.shutdown.cancel();
    server.task.await.unwrap().unwrap();
    read_all(&mut stuck).await;
}

#[tokio::test]
async fn slow_request_head_closes_connection() {
    let server = start_socket_server(HttpSettings {
        head_timeout: Millis::from_ms(20),
        ..HttpSettings::default()
    })
    .await;
    let received = server.send_raw(b"GET /livez HTTP/1.1\r\nhost: loc").await;
    assert!(!received.contains("200"), "{received}");
    // A client that sends nothing is treated the same way.
    assert_eq!(server.send_raw(b"").await, "");
}

#[tokio::test]
async fn slow_request_body_times_out() {
    let server = start_socket_server(HttpSettings {
        body_timeout: Millis::from_ms(20),
        ..HttpSettings::default()
    })
    .await;
    let received = server
        .send_raw(
            b"POST /api/execute HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{\"pa",
        )
        .await;
    assert!(received.starts_with("HTTP/1.1 408"), "{received}");
    assert!(received.contains("\"code\":\"timeout\""), "{received}");
}

#[tokio::test]
async fn rejects_huge_content_length() {
    let server = start_socket_server(HttpSettings::default()).await;
    let received = server
        .send_raw(
            b"POST /api/execute HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000000\r\n\r\n",
        )
        .await;
    assert!(received.starts_with("HTTP/1.1 413"), "{received}");
    assert!(received.contains("too_large"), "{received}");
}

#[tokio::test]
async fn rejects_huge_body_without_length() {
    let server = start_socket_server(HttpSettings {
        max_body: noetl_types::ByteSize::from_kib(1),
        ..HttpSettings::default()
    })
    .await;
    let mut request =
        b"POST /api/execute HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec();
    request.extend(b"800\r\n");
    request.extend([b' '; 0x800]);
    let received = server.send_raw(&request).await;
    assert!(received.starts_with("HTTP/1.1 413"), "{received}");
}

#[tokio::test]
async fn request_head_is_bounded() {
    let server = start_socket_server(HttpSettings::default()).await;
    let head = |bytes: usize| {
        let filler = "x".repeat(bytes);
        format!(
            "GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: {filler}\r\n\r\n"
        )
    };
    let received = server.send_raw(head(15 << 10).as_bytes()).await;
    assert!(received.starts_with("HTTP/1.1 200"), "{received}");
    let received = server.send_raw(head(17 << 10).as_bytes()).await;
    assert!(received.starts_with("HTTP/1.1 431"), "{received}");
}

#[tokio::test]
async fn full_server_asks_to_retry() {
    let server =
        start_socket_server(HttpSettings { max_connections: 1, ..HttpSettings::default() }).await;
    let mut first = server.connect().await;
    first.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut status_line = [0; 12];
    first.read_exact(&mut status_line).await.unwrap();
    assert_eq!(&status_line, b"HTTP/1.1 200");
    let mut second = server.connect().await;
    let received = read_all(&mut second).await;
    assert!(received.starts_with("HTTP/1.1 503"), "{received}");
    assert!(received.contains("pool_saturated"), "{received}");
    drop(first);
    // After the first connection closes, new ones are accepted.
    let client = server.client();
    let wait_until_ready = async {
        while client.check_readiness().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait_until_ready).await.unwrap();
}

#[tokio::test]
async fn rejects_malformed_requests() {
    let server = start_socket_server(HttpSettings::default()).await;
    for nonsense in [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"[..], b"GET\r\n\r\n"] {
        let received = server.send_raw(nonsense).await;
        assert!(received.is_empty() || received.starts_with("HTTP/1.1 400"), "{received}");
    }
    // Two different lengths could smuggle a second request.
    let smuggled = b"POST /api/execute HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\
        content-length: 3\r\n\r\n{} ";
    let received = server.send_raw(smuggled).await;
    assert!(received.starts_with("HTTP/1.1 400"), "{received}");
}
