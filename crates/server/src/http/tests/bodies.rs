//! Bodies that are too large, too deep, or malformed.

use axum::body::{Body, Bytes};
use axum::http::Method;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use noetl_types::ErrorCode;
use serde_json::json;

use super::{TestResponse, build_request, is_ok, start_server};

async fn post_text(path: &str, body: impl Into<Body>) -> TestResponse {
    let server = start_server().await;
    server.send(build_request(Method::POST, path, body)).await
}

#[tokio::test]
async fn invalid_json_is_rejected_with_position() {
    let reply = post_text("/api/execute", "{\n  \"path\": nope }").await;
    reply.assert_problem(ErrorCode::BadJson);
    assert_eq!(reply.json_at("/errors/0/line"), 2);
    assert_eq!(reply.json_at("/errors/0/column"), 12);
    assert_eq!(reply.text_at("/detail"), "expected ident at line 2 column 12");
    let reply = post_text("/api/execute", "{\"path\":").await;
    reply.assert_problem(ErrorCode::BadJson);
    let reply = post_text("/api/execute", "").await;
    reply.assert_problem(ErrorCode::BadJson);
    let reply = post_text("/api/execute", "{} {}").await;
    reply.assert_problem(ErrorCode::BadJson);
    let reply = post_text("/api/execute", &b"{\"path\":\"\xff\"}"[..]).await;
    reply.assert_problem(ErrorCode::BadJson);
}

#[tokio::test]
async fn invalid_values_are_reported_by_pointer() {
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
        ("/api/commands/lease", json!({ "worker_id": "w", "pool": "no pool" }), "/pool"),
        ("/api/commands/lease", json!({ "worker_id": "w", "pool": "p", "max": 101 }), "/max"),
        ("/api/commands/lease", json!({ "worker_id": "w" }), ""),
        ("/api/commands/report", report, "/reports/0/status"),
    ] {
        let server = start_server().await;
        let reply = server.post(path, body).await;
        reply.assert_problem(ErrorCode::Validation);
        assert_eq!(reply.text_at("/errors/0/pointer"), pointer, "{}", reply.text);
    }
}

#[tokio::test]
async fn new_routes_reject_unknown_fields() {
    let server = start_server().await;
    let body = json!({ "worker_id": "w", "pool": "shared", "wait_ns": 1 });
    let reply = server.post("/api/commands/lease", body).await;
    reply.assert_problem(ErrorCode::Validation);
    assert!(reply.text.contains("wait_ns"), "{}", reply.text);
    // Classic routes ignore them.
    let body = json!({ "path": "nowhere", "resource_kind": "playbook", "x": [1] });
    let reply = server.post("/api/execute", body).await;
    reply.assert_problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn json_depth_is_bounded() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let server = start_server().await;
    for (field, levels, code) in [
        ("payload", 64, ErrorCode::NotFound),
        ("payload", 65, ErrorCode::BadJson),
        ("payload", 100_000, ErrorCode::BadJson),
        // Unknown fields may have any depth.
        ("unknown", 100_000, ErrorCode::NotFound),
    ] {
        let body = format!("{{\"path\":\"nowhere\",\"{field}\":{}}}", nested(levels));
        let reply = server.send(build_request(Method::POST, "/api/execute", body)).await;
        reply.assert_problem(code);
    }
}

#[tokio::test]
async fn body_size_limit_depends_on_route() {
    const MIB: usize = 1 << 20;
    let server = start_server().await;
    for (path, limit) in [
        ("/api/execute", MIB),
        ("/api/catalog/resource", MIB),
        ("/api/catalog/register", 8 * MIB),
        ("/api/commands/lease", MIB),
        ("/api/commands/report", 72 * MIB),
    ] {
        let blanks = |bytes| build_request(Method::POST, path, vec![b' '; bytes]);
        let reply = server.send(blanks(limit.min(9 * MIB))).await;
        reply.assert_problem(ErrorCode::BadJson);
        let reply = server.send(blanks(limit + 1)).await;
        reply.assert_problem(ErrorCode::TooLarge);
    }
}

#[tokio::test]
async fn rejects_large_content_length_before_reading() {
    let server = start_server().await;
    // A body that panics when it is read.
    let unread = Body::new(http_body_util::BodyExt::map_frame(
        http_body_util::Full::new(Bytes::from_static(b"{}")),
        |frame| -> hyper::body::Frame<Bytes> { panic!("the body was read: {:?}", frame.is_data()) },
    ));
    let mut request = build_request(Method::POST, "/api/execute", unread);
    let headers = request.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("100000000"));
    server.send(request).await.assert_problem(ErrorCode::TooLarge);
}

#[tokio::test]
async fn rejects_unsupported_media_types() {
    let server = start_server().await;
    let with_media_type = |media_type: Option<&'static str>| {
        let mut request = build_request(Method::POST, "/api/catalog/resource", "{}");
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
        let reply = server.send(with_media_type(Some(media_type))).await;
        reply.assert_problem(ErrorCode::UnsupportedMedia);
    }
    for media_type in [None, Some("application/json; charset=utf-8")] {
        let reply = server.send(with_media_type(media_type)).await;
        reply.assert_problem(ErrorCode::Validation);
    }
    let mut compressed = with_media_type(None);
    let gzip = HeaderValue::from_static("gzip");
    compressed.headers_mut().insert(CONTENT_ENCODING, gzip);
    let reply = server.send(compressed).await;
    reply.assert_problem(ErrorCode::UnsupportedMedia);
}

#[tokio::test]
async fn wait_is_limited_to_thirty_seconds() {
    let server = start_server().await;
    let body = json!({ "worker_id": "w", "pool": "shared", "wait_ms": 30_001 });
    let reply = server.post("/api/commands/lease", body).await;
    reply.assert_problem(ErrorCode::OutOfRange);
    assert_eq!(reply.text_at("/errors/0/pointer"), "/wait_ms");
    let lease = json!({ "pool": "shared", "max": 1, "wait_ms": 30_001 });
    let body = json!({ "worker_id": "w", "reports": [], "lease": lease });
    let reply = server.post("/api/commands/report", body).await;
    reply.assert_problem(ErrorCode::OutOfRange);
    let body = json!({ "path": "nowhere", "wait_ms": 30_001 });
    let reply = server.post("/api/execute", body).await;
    reply.assert_problem(ErrorCode::OutOfRange);
}

#[tokio::test]
async fn cancel_accepts_empty_body() {
    let server = start_server().await;
    let execution_id = server.start_two_steps().await;
    let path = format!("/api/executions/{execution_id}/cancel");
    let reply = server.send(build_request(Method::POST, &path, "")).await;
    assert!(is_ok(&reply), "{}", reply.text);
    assert_eq!(reply.text_at("/status"), "cancelled");
    assert_eq!(reply.text_at("/cancelled_executions/0"), execution_id);
    let again = server.post(&path, json!({ "reason": "twice" })).await;
    assert!(is_ok(&again), "{}", again.text);
}
