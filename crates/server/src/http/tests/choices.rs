//! What an operator chooses, as callers notice it.

use axum::http::Method;
use noetl_types::limits::MaxAttempts;
use noetl_types::{ByteSize, ErrorCode};
use serde_json::json;

use super::backends::Shelter;
use super::{House, TWO_STEPS, request};
use crate::http::settings::HttpSettings;
use crate::runtime::Settings;

async fn chosen(change: impl FnOnce(&mut Settings)) -> House {
    let shelter = Shelter::memory();
    shelter.house(HttpSettings::default(), change).await
}

#[tokio::test]
async fn attempts_of_commands() {
    let house = chosen(|settings| settings.defaults.max_attempts = MaxAttempts::clamped(7)).await;
    house.started().await;
    let commands = house.get("/api/commands").await;
    assert_eq!(commands.at("/commands/0/max_attempts"), 7);
}

#[tokio::test]
async fn data_that_stays_in_the_log() {
    let inline = async |house: House| {
        let execution_id = house.started().await;
        let command = house.leased().await;
        let reported = house.finish(&command, json!("x".repeat(2000))).await;
        assert_eq!(reported.text_at("/results/0/status"), "accepted");
        let events = format!("/api/executions/{execution_id}/events?type=call.done");
        let events = house.get(&events).await;
        assert_eq!(events.at("/events").as_array().unwrap().len(), 1);
        events.text.contains(&"x".repeat(2000))
    };
    assert!(inline(chosen(|_| {}).await).await);
    let little = |settings: &mut Settings| settings.defaults.inline_max = ByteSize::from_kib(1);
    assert!(!inline(chosen(little).await).await);
}

#[tokio::test]
async fn results_that_are_kept() {
    let house = chosen(|settings| settings.result_max = ByteSize::from_kib(64)).await;
    let execution_id = house.started().await;
    let path = format!("/api/result/{execution_id}");
    let put = async |length: usize| {
        let body = json!({ "name": "r", "data": "x".repeat(length) });
        house.put(&path, body).await
    };
    // The quotes of a text count too.
    assert_eq!(put(64 * 1024 - 2).await.status, 200);
    put(64 * 1024 - 1).await.is_problem(ErrorCode::TooLarge);
}

/// A larger body than that of documents is one of documents too.
#[tokio::test]
async fn bodies_that_are_taken() {
    let settings = HttpSettings {
        max_body: ByteSize::from_mib(10),
        ..HttpSettings::default()
    };
    let house = Shelter::memory().house(settings, |_| {}).await;
    let long = "x".repeat(9 * 1024 * 1024);
    let wish = json!({ "path": "demo/two", "payload": { "long": long } });
    let started = house.post("/api/execute", wish).await;
    started.is_problem(ErrorCode::NotFound);
    let content = format!("{TWO_STEPS}# {long}\n");
    let body = json!({ "content": content }).to_string();
    let register = request(Method::POST, "/api/catalog/register", body);
    let registered = house.send(register).await;
    assert_ne!(
        registered.json()["code"],
        "too_large",
        "{}",
        registered.status
    );
}

#[tokio::test]
async fn metrics_that_are_not_told() {
    let house = chosen(|settings| settings.metrics = false).await;
    house.get("/metrics").await.is_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn a_store_that_may_lose_something_shows() {
    let settings = HttpSettings {
        unsafe_durability: true,
        ..HttpSettings::default()
    };
    let house = Shelter::memory().house(settings, |_| {}).await;
    let ready = house.get("/readyz").await;
    assert_eq!(ready.at("/unsafe"), json!(["NOETL_UNSAFE_DURABILITY"]));
}
