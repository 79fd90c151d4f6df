//! Events as they happen.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::Method;
use futures_util::StreamExt as _;
use noetl_api::tokens::NewToken;
use noetl_store::postgres::PostgresOptions;
use noetl_store::{EnabledOutlets, LogPart, MemoryStore, PostgresStore, Store};
use noetl_testkit::postgres::Database;
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionId, FeedPosition, Month, Scope, TenantId, Timestamp};
use serde_json::Value;
use tokio::time::Instant;

use super::keychain::Ahead;
use super::tokens::{token_of, with_token};
use super::{House, Reply, closed_settings, house, house_of, house_with, request};
use crate::clock::{Clock as _, SystemClock};
use crate::read::FeedWish;
use crate::runtime::{Runtime, Settings};

async fn followed(house: &House, path: &str, headers: &[(&'static str, &str)]) -> Reply {
    let mut request = request(Method::GET, path, Body::empty());
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    house.send(request).await
}

/// The ids of the frames of a stream, each checked to be the place of its event.
fn ids(text: &str) -> Vec<i64> {
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
async fn a_run_is_followed_to_its_end() {
    let house = house().await;
    let id = house.started().await;
    let path = format!("/api/executions/{id}/events/stream");
    let (followed, ()) = tokio::join!(followed(&house, &path, &[]), house.work());
    assert_eq!(
        followed.headers["content-type"],
        "text/event-stream; charset=utf-8"
    );
    assert!(
        followed.text.starts_with("retry: 2000\n\n"),
        "{}",
        followed.text
    );
    assert!(
        followed.text.ends_with("event: end\ndata: {}\n\n"),
        "{}",
        followed.text
    );
    let log = house
        .get(&format!("/api/executions/{id}/events?limit=500"))
        .await;
    let events = log.at("/events").as_array().unwrap().len();
    let all: Vec<i64> = (1..=i64::try_from(events).unwrap()).collect();
    assert_eq!(ids(&followed.text), all);
}

#[tokio::test]
async fn who_comes_back_is_told_the_rest() {
    let house = house().await;
    let id = house.finished().await;
    let path = format!("/api/executions/{id}/events/stream");
    let all = ids(&followed(&house, &path, &[]).await.text);
    for seen in 0..=all.len() {
        let told = followed(&house, &path, &[("last-event-id", &seen.to_string())]).await;
        assert_eq!(ids(&told.text), all[seen..], "after {seen}");
        let told = house.get(&format!("{path}?last_event_id={seen}")).await;
        assert_eq!(ids(&told.text), all[seen..], "after {seen}");
    }
    for wrong in ["x", "-1", "1.5"] {
        let told = followed(&house, &path, &[("last-event-id", wrong)]).await;
        told.is_problem(ErrorCode::BadQuery);
    }
    let nothing = house.get("/api/executions/7/events/stream").await;
    nothing.is_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn scripts_get_lines() {
    let house = house().await;
    let id = house.finished().await;
    let path = format!("/api/executions/{id}/events/stream");
    let told = followed(&house, &path, &[("accept", "application/jsonl")]).await;
    let seqs = told.text.lines().map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["seq"].as_i64().unwrap()
    });
    let count = told.text.lines().count();
    assert!(seqs.eq(1..=i64::try_from(count).unwrap()));
}

/// Reads a live answer until it has told so many events.
async fn frames(
    house: &House,
    path: &str,
    last: Option<&str>,
    wanted: usize,
) -> Vec<(String, Value)> {
    let mut request = request(Method::GET, path, Body::empty());
    if let Some(last) = last {
        let headers = request.headers_mut();
        headers.insert("last-event-id", last.parse().unwrap());
    }
    let response = house.front.answer(&super::peer().into(), request).await;
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
        if found.len() >= wanted {
            return found;
        }
        let bytes = body.next().await.unwrap().unwrap();
        text.push_str(str::from_utf8(&bytes).unwrap());
    }
}

#[tokio::test]
async fn all_runs_are_followed_and_resumed_behind_any_event() {
    let house = house().await;
    let start = "0.0";
    let (first, second) = (house.finished().await, house.finished().await);
    let length = |id: &str| {
        let path = format!("/api/executions/{id}/events?limit=500");
        async {
            house
                .get(&{ path })
                .await
                .at("/events")
                .as_array()
                .unwrap()
                .len()
        }
    };
    let total = length(&first).await + length(&second).await;
    let all = frames(&house, "/api/events/stream", Some(start), total).await;
    assert_eq!(all.len(), total);
    for at in [1, total / 2, total - 1] {
        let rest = frames(
            &house,
            "/api/events/stream",
            Some(&all[at - 1].0),
            total - at,
        )
        .await;
        assert_eq!(rest, all[at..]);
    }
    let path = format!("/api/events/stream?execution_id={second}&type=playbook.completed");
    let one = frames(&house, &path, Some(start), 1).await;
    assert_eq!(one[0].1["execution_id"], second);
    let path = "/api/events/stream?path=demo/two&type=playbook.started";
    assert_eq!(frames(&house, path, Some(start), 2).await.len(), 2);
}

/// Places of another life of the log mean nothing in the present one.
#[tokio::test]
async fn who_comes_back_into_another_life_of_the_log_is_told_of_a_gap() {
    let house = house().await;
    house.finished().await;
    let path = "/api/events/stream";
    let before = frames(&house, path, Some("0.0"), 3).await;
    assert!(before[0].0.starts_with("1:"), "{}", before[0].0);
    let (_, bare) = before[1].0.split_once(':').unwrap();
    // An id that names no life is one of the present life.
    assert_eq!(frames(&house, path, Some(bare), 1).await[0], before[2]);
    house.runtime.store().begin_log_epoch().await.unwrap();
    let told = frames(&house, path, Some(&before[1].0), 3).await;
    let first = before[0].0.replacen("1:", "2:", 1);
    let gap = serde_json::json!({ "event": "gap", "first_available": first });
    assert_eq!(told[0].1, gap);
    // All there is comes again, and who comes back then is told of no gap.
    assert_eq!((&told[1].0, &told[1].1), (&first, &before[0].1));
    let again = frames(&house, path, Some(&told[0].0), 2).await;
    assert_eq!(again[..], told[1..]);
    for wrong in ["x:0.0", "1:0", "1:2:0.0", ":0.0"] {
        let wrong = followed(&house, path, &[("last-event-id", wrong)]).await;
        wrong.is_problem(ErrorCode::BadQuery);
    }
}

#[tokio::test]
async fn who_comes_back_behind_what_was_dropped_is_told_of_a_gap() {
    let house = house().await;
    let id: ExecutionId = house.finished().await.parse().unwrap();
    let path = "/api/events/stream";
    let all = frames(&house, path, Some("0.0"), 3).await;
    let month = LogPart::of(Month::of(id.time()));
    let now = Timestamp::parse("2090-01-01T00:00:00Z").unwrap();
    let store = house.runtime.store();
    let none = EnabledOutlets::default();
    let kept = store.drop_part(&month, &none, now).await.unwrap();
    assert_eq!(kept, None);
    let told = frames(&house, path, Some(&all[0].0), 1).await;
    let gap = serde_json::json!({ "event": "gap", "first_available": null });
    assert_eq!((&told[0].0, &told[0].1), (&all[0].0, &gap));
}

#[tokio::test]
async fn without_a_place_only_what_comes_is_told() {
    let house = house().await;
    house.finished().await;
    let (told, ()) = tokio::join!(
        frames(&house, "/api/events/stream?type=playbook.started", None, 1),
        async {
            house.started().await;
        }
    );
    assert_eq!(told.len(), 1);
    let wrong = house.get("/api/events/stream?last_event_id=x").await;
    wrong.is_problem(ErrorCode::BadQuery);
}

/// Follows everything with a token, so far that the answer has begun.
async fn listening(house: &House, token: &str) -> BodyDataStream {
    let request = request(Method::GET, "/api/events/stream", Body::empty());
    let request = with_token(request, token);
    let response = house.front.answer(&super::peer().into(), request).await;
    assert_eq!(response.status(), 200);
    let mut body = response.into_body().into_data_stream();
    let begin = body.next().await.unwrap().unwrap();
    assert_eq!(begin, "retry: 2000\n\n");
    body
}

/// What else a live answer tells to its end.
async fn rest(mut body: BodyDataStream) -> String {
    let mut text = String::new();
    while let Some(bytes) = body.next().await {
        text.push_str(str::from_utf8(&bytes.unwrap()).unwrap());
    }
    text
}

/// Time stands still but for who waits, so it tells how long the answer waited and nothing else.
#[tokio::test(start_paused = true)]
async fn a_live_answer_ends_within_five_seconds_of_its_token() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let here = house_with(Arc::clone(&store), &closed_settings()).await;
    let there = house_with(store, &closed_settings()).await;
    let token = token_of(&here.runtime, "default", &[Scope::ExecRead]).await;
    let tokens = here.runtime.tokens(PageLimit::MAX, None).await.unwrap();
    let mut body = listening(&here, &token).await;
    // Nothing happens, and whoever is known hears that the connection lives.
    let alive = body.next().await.unwrap().unwrap();
    assert_eq!(alive, ": still here\n\n");
    there
        .runtime
        .revoke_token(tokens.tokens[0].id)
        .await
        .unwrap();
    let revoked = Instant::now();
    assert_eq!(rest(body).await, "");
    assert!(revoked.elapsed() <= Duration::from_secs(5));
    let again = request(Method::GET, "/api/events/stream", Body::empty());
    let again = here.send(with_token(again, &token)).await;
    again.is_problem(ErrorCode::Unauthenticated);
}

#[tokio::test(start_paused = true)]
async fn a_live_answer_ends_when_its_token_expires() {
    let clock = Arc::<Ahead>::default();
    let store = Arc::new(MemoryStore::new());
    let runtime = Runtime::open(store, clock.clone(), Settings::default()).await;
    let house = house_of(runtime.unwrap(), &closed_settings());
    let wanted = NewToken {
        name: "for a day".into(),
        scopes: vec![Scope::ExecRead],
        ttl_days: Some(1),
        ..NewToken::default()
    };
    let made = house.runtime.create_token(wanted, &"test".into()).await;
    let body = listening(&house, &made.unwrap().token).await;
    clock.0.store(2 * 24 * 3600, Ordering::SeqCst);
    assert_eq!(rest(body).await, "");
}

/// A row that nobody can read any more stops nobody who wants what comes behind it.
#[tokio::test]
async fn a_damaged_event_is_passed_by() {
    let database = Database::new().unwrap();
    let options = PostgresOptions::new(database.config(), SystemClock.now());
    let store = PostgresStore::open(&options).await.unwrap();
    let house = super::house_on(Arc::new(store)).await;
    house.started().await;
    let told = async |limit: u32| {
        let path = format!("/api/stream/feed?after=0.0&limit={limit}");
        let feed = house.get(&path).await;
        assert_eq!(feed.status, 200, "{}", feed.text);
        let events = feed.at("/events").as_array().unwrap().len();
        (events, feed.at("/next"))
    };
    let ((whole, end), (two, place)) = (told(1000).await, told(2).await);
    assert_eq!(two, 2);
    let damage = "UPDATE noetl.event SET tenant_id = '' WHERE seq = 2";
    database.run(damage).unwrap();
    assert_eq!(told(1000).await, (whole - 1, end));
    assert_eq!(told(2).await, (1, place));
    let wish = FeedWish {
        tenant_id: TenantId::default(),
        event_type: None,
        execution_id: None,
        path: None,
    };
    let beginning = Some((None, FeedPosition::default()));
    let mut follower = house.runtime.follow_all(wish, beginning).await.unwrap();
    let followed = follower.next(Duration::ZERO).await.unwrap();
    assert_eq!(followed.len(), whole - 1);
}
