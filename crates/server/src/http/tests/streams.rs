//! Events as they happen.

use axum::body::Body;
use axum::http::Method;
use noetl_types::ErrorCode;
use serde_json::Value;

use super::{House, Reply, house, request};

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
