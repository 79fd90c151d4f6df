//! Live event streams.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::Method;
use futures_util::StreamExt as _;
use noetl_api::tokens::CreateTokenRequest;
use noetl_store::postgres::PostgresOptions;
use noetl_store::{EnabledPublishers, LogPartition, PostgresStore, SqliteStore, Store};
use noetl_store_testing::migrated_database;
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, FeedPosition, Month, Scope, TenantId, Timestamp};
use serde_json::Value;
use tokio::time::Instant;

use super::keychain::SkewedClock;
use super::tokens::{create_token, with_token};
use super::{
    TestResponse, TestServer, build_request, secured_settings, server_from_services, start_server,
    start_server_with,
};
use crate::access::CallContext;
use crate::clock::{Clock as _, SystemClock};
use crate::services::ControlPlane;
use crate::services::queries::FeedFilter;
use crate::settings::Settings;

async fn follow_stream(
    server: &TestServer,
    path: &str,
    headers: &[(&'static str, &str)],
) -> TestResponse {
    let mut request = build_request(Method::GET, path, Body::empty());
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    server.send(request).await
}

/// Ids of the frames of a stream. Each is checked against the position of its event.
fn frame_ids(text: &str) -> Vec<i64> {
    let frames = text.split("\n\n").filter(|frame| frame.starts_with("id: "));
    let id = |frame: &str| {
        let line = |name: &str| {
            let line = frame.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().to_owned()
        };
        let event: Value = serde_json::from_str(&line("data: ")).unwrap();
        let id: i64 = line("id: ").parse().unwrap();
        assert_eq!(event["seq"], id);
        assert_eq!(event["event_type"], line("event: "));
        id
    };
    frames.map(id).collect()
}

#[tokio::test]
async fn follows_run_to_its_end() {
    let server = start_server().await;
    let id = server.start_two_steps().await;
    let path = format!("/api/executions/{id}/events/stream");
    let (followed, ()) =
        tokio::join!(follow_stream(&server, &path, &[]), server.complete_two_steps());
    assert_eq!(followed.headers["content-type"], "text/event-stream; charset=utf-8");
    assert!(followed.text.starts_with("retry: 2000\n\n"), "{}", followed.text);
    assert!(followed.text.ends_with("event: end\ndata: {}\n\n"), "{}", followed.text);
    let log = server.get(&format!("/api/executions/{id}/events?limit=500")).await;
    let events = log.json_at("/events").as_array().unwrap().len();
    let all: Vec<i64> = (1..=i64::try_from(events).unwrap()).collect();
    assert_eq!(frame_ids(&followed.text), all);
}

#[tokio::test]
async fn reconnect_resumes_after_last_event() {
    let server = start_server().await;
    let id = server.run_two_steps().await;
    let path = format!("/api/executions/{id}/events/stream");
    let all = frame_ids(&follow_stream(&server, &path, &[]).await.text);
    for last_seen in 0..=all.len() {
        let received =
            follow_stream(&server, &path, &[("last-event-id", &last_seen.to_string())]).await;
        assert_eq!(frame_ids(&received.text), all[last_seen..], "after {last_seen}");
        let received = server.get(&format!("{path}?last_event_id={last_seen}")).await;
        assert_eq!(frame_ids(&received.text), all[last_seen..], "after {last_seen}");
    }
    for wrong in ["x", "-1", "1.5"] {
        let received = follow_stream(&server, &path, &[("last-event-id", wrong)]).await;
        received.assert_problem(ErrorCode::BadQuery);
    }
    let nothing = server.get("/api/executions/7/events/stream").await;
    nothing.assert_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn jsonl_clients_get_lines() {
    let server = start_server().await;
    let id = server.run_two_steps().await;
    let path = format!("/api/executions/{id}/events/stream");
    let received = follow_stream(&server, &path, &[("accept", "application/jsonl")]).await;
    let seqs = received.text.lines().map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["seq"].as_i64().unwrap()
    });
    let count = received.text.lines().count();
    assert!(seqs.eq(1..=i64::try_from(count).unwrap()));
}

/// Reads a live stream until it has sent `count` events.
async fn read_frames(
    server: &TestServer,
    path: &str,
    last: Option<&str>,
    count: usize,
) -> Vec<(String, Value)> {
    let mut request = build_request(Method::GET, path, Body::empty());
    if let Some(last) = last {
        let headers = request.headers_mut();
        headers.insert("last-event-id", last.parse().unwrap());
    }
    let response = server.pipeline.handle_request(&super::local_peer().into(), request).await;
    let mut body = response.into_body().into_data_stream();
    let mut text = String::new();
    loop {
        let whole = text.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
        let found: Vec<_> = whole
            .split("\n\n")
            .filter_map(|frame| {
                let line = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
                let id = line("id: ")?.to_owned();
                Some((id, serde_json::from_str(line("data: ")?).unwrap()))
            })
            .collect();
        if found.len() >= count {
            return found;
        }
        let bytes = body.next().await.unwrap().unwrap();
        text.push_str(str::from_utf8(&bytes).unwrap());
    }
}

#[tokio::test]
async fn follows_all_runs_and_resumes_anywhere() {
    let server = start_server().await;
    let start = "0.0";
    let (first, second) = (server.run_two_steps().await, server.run_two_steps().await);
    let length = |id: &str| {
        let path = format!("/api/executions/{id}/events?limit=500");
        async { server.get(&{ path }).await.json_at("/events").as_array().unwrap().len() }
    };
    let total = length(&first).await + length(&second).await;
    let all = read_frames(&server, "/api/events/stream", Some(start), total).await;
    assert_eq!(all.len(), total);
    for index in [1, total / 2, total - 1] {
        let rest =
            read_frames(&server, "/api/events/stream", Some(&all[index - 1].0), total - index)
                .await;
        assert_eq!(rest, all[index..]);
    }
    let path = format!("/api/events/stream?execution_id={second}&type=playbook.completed");
    let one = read_frames(&server, &path, Some(start), 1).await;
    assert_eq!(one[0].1["execution_id"], second);
    let path = "/api/events/stream?path=demo/two&type=playbook.started";
    assert_eq!(read_frames(&server, path, Some(start), 2).await.len(), 2);
}

/// Positions of another log epoch are meaningless in the current one.
#[tokio::test]
async fn reconnect_after_new_log_epoch_reports_gap() {
    let server = start_server().await;
    server.run_two_steps().await;
    let path = "/api/events/stream";
    let before = read_frames(&server, path, Some("0.0"), 3).await;
    assert!(before[0].0.starts_with("1:"), "{}", before[0].0);
    let (_, without_epoch) = before[1].0.split_once(':').unwrap();
    // An id without an epoch belongs to the current epoch.
    assert_eq!(read_frames(&server, path, Some(without_epoch), 1).await[0], before[2]);
    let epoch = server.services.infra.store().start_log_epoch().await.unwrap();
    let received = read_frames(&server, path, Some(&before[1].0), 3).await;
    let first = before[0].0.replacen("1:", &format!("{}:", epoch.get()), 1);
    let gap = serde_json::json!({ "event": "gap", "first_available": first });
    assert_eq!(received[0].1, gap);
    // Everything is sent again, and a later reconnect reports no gap.
    assert_eq!((&received[1].0, &received[1].1), (&first, &before[0].1));
    let again = read_frames(&server, path, Some(&received[0].0), 2).await;
    assert_eq!(again[..], received[1..]);
    for wrong in ["x:0.0", "1:0", "1:2:0.0", ":0.0"] {
        let wrong = follow_stream(&server, path, &[("last-event-id", wrong)]).await;
        wrong.assert_problem(ErrorCode::BadQuery);
    }
}

#[tokio::test]
async fn reconnect_after_purge_reports_gap() {
    let server = start_server().await;
    let id: ExecutionId = server.run_two_steps().await.parse().unwrap();
    let path = "/api/events/stream";
    let all = read_frames(&server, path, Some("0.0"), 3).await;
    let month = LogPartition::for_month(Month::from_timestamp(id.time()));
    let now = Timestamp::parse("2090-01-01T00:00:00Z").unwrap();
    let store = server.services.infra.store();
    let none = EnabledPublishers::default();
    let blocker = store.drop_partition(&month, &none, now).await.unwrap();
    assert_eq!(blocker, None);
    while store.purge_dropped_executions(now, PageLimit::MAX).await.unwrap() > 0 {}
    let received = read_frames(&server, path, Some(&all[0].0), 1).await;
    let gap = serde_json::json!({ "event": "gap", "first_available": null });
    assert_eq!((&received[0].0, &received[0].1), (&all[0].0, &gap));
}

#[tokio::test]
async fn stream_without_position_starts_now() {
    let server = start_server().await;
    server.run_two_steps().await;
    let (received, ()) = tokio::join!(
        read_frames(&server, "/api/events/stream?type=playbook.started", None, 1),
        async {
            server.start_two_steps().await;
        }
    );
    assert_eq!(received.len(), 1);
    let wrong = server.get("/api/events/stream?last_event_id=x").await;
    wrong.assert_problem(ErrorCode::BadQuery);
}

/// Opens a stream of all events with a token, and waits until the response has started.
async fn open_live_stream(server: &TestServer, token: &str) -> BodyDataStream {
    let request = build_request(Method::GET, "/api/events/stream", Body::empty());
    let request = with_token(request, token);
    let response = server.pipeline.handle_request(&super::local_peer().into(), request).await;
    assert_eq!(response.status(), 200);
    let mut body = response.into_body().into_data_stream();
    let preamble = body.next().await.unwrap().unwrap();
    assert_eq!(preamble, "retry: 2000\n\n");
    body
}

/// Reads a live stream to its end.
async fn read_to_end(mut body: BodyDataStream) -> String {
    let mut text = String::new();
    while let Some(bytes) = body.next().await {
        text.push_str(str::from_utf8(&bytes.unwrap()).unwrap());
    }
    text
}

/// Time is paused, so only the waits of the response advance it.
#[tokio::test(start_paused = true)]
async fn live_stream_ends_soon_after_revocation() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let first = start_server_with(Arc::clone(&store), &secured_settings()).await;
    let second = start_server_with(store, &secured_settings()).await;
    let token = create_token(&first.services, "default", &[Scope::ExecRead]).await;
    let tokens = first
        .services
        .identities
        .list_tokens(CallContext::server(), PageLimit::MAX, None)
        .await
        .unwrap();
    let mut body = open_live_stream(&first, &token).await;
    // Without events, the client receives keep-alive messages.
    let keep_alive = body.next().await.unwrap().unwrap();
    assert_eq!(keep_alive, ": still here\n\n");
    second
        .services
        .identities
        .revoke_token(CallContext::server(), tokens.tokens[0].id)
        .await
        .unwrap();
    let revoked = Instant::now();
    assert_eq!(read_to_end(body).await, "");
    assert!(revoked.elapsed() <= Duration::from_secs(5));
    let again = build_request(Method::GET, "/api/events/stream", Body::empty());
    let again = first.send(with_token(again, &token)).await;
    again.assert_problem(ErrorCode::Unauthenticated);
}

#[tokio::test(start_paused = true)]
async fn live_stream_ends_when_token_expires() {
    let clock = Arc::<SkewedClock>::default();
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let services = ControlPlane::open(store, clock.clone(), Settings::default()).await;
    let server = server_from_services(services.unwrap(), &secured_settings());
    let request = CreateTokenRequest {
        name: "for a day".into(),
        scopes: vec![Scope::ExecRead],
        ttl_days: Some(1),
        ..CreateTokenRequest::default()
    };
    let created = server
        .services
        .identities
        .create_token(CallContext::server(), request, &"test".into())
        .await;
    let body = open_live_stream(&server, &created.unwrap().token).await;
    clock.0.store(2 * 24 * 3600, Ordering::SeqCst);
    assert_eq!(read_to_end(body).await, "");
}

/// An unreadable row does not block the events after it.
#[tokio::test]
async fn damaged_event_is_skipped() {
    let now = SystemClock.now();
    let database = migrated_database(now).unwrap();
    let options = PostgresOptions::new(database.connection_config(), now);
    let store = PostgresStore::open(&options).await.unwrap();
    let server = super::start_server_on(Arc::new(store)).await;
    server.start_two_steps().await;
    let read_feed = async |limit: u32| {
        let path = format!("/api/stream/feed?after=0.0&limit={limit}");
        let feed = server.get(&path).await;
        assert_eq!(feed.status, 200, "{}", feed.text);
        let events = feed.json_at("/events").as_array().unwrap().len();
        (events, feed.json_at("/next"))
    };
    let ((whole, end), (two, position)) = (read_feed(1000).await, read_feed(2).await);
    assert_eq!(two, 2);
    let damage_sql = "UPDATE noetl.event SET tenant_id = '' WHERE seq = 2";
    database.run_statement(damage_sql).unwrap();
    assert_eq!(read_feed(1000).await, (whole - 1, end));
    assert_eq!(read_feed(2).await, (1, position));
    let request = FeedFilter {
        tenant_id: TenantId::default(),
        event_type: None,
        execution_id: None,
        path: None,
    };
    let start = Some((None, FeedPosition::default()));
    let mut follower =
        server.services.queries.follow_feed(CallContext::server(), request, start).await.unwrap();
    let followed = follower.next(Duration::ZERO).await.unwrap();
    assert_eq!(followed.len(), whole - 1);
}
