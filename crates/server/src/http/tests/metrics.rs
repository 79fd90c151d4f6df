//! What a scrape tells.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::http::Method;
use noetl_store::MemoryStore;
use noetl_store::faulty::{Fault, FaultyStore, Method as Call};
use noetl_types::{ErrorCode, Scope};
use serde_json::json;

use super::backends::{Shelter, on_every_store};
use super::faults::breakable;
use super::tokens::token_of;
use super::{House, TWO_STEPS, closed_house, closed_settings, house, house_on, is_ok};
use crate::http::settings::HttpSettings;
use crate::vault::{Key, KeyRing};

/// The line of a scrape that begins so.
async fn counted(house: &House, begin: &str) -> Option<String> {
    let told = house.get("/metrics").await;
    assert!(is_ok(&told), "{}", told.text);
    let mut lines = told.text.lines();
    let line = lines.find_map(|line| line.strip_prefix(begin)?.strip_prefix(' '));
    line.map(str::to_owned)
}

async fn executions(house: &House, status: &str) -> Option<String> {
    counted(house, &format!("noetl_executions{{status=\"{status}\"}}")).await
}

#[tokio::test]
async fn a_number_of_runs_goes_back_to_nothing() {
    let house = house().await;
    let execution_id = house.started().await;
    assert_eq!(executions(&house, "RUNNING").await.as_deref(), Some("1"));
    assert_eq!(executions(&house, "CANCELLED").await.as_deref(), Some("0"));
    let cancel = format!("/api/executions/{execution_id}/cancel");
    assert!(is_ok(&house.post(&cancel, json!({})).await));
    assert_eq!(executions(&house, "RUNNING").await.as_deref(), Some("0"));
    assert_eq!(executions(&house, "CANCELLED").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn runs_of_all_tenants_are_counted() {
    on_every_store(counted_for_all).await;
}

async fn counted_for_all(shelter: &Shelter) {
    let house = shelter.house(HttpSettings::default(), |_| ()).await;
    house.started().await;
    let scopes = [Scope::ExecRun, Scope::CatalogWrite];
    let other = token_of(&house.runtime, "acme", &scopes).await;
    for (path, body) in [
        ("/api/catalog/register", json!({ "content": TWO_STEPS })),
        ("/api/execute", json!({ "path": "demo/two" })),
    ] {
        let done = house.call(&other, Method::POST, path, body).await;
        assert!(is_ok(&done), "{}", done.text);
    }
    assert_eq!(executions(&house, "RUNNING").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn a_scrape_is_answered_while_the_store_is_not_there() {
    let (store, is_broken) = breakable();
    let house = house_on(store).await;
    house.started().await;
    let started = "noetl_execute_outcomes_total{entry=\"single\",outcome=\"started\"}";
    let pending = "noetl_commands{pool=\"shared\",status=\"PENDING\"}";
    assert_eq!(counted(&house, pending).await.as_deref(), Some("1"));
    is_broken.store(true, Ordering::SeqCst);
    assert_eq!(counted(&house, started).await.as_deref(), Some("1"));
    // What was true before is not told as if it were so now.
    assert_eq!(executions(&house, "RUNNING").await, None);
    assert_eq!(counted(&house, pending).await, None);
    is_broken.store(false, Ordering::SeqCst);
    assert_eq!(executions(&house, "RUNNING").await.as_deref(), Some("1"));
}

/// Numbers of the store that have a line of their own.
const OF_STORE: [&str; 6] = [
    "noetl_event_stream_cursor",
    "noetl_event_stream_epoch",
    "noetl_event_stream_lag_events",
    "noetl_event_stream_lag_seconds",
    "noetl_commit_horizon_age_seconds",
    "noetl_outbox_oldest_age_seconds",
];

#[tokio::test]
async fn a_number_that_nobody_knows_is_not_told() {
    let (store, is_broken) = breakable();
    let house = house_on(store).await;
    for broken in [false, true, false] {
        is_broken.store(broken, Ordering::SeqCst);
        for name in OF_STORE {
            let told = counted(&house, name).await;
            assert_eq!(told.is_none(), broken, "{name}: {told:?}");
        }
        // What the process does itself it knows.
        for own in [
            "noetl_event_stream_published_total",
            "noetl_event_stream_is_publisher",
        ] {
            assert_eq!(counted(&house, own).await.as_deref(), Some("0"), "{own}");
        }
    }
}

/// A database with many runs may take its time to count them.
#[tokio::test(start_paused = true)]
async fn one_number_that_is_late_takes_no_other_along() {
    let slow = [
        Call::ExecutionsByStatus,
        Call::PoolCounts,
        Call::OutboxFacts,
        Call::StreamCursor,
    ];
    for slow in slow {
        let plan = Box::new(move |call| {
            if call == slow {
                Fault::Never
            } else {
                Fault::None
            }
        });
        let store = FaultyStore::new(MemoryStore::new(), plan);
        let house = house_on(Arc::new(store)).await;
        house.started().await;
        let told = house.get("/metrics").await.text;
        for (call, line) in [
            (
                Call::ExecutionsByStatus,
                "noetl_executions{status=\"RUNNING\"} 1",
            ),
            (
                Call::PoolCounts,
                "noetl_commands{pool=\"shared\",status=\"PENDING\"} 1",
            ),
            (Call::OutboxFacts, "noetl_outbox_oldest_age_seconds 0"),
            (Call::StreamCursor, "noetl_event_stream_lag_events 0"),
        ] {
            let is_told = told.lines().any(|told| told == line);
            assert_eq!(is_told, call != slow, "{slow:?} {line}\n{told}");
        }
    }
}

#[tokio::test]
async fn who_comes_at_a_bad_time_is_no_intruder() {
    let settings = HttpSettings {
        rate_per_token: 1,
        ..closed_settings()
    };
    let house = super::house_with(Arc::new(MemoryStore::new()), &settings).await;
    let token = token_of(&house.runtime, "default", &[Scope::ExecRead]).await;
    let call = async |path: &str| house.call(&token, Method::GET, path, json!({})).await;
    call("/api/tokens").await.is_problem(ErrorCode::Forbidden);
    loop {
        let reply = call("/api/whoami").await;
        if !is_ok(&reply) {
            reply.is_problem(ErrorCode::RateLimited);
            break;
        }
    }
    let told = house.runtime.metrics_text().await.unwrap();
    assert!(told.contains("noetl_auth_failures_total 1\n"), "{told}");
}

#[tokio::test]
async fn what_is_done_to_secrets_is_counted() {
    let key = Key::read(&Key::text_of_new().unwrap()).unwrap();
    let ring = Arc::new(KeyRing::new(key, Vec::new()));
    let house = Shelter::memory()
        .house(HttpSettings::default(), |settings| {
            settings.keys = Some(ring);
        })
        .await;
    let put = json!({ "name": "api", "type": "bearer", "data": { "token": "sesame-42" } });
    assert!(is_ok(&house.post("/api/credentials", put).await));
    house.get("/api/credentials/api?include_data=true").await;
    house.get("/api/credentials/none").await;
    house.post("/api/credentials/rotate", json!({})).await;
    for (operation, outcome) in [("set", "ok"), ("read", "ok"), ("look", "refused")] {
        let begin =
            format!("noetl_secret_acts_total{{operation=\"{operation}\",outcome=\"{outcome}\"}}");
        assert_eq!(
            counted(&house, &begin).await.as_deref(),
            Some("1"),
            "{begin}"
        );
    }
    let kept = "noetl_wallet_rotate_total{outcome=\"failed\"}";
    assert_eq!(counted(&house, kept).await.as_deref(), Some("0"));
    let told = house.get("/metrics").await;
    assert!(!told.text.contains("sesame"), "{}", told.text);
}

#[tokio::test]
async fn nobody_else_sees_what_a_server_counts() {
    let house = closed_house().await;
    let other = token_of(&house.runtime, "acme", &[Scope::MetricsRead]).await;
    let refused = house.call(&other, Method::GET, "/metrics", json!({})).await;
    refused.is_problem(ErrorCode::Forbidden);
}
