//! Metrics scrapes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::http::Method;
use noetl_store::SqliteStore;
use noetl_store_testing::{Fault, FaultyStore, StoreMethod as Call};
use noetl_types::{ErrorCode, Scope};
use serde_json::json;

use super::backends::{StoreFixture, on_every_store};
use super::store_faults::breakable_store;
use super::tokens::create_token;
use super::{
    TWO_STEPS, TestServer, is_ok, secured_settings, start_secured_server, start_server,
    start_server_on,
};
use crate::access::CallContext;
use crate::crypto::{EncryptionKey, KeyRing};
use crate::http::settings::HttpSettings;

/// Value of a metric, selected by the start of its line.
async fn metric_value(server: &TestServer, prefix: &str) -> Option<String> {
    let scrape = server.get("/metrics").await;
    assert!(is_ok(&scrape), "{}", scrape.text);
    let mut lines = scrape.text.lines();
    let line = lines.find_map(|line| line.strip_prefix(prefix)?.strip_prefix(' '));
    line.map(str::to_owned)
}

async fn execution_count(server: &TestServer, status: &str) -> Option<String> {
    metric_value(server, &format!("noetl_executions{{status=\"{status}\"}}")).await
}

#[tokio::test]
async fn execution_count_returns_to_zero() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    assert_eq!(execution_count(&server, "RUNNING").await.as_deref(), Some("1"));
    assert_eq!(execution_count(&server, "CANCELLED").await.as_deref(), Some("0"));
    let cancel = format!("/api/executions/{execution_id}/cancel");
    assert!(is_ok(&server.post(&cancel, json!({})).await));
    assert_eq!(execution_count(&server, "RUNNING").await.as_deref(), Some("0"));
    assert_eq!(execution_count(&server, "CANCELLED").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn counts_runs_of_all_tenants() {
    on_every_store(check_count_of_all_tenants).await;
}

async fn check_count_of_all_tenants(fixture: &StoreFixture) {
    let server = fixture.start_server(HttpSettings::default(), |_| ()).await;
    server.start_two_steps().await;
    let scopes = [Scope::ExecRun, Scope::CatalogWrite];
    let other = create_token(&server.services, "acme", &scopes).await;
    for (path, body) in [
        ("/api/catalog/register", json!({ "content": TWO_STEPS })),
        ("/api/execute", json!({ "path": "demo/two" })),
    ] {
        let reply = server.call_with_token(&other, Method::POST, path, body).await;
        assert!(is_ok(&reply), "{}", reply.text);
    }
    assert_eq!(execution_count(&server, "RUNNING").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn scrape_works_without_store() {
    let (store, is_broken) = breakable_store();
    let server = start_server_on(store).await;
    server.start_two_steps().await;
    let started = "noetl_execute_outcomes_total{entry=\"single\",outcome=\"started\"}";
    let pending = "noetl_commands{pool=\"shared\",status=\"PENDING\"}";
    assert_eq!(metric_value(&server, pending).await.as_deref(), Some("1"));
    is_broken.store(true, Ordering::SeqCst);
    assert_eq!(metric_value(&server, started).await.as_deref(), Some("1"));
    // Outdated values are omitted.
    assert_eq!(execution_count(&server, "RUNNING").await, None);
    assert_eq!(metric_value(&server, pending).await, None);
    is_broken.store(false, Ordering::SeqCst);
    assert_eq!(execution_count(&server, "RUNNING").await.as_deref(), Some("1"));
}

/// Single-line metrics that are read from the store.
const STORE_METRICS: [&str; 6] = [
    "noetl_event_stream_cursor",
    "noetl_event_stream_epoch",
    "noetl_event_stream_lag_events",
    "noetl_event_stream_lag_seconds",
    "noetl_commit_horizon_age_seconds",
    "noetl_outbox_oldest_age_seconds",
];

#[tokio::test]
async fn unknown_values_are_omitted() {
    let (store, is_broken) = breakable_store();
    let server = start_server_on(store).await;
    for broken in [false, true, false] {
        is_broken.store(broken, Ordering::SeqCst);
        for name in STORE_METRICS {
            let value = metric_value(&server, name).await;
            assert_eq!(value.is_none(), broken, "{name}: {value:?}");
        }
        // Metrics of the process itself are still reported.
        for name in ["noetl_event_stream_published_total", "noetl_event_stream_is_publisher"] {
            assert_eq!(metric_value(&server, name).await.as_deref(), Some("0"), "{name}");
        }
    }
}

/// Counting the runs of a large database may take long.
#[tokio::test(start_paused = true)]
async fn slow_metric_does_not_drop_others() {
    let slow = [
        Call::CountExecutionsByStatus,
        Call::PoolCounts,
        Call::OutboxStats,
        Call::FindStreamCursor,
    ];
    for slow in slow {
        let plan = Box::new(move |call| if call == slow { Fault::Hang } else { Fault::None });
        let store = FaultyStore::new(SqliteStore::in_memory().unwrap(), plan);
        let server = start_server_on(Arc::new(store)).await;
        server.start_two_steps().await;
        let scrape = server.get("/metrics").await.text;
        for (call, line) in [
            (Call::CountExecutionsByStatus, "noetl_executions{status=\"RUNNING\"} 1"),
            (Call::PoolCounts, "noetl_commands{pool=\"shared\",status=\"PENDING\"} 1"),
            (Call::OutboxStats, "noetl_outbox_oldest_age_seconds 0"),
            (Call::FindStreamCursor, "noetl_event_stream_lag_events 0"),
        ] {
            let is_present = scrape.lines().any(|scrape| scrape == line);
            assert_eq!(is_present, call != slow, "{slow:?} {line}\n{scrape}");
        }
    }
}

#[tokio::test]
async fn rate_limited_request_is_no_auth_failure() {
    let settings = HttpSettings { rate_per_token: 1, ..secured_settings() };
    let server =
        super::start_server_with(Arc::new(SqliteStore::in_memory().unwrap()), &settings).await;
    let token = create_token(&server.services, "default", &[Scope::ExecRead]).await;
    let call =
        async |path: &str| server.call_with_token(&token, Method::GET, path, json!({})).await;
    call("/api/tokens").await.assert_problem(ErrorCode::Forbidden);
    loop {
        let reply = call("/api/whoami").await;
        if !is_ok(&reply) {
            reply.assert_problem(ErrorCode::RateLimited);
            break;
        }
    }
    let scrape = server.services.system_status.render_metrics(CallContext::server()).await.unwrap();
    assert!(scrape.contains("noetl_auth_failures_total 1\n"), "{scrape}");
}

#[tokio::test]
async fn secret_operations_are_counted() {
    let key = EncryptionKey::from_base64(&EncryptionKey::generate_base64().unwrap()).unwrap();
    let ring = Arc::new(KeyRing::new(key, Vec::new()));
    let server = StoreFixture::in_memory()
        .start_server(HttpSettings::default(), |settings| {
            settings.keys = Some(ring);
        })
        .await;
    let put = json!({ "name": "api", "type": "bearer", "data": { "token": "sesame-42" } });
    assert!(is_ok(&server.post("/api/credentials", put).await));
    server.get("/api/credentials/api?include_data=true").await;
    server.get("/api/credentials/none").await;
    server.post("/api/credentials/rotate", json!({})).await;
    for (operation, outcome) in [("set", "ok"), ("read", "ok"), ("inspect", "refused")] {
        let prefix = format!(
            "noetl_secret_operations_total{{operation=\"{operation}\",outcome=\"{outcome}\"}}"
        );
        assert_eq!(metric_value(&server, &prefix).await.as_deref(), Some("1"), "{prefix}");
    }
    let rotations = "noetl_wallet_rotate_total{outcome=\"failed\"}";
    assert_eq!(metric_value(&server, rotations).await.as_deref(), Some("0"));
    let scrape = server.get("/metrics").await;
    assert!(!scrape.text.contains("sesame"), "{}", scrape.text);
}

#[tokio::test]
async fn metrics_are_forbidden_for_other_tenants() {
    let server = start_secured_server().await;
    let other = create_token(&server.services, "acme", &[Scope::MetricsRead]).await;
    let refused = server.call_with_token(&other, Method::GET, "/metrics", json!({})).await;
    refused.assert_problem(ErrorCode::Forbidden);
}
