//! Workers hear of commands, and servers of each other.

use async_nats::jetstream::consumer::AckPolicy;
use async_nats::jetstream::consumer::pull::Config;
use futures_util::StreamExt as _;
use noetl_api::classic::{ClaimRequest, EventPost};
use noetl_api::command::ReportRequest;
use noetl_server::http::{HttpSettings, serve};
use noetl_server::{Behalf, Runtime, RuntimeError, Settings};
use noetl_testkit::nats::Nats;
use noetl_types::{ErrorCode, EventId, TenantId, WorkerId};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::house::{House, LONG, completed, done, lease, settings_of, start, told_only, until};
use crate::outside::jetstream;

/// The way of a classic worker: a durable consumer of its pool.
async fn consumer(nats: &Nats, filter: &str) -> async_nats::jetstream::consumer::Consumer<Config> {
    let context = jetstream(nats).await;
    until("the stream of commands is there", || async {
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

async fn next(messages: &mut async_nats::jetstream::consumer::pull::Stream) -> Value {
    let message = tokio::time::timeout(LONG, messages.next())
        .await
        .expect("told");
    let message = message.unwrap().unwrap();
    message.ack().await.unwrap();
    serde_json::from_slice(&message.payload).unwrap()
}

fn claim(worker: &str) -> ClaimRequest {
    ClaimRequest {
        worker_id: WorkerId::new(worker).unwrap(),
    }
}

fn is_taken(error: &RuntimeError) -> bool {
    matches!(error, RuntimeError::Refused(problem)
        if problem.known_code() == Some(ErrorCode::ActiveClaim))
}

/// What a classic worker does with one message: claims, runs, tells.
async fn play(runtime: &Runtime, heard: &Value) {
    let event_id = EventId::new(heard["event_id"].as_i64().unwrap()).unwrap();
    let command = runtime.command_of(event_id).await.unwrap();
    assert_eq!(command.node_name.as_str(), heard["step"]);
    let claimed = runtime.claim_command(event_id, claim("w1")).await.unwrap();
    let other = runtime
        .claim_command(event_id, claim("w2"))
        .await
        .unwrap_err();
    assert!(is_taken(&other), "{other}");
    for event_type in ["command.started", "call.done", "command.completed"] {
        let post = json!({
            "execution_id": heard["execution_id"],
            "step": heard["step"],
            "event_type": event_type,
            "worker_id": "w1",
            "payload": { "command_id": heard["command_id"], "result": { "n": 1 } },
            "meta": { "attempts": claimed.attempt },
        });
        let post: EventPost = serde_json::from_value(post).unwrap();
        runtime.take_event(post).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_classic_worker_hears_claims_and_tells() {
    let nats = Nats::start().unwrap();
    let house = House::new().await;
    let settings = Settings {
        nats: Some(noetl_server::NatsSettings {
            bare_subject: true,
            ..settings_of(&nats)
        }),
        public_url: Some("http://localhost:1".into()),
        ..Settings::default()
    };
    let runtime = house.server(settings).await;
    let run = start(&runtime).await;
    let of_pool = consumer(&nats, "noetl.commands.shared.>").await;
    let mut messages = of_pool.messages().await.unwrap();
    for step in ["start", "end"] {
        let heard = next(&mut messages).await;
        assert_eq!(heard["step"], step, "{heard}");
        assert_eq!(heard["execution_id"], run.get());
        assert_eq!(heard["server_url"], "http://localhost:1");
        assert_eq!(heard["execution_pool"], "shared");
        assert_eq!(heard["attempt"], 1);
        let event_id = heard["event_id"].as_i64().unwrap();
        assert_eq!(heard["command_id"], format!("{run}:{step}:{event_id}"));
        play(&runtime, &heard).await;
    }
    completed(&runtime, run).await;
    let bare = consumer(&nats, "noetl.commands").await;
    let mut bare = bare.messages().await.unwrap();
    assert_eq!(next(&mut bare).await["step"], "start");
}

/// Posts as a worker does that knows of no tokens; gives the status and the body.
async fn post(address: &str, body: &Value) -> (u16, Value) {
    let (host, path) = address
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .unwrap();
    let body = body.to_string();
    let head = format!(
        "POST /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(host).await.unwrap();
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

/// A published worker sends every call of a command to the address in its notice, without any header.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_classic_worker_needs_no_token_where_all_others_do() {
    let nats = Nats::start().unwrap();
    let house = House::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let settings = Settings {
        nats: Some(settings_of(&nats)),
        public_url: Some(url.as_str().into()),
        notify_capability: true,
        ..Settings::default()
    };
    let runtime = house.server(settings).await;
    let http = HttpSettings {
        is_dev: false,
        ..HttpSettings::default()
    };
    let stop = CancellationToken::new();
    let server = tokio::spawn(serve(runtime.clone(), listener, http, stop.clone()));

    let run = start(&runtime).await;
    let of_pool = consumer(&nats, "noetl.commands.shared.>").await;
    let mut messages = of_pool.messages().await.unwrap();
    for step in ["start", "end"] {
        let heard = next(&mut messages).await;
        assert_eq!(heard["step"], step, "{heard}");
        let told = heard["server_url"].as_str().unwrap();
        assert!(told.starts_with(&format!("{url}/w/")), "{told}");
        let claim = format!("/api/commands/{}/claim", heard["event_id"]);
        let worker = json!({ "worker_id": "w1" });
        let (status, _) = post(&format!("{url}{claim}"), &worker).await;
        assert_eq!(status, 401, "others need a token");
        let (status, claimed) = post(&format!("{told}{claim}"), &worker).await;
        assert_eq!(status, 200, "{claimed}");
        for event_type in ["command.started", "call.done", "command.completed"] {
            let event = json!({
                "execution_id": heard["execution_id"], "step": step, "event_type": event_type,
                "context": { "command_id": heard["command_id"], "result": { "n": 1 } },
                "worker_id": "w1", "meta": { "attempts": claimed["meta"]["attempts"] },
            });
            let (status, answer) = post(&format!("{told}/api/events"), &event).await;
            assert_eq!(status, 200, "{event_type}: {answer}");
        }
    }
    completed(&runtime, run).await;
    stop.cancel();
    server.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_server_issues_wakes_a_worker_that_waits_at_another() {
    let nats = Nats::start().unwrap();
    let house = House::new().await;
    let (here, there) = (
        house.server(told_only(&nats)).await,
        house.server(told_only(&nats)).await,
    );
    // The first look finds what lies in the store; the second one can only be woken.
    assert_eq!(there.lease(lease(0)).await.unwrap().commands, []);
    let waiting = tokio::spawn({
        let there = there.clone();
        async move { there.lease(lease(30_000)).await.unwrap().commands }
    });
    let run = start(&here).await;
    let commands = waiting.await.unwrap();
    assert_eq!(commands.len(), 1);
    assert_eq!(commands[0].execution_id, run);
    let request = ReportRequest {
        worker_id: WorkerId::new("w").unwrap(),
        reports: commands.iter().map(done).collect(),
        lease: None,
    };
    there.report(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_issued_while_nats_was_away_is_told_later() {
    let mut nats = Nats::start().unwrap();
    nats.kill().unwrap();
    let house = House::new().await;
    let runtime = house.server(told_only(&nats)).await;
    let run = start(&runtime).await;
    let health = runtime.health().await;
    assert_eq!((&*health.status, &*health.nats), ("ok", "degraded"));
    nats.restart().unwrap();
    let consumer = consumer(&nats, "noetl.commands.shared.>").await;
    let mut messages = consumer.messages().await.unwrap();
    let heard = next(&mut messages).await;
    assert_eq!(heard["execution_id"], run.get());
}

/// What one tenant's commands are told of is told in its own place, again and again, and wakes workers
/// of that tenant elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_of_every_tenant_are_told() {
    let mut nats = Nats::start().unwrap();
    let house = House::new().await;
    let acme = TenantId::new("acme").unwrap();
    house.register_for(&acme, 2).await;
    let of_acme = |runtime: &Runtime| {
        runtime.on_behalf_of(Behalf {
            tenant_id: acme.clone(),
            ..Behalf::default()
        })
    };
    let here = of_acme(&house.server(told_only(&nats)).await);
    let there = of_acme(&house.server(told_only(&nats)).await);
    // The first look finds what lies in the store; the second one can only be woken.
    assert_eq!(there.lease(lease(0)).await.unwrap().commands, []);
    let waiting = tokio::spawn({
        let there = there.clone();
        async move { there.lease(lease(30_000)).await.unwrap().commands }
    });
    let run = start(&here).await;
    let commands = waiting.await.unwrap();
    assert_eq!(commands.len(), 1);
    assert_eq!(commands[0].execution_id, run);
    // One that is issued while nobody hears it is told later.
    nats.kill().unwrap();
    let run = start(&here).await;
    nats.restart().unwrap();
    let consumer = consumer(&nats, "noetl.t.acme.commands.shared.>").await;
    let mut messages = consumer.messages().await.unwrap();
    loop {
        let heard = next(&mut messages).await;
        assert_eq!(heard["execution_pool"], "shared");
        assert_eq!(heard["tenant_id"], "acme");
        if heard["execution_id"] == run.get() {
            return;
        }
    }
}
