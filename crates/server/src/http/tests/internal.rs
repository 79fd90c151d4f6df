//! The internal API: its gate, the outbox, copies.

use axum::http::Method;
use axum::http::header::{AUTHORIZATION, HeaderValue};
use noetl_store::{StreamBegin, StreamTake};
use noetl_types::{ErrorCode, ExecutionId, ExecutionStatus, Scope};
use serde_json::{Value, json};

use super::backends::{Shelter, on_every_store};
use super::tokens::{routes, token_of, with_some_id};
use super::{House, Reply, house, request};
use crate::http::access::Access;
use crate::http::settings::HttpSettings;

const TOKEN: &str = "the token of the platform";

/// Every route of the internal API.
const ROUTES: &[(&str, &str)] = &[
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
    ("POST", "/api/internal/ingress/orders"),
    ("POST", "/api/internal/container-callback/7/build"),
    ("GET", "/api/internal/plugins/a/b"),
    ("PUT", "/api/internal/objects/a/b"),
    ("POST", "/api/internal/cross-region/resolve"),
];

/// Those of them that are only known by name.
const NOT_DONE: usize = 5;

impl House {
    /// A request of the platform.
    pub(super) async fn ask(&self, method: Method, path: &str, body: &str) -> Reply {
        let mut request = request(method, &format!("/api/internal/{path}"), body.to_owned());
        let token = HeaderValue::from_str(&format!("Bearer {TOKEN}")).unwrap();
        request.headers_mut().insert(AUTHORIZATION, token);
        self.send(request).await
    }

    pub(super) async fn told(&self, path: &str, body: Value) -> Value {
        let reply = self.ask(Method::POST, path, &body.to_string()).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        reply.json()
    }

    pub(super) async fn refuses(&self, path: &str, body: Value) -> Reply {
        self.ask(Method::POST, path, &body.to_string()).await
    }

    async fn pending(&self) -> Value {
        let reply = self.ask(Method::GET, "outbox/pending-count", "").await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()
    }
}

pub(super) fn http() -> HttpSettings {
    HttpSettings {
        internal_token: Some(super::super::InternalToken::new(TOKEN)),
        ..HttpSettings::default()
    }
}

async fn open(shelter: &Shelter) -> House {
    shelter
        .house(http(), |settings| settings.outbox = true)
        .await
}

#[tokio::test]
async fn the_gate_is_closed_without_a_token_and_for_others() {
    let closed = house().await;
    for (method, path) in ROUTES {
        let mut request = request(method.parse().unwrap(), path, "{}");
        request
            .headers_mut()
            .insert(AUTHORIZATION, HeaderValue::from_static("Bearer x"));
        closed.send(request).await.is_problem(ErrorCode::NotReady);
    }
    let shelter = Shelter::memory();
    let open = open(&shelter).await;
    for (method, path) in ROUTES {
        let method: Method = method.parse().unwrap();
        open.send(request(method.clone(), path, "{}"))
            .await
            .is_problem(ErrorCode::Forbidden);
        let mut wrong = request(method, path, "{}");
        wrong
            .headers_mut()
            .insert(AUTHORIZATION, HeaderValue::from_static("Bearer the token"));
        open.send(wrong).await.is_problem(ErrorCode::Forbidden);
    }
    let (_, not_done) = ROUTES.split_at(ROUTES.len() - NOT_DONE);
    for (method, path) in not_done {
        let path = path.trim_start_matches("/api/internal/");
        open.ask(method.parse().unwrap(), path, "{}")
            .await
            .is_problem(ErrorCode::NotSupported);
    }
    // As an autoscaler says it, and from another machine too.
    let mut basic = request(Method::GET, "/api/internal/outbox/pending-count", "");
    let pair = base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        format!("keda:{TOKEN}"),
    );
    let value = HeaderValue::from_str(&format!("Basic {pair}")).unwrap();
    basic.headers_mut().insert(AUTHORIZATION, value);
    let stranger = std::net::SocketAddr::from(([10, 0, 0, 7], 4000));
    let counted = open.send_from(stranger, basic).await;
    assert_eq!(counted.json(), json!({ "pending": 0 }));
}

#[tokio::test]
async fn the_platform_is_for_its_token_and_its_operator_and_for_no_other_admin() {
    let shelter = Shelter::memory();
    let house = open(&shelter).await;
    let now = house.runtime.now();
    let take = StreamTake {
        name: "event_stream_tailer".into(),
        owner: "somebody".into(),
        now,
        lease_until: now,
        begin: StreamBegin::Now,
    };
    shelter.store.take_stream(take).await.unwrap();
    let operator = token_of(&house.runtime, "default", &[Scope::Admin]).await;
    let stranger = token_of(&house.runtime, "acme", &[Scope::Admin]).await;
    let mut of_platform = 0;
    for (method, route) in routes() {
        let Access::Internal(scope) = route.access else {
            continue;
        };
        let path = with_some_id(&route.path);
        let call = |token| house.call(token, method.clone(), &path, json!({}));
        // No admin is anybody at what has a scope of its own; at the rest only the operator's is.
        call(&stranger).await.is_problem(ErrorCode::Forbidden);
        let is_open = call(&operator).await.status != 403;
        assert_eq!(is_open, !scope.is_internal(), "{method} {path}");
        of_platform += u32::from(is_open);
        // The token of the platform is let in everywhere, and handlers need nobody behind it.
        let reply = call(TOKEN).await;
        assert!(!matches!(reply.status, 401 | 403), "{path}: {}", reply.text);
    }
    assert!(of_platform > 2, "{of_platform}");
    let rebuilt = house.told("stream/rebuild", json!({})).await;
    assert_eq!(rebuilt["state"], "off", "{rebuilt}");
}

#[tokio::test]
async fn events_wait_in_the_outbox_until_they_are_marked() {
    on_every_store(async |shelter| {
        let house = open(shelter).await;
        let execution_id: i64 = house.finished().await.parse().unwrap();
        let log = house
            .get(&format!("/api/executions/{execution_id}/events?limit=500"))
            .await;
        let events = log.at("/events").as_array().unwrap().len() as u64;
        assert!(events > 5, "{}", log.text);
        assert_eq!(house.pending().await, json!({ "pending": events }));
        let first = house.told("outbox/claim", json!({ "limit": 2 })).await;
        assert_eq!(first["claimed"], 2);
        assert_eq!(house.pending().await["pending"], events - 2);
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
        // A limit is brought into bounds, and an absent body is all the defaults.
        let third = house.told("outbox/claim", json!({ "limit": -3 })).await;
        assert_eq!(third["claimed"], 1, "{third}");
        let rest = house.ask(Method::POST, "outbox/claim", "").await;
        assert_eq!(rest.at("/claimed"), events - 3);
        let none = house
            .told("outbox/claim", json!({ "limit": 1_000_000 }))
            .await;
        assert_eq!(none, json!({ "rows": [], "claimed": 0 }));
        let mut rows = first["rows"].as_array().unwrap().clone();
        rows.extend(third["rows"].as_array().unwrap().clone());
        rows.extend(rest.at("/rows").as_array().unwrap().clone());
        let order: Vec<_> = rows.iter().map(|row| row["outbox_id"].as_i64()).collect();
        assert!(order.is_sorted(), "{order:?}");
        marks(&house, &rows).await;
    })
    .await;
}

/// Marks rows that are in hand, and again.
async fn marks(house: &House, rows: &[Value]) {
    let ids: Vec<_> = rows.iter().map(|row| row["outbox_id"].clone()).collect();
    let stale = json!({ "outbox_ids": ids, "attempts": vec![7; ids.len()] });
    let marked = house.told("outbox/mark-published", stale).await;
    assert_eq!(marked, json!({ "marked": 0 }));
    let own = json!({ "outbox_ids": ids, "attempts": vec![1; ids.len()] });
    let marked = house.told("outbox/mark-published", own.clone()).await;
    assert_eq!(marked["marked"], ids.len());
    let again = house.told("outbox/mark-published", own).await;
    assert_eq!(again["marked"], 0);
    let failed = json!({ "outbox_id": ids[0], "error": "late", "attempts": 1 });
    let failed = house.told("outbox/mark-failed", failed).await;
    assert_eq!(failed, json!({ "marked": false, "available_at_in": 0 }));
    for wrong in [
        json!({ "outbox_ids": [] }),
        json!({ "outbox_ids": ids, "attempts": [1] }),
    ] {
        let refused = house.refuses("outbox/mark-published", wrong).await;
        refused.is_problem(ErrorCode::OutOfRange);
        assert_eq!(refused.status, 400);
    }
}

/// Hole O8.
#[tokio::test]
async fn a_row_that_fails_waits_longer_each_time_and_dies() {
    on_every_store(async |shelter| {
        let house = shelter
            .house(http(), |settings| {
                settings.outbox = true;
                settings.outbox_max_attempts = 2;
            })
            .await;
        house.started().await;
        for wrong in [0, -1, 3601] {
            let body = json!({ "outbox_id": 1, "error": "x", "max_delay_seconds": wrong });
            let refused = house.refuses("outbox/mark-failed", body).await;
            refused.is_problem(ErrorCode::OutOfRange);
        }
        let claimed = house.told("outbox/claim", json!({ "limit": 1 })).await;
        let id = &claimed["rows"][0]["outbox_id"];
        // The delay follows from what is said; 0 is no fence.
        let body = json!({ "outbox_id": id, "error": "ü".repeat(3000), "attempts": 0 });
        let failed = house.told("outbox/mark-failed", body.clone()).await;
        assert_eq!(failed, json!({ "marked": true, "available_at_in": 1 }));
        let again = house.told("outbox/mark-failed", body).await;
        assert_eq!(again, json!({ "marked": false, "available_at_in": 0 }));
        let list = house.ask(Method::GET, "outbox?status=failed", "").await;
        let error = list.text_at("/rows/0/last_error");
        assert_eq!(error.chars().count(), 2000);
        let claimed = claim_until_there(&house, id).await;
        assert_eq!(claimed["attempts"], 2);
        let body = json!({ "outbox_id": id, "error": "again", "attempts": 2 });
        let dead = house.told("outbox/mark-failed", body).await;
        assert_eq!(dead, json!({ "marked": true, "available_at_in": 0 }));
        let counted = house.runtime.metrics_text().await.unwrap();
        assert!(counted.contains("noetl_outbox_dead_total 1\n"), "{counted}");
        dead_rows(&house, id).await;
    })
    .await;
}

/// Claims until a row is among what is given; its time comes within a second or two.
async fn claim_until_there(house: &House, id: &Value) -> Value {
    for _ in 0..600 {
        let claimed = house.told("outbox/claim", json!({ "limit": 1000 })).await;
        let rows = claimed["rows"].as_array().unwrap();
        if let Some(row) = rows.iter().find(|row| row["outbox_id"] == *id) {
            return row.clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the row never comes back");
}

async fn dead_rows(house: &House, id: &Value) {
    let dead = house.ask(Method::GET, "outbox/dead", "").await;
    assert_eq!(dead.at("/rows/0/outbox_id"), *id);
    assert_eq!(dead.text_at("/rows/0/status"), "DEAD");
    assert_eq!(dead.text_at("/rows/0/last_error"), "again");
    let ids = json!({ "outbox_ids": [id] });
    let replayed = house.told("outbox/replay", ids.clone()).await;
    assert_eq!(replayed["changed"], 1);
    assert_eq!(
        house.told("outbox/discard", ids.clone()).await["changed"],
        0
    );
    let row = claim_until_there(house, id).await;
    // The count goes on, so that nobody who had the row before has the same number.
    assert_eq!(row["attempts"], 3);
    for attempts in [3, 4] {
        let body = json!({ "outbox_id": id, "error": "no", "attempts": attempts });
        assert_eq!(house.told("outbox/mark-failed", body).await["marked"], true);
        if attempts == 3 {
            claim_until_there(house, id).await;
        }
    }
    assert_eq!(
        house.told("outbox/discard", ids.clone()).await["changed"],
        1
    );
    assert_eq!(house.told("outbox/replay", ids).await["changed"], 0);
    let refused = house
        .refuses("outbox/replay", json!({ "outbox_ids": [] }))
        .await;
    refused.is_problem(ErrorCode::OutOfRange);
}

#[tokio::test]
async fn without_an_outbox_no_rows_are_written() {
    let shelter = Shelter::memory();
    let house = shelter.house(http(), |_| {}).await;
    house.finished().await;
    assert_eq!(house.pending().await, json!({ "pending": 0 }));
}

/// The first id of a moment.
pub(super) fn id_at(moment: &str) -> i64 {
    let made = noetl_types::Timestamp::parse(moment).unwrap();
    (made.as_unix_ms() - 1_704_067_200_000) << 22
}

/// Ids that were made a while ago.
fn ids(count: i64) -> Vec<i64> {
    let first = id_at("2025-03-01T00:00:00Z");
    (0..count).map(|n| first + n).collect()
}

/// Hole P4.
#[tokio::test]
async fn copies_are_taken_once_and_bad_ones_put_aside() {
    on_every_store(async |shelter| {
        let house = open(shelter).await;
        let id = ids(10);
        let event = |event_id: i64, kind: &str| {
            json!({ "event_id": event_id, "execution_id": id[0].to_string(), "event_type": kind,
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
        let answer = house.told("events/project", batch.clone()).await;
        assert_eq!((&answer["projected"], &answer["duplicates"]), (&json!(3), &json!(0)));
        let codes: Vec<_> = answer["rejected"].as_array().unwrap().iter()
            .map(|one| (one["index"].as_u64().unwrap(), one["code"].as_str().unwrap()))
            .collect();
        assert_eq!(codes, [(1, "missing_execution_id"), (3, "bad_value"), (4, "id_in_future"), (5, "bad_value")]);
        assert_eq!(answer["rejected"][0]["event_id"], id[2]);
        let again = house.told("events/project", batch).await;
        assert_eq!((&again["projected"], &again["duplicates"]), (&json!(0), &json!(3)));
        let other = json!({ "events": [event(id[1], "step.exit")] });
        let conflict = house.told("events/project", other).await;
        assert_eq!(conflict["rejected"][0]["code"], "id_conflict");
        let foreign = json!({ "events": [
            { "event_id": id[5], "execution_id": id[0], "event_type": "x", "tenant_id": "acme" },
        ] });
        let foreign = house.told("events/project", foreign).await;
        assert_eq!(foreign["rejected"][0]["code"], "tenant_mismatch");
        let run = house.get(&format!("/api/executions/{}", id[0])).await;
        assert_eq!(run.text_at("/status"), "COMPLETED", "{}", run.text);
        let log = house.get(&format!("/api/executions/{}/events", id[0])).await;
        assert_eq!(log.at("/events").as_array().unwrap().len(), 3);
        let empty = house.refuses("events/project", json!({ "events": [] })).await;
        empty.is_problem(ErrorCode::OutOfRange);
        what_was_refused_is_listed(&house).await;
        copies_of_workers(&house, id[0]).await;
    })
    .await;
}

async fn what_was_refused_is_listed(house: &House) {
    let page = async |query: &str| {
        let reply = house
            .ask(Method::GET, &format!("quarantine{query}"), "")
            .await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let list = reply.json();
        let rows = list["rows"].as_array().unwrap();
        let codes: Vec<_> = rows
            .iter()
            .map(|row| row["code"].as_str().unwrap().to_owned())
            .collect();
        (codes, list)
    };
    let (all, list) = page("").await;
    let known = [
        "missing_execution_id",
        "bad_value",
        "id_in_future",
        "bad_value",
    ];
    assert_eq!(all[..4], known, "each once, however often it came: {list}");
    assert_eq!(all[4..], ["id_conflict", "tenant_mismatch"]);
    assert_eq!(list.get("next_after"), None);
    assert_eq!(list["rows"][3]["raw"], "\"no event\"");
    assert_eq!(page("?source=projector").await.0, all);
    assert!(page("?source=stream").await.0.is_empty());
    let (first, list) = page("?limit=5").await;
    let after = list["next_after"].as_i64().unwrap();
    let (rest, _) = page(&format!("?limit=5&after={after}")).await;
    assert_eq!([first, rest].concat(), all);
    let odd = house.ask(Method::GET, "quarantine?odd=1", "").await;
    odd.is_problem(ErrorCode::BadQuery);
}

/// What no log can hold is put aside alone, though it is JSON to whoever sends it.
#[tokio::test]
async fn p4_one_event_that_cannot_be_stored_fails_no_other() {
    on_every_store(async |shelter| {
        let house = open(shelter).await;
        let id = ids(10);
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
            let answer = house.ask(Method::POST, path, &body).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            let rejected = answer.json()["rejected"].as_array().unwrap().clone();
            let places: Vec<_> = rejected.iter().map(|one| one["index"].as_u64().unwrap()).collect();
            assert_eq!(places, [1, 2, 3], "{}", answer.text);
        }
        let log = house.get(&format!("/api/executions/{}/events", id[0])).await;
        assert_eq!(log.at("/events").as_array().unwrap().len(), 2);
    })
    .await;
}

/// A token of a tenant brings events for its own tenant; only that of the platform speaks for every
/// execution that there is.
#[tokio::test]
async fn copies_are_of_the_tenant_whose_token_brings_them() {
    on_every_store(async |shelter| {
        let house = open(shelter).await;
        let project = [Scope::InternalProject];
        let acme = token_of(&house.runtime, "acme", &project).await;
        let operator = token_of(&house.runtime, "default", &project).await;
        let (id, refused) = (ids(10), json!("tenant_mismatch"));
        let bring = async |token: &str, event: i64, run: i64| {
            let event =
                json!({ "event_id": event, "execution_id": run, "event_type": "step.enter" });
            let path = "/api/internal/events/project";
            let body = json!({ "events": [event.clone()] });
            let copied = house.call(token, Method::POST, path, body).await;
            let path = "/api/internal/events/materialize";
            let told = house.call(token, Method::POST, path, json!([event])).await;
            let [code, same] =
                [&copied, &told].map(|reply| reply.json()["rejected"][0]["code"].clone());
            assert_eq!(code, same, "{}", told.text);
            (copied.at("/projected"), code)
        };
        let owner = async |run: i64| {
            let run = ExecutionId::new(run).unwrap();
            let row = house.runtime.store().execution(run).await.unwrap();
            row.map(|row| row.facts.tenant_id.to_string())
        };
        let (theirs, ours) = (id[0], id[1]);
        assert_eq!(bring(&acme, id[2], theirs).await.0, 1);
        assert_eq!(owner(theirs).await.as_deref(), Some("acme"));
        assert_eq!(bring(TOKEN, id[3], ours).await.0, 1);
        assert_eq!(owner(ours).await.as_deref(), Some("default"));
        assert_eq!(bring(&acme, id[4], ours).await, (json!(0), refused.clone()));
        assert_eq!(bring(&operator, id[5], theirs).await, (json!(0), refused));
        assert_eq!(bring(TOKEN, id[6], theirs).await.0, 1);
        let advance = "/api/internal/projection/advance";
        let both = json!({ "execution_ids": [ours, theirs] });
        let told = house.call(&acme, Method::POST, advance, both).await;
        assert_eq!(told.at("/failed/0/execution_id"), ours, "{}", told.text);
        assert_eq!(told.at("/advanced/0/execution_id"), theirs);
        assert_eq!(told.at("/advanced/0/events"), 2);
    })
    .await;
}

/// What lists show is derived: where it is not what the log says, it is made anew.
async fn rows_follow_their_logs(house: &House, executions: [i64; 2]) {
    let store = house.runtime.store();
    for id in executions {
        let id = ExecutionId::new(id).unwrap();
        let row = store.execution(id).await.unwrap().unwrap();
        let mut wrong = row.view.clone();
        wrong.status = if row.view.status.is_terminal() {
            ExecutionStatus::Running
        } else {
            ExecutionStatus::Failed
        };
        wrong.ended_at = None;
        let mut wrongs = vec![wrong; 4];
        // Of the others one thing is wrong.
        for wrong in &mut wrongs[1..] {
            wrong.clone_from(&row.view);
        }
        wrongs[1].error = Some("nobody said so".into());
        wrongs[2].last_node_name = Some("elsewhere".into());
        wrongs[3].ended_at = Some(row.facts.started_at);
        for wrong in wrongs {
            let version = row.head.version;
            assert!(store.rewrite_view(id, version, wrong).await.unwrap());
            let told = json!({ "execution_ids": [id.get()] });
            let told = house.told("projection/advance", told).await;
            assert_eq!(told["failed"], json!([]), "{told}");
            let found = store.execution(id).await.unwrap().unwrap();
            assert_eq!(found, row);
        }
    }
}

async fn copies_of_workers(house: &House, execution_id: i64) {
    let id = ids(20)[15];
    let told = json!([
        { "execution_id": execution_id, "step": "load", "name": "step.exit", "event_id": id,
          "payload": { "rows": 3 } },
        { "step": "load", "name": "step.exit" },
    ]);
    let answer = house.told("events/materialize", told.clone()).await;
    assert_eq!(answer["materialized"], 1, "{answer}");
    assert_eq!(answer["rejected"][0]["code"], "missing_execution_id");
    let again = house.told("events/materialize", told).await;
    assert_eq!(
        (&again["materialized"], &again["duplicates"]),
        (&json!(0), &json!(1))
    );
    let advanced = json!({ "execution_ids": [7, execution_id.to_string()] });
    let advanced = house.told("projection/advance", advanced).await;
    assert_eq!(
        advanced["advanced"],
        json!([{ "execution_id": execution_id, "version": 4, "events": 4 }])
    );
    assert_eq!(advanced["failed"][0]["execution_id"], 7);
    let driven: i64 = house.finished().await.parse().unwrap();
    let advanced = json!({ "execution_ids": [driven] });
    let advanced = house.told("projection/advance", advanced).await;
    assert_eq!(advanced["advanced"][0]["execution_id"], driven);
    rows_follow_their_logs(house, [execution_id, driven]).await;
    let none = house
        .refuses("projection/advance", json!({ "execution_ids": [] }))
        .await;
    none.is_problem(ErrorCode::OutOfRange);
}

/// Names of metrics that the dashboard shows.
fn shown_on_the_dashboard() -> std::collections::BTreeSet<String> {
    let text = include_str!("../../../../../deploy/grafana/noetl.json");
    let dashboard: Value = serde_json::from_str(text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let is_of_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    targets
        .flat_map(|target| {
            target["expr"]
                .as_str()
                .unwrap()
                .split(move |letter| !is_of_name(letter))
        })
        .filter(|word| word.starts_with("noetl_"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn every_metric_of_the_dashboard_exists() {
    let shelter = Shelter::postgres().await;
    let house = open(&shelter).await;
    house.finished().await;
    house.started().await;
    house
        .told("events/project", json!({ "events": ["no event"] }))
        .await;
    house.told("cleanup/purge", json!({})).await;
    let metrics = house.get("/metrics").await;
    let shown = shown_on_the_dashboard();
    assert!(shown.len() > 8, "{shown:?}");
    for name in shown {
        let samples = metrics.text.lines().filter(|line| line.starts_with(&name));
        assert!(samples.count() > 0, "{name} is not in\n{}", metrics.text);
    }
}
