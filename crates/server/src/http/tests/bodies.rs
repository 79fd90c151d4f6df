//! Bodies that are too large, too deep, or not what they should be.

use axum::body::{Body, Bytes};
use axum::http::Method;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use noetl_types::ErrorCode;
use serde_json::json;

use super::{Reply, house, is_ok, request};

async fn post_text(path: &str, body: impl Into<Body>) -> Reply {
    let house = house().await;
    house.send(request(Method::POST, path, body)).await
}

#[tokio::test]
async fn text_that_is_no_json_is_told_with_its_place() {
    let reply = post_text("/api/execute", "{\n  \"path\": nope }").await;
    reply.is_problem(ErrorCode::BadJson);
    assert_eq!(reply.at("/errors/0/line"), 2);
    assert_eq!(reply.at("/errors/0/column"), 12);
    assert_eq!(
        reply.text_at("/detail"),
        "expected ident at line 2 column 12"
    );
    let reply = post_text("/api/execute", "{\"path\":").await;
    reply.is_problem(ErrorCode::BadJson);
    let reply = post_text("/api/execute", "").await;
    reply.is_problem(ErrorCode::BadJson);
    let reply = post_text("/api/execute", "{} {}").await;
    reply.is_problem(ErrorCode::BadJson);
    let reply = post_text("/api/execute", &b"{\"path\":\"\xff\"}"[..]).await;
    reply.is_problem(ErrorCode::BadJson);
}

#[tokio::test]
async fn values_of_the_wrong_form_are_pointed_at() {
    let report = json!({
        "worker_id": "w",
        "reports": [{ "execution_id": "7", "command_id": "8", "attempt": 1,
            "lease_token": "00000000000000000000000000000000", "status": "sideways" }],
    });
    for (path, body, pointer) in [
        ("/api/execute", json!({ "path": 7 }), "/path"),
        ("/api/execute", json!({ "path": "a//b" }), "/path"),
        ("/api/execute", json!({ "catalog_id": "x" }), "/catalog_id"),
        ("/api/execute", json!([]), ""),
        (
            "/api/commands/lease",
            json!({ "worker_id": "w", "pool": "no pool" }),
            "/pool",
        ),
        (
            "/api/commands/lease",
            json!({ "worker_id": "w", "pool": "p", "max": 101 }),
            "/max",
        ),
        ("/api/commands/lease", json!({ "worker_id": "w" }), ""),
        ("/api/commands/report", report, "/reports/0/status"),
    ] {
        let house = house().await;
        let reply = house.post(path, body).await;
        reply.is_problem(ErrorCode::Validation);
        assert_eq!(
            reply.text_at("/errors/0/pointer"),
            pointer,
            "{}",
            reply.text
        );
    }
}

#[tokio::test]
async fn new_routes_refuse_fields_that_they_do_not_know() {
    let house = house().await;
    let body = json!({ "worker_id": "w", "pool": "shared", "wait_ns": 1 });
    let reply = house.post("/api/commands/lease", body).await;
    reply.is_problem(ErrorCode::Validation);
    assert!(reply.text.contains("wait_ns"), "{}", reply.text);
    // Classic ones pass them over.
    let body = json!({ "path": "nowhere", "resource_kind": "playbook", "x": [1] });
    let reply = house.post("/api/execute", body).await;
    reply.is_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn depth_has_a_bound() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let house = house().await;
    for (field, levels, code) in [
        ("payload", 64, ErrorCode::NotFound),
        ("payload", 65, ErrorCode::BadJson),
        ("payload", 100_000, ErrorCode::BadJson),
        // What nobody reads does no harm, however deep.
        ("unknown", 100_000, ErrorCode::NotFound),
    ] {
        let body = format!("{{\"path\":\"nowhere\",\"{field}\":{}}}", nested(levels));
        let reply = house
            .send(request(Method::POST, "/api/execute", body))
            .await;
        reply.is_problem(code);
    }
}

#[tokio::test]
async fn bodies_have_a_bound_of_their_route() {
    const MIB: usize = 1 << 20;
    let house = house().await;
    for (path, most) in [
        ("/api/execute", MIB),
        ("/api/catalog/resource", MIB),
        ("/api/catalog/register", 8 * MIB),
        ("/api/commands/lease", MIB),
        ("/api/commands/report", 72 * MIB),
    ] {
        let blanks = |bytes| request(Method::POST, path, vec![b' '; bytes]);
        let reply = house.send(blanks(most.min(9 * MIB))).await;
        reply.is_problem(ErrorCode::BadJson);
        let reply = house.send(blanks(most + 1)).await;
        reply.is_problem(ErrorCode::TooLarge);
    }
}

#[tokio::test]
async fn a_length_that_is_too_large_is_refused_before_the_body_is_read() {
    let house = house().await;
    // A body that panics when somebody reads it.
    let unread = Body::new(http_body_util::BodyExt::map_frame(
        http_body_util::Full::new(Bytes::from_static(b"{}")),
        |frame| -> hyper::body::Frame<Bytes> { panic!("the body was read: {:?}", frame.is_data()) },
    ));
    let mut request = request(Method::POST, "/api/execute", unread);
    let headers = request.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("100000000"));
    house.send(request).await.is_problem(ErrorCode::TooLarge);
}

#[tokio::test]
async fn bodies_of_other_kinds_are_refused() {
    let house = house().await;
    let typed = |media_type: Option<&'static str>| {
        let mut request = request(Method::POST, "/api/catalog/resource", "{}");
        let headers = request.headers_mut();
        headers.remove(CONTENT_TYPE);
        if let Some(media_type) = media_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
        request
    };
    for media_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/json; charset=utf-16",
    ] {
        let reply = house.send(typed(Some(media_type))).await;
        reply.is_problem(ErrorCode::UnsupportedMedia);
    }
    for media_type in [None, Some("application/json; charset=utf-8")] {
        let reply = house.send(typed(media_type)).await;
        reply.is_problem(ErrorCode::Validation);
    }
    let mut packed = typed(None);
    let gzip = HeaderValue::from_static("gzip");
    packed.headers_mut().insert(CONTENT_ENCODING, gzip);
    let reply = house.send(packed).await;
    reply.is_problem(ErrorCode::UnsupportedMedia);
}

#[tokio::test]
async fn nobody_waits_longer_than_half_a_minute() {
    let house = house().await;
    let body = json!({ "worker_id": "w", "pool": "shared", "wait_ms": 30_001 });
    let reply = house.post("/api/commands/lease", body).await;
    reply.is_problem(ErrorCode::OutOfRange);
    assert_eq!(reply.text_at("/errors/0/pointer"), "/wait_ms");
    let lease = json!({ "pool": "shared", "max": 1, "wait_ms": 30_001 });
    let body = json!({ "worker_id": "w", "reports": [], "lease": lease });
    let reply = house.post("/api/commands/report", body).await;
    reply.is_problem(ErrorCode::OutOfRange);
    let body = json!({ "path": "nowhere", "wait_ms": 30_001 });
    let reply = house.post("/api/execute", body).await;
    reply.is_problem(ErrorCode::OutOfRange);
}

#[tokio::test]
async fn a_wish_to_cancel_needs_no_words() {
    let house = house().await;
    let execution_id = house.started().await;
    let path = format!("/api/executions/{execution_id}/cancel");
    let reply = house.send(request(Method::POST, &path, "")).await;
    assert!(is_ok(&reply), "{}", reply.text);
    assert_eq!(reply.text_at("/status"), "cancelled");
    assert_eq!(reply.text_at("/cancelled_executions/0"), execution_id);
    let again = house.post(&path, json!({ "reason": "twice" })).await;
    assert!(is_ok(&again), "{}", again.text);
}
