//! The internal API: authentication, the outbox, and projected events.

use std::sync::Arc;

use axum::http::Method;
use axum::http::header::{AUTHORIZATION, HeaderValue};
use noetl_store::{StreamLeaseRequest, StreamStart};
use noetl_types::{ErrorCode, ExecutionId, ExecutionStatus, Scope};
use serde_json::{Value, json};

use super::backends::{StoreFixture, on_every_store};
use super::tokens::{create_token, declared_routes, path_with_sample_ids};
use super::{TestResponse, TestServer, build_request, start_server};
use crate::access::CallContext;
use crate::http::middleware::access::RouteAccess;
use crate::http::settings::HttpSettings;

const TOKEN: &str = "the token of the platform";

const INTERNAL_ROUTES: &[(&str, &str)] = &[
    ("GET", "/api/internal/outbox"),
    ("POST", "/api/internal/outbox/claim"),
    ("POST", "/api/internal/outbox/mark-published"),
    ("POST", "/api/internal/outbox/mark-failed"),
    ("GET", "/api/internal/outbox/pending-count"),
    ("GET", "/api/internal/outbox/dead"),
    ("GET", "/api/internal/quarantine"),
    ("POST", "/api/internal/outbox/replay"),
    ("POST", "/api/internal/outbox/discard"),
    ("POST", "/api/internal/events/project"),
    ("POST", "/api/internal/events/materialize"),
    ("POST", "/api/internal/projection/advance"),
    ("POST", "/api/internal/cleanup/purge"),
    ("GET", "/api/internal/stream/status"),
    ("POST", "/api/internal/stream/rebuild"),
    ("GET", "/api/internal/cells"),
    ("POST", "/api/internal/wallet/rotate-kek"),
    ("GET", "/api/internal/wallet/key-status"),
    ("GET", "/api/internal/secret-audit"),
];

impl TestServer {
    /// Sends a request with the internal token.
    pub(super) async fn internal_request(
        &self,
        method: Method,
        path: &str,
        body: &str,
    ) -> TestResponse {
        let mut request = build_request(method, &format!("/api/internal/{path}"), body.to_owned());
        let token = HeaderValue::from_str(&format!("Bearer {TOKEN}")).unwrap();
        request.headers_mut().insert(AUTHORIZATION, token);
        self.send(request).await
    }

    pub(super) async fn internal_post(&self, path: &str, body: Value) -> Value {
        let reply = self.internal_request(Method::POST, path, &body.to_string()).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        reply.json()
    }

    pub(super) async fn internal_post_response(&self, path: &str, body: Value) -> TestResponse {
        self.internal_request(Method::POST, path, &body.to_string()).await
    }

    async fn pending_count(&self) -> Value {
        let reply = self.internal_request(Method::GET, "outbox/pending-count", "").await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()
    }
}

pub(super) fn internal_settings() -> HttpSettings {
    HttpSettings {
        internal_token: Some(super::super::InternalToken::new(TOKEN)),
        ..HttpSettings::default()
    }
}

async fn start_internal_server(fixture: &StoreFixture) -> TestServer {
    fixture
        .start_server(internal_settings(), |settings| {
            settings.outbox = crate::settings::OutboxSetting::Enabled;
        })
        .await
}

#[tokio::test]
async fn internal_api_requires_its_token() {
    let closed = start_server().await;
    for (method, path) in INTERNAL_ROUTES {
        let mut request = build_request(method.parse().unwrap(), path, "{}");
        request.headers_mut().insert(AUTHORIZATION, HeaderValue::from_static("Bearer x"));
        closed.send(request).await.assert_problem(ErrorCode::NotReady);
    }
    let fixture = StoreFixture::in_memory();
    let open = start_internal_server(&fixture).await;
    for (method, path) in INTERNAL_ROUTES {
        let method: Method = method.parse().unwrap();
        open.send(build_request(method.clone(), path, "{}"))
            .await
            .assert_problem(ErrorCode::Forbidden);
        let mut wrong = build_request(method, path, "{}");
        wrong.headers_mut().insert(AUTHORIZATION, HeaderValue::from_static("Bearer the token"));
        open.send(wrong).await.assert_problem(ErrorCode::Forbidden);
    }
    // An autoscaler authenticates with basic auth, from another machine.
    let mut basic = build_request(Method::GET, "/api/internal/outbox/pending-count", "");
    let pair =
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, format!("keda:{TOKEN}"));
    let value = HeaderValue::from_str(&format!("Basic {pair}")).unwrap();
    basic.headers_mut().insert(AUTHORIZATION, value);
    let stranger = std::net::SocketAddr::from(([10, 0, 0, 7], 4000));
    let reply = open.send_from(stranger, basic).await;
    assert_eq!(reply.json(), json!({ "pending": 0 }));
}

#[tokio::test]
async fn internal_api_rejects_other_admins() {
    let fixture = StoreFixture::in_memory();
    let server = start_internal_server(&fixture).await;
    let now = server.services.infra.now();
    let request = StreamLeaseRequest {
        name: "event_stream_tailer".into(),
        owner: "somebody".into(),
        now,
        lease_until: now,
        begin: StreamStart::Now,
    };
    fixture.store.lease_stream(request).await.unwrap();
    let operator = create_token(&server.services, "default", &[Scope::Admin]).await;
    let stranger = create_token(&server.services, "acme", &[Scope::Admin]).await;
    let mut open_to_operator = 0;
    for (method, route) in declared_routes() {
        let RouteAccess::Internal(_) = route.access else {
            continue;
        };
        let path = path_with_sample_ids(route.path);
        let call = |token| server.call_with_token(token, method.clone(), &path, json!({}));
        // The admins of other tenants have no internal scopes. Those of the operator can create
        // tokens with every scope, so they need none.
        call(&stranger).await.assert_problem(ErrorCode::Forbidden);
        let is_allowed = call(&operator).await.status != 403;
        assert!(is_allowed, "{method} {path}");
        open_to_operator += u32::from(is_allowed);
        // The internal token is accepted everywhere, and handlers do not depend on a tenant.
        let reply = call(TOKEN).await;
        assert!(!matches!(reply.status, 401 | 403), "{path}: {}", reply.text);
    }
    assert!(open_to_operator > 2, "{open_to_operator}");
    let rebuilt = server.internal_post("stream/rebuild", json!({})).await;
    assert_eq!(rebuilt["state"], "off", "{rebuilt}");
}

#[tokio::test]
async fn outbox_rows_wait_until_marked() {
    on_every_store(async |fixture| {
        let server = start_internal_server(fixture).await;
        let execution_id: i64 = server.run_two_steps().await.parse().unwrap();
        let log = server.get(&format!("/api/executions/{execution_id}/events?limit=500")).await;
        let events = log.json_at("/events").as_array().unwrap().len() as u64;
        assert!(events > 5, "{}", log.text);
        assert_eq!(server.pending_count().await, json!({ "pending": events }));
        let first = server.internal_post("outbox/claim", json!({ "limit": 2 })).await;
        assert_eq!(first["claimed"], 2);
        assert_eq!(server.pending_count().await["pending"], events - 2);
        let row = &first["rows"][0];
        assert_eq!(row["execution_id"], execution_id);
        assert_eq!(row["message_id"], format!("1:{execution_id}:1"));
        assert_eq!(row["subject"], "noetl.events.playbook.started");
        assert_eq!(row["payload_codec"], "json");
        assert_eq!(row["attempts"], 1);
        assert_eq!(row["payload"]["event_id"], row["event_id"]);
        assert_eq!(row["payload"]["seq"], 1);
        assert!(row["payload"].get("position").is_none(), "{row}");
        assert!(row["payload"].get("chain").is_none(), "{row}");
        // A limit is clamped, and an empty body means all defaults.
        let third = server.internal_post("outbox/claim", json!({ "limit": -3 })).await;
        assert_eq!(third["claimed"], 1, "{third}");
        let rest = server.internal_request(Method::POST, "outbox/claim", "").await;
        assert_eq!(rest.json_at("/claimed"), events - 3);
        let none = server.internal_post("outbox/claim", json!({ "limit": 1_000_000 })).await;
        assert_eq!(none, json!({ "rows": [], "claimed": 0 }));
        let mut rows = first["rows"].as_array().unwrap().clone();
        rows.extend(third["rows"].as_array().unwrap().clone());
        rows.extend(rest.json_at("/rows").as_array().unwrap().clone());
        let order: Vec<_> = rows.iter().map(|row| row["outbox_id"].as_i64()).collect();
        assert!(order.is_sorted(), "{order:?}");
        check_marking(&server, &rows).await;
    })
    .await;
}

/// Marks claimed rows as published, twice.
async fn check_marking(server: &TestServer, rows: &[Value]) {
    let ids: Vec<_> = rows.iter().map(|row| row["outbox_id"].clone()).collect();
    let stale = json!({ "outbox_ids": ids, "attempts": vec![7; ids.len()] });
    let marked = server.internal_post("outbox/mark-published", stale).await;
    assert_eq!(marked, json!({ "marked": 0 }));
    let current = json!({ "outbox_ids": ids, "attempts": vec![1; ids.len()] });
    let marked = server.internal_post("outbox/mark-published", current.clone()).await;
    assert_eq!(marked["marked"], ids.len());
    let again = server.internal_post("outbox/mark-published", current).await;
    assert_eq!(again["marked"], 0);
    let failed = json!({ "outbox_id": ids[0], "error": "late", "attempts": 1 });
    let failed = server.internal_post("outbox/mark-failed", failed).await;
    assert_eq!(failed, json!({ "marked": false, "available_at_in": 0 }));
    for wrong in [json!({ "outbox_ids": [] }), json!({ "outbox_ids": ids, "attempts": [1] })] {
        let refused = server.internal_post_response("outbox/mark-published", wrong).await;
        refused.assert_problem(ErrorCode::OutOfRange);
        assert_eq!(refused.status, 400);
    }
}

#[tokio::test]
async fn failing_row_backs_off_and_dies() {
    on_every_store(async |fixture| {
        let server = fixture
            .start_server(internal_settings(), |settings| {
                settings.outbox = crate::settings::OutboxSetting::Enabled;
                settings.outbox_max_attempts = 2;
            })
            .await;
        server.start_two_steps().await;
        for wrong in [0, -1, 3601] {
            let body = json!({ "outbox_id": 1, "error": "x", "max_delay_seconds": wrong });
            let refused = server.internal_post_response("outbox/mark-failed", body).await;
            refused.assert_problem(ErrorCode::OutOfRange);
        }
        let claimed = server.internal_post("outbox/claim", json!({ "limit": 1 })).await;
        let id = &claimed["rows"][0]["outbox_id"];
        // The delay follows from the request. 0 is not a fence.
        let body = json!({ "outbox_id": id, "error": "ü".repeat(3000), "attempts": 0 });
        let failed = server.internal_post("outbox/mark-failed", body.clone()).await;
        assert_eq!(failed, json!({ "marked": true, "available_at_in": 1 }));
        let again = server.internal_post("outbox/mark-failed", body).await;
        assert_eq!(again, json!({ "marked": false, "available_at_in": 0 }));
        let list = server.internal_request(Method::GET, "outbox?status=failed", "").await;
        let error = list.text_at("/rows/0/last_error");
        assert_eq!(error.chars().count(), 2000);
        let claimed = claim_until_present(&server, id).await;
        assert_eq!(claimed["attempts"], 2);
        let body = json!({ "outbox_id": id, "error": "again", "attempts": 2 });
        let dead = server.internal_post("outbox/mark-failed", body).await;
        assert_eq!(dead, json!({ "marked": true, "available_at_in": 0 }));
        let metrics =
            server.services.system_status.render_metrics(CallContext::server()).await.unwrap();
        assert!(metrics.contains("noetl_outbox_dead_total 1\n"), "{metrics}");
        check_dead_rows(&server, id).await;
    })
    .await;
}

/// Claims until the row is returned, which takes a second or two.
async fn claim_until_present(server: &TestServer, id: &Value) -> Value {
    for _ in 0..600 {
        let claimed = server.internal_post("outbox/claim", json!({ "limit": 1000 })).await;
        let rows = claimed["rows"].as_array().unwrap();
        if let Some(row) = rows.iter().find(|row| row["outbox_id"] == *id) {
            return row.clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the row was never claimed again");
}

async fn check_dead_rows(server: &TestServer, id: &Value) {
    let dead = server.internal_request(Method::GET, "outbox/dead", "").await;
    assert_eq!(dead.json_at("/rows/0/outbox_id"), *id);
    assert_eq!(dead.text_at("/rows/0/status"), "DEAD");
    assert_eq!(dead.text_at("/rows/0/last_error"), "again");
    let ids = json!({ "outbox_ids": [id] });
    let replayed = server.internal_post("outbox/replay", ids.clone()).await;
    assert_eq!(replayed["changed"], 1);
    assert_eq!(server.internal_post("outbox/discard", ids.clone()).await["changed"], 0);
    let row = claim_until_present(server, id).await;
    // The attempt number keeps growing, so earlier claims never match it.
    assert_eq!(row["attempts"], 3);
    for attempts in [3, 4] {
        let body = json!({ "outbox_id": id, "error": "no", "attempts": attempts });
        assert_eq!(server.internal_post("outbox/mark-failed", body).await["marked"], true);
        if attempts == 3 {
            claim_until_present(server, id).await;
        }
    }
    assert_eq!(server.internal_post("outbox/discard", ids.clone()).await["changed"], 1);
    assert_eq!(server.internal_post("outbox/replay", ids).await["changed"], 0);
    let refused = server.internal_post_response("outbox/replay", json!({ "outbox_ids": [] })).await;
    refused.assert_problem(ErrorCode::OutOfRange);
}

#[tokio::test]
async fn disabled_outbox_writes_no_rows() {
    let fixture = StoreFixture::in_memory();
    let server = fixture.start_server(internal_settings(), |_| {}).await;
    server.run_two_steps().await;
    assert_eq!(server.pending_count().await, json!({ "pending": 0 }));
}

/// The first id of a time.
pub(super) fn id_at_time(time: &str) -> i64 {
    let created = noetl_types::Timestamp::parse(time).unwrap();
    (created.as_unix_ms() - 1_704_067_200_000) << 22
}

/// Ids of the past.
fn old_ids(count: i64) -> Vec<i64> {
    let first = id_at_time("2025-03-01T00:00:00Z");
    (0..count).map(|n| first + n).collect()
}

#[tokio::test]
async fn projects_events_once_and_quarantines_invalid() {
    on_every_store(async |fixture| {
        let server = start_internal_server(fixture).await;
        let id = old_ids(10);
        let event = |event_id: i64, event_type: &str| {
            json!({ "event_id": event_id, "execution_id": id[0].to_string(), "event_type": event_type,
                "node_name": "load", "status": "OK", "timestamp": "2025-03-01 00:00:01.5", "odd": [1] })
        };
        let batch = json!({ "events": [
            event(id[1], "step.enter"),
            { "event_id": id[2], "event_type": "step.enter" },
            event(id[3], "playbook.completed"),
            { "execution_id": id[0], "event_type": "step.enter" },
            event(i64::MAX, "step.enter"),
            "no event",
            event(id[4], "step.enter"),
        ] });
        let answer = server.internal_post("events/project", batch.clone()).await;
        assert_eq!((&answer["projected"], &answer["duplicates"]), (&json!(3), &json!(0)));
        let codes: Vec<_> = answer["rejected"].as_array().unwrap().iter()
            .map(|rejection| (rejection["index"].as_u64().unwrap(), rejection["code"].as_str().unwrap()))
            .collect();
        assert_eq!(codes, [(1, "missing_execution_id"), (3, "bad_value"), (4, "id_in_future"), (5, "bad_value")]);
        assert_eq!(answer["rejected"][0]["event_id"], id[2]);
        let again = server.internal_post("events/project", batch).await;
        assert_eq!((&again["projected"], &again["duplicates"]), (&json!(0), &json!(3)));
        let other = json!({ "events": [event(id[1], "step.exit")] });
        let conflict = server.internal_post("events/project", other).await;
        assert_eq!(conflict["rejected"][0]["code"], "id_conflict");
        let foreign = json!({ "events": [
            { "event_id": id[5], "execution_id": id[0], "event_type": "x", "tenant_id": "acme" },
        ] });
        let foreign = server.internal_post("events/project", foreign).await;
        assert_eq!(foreign["rejected"][0]["code"], "tenant_mismatch");
        let run = server.get(&format!("/api/executions/{}", id[0])).await;
        assert_eq!(run.text_at("/status"), "COMPLETED", "{}", run.text);
        let log = server.get(&format!("/api/executions/{}/events", id[0])).await;
        assert_eq!(log.json_at("/events").as_array().unwrap().len(), 3);
        let empty = server.internal_post_response("events/project", json!({ "events": [] })).await;
        empty.assert_problem(ErrorCode::OutOfRange);
        check_rejected_list(&server).await;
        check_materialized_workers(&server, id[0]).await;
    })
    .await;
}

async fn check_rejected_list(server: &TestServer) {
    let page = async |query: &str| {
        let reply = server.internal_request(Method::GET, &format!("quarantine{query}"), "").await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let list = reply.json();
        let rows = list["rows"].as_array().unwrap();
        let codes: Vec<_> =
            rows.iter().map(|row| row["code"].as_str().unwrap().to_owned()).collect();
        (codes, list)
    };
    let (all, list) = page("").await;
    let expected = ["missing_execution_id", "bad_value", "id_in_future", "bad_value"];
    assert_eq!(all[..4], expected, "each is listed once, however often it was sent: {list}");
    assert_eq!(all[4..], ["id_conflict", "tenant_mismatch"]);
    assert_eq!(list.get("next_after"), None);
    assert_eq!(list["rows"][3]["raw"], "\"no event\"");
    assert_eq!(page("?source=projector").await.0, all);
    assert!(page("?source=stream").await.0.is_empty());
    let (first, list) = page("?limit=5").await;
    let after = list["next_after"].as_i64().unwrap();
    let (rest, _) = page(&format!("?limit=5&after={after}")).await;
    assert_eq!([first, rest].concat(), all);
    let invalid = server.internal_request(Method::GET, "quarantine?odd=1", "").await;
    invalid.assert_problem(ErrorCode::BadQuery);
}

/// An event that cannot be stored is quarantined alone, although it is valid JSON.
#[tokio::test]
async fn unstorable_event_fails_alone() {
    on_every_store(async |fixture| {
        let server = start_internal_server(fixture).await;
        let id = old_ids(10);
        let event = |event_id: i64, context: &str| {
            let execution = id[0];
            format!(r#"{{"event_id":{event_id},"execution_id":{execution},"event_type":"x","context":{context}}}"#)
        };
        let events = [
            event(id[1], "1"),
            event(id[2], r#""a\u0000b""#),
            event(id[3], r#"{"a":1,"a":2}"#),
            event(id[4], "1e999"),
            event(id[5], "2"),
        ];
        for (path, body) in [
            ("events/project", format!(r#"{{"events":[{}]}}"#, events.join(","))),
            ("events/materialize", format!("[{}]", events.join(","))),
        ] {
            let answer = server.internal_request(Method::POST, path, &body).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            let rejected = answer.json()["rejected"].as_array().unwrap().clone();
            let indexes: Vec<_> = rejected.iter().map(|rejection| rejection["index"].as_u64().unwrap()).collect();
            assert_eq!(indexes, [1, 2, 3], "{}", answer.text);
            for (rejection, event_id) in rejected.iter().zip(&id[2..]) {
                assert_eq!(rejection["event_id"], *event_id, "{rejection}");
            }
            let message = rejected[0]["message"].as_str().unwrap();
            assert!(message.starts_with("text contains a NUL character"), "{message}");
        }
        let log = server.get(&format!("/api/executions/{}/events", id[0])).await;
        assert_eq!(log.json_at("/events").as_array().unwrap().len(), 2);
    })
    .await;
}

/// A tenant's token projects only events of that tenant. Only the internal token may project into
/// every execution.
#[tokio::test]
async fn projected_events_belong_to_token_tenant() {
    on_every_store(async |fixture| {
        let server = start_internal_server(fixture).await;
        let project = [Scope::InternalProject];
        let acme = create_token(&server.services, "acme", &project).await;
        let operator = create_token(&server.services, "default", &project).await;
        let (id, refused) = (old_ids(10), json!("tenant_mismatch"));
        let project_event = async |token: &str, event: i64, run: i64| {
            let event =
                json!({ "event_id": event, "execution_id": run, "event_type": "step.enter" });
            let path = "/api/internal/events/project";
            let body = json!({ "events": [event.clone()] });
            let copied = server.call_with_token(token, Method::POST, path, body).await;
            let path = "/api/internal/events/materialize";
            let reply = server.call_with_token(token, Method::POST, path, json!([event])).await;
            let [code, same] =
                [&copied, &reply].map(|reply| reply.json()["rejected"][0]["code"].clone());
            assert_eq!(code, same, "{}", reply.text);
            (copied.json_at("/projected"), code)
        };
        let owner = async |run: i64| {
            let run = ExecutionId::new(run).unwrap();
            let row = server.services.infra.store().find_execution(run).await.unwrap();
            row.map(|row| row.facts.tenant_id.to_string())
        };
        let (acme_run, default_run) = (id[0], id[1]);
        assert_eq!(project_event(&acme, id[2], acme_run).await.0, 1);
        assert_eq!(owner(acme_run).await.as_deref(), Some("acme"));
        assert_eq!(project_event(TOKEN, id[3], default_run).await.0, 1);
        assert_eq!(owner(default_run).await.as_deref(), Some("default"));
        assert_eq!(project_event(&acme, id[4], default_run).await, (json!(0), refused.clone()));
        assert_eq!(project_event(&operator, id[5], acme_run).await, (json!(0), refused));
        assert_eq!(project_event(TOKEN, id[6], acme_run).await.0, 1);
        let advance = "/api/internal/projection/advance";
        let both = json!({ "execution_ids": [default_run, acme_run] });
        let reply = server.call_with_token(&acme, Method::POST, advance, both).await;
        assert_eq!(reply.json_at("/failed/0/execution_id"), default_run, "{}", reply.text);
        assert_eq!(reply.json_at("/advanced/0/execution_id"), acme_run);
        assert_eq!(reply.json_at("/advanced/0/events"), 2);
    })
    .await;
}

/// List rows are derived. Rows that differ from the log are rebuilt.
async fn check_row_rebuild(server: &TestServer, executions: [i64; 2]) {
    let store = server.services.infra.store();
    for id in executions {
        let id = ExecutionId::new(id).unwrap();
        let row = store.find_execution(id).await.unwrap().unwrap();
        let mut wrong = row.view.clone();
        wrong.status = if row.view.status.is_terminal() {
            ExecutionStatus::Running
        } else {
            ExecutionStatus::Failed
        };
        wrong.ended_at = None;
        let mut wrong_views = vec![wrong; 4];
        // In each of the other rows one value is wrong.
        for wrong in &mut wrong_views[1..] {
            wrong.clone_from(&row.view);
        }
        wrong_views[1].error = Some("an unexpected error".into());
        wrong_views[2].last_node_name = Some("elsewhere".into());
        wrong_views[3].ended_at = Some(row.facts.started_at);
        for wrong in wrong_views {
            let version = row.head.version;
            assert!(store.rewrite_execution_view(id, version, wrong).await.unwrap());
            let answer = json!({ "execution_ids": [id.get()] });
            let answer = server.internal_post("projection/advance", answer).await;
            assert_eq!(answer["failed"], json!([]), "{answer}");
            let found = store.find_execution(id).await.unwrap().unwrap();
            assert_eq!(found, row);
        }
    }
}

async fn check_materialized_workers(server: &TestServer, execution_id: i64) {
    let id = old_ids(20)[15];
    let events = json!([
        { "execution_id": execution_id, "step": "load", "name": "step.exit", "event_id": id,
          "payload": { "rows": 3 } },
        { "step": "load", "name": "step.exit" },
    ]);
    let answer = server.internal_post("events/materialize", events.clone()).await;
    assert_eq!(answer["materialized"], 1, "{answer}");
    assert_eq!(answer["rejected"][0]["code"], "missing_execution_id");
    let again = server.internal_post("events/materialize", events).await;
    assert_eq!((&again["materialized"], &again["duplicates"]), (&json!(0), &json!(1)));
    let advanced = json!({ "execution_ids": [7, execution_id.to_string()] });
    let advanced = server.internal_post("projection/advance", advanced).await;
    assert_eq!(
        advanced["advanced"],
        json!([{ "execution_id": execution_id, "version": 4, "events": 4 }])
    );
    assert_eq!(advanced["failed"][0]["execution_id"], 7);
    let local_run: i64 = server.run_two_steps().await.parse().unwrap();
    let advanced = json!({ "execution_ids": [local_run] });
    let advanced = server.internal_post("projection/advance", advanced).await;
    assert_eq!(advanced["advanced"][0]["execution_id"], local_run);
    check_row_rebuild(server, [execution_id, local_run]).await;
    let none =
        server.internal_post_response("projection/advance", json!({ "execution_ids": [] })).await;
    none.assert_problem(ErrorCode::OutOfRange);
}

/// Metric names that the dashboard uses.
fn dashboard_metrics() -> std::collections::BTreeSet<String> {
    let text = include_str!("../../../../../deploy/grafana/noetl.json");
    let dashboard: Value = serde_json::from_str(text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let is_name_char = |character: char| character.is_ascii_lowercase() || character == '_';
    targets
        .flat_map(|target| {
            target["expr"].as_str().unwrap().split(move |character| !is_name_char(character))
        })
        .filter(|name| name.starts_with("noetl_"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn all_dashboard_metrics_exist() {
    let fixture = StoreFixture::on_postgres().await;
    let server = start_internal_server(&fixture).await;
    server.run_two_steps().await;
    server.start_two_steps().await;
    server.internal_post("events/project", json!({ "events": ["no event"] })).await;
    server.internal_post("cleanup/purge", json!({})).await;
    let metrics = server.get("/metrics").await;
    let names = dashboard_metrics();
    assert!(names.len() > 8, "{names:?}");
    for name in names {
        let samples = metrics.text.lines().filter(|line| line.starts_with(&name));
        assert!(samples.count() > 0, "{name} is not in\n{}", metrics.text);
    }
}

/// A run that is driven elsewhere has what its log here tells, and no steps.
#[tokio::test]
async fn projected_run_is_shown_as_copy() {
    on_every_store(async |fixture| {
        let server = start_internal_server(fixture).await;
        let id = old_ids(4);
        let event = |number: usize, event_type: &str| {
            json!({ "event_id": id[number], "execution_id": id[0], "event_type": event_type,
                "node_name": "load" })
        };
        let project = async |event: Value| {
            server.internal_post("events/project", json!({ "events": [event] })).await
        };
        let path = format!("/api/executions/{}", id[0]);
        let assert_status = async |expected: &str| {
            for part in ["", "/status", "/explain"] {
                let reply = server.get(&format!("{path}{part}")).await;
                assert_eq!(reply.status, 200, "{part}: {}", reply.text);
                assert_eq!(reply.text_at("/status"), expected, "{part}");
            }
        };
        project(event(1, "step.enter")).await;
        assert_status("RUNNING").await;
        let explained = server.get(&format!("{path}/explain")).await;
        let summary = "its log is a copy of an execution that is driven elsewhere";
        assert_eq!(explained.text_at("/summary"), summary);
        let status = server.get(&format!("{path}/status")).await;
        assert_eq!(status.text_at("/current_step"), "load");
        project(event(2, "playbook.completed")).await;
        assert_status("COMPLETED").await;
    })
    .await;
}

/// Concurrent batches for one run wait for each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_projections_into_one_run_all_succeed() {
    on_every_store(async |fixture| {
        let server = Arc::new(start_internal_server(fixture).await);
        let id = Arc::new(old_ids(1 + 32 * 10));
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..32 {
            let (server, id) = (Arc::clone(&server), Arc::clone(&id));
            callers.spawn(async move {
                for number in 0..10 {
                    let event = json!({ "event_id": id[1 + caller * 10 + number],
                        "execution_id": id[0], "event_type": "x" });
                    let body = json!({ "events": [event] });
                    let answer = server.internal_post("events/project", body).await;
                    assert_eq!(answer["projected"], 1, "{answer}");
                }
            });
        }
        callers.join_all().await;
        let run = server.get(&format!("/api/executions/{}", id[0])).await;
        assert_eq!(run.json_at("/event_count"), 320);
    })
    .await;
}
