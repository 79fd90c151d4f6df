//! Executions as they were.

use std::sync::Arc;

use axum::http::Method;
use noetl_api::tokens::NewToken;
use noetl_store::MemoryStore;
use noetl_types::json::{parse, to_canonical};
use noetl_types::{ErrorCode, Json, JsonMap, Scope, Timestamp, sha256};
use serde_json::Value;

use super::{House, Reply, TWO_STEPS, closed_house, house, house_on};

fn route(execution_id: &str, rest: &str) -> String {
    format!("/api/replay/state?execution_id={execution_id}{rest}")
}

impl House {
    async fn replay(&self, execution_id: &str, rest: &str) -> Reply {
        self.get(&route(execution_id, rest)).await
    }
}

fn number(reply: &Reply, pointer: &str) -> i64 {
    let found = reply.at(pointer);
    found
        .as_i64()
        .unwrap_or_else(|| panic!("{pointer} is {found}"))
}

/// The digest of what the checksum covers, taken from the bytes of the answer.
fn summed(reply: &Reply) -> String {
    const BESIDE: [&str; 8] = [
        "checksum",
        "projection_checksums",
        "projection",
        "replay_snapshot",
        "truncated",
        "warnings",
        "payload_resolution",
        "payload_resolution_summary",
    ];
    let json = parse(reply.text.as_bytes()).unwrap();
    let kept: JsonMap = json
        .as_map()
        .unwrap()
        .iter()
        .filter(|(key, _)| !BESIDE.contains(&&***key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    sha256(to_canonical(&Json::from(kept))).to_string()
}

#[tokio::test]
async fn the_answer() {
    let house = house().await;
    let id = house.finished().await;
    let reply = house.replay(&id, "").await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.text_at("/execution/status"), "COMPLETED");
    assert_eq!(reply.text_at("/execution/last_node_name"), "last");
    assert_eq!(reply.text_at("/projection"), "all");
    assert_eq!(reply.text_at("/tenant_id"), "default");
    assert_eq!(reply.text_at("/last_event_type"), "playbook.completed");
    // Ids are numbers here, as the clients have always read them, but for those inside of entries.
    assert_eq!(reply.at("/execution_id").to_string(), id);
    assert!(reply.at("/last_event_id").is_number());
    let commands = reply.at("/commands");
    let commands = commands.as_object().unwrap();
    assert_eq!(commands.len(), 2);
    for (key, entry) in commands {
        assert_eq!(entry["command_id"], key.as_str());
        assert_eq!(entry["status"], "COMPLETED");
        assert_eq!(entry["worker_id"], "w1");
        assert_eq!(entry["issued_event_id"].to_string(), *key);
    }
    for empty in ["/stages", "/frames", "/business_objects", "/loops"] {
        assert_eq!(reply.at(empty), serde_json::json!({}), "{empty}");
    }
    assert_eq!(reply.text_at("/checksum/type"), "sha256");
    assert_eq!(reply.text_at("/checksum/value"), summed(&reply));
    assert_eq!(number(&reply, "/checksum/fold_version"), 1);
    let parts = reply.at("/projection_checksums");
    let names: Vec<_> = parts.as_object().unwrap().keys().cloned().collect();
    assert_eq!(
        names,
        [
            "execution",
            "stage",
            "frame",
            "command",
            "business_object",
            "loop"
        ]
    );
    assert!(reply.json().get("truncated").is_none());
}

/// What is asked for by name changes neither the fold nor its sums.
#[tokio::test]
async fn projections_are_echoed() {
    let house = house().await;
    let id = house.finished().await;
    let all = house.replay(&id, "").await;
    for part in [
        "execution",
        "stage",
        "frame",
        "command",
        "business_object",
        "loop",
    ] {
        let reply = house.replay(&id, &format!("&projection={part}")).await;
        assert_eq!(reply.text_at("/projection"), part);
        assert_eq!(reply.at("/checksum"), all.at("/checksum"));
        assert_eq!(reply.at("/commands"), all.at("/commands"));
    }
    let wrong = house.replay(&id, "&projection=steps").await;
    wrong.is_problem(ErrorCode::BadQuery);
}

#[tokio::test]
async fn questions_that_are_none() {
    let house = house().await;
    let id = house.started().await;
    let refused = |reply: Reply, code| {
        reply.is_problem(code);
    };
    refused(house.get("/api/replay/state").await, ErrorCode::BadQuery);
    refused(house.replay("seven", "").await, ErrorCode::BadId);
    refused(house.replay("7", "").await, ErrorCode::NotFound);
    for (rest, code) in [
        ("&as_of_position=1&as_of_event_id=2", ErrorCode::BadQuery),
        (
            "&as_of_position=1&as_of_time=2026-01-01T00:00:00Z",
            ErrorCode::BadQuery,
        ),
        ("&as_of_position=-1", ErrorCode::OutOfRange),
        ("&as_of_position=first", ErrorCode::BadQuery),
        ("&as_of_time=yesterday", ErrorCode::BadQuery),
        ("&as_of_event_id=0", ErrorCode::BadQuery),
        ("&as_of_event_id=77", ErrorCode::NotFound),
        ("&limit=0", ErrorCode::OutOfRange),
        ("&limit=-3", ErrorCode::OutOfRange),
        ("&limit=many", ErrorCode::BadQuery),
        ("&resolve_payloads=perhaps", ErrorCode::BadQuery),
    ] {
        refused(house.replay(&id, rest).await, code);
    }
    // What this route does not know is ignored, as it always was.
    assert_eq!(house.replay(&id, "&verbose=1").await.status, 200);
}

/// The tenant of an execution is never the caller's word: somebody else's is as good as none.
#[tokio::test]
async fn y1_foreign_tenants_are_not_found() {
    let house = house().await;
    let id = house.finished().await;
    for rest in ["&tenant_id=other", "&organization_id=other"] {
        let foreign = house.replay(&id, rest).await;
        let nothing = house.replay("77", rest).await;
        foreign.is_problem(ErrorCode::NotFound);
        assert_eq!(foreign.at("/detail"), nothing.at("/detail"));
    }
    let own = "&tenant_id=default&organization_id=default";
    assert_eq!(house.replay(&id, own).await.status, 200);
}

/// The same inside of a tenant: a caller sees the runs of its organization, and of no other.
#[tokio::test]
async fn organizations_come_from_the_identity() {
    let house = closed_house().await;
    let token = async |organization: &str| {
        let wanted = NewToken {
            name: organization.into(),
            scopes: vec![Scope::Admin],
            organization_id: Some(organization.parse().unwrap()),
            ..NewToken::default()
        };
        let made = house.runtime.create_token(wanted, &"test".into()).await;
        made.unwrap().token.to_string()
    };
    let (eu, us) = (token("eu").await, token("us").await);
    let post = async |path: &str, body| house.call(&eu, Method::POST, path, body).await;
    let content = serde_json::json!({ "content": TWO_STEPS });
    assert_eq!(post("/api/catalog/register", content).await.status, 200);
    let wanted = serde_json::json!({ "path": "demo/two" });
    let id = post("/api/execute", wanted).await.text_at("/execution_id");
    let replay = async |token: &str, rest: &str| {
        let path = route(&id, rest);
        house.call(token, Method::GET, &path, Value::Null).await
    };
    for rest in ["", "&organization_id=eu", "&tenant_id=default"] {
        let own = replay(&eu, rest).await;
        assert_eq!(own.status, 200, "{rest}: {}", own.text);
        assert_eq!(own.text_at("/organization_id"), "eu");
    }
    for (token, rest) in [
        (&us, ""),
        (&us, "&organization_id=eu"),
        (&eu, "&organization_id=us"),
    ] {
        replay(token, rest).await.is_problem(ErrorCode::NotFound);
    }
}

#[tokio::test]
async fn what_retention_dropped_is_gone() {
    let store = MemoryStore::new();
    store.drop_before(Timestamp::parse("2026-01-01T00:00:00Z").unwrap());
    let house = house_on(Arc::new(store)).await;
    let gone = house.replay("7", "").await;
    gone.is_problem(ErrorCode::RetentionDropped);
}

/// A limit that cuts says so, and gives nothing to compare with.
#[tokio::test]
async fn y2_a_limit_that_cuts_says_so() {
    let house = house().await;
    let id = house.finished().await;
    let whole = house.replay(&id, "").await;
    let events = number(&whole, "/event_count");
    let cut = house.replay(&id, &format!("&limit={}", events - 1)).await;
    assert_eq!(cut.at("/truncated"), true);
    assert_eq!(cut.text_at("/execution/status"), "RUNNING");
    assert_eq!(number(&cut, "/event_count"), events - 1);
    for none in ["checksum", "projection_checksums"] {
        assert!(cut.json().get(none).is_none(), "{none} of {}", cut.text);
    }
    let enough = house.replay(&id, &format!("&limit={events}")).await;
    assert_eq!(enough.json(), whole.json());
    // A limit behind a cut that was asked for cuts nothing.
    let asked = house.replay(&id, "&as_of_position=3&limit=3").await;
    assert!(asked.json().get("truncated").is_none());
    assert_eq!(number(&asked, "/event_count"), 3);
}

/// A place is a seq, a number that can only be the id of an event is one, and what there is not is
/// not found rather than an empty state.
#[tokio::test]
async fn y5_positions_are_places() {
    let house = house().await;
    let id = house.finished().await;
    let whole = house.replay(&id, "").await;
    let nothing = house.replay(&id, "&as_of_position=0").await;
    assert_eq!(nothing.text_at("/execution/status"), "UNKNOWN");
    assert_eq!(number(&nothing, "/event_count"), 0);
    let far = house.replay(&id, "&as_of_position=4000").await;
    assert_eq!(far.json(), whole.json());
    // The last number that is a place, and the first that is an id.
    let place = house.replay(&id, "&as_of_position=1099511627775").await;
    assert_eq!(place.json(), whole.json());
    let event = house.replay(&id, "&as_of_position=1099511627776").await;
    event.is_problem(ErrorCode::NotFound);
    let third = house.replay(&id, "&as_of_position=3").await;
    let event = number(&third, "/last_event_id");
    for rest in ["as_of_event_id", "as_of_position"] {
        let same = house.replay(&id, &format!("&{rest}={event}")).await;
        assert_eq!(same.json(), third.json(), "{rest}");
    }
    let unknown = format!("&as_of_position={}", event + (1 << 40));
    house
        .replay(&id, &unknown)
        .await
        .is_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn references_are_looked_at_within_bounds() {
    let house = house().await;
    let id = house.started().await;
    let command = house.leased().await;
    let rows: Vec<i64> = (0..20_000).collect();
    house.finish(&command, serde_json::json!(rows)).await;
    let plain = house.replay(&id, "").await;
    assert!(plain.at("/execution/payload_refs/0/event_id").is_string());
    assert!(plain.json().get("payload_resolution").is_none());
    let looked = house.replay(&id, "&resolve_payloads=true").await;
    assert_eq!(looked.at("/checksum"), plain.at("/checksum"));
    let first = looked.at("/payload_resolution/0");
    assert_eq!(first["scope"], "execution");
    assert_eq!(first["resolution"]["resolved"], true);
    assert_eq!(first["resolution"]["row_count"], 20_000);
    assert_eq!(first["resolution"]["value_type"], "array");
    assert_eq!(
        first["resolution"]["checksum"],
        first["reference_summary"]["sha256"]
    );
    let summary = looked.at("/payload_resolution_summary");
    assert_eq!(summary["all_resolved"], true, "{summary}");
    assert_eq!(summary["total"], summary["resolved"]);
    // Summaries, never bodies.
    assert!(looked.text.len() < 20_000, "{}", looked.text.len());
}
