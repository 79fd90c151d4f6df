//! The shipped accounts of NATS: a client of one role cannot read or forge the messages of another.

use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::{Client, ConnectOptions, RequestErrorKind};
use futures_util::{FutureExt as _, StreamExt as _};
use noetl_api::execute::ExecuteRequest;
use noetl_server::{CallContext, ControlPlane, NatsConnectionSettings, NatsSettings, Settings};
use noetl_testkit::nats::NatsServer;
use noetl_types::{PlaybookPath, PoolName};
use serde_json::Value;

use crate::nats::cluster::{TEST_TIMEOUT, TestCluster, lease_request, start_run, wait_until};

const ACCOUNTS: &str = include_str!("../../../../../deploy/nats/accounts.conf");
const POOL_CONSUMER: &str = "pool_shared";

/// Starts a NATS server with the shipped accounts. The password of each user is its name.
fn start_nats() -> NatsServer {
    let variables = [
        ("NATS_SERVER_PASSWORD", "noetl-server"),
        ("NATS_SYSTEM_PASSWORD", "noetl-system"),
        ("NATS_POOL_SHARED_PASSWORD", "noetl-pool-shared"),
        ("NATS_EVENTS_PASSWORD", "noetl-events"),
    ];
    let variables = variables.map(|(name, value)| format!("{name}: \"{value}\"\n")).concat();
    NatsServer::start_with_config(&format!("{variables}{ACCOUNTS}")).unwrap()
}

async fn connect(nats: &NatsServer, user: &str) -> Client {
    let options = ConnectOptions::with_user_and_password(user.into(), user.into());
    let options = options.custom_inbox_prefix(format!("_INBOX.{user}"));
    options.connect(nats.url()).await.unwrap()
}

async fn start_server(cluster: &TestCluster, nats: &NatsServer) -> ControlPlane {
    let link = NatsConnectionSettings {
        url: nats.url().into(),
        user: Some(("noetl-server".into(), "noetl-server".into())),
        name: "test".into(),
        ..NatsConnectionSettings::default()
    };
    let nats = NatsSettings { link, requires_auth: true, ..NatsSettings::default() };
    let settings = Settings {
        nats: Some(nats),
        notify_with_command_token: true,
        public_url: Some("http://localhost:1".into()),
        ..Settings::default()
    };
    cluster.start_server(settings).await
}

/// Starts a run whose commands go to another pool than `shared`.
async fn start_run_in_pool(services: &ControlPlane, pool: &str) {
    let request = ExecuteRequest {
        path: Some(PlaybookPath::new("two").unwrap()),
        execution_pool: Some(PoolName::new(pool).unwrap()),
        ..ExecuteRequest::default()
    };
    services.executions.start(CallContext::server(), request).await.unwrap();
}

/// Waits until NATS has processed everything that a client sent before.
async fn sync(client: &Client) {
    // `flush` only waits for the socket. NATS processes the messages of a connection in order.
    let inbox = client.new_inbox();
    let mut echo = client.subscribe(inbox.clone()).await.unwrap();
    client.publish(inbox, "".into()).await.unwrap();
    tokio::time::timeout(TEST_TIMEOUT, echo.next()).await.unwrap().unwrap();
}

/// Creates the durable consumer of pool `shared`. A run of another pool creates its stream.
async fn create_pool_consumer(services: &ControlPlane, server: &Client) {
    start_run_in_pool(services, "gpu").await;
    let context = async_nats::jetstream::new(server.clone());
    wait_until("the command stream exists", || async {
        context.get_stream("noetl_commands").await.is_ok()
    })
    .await;
    let config = Config {
        durable_name: Some(POOL_CONSUMER.into()),
        ack_policy: AckPolicy::Explicit,
        deliver_policy: DeliverPolicy::New,
        filter_subject: "noetl.commands.shared.>".into(),
        ..Config::default()
    };
    context.create_consumer_on_stream(config, "noetl_commands").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anonymous_clients_are_rejected() {
    let nats = start_nats();
    let error = async_nats::connect(nats.url()).await.unwrap_err();
    assert!(error.to_string().contains("authorization"), "{error}");
    let options = ConnectOptions::with_user_and_password("noetl-server".into(), "wrong".into());
    options.connect(nats.url()).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_reads_only_its_own_commands() {
    let nats = start_nats();
    let cluster = TestCluster::new().await;
    let services = start_server(&cluster, &nats).await;
    let server = connect(&nats, "noetl-server").await;
    create_pool_consumer(&services, &server).await;
    let worker = connect(&nats, "noetl-pool-shared").await;
    let mut everything = worker.subscribe("noetl.>").await.unwrap();
    let mut observed = server.subscribe("noetl.commands.>").await.unwrap();
    sync(&worker).await;
    sync(&server).await;

    start_run_in_pool(&services, "gpu").await;
    let run = start_run(&services).await;
    // The control: both notifications are sent, and both contain command tokens.
    for _ in 0..2 {
        let notification = tokio::time::timeout(TEST_TIMEOUT, observed.next()).await.unwrap();
        let body: Value = serde_json::from_slice(&notification.unwrap().payload).unwrap();
        assert!(body["server_url"].as_str().unwrap().contains("/w/"), "{body}");
    }
    let received = tokio::time::timeout(TEST_TIMEOUT, everything.next()).await.unwrap().unwrap();
    assert_eq!(&*received.subject, format!("noetl.commands.shared.{run}"));

    // The durable consumer of the pool delivers the same notification, and no other can be read. The reply has the
    // subject of the notification, by which a request would not recognize it.
    let inbox = worker.new_inbox();
    let mut pulled = worker.subscribe(inbox.clone()).await.unwrap();
    let next = format!("$JS.API.CONSUMER.MSG.NEXT.noetl_commands.{POOL_CONSUMER}");
    worker.publish_with_reply(next, inbox, "1".into()).await.unwrap();
    let reply = tokio::time::timeout(TEST_TIMEOUT, pulled.next()).await.unwrap().unwrap();
    assert_eq!(&*reply.subject, format!("noetl.commands.shared.{run}"));
    worker.publish(reply.reply.unwrap(), "+ACK".into()).await.unwrap();
    wait_until("the acknowledgement arrives", || async {
        let info = format!("$JS.API.CONSUMER.INFO.noetl_commands.{POOL_CONSUMER}");
        let info = server.request(info, "".into()).await.unwrap();
        let info: Value = serde_json::from_slice(&info.payload).unwrap();
        info["num_ack_pending"] == 0
    })
    .await;
    for subject in [
        "$JS.API.STREAM.MSG.GET.noetl_commands",
        "$JS.API.DIRECT.GET.noetl_commands",
        "$JS.API.STREAM.INFO.noetl_commands",
        "$JS.API.STREAM.DELETE.noetl_commands",
        "$JS.API.CONSUMER.DURABLE.CREATE.noetl_commands.spy",
        "$JS.API.CONSUMER.CREATE.noetl_commands.spy.noetl.commands.gpu.1",
        "$JS.API.CONSUMER.MSG.NEXT.noetl_commands.spy",
        "$JS.API.STREAM.NAMES",
    ] {
        // NATS answers that the account has no JetStream, or that nobody answers.
        match worker.request(subject.to_owned(), r#"{"seq":1}"#.into()).await {
            Ok(reply) => {
                let reply: Value = serde_json::from_slice(&reply.payload).unwrap();
                assert_eq!(reply["error"]["code"], 503, "{subject}: {reply}");
            }
            Err(error) => {
                let is_unanswered = matches!(
                    error.kind(),
                    RequestErrorKind::NoResponders | RequestErrorKind::TimedOut
                );
                assert!(is_unanswered, "{subject}: {error}");
            }
        }
    }
}

/// What a pool publishes stays inside its account, so it can forge no notification or event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_cannot_forge_messages_of_others() {
    let nats = start_nats();
    let cluster = TestCluster::new().await;
    let _services = start_server(&cluster, &nats).await;
    let server = connect(&nats, "noetl-server").await;
    let worker = connect(&nats, "noetl-pool-shared").await;
    let mut observed = server.subscribe(">").await.unwrap();
    sync(&server).await;
    for subject in ["noetl.commands.gpu.1", "noetl.commands.shared.1", "noetl.events.x", "_INBOX.x"]
    {
        worker.publish(subject, "forged".into()).await.unwrap();
    }
    sync(&worker).await;
    // The control: a message of the same account arrives, and it is the first one.
    server.publish("noetl.end", "end".into()).await.unwrap();
    loop {
        let message = tokio::time::timeout(TEST_TIMEOUT, observed.next()).await.unwrap().unwrap();
        assert_ne!(&*message.payload, b"forged", "{}", message.subject);
        if &*message.subject == "noetl.end" {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn system_worker_publishes_events_and_reads_no_commands() {
    let nats = start_nats();
    let server = connect(&nats, "noetl-server").await;
    let context = async_nats::jetstream::new(server.clone());
    let stream = async_nats::jetstream::stream::Config {
        name: "noetl_events".into(),
        subjects: vec!["noetl.events.>".into(), "noetl.t.*.events.>".into()],
        ..Default::default()
    };
    context.create_stream(stream).await.unwrap();
    let system = connect(&nats, "noetl-system").await;
    let mut commands = system.subscribe("noetl.commands.>").await.unwrap();
    let mut replies = system.subscribe("_INBOX.>").await.unwrap();
    // The control: the inbox of a server can be read with its own user.
    let mut inbox = server.subscribe("_INBOX.server.>").await.unwrap();
    let published = async_nats::jetstream::new(system.clone());
    let ack = published.publish("noetl.events.note", "{}".into()).await.unwrap().await.unwrap();
    assert_eq!((&*ack.stream, ack.sequence), ("noetl_events", 1));
    server.publish("noetl.commands.shared.1", "secret".into()).await.unwrap();
    server.publish("_INBOX.server.1", "secret".into()).await.unwrap();
    sync(&server).await;
    assert!(inbox.next().now_or_never().flatten().is_some());
    // NATS rejects the subscription. Whatever it delivers arrives before the response.
    let info = system.request("$JS.API.STREAM.INFO.noetl_events", "".into()).await.unwrap();
    assert!(info.payload.starts_with(b"{"));
    assert!(commands.next().now_or_never().flatten().is_none());
    assert!(replies.next().now_or_never().flatten().is_none());
}

/// A server sends command tokens only over a NATS server that requires credentials.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_broker_gets_no_command_tokens() {
    let nats = NatsServer::start().unwrap();
    let cluster = TestCluster::new().await;
    let services = start_server(&cluster, &nats).await;
    let observer = async_nats::connect(nats.url()).await.unwrap();
    let mut observed = observer.subscribe("noetl.commands.>").await.unwrap();
    sync(&observer).await;
    start_run(&services).await;
    let notification = tokio::time::timeout(TEST_TIMEOUT, observed.next()).await.unwrap().unwrap();
    let body: Value = serde_json::from_slice(&notification.payload).unwrap();
    assert_eq!(body["server_url"], "http://localhost:1");
    // Workers that poll a server are not affected.
    let leased = services.leases.lease_commands(CallContext::server(), lease_request(1_000)).await;
    assert_eq!(leased.unwrap().commands.len(), 1);
}
