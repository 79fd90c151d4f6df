//! Notifications of workers about commands, and of servers about each other.

use async_nats::jetstream::consumer::AckPolicy;
use async_nats::jetstream::consumer::pull::Config;
use futures_util::StreamExt as _;
use noetl_api::classic::{ClaimRequest, ClassicEventRequest};
use noetl_api::command::ReportRequest;
use noetl_server::http::{HttpSettings, serve_http};
use noetl_server::{AuthContext, CallContext, ControlPlane, RuntimeError, Settings};
use noetl_testkit::nats::NatsServer;
use noetl_types::{ErrorCode, EventId, Json, TenantId, WorkerId};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::nats::cluster::{
    TEST_TIMEOUT, TestCluster, completed_report, lease_request, nats_settings,
    notification_only_settings, start_run, start_run_for, wait_until, wait_until_completed,
};
use crate::nats::stream_reader::connect_jetstream;

/// Durable consumer of a pool, as a classic worker creates it.
async fn create_pool_consumer(
    nats: &NatsServer,
    filter: &str,
) -> async_nats::jetstream::consumer::Consumer<Config> {
    let context = connect_jetstream(nats).await;
    wait_until("the command stream exists", || async {
        context.get_stream("noetl_commands").await.is_ok()
    })
    .await;
    let stream = context.get_stream("noetl_commands").await.unwrap();
    let config = Config {
        durable_name: Some(format!("worker-{}", filter.len())),
        ack_policy: AckPolicy::Explicit,
        filter_subject: filter.to_owned(),
        ..Config::default()
    };
    stream.create_consumer(config).await.unwrap()
}

async fn next_notification(messages: &mut async_nats::jetstream::consumer::pull::Stream) -> Value {
    let message =
        tokio::time::timeout(TEST_TIMEOUT, messages.next()).await.expect("a notification");
    let message = message.unwrap().unwrap();
    message.ack().await.unwrap();
    serde_json::from_slice(&message.payload).unwrap()
}

fn claim_request(worker: &str) -> ClaimRequest {
    ClaimRequest { worker_id: WorkerId::new(worker).unwrap() }
}

fn is_already_claimed(error: &RuntimeError) -> bool {
    matches!(error, RuntimeError::Refused(problem)
        if problem.known_code() == Some(ErrorCode::ActiveClaim))
}

/// Claims a command and reports its events, as a classic worker does.
async fn process_notification(services: &ControlPlane, notification: &Value) {
    let event_id = EventId::new(notification["event_id"].as_i64().unwrap()).unwrap();
    let command = services.classic.classic_command(CallContext::server(), event_id).await.unwrap();
    assert_eq!(command.node_name.as_str(), notification["step"]);
    let claimed = services
        .classic
        .claim_command(CallContext::server(), event_id, claim_request("w1"))
        .await
        .unwrap();
    let other = services
        .classic
        .claim_command(CallContext::server(), event_id, claim_request("w2"))
        .await
        .unwrap_err();
    assert!(is_already_claimed(&other), "{other}");
    for event_type in ["command.started", "call.done", "command.completed"] {
        let event = json!({
            "execution_id": notification["execution_id"],
            "step": notification["step"],
            "event_type": event_type,
            "worker_id": "w1",
            "payload": { "command_id": notification["command_id"], "result": { "n": 1 } },
            "meta": { "attempts": claimed.attempt },
        });
        let event: ClassicEventRequest = serde_json::from_value(event).unwrap();
        services.classic.ingest_event(CallContext::server(), event).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn classic_worker_claims_and_reports() {
    let nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let settings = Settings {
        nats: Some(noetl_server::NatsSettings { bare_subject: true, ..nats_settings(&nats) }),
        public_url: Some("http://localhost:1".into()),
        ..Settings::default()
    };
    let services = cluster.start_server(settings).await;
    let run = start_run(&services).await;
    let consumer = create_pool_consumer(&nats, "noetl.commands.shared.>").await;
    let mut messages = consumer.messages().await.unwrap();
    for step in ["start", "end"] {
        let notification = next_notification(&mut messages).await;
        assert_eq!(notification["step"], step, "{notification}");
        assert_eq!(notification["execution_id"], run.get());
        assert_eq!(notification["server_url"], "http://localhost:1");
        assert_eq!(notification["execution_pool"], "shared");
        assert_eq!(notification["attempt"], 1);
        let event_id = notification["event_id"].as_i64().unwrap();
        assert_eq!(notification["command_id"], format!("{run}:{step}:{event_id}"));
        process_notification(&services, &notification).await;
    }
    wait_until_completed(&services, run).await;
    let bare_consumer = create_pool_consumer(&nats, "noetl.commands").await;
    let mut messages = bare_consumer.messages().await.unwrap();
    assert_eq!(next_notification(&mut messages).await["step"], "start");
}

/// Sends a POST without a token. Returns status and body.
async fn post_without_token(url: &str, body: &Value) -> (u16, Value) {
    let (host, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(host).await.unwrap();
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

/// Released workers send all calls of a command to the address in its notification, without
/// headers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn classic_worker_uses_command_token() {
    let nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let settings = Settings {
        nats: Some(nats_settings(&nats)),
        public_url: Some(url.as_str().into()),
        notify_with_command_token: true,
        ..Settings::default()
    };
    let services = cluster.start_server(settings).await;
    let http = HttpSettings { is_dev: false, ..HttpSettings::default() };
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(serve_http(services.clone(), listener, http, shutdown.clone()));

    let run = start_run(&services).await;
    let consumer = create_pool_consumer(&nats, "noetl.commands.shared.>").await;
    let mut messages = consumer.messages().await.unwrap();
    for step in ["start", "end"] {
        let notification = next_notification(&mut messages).await;
        assert_eq!(notification["step"], step, "{notification}");
        let command_url = notification["server_url"].as_str().unwrap();
        assert!(command_url.starts_with(&format!("{url}/w/")), "{command_url}");
        let claim = format!("/api/commands/{}/claim", notification["event_id"]);
        let worker = json!({ "worker_id": "w1" });
        let (status, _) = post_without_token(&format!("{url}{claim}"), &worker).await;
        assert_eq!(status, 401, "others need a token");
        let (status, claimed) = post_without_token(&format!("{command_url}{claim}"), &worker).await;
        assert_eq!(status, 200, "{claimed}");
        for event_type in ["command.started", "call.done", "command.completed"] {
            let event = json!({
                "execution_id": notification["execution_id"], "step": step, "event_type": event_type,
                "context": { "command_id": notification["command_id"], "result": { "n": 1 } },
                "worker_id": "w1", "meta": { "attempts": claimed["meta"]["attempts"] },
            });
            let (status, reply) =
                post_without_token(&format!("{command_url}/api/events"), &event).await;
            assert_eq!(status, 200, "{event_type}: {reply}");
        }
    }
    wait_until_completed(&services, run).await;
    shutdown.cancel();
    server.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_wakes_worker_at_other_server() {
    let nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let (first, second) = (
        cluster.start_server(notification_only_settings(&nats)).await,
        cluster.start_server(notification_only_settings(&nats)).await,
    );
    // The first poll finds stored commands. The second can only be woken.
    assert_eq!(
        second
            .leases
            .lease_commands(CallContext::server(), lease_request(0))
            .await
            .unwrap()
            .commands,
        []
    );
    let waiting = tokio::spawn({
        let second = second.clone();
        async move {
            let request = lease_request(30_000);
            second.leases.lease_commands(CallContext::server(), request).await.unwrap().commands
        }
    });
    let run = start_run(&first).await;
    let commands = waiting.await.unwrap();
    assert_eq!(commands.len(), 1);
    assert_eq!(commands[0].execution_id, run);
    let request = ReportRequest {
        worker_id: WorkerId::new("w").unwrap(),
        reports: commands.iter().map(completed_report).collect(),
        lease: None,
        outputs: Vec::new(),
    };
    second.reports.process_reports(CallContext::server(), request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_are_sent_after_nats_outage() {
    let mut nats = NatsServer::start().unwrap();
    nats.kill_server().unwrap();
    let cluster = TestCluster::new().await;
    let services = cluster.start_server(notification_only_settings(&nats)).await;
    let run = start_run(&services).await;
    let health = services.system_status.check_health().await;
    assert_eq!((&*health.status, &*health.nats), ("ok", "degraded"));
    nats.restart_server().unwrap();
    let consumer = create_pool_consumer(&nats, "noetl.commands.shared.>").await;
    let mut messages = consumer.messages().await.unwrap();
    let notification = next_notification(&mut messages).await;
    assert_eq!(notification["execution_id"], run.get());
}

/// Notifications of a tenant use its own subjects, are repeated, and wake workers of that tenant at
/// other servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifies_commands_of_every_tenant() {
    let mut nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let acme = TenantId::new("acme").unwrap();
    cluster.register_playbook_for(&acme, 2).await;
    let ctx = CallContext::from(AuthContext { tenant_id: acme, ..AuthContext::default() });
    let first = cluster.start_server(notification_only_settings(&nats)).await;
    let second = cluster.start_server(notification_only_settings(&nats)).await;
    // The first poll finds stored commands. The second can only be woken.
    assert_eq!(second.leases.lease_commands(&ctx, lease_request(0)).await.unwrap().commands, []);
    let waiting = tokio::spawn({
        let (second, ctx) = (second.clone(), ctx.clone());
        async move {
            let leased = second.leases.lease_commands(&ctx, lease_request(30_000)).await;
            leased.unwrap().commands
        }
    });
    let run = start_run_for(&ctx, &first, Json::Null).await;
    let commands = waiting.await.unwrap();
    assert_eq!(commands.len(), 1);
    assert_eq!(commands[0].execution_id, run);
    // Commands issued while NATS is down are announced later.
    nats.kill_server().unwrap();
    let run = start_run_for(&ctx, &first, Json::Null).await;
    nats.restart_server().unwrap();
    let consumer = create_pool_consumer(&nats, "noetl.t.acme.commands.shared.>").await;
    let mut messages = consumer.messages().await.unwrap();
    loop {
        let notification = next_notification(&mut messages).await;
        assert_eq!(notification["execution_pool"], "shared");
        assert_eq!(notification["tenant_id"], "acme");
        if notification["execution_id"] == run.get() {
            return;
        }
    }
}
