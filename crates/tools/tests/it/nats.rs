//! NATS tools with a real server.

use noetl_testkit::nats::NatsServer;
use noetl_tools::egress::EgressPolicy;
use noetl_tools::{NatsSettings, ToolCall, ToolKind, Toolbox};
use noetl_types::{Json, TaskErrorKind};

use crate::support::{
    parse_json, run_call, run_data, run_failing, test_settings, test_toolbox, tool_call,
};

fn start_nats() -> NatsServer {
    NatsServer::start().unwrap()
}

fn nats_server_call(server: &NatsServer, kind: ToolKind, keys: &str) -> ToolCall {
    let mut config = parse_json(keys).as_map().unwrap().clone();
    config.insert("url".into(), Json::from(server.url()));
    tool_call(kind, &config.into())
}

fn nats_call(server: &NatsServer, keys: &str) -> ToolCall {
    nats_server_call(server, ToolKind::Nats, keys)
}

/// Creates a stream with one subject. Tools can create streams only as buckets, so it is created as
/// one.
async fn create_stream(toolbox: &Toolbox, server: &NatsServer) {
    let config = r#"{"operation": "kv_put", "bucket": "box", "key": "seed", "value": 0}"#;
    run_data(toolbox, nats_call(server, config)).await;
}

#[tokio::test]
async fn puts_gets_lists_and_deletes_keys() {
    let (server, toolbox) = (start_nats(), test_toolbox());
    let missing = r#"{"operation": "kv_get", "bucket": "cfg", "key": "a"}"#;
    let (kind, message) = run_failing(&toolbox, nats_call(&server, missing)).await;
    assert_eq!(kind, TaskErrorKind::NotFound);
    assert_eq!(message, "there is no bucket 'cfg'");
    let put = r#"{"operation": "kv_put", "bucket": "cfg", "key": "user.7", "ttl": "1h",
        "value": {"name": "Ada"}}"#;
    assert_eq!(
        run_data(&toolbox, nats_call(&server, put)).await,
        r#"{"bucket":"cfg","key":"user.7","revision":1,"status":"success"}"#
    );
    let text = r#"{"operation": "kv_put", "bucket": "cfg", "key": "note", "value": "plain"}"#;
    run_data(&toolbox, nats_call(&server, text)).await;
    let get = r#"{"operation": "kv_get", "bucket": "cfg", "key": "user.7"}"#;
    assert_eq!(
        run_data(&toolbox, nats_call(&server, get)).await,
        r#"{"bucket":"cfg","key":"user.7","revision":1,"status":"success","value":{"name":"Ada"}}"#
    );
    let absent = r#"{"operation": "kv_get", "bucket": "cfg", "key": "none"}"#;
    assert_eq!(
        run_data(&toolbox, nats_call(&server, absent)).await,
        r#"{"bucket":"cfg","key":"none","status":"not_found","value":null}"#
    );
    let keys = r#"{"operation": "kv_keys", "bucket": "cfg", "pattern": "user.*"}"#;
    assert_eq!(
        run_data(&toolbox, nats_call(&server, keys)).await,
        r#"{"bucket":"cfg","count":1,"keys":["user.7"],"status":"success"}"#
    );
    let delete = r#"{"operation": "kv_delete", "bucket": "cfg", "key": "user.7"}"#;
    run_data(&toolbox, nats_call(&server, delete)).await;
    let purge = r#"{"operation": "kv_purge", "bucket": "cfg", "key": "note"}"#;
    run_data(&toolbox, nats_call(&server, purge)).await;
    let deleted = run_data(&toolbox, nats_call(&server, get)).await;
    assert!(deleted.contains(r#""status":"not_found""#), "{deleted}");
    let keys = r#"{"operation": "kv_keys", "bucket": "cfg"}"#;
    let keys = run_data(&toolbox, nats_call(&server, keys)).await;
    assert!(keys.contains(r#""count":0"#), "{keys}");
}

#[tokio::test]
async fn puts_gets_lists_and_deletes_objects() {
    let (server, toolbox) = (start_nats(), test_toolbox());
    let put = r#"{"operation": "object_put", "bucket": "files", "object": "a b.json",
        "data": {"rows": [1, 2]}}"#;
    let stored = run_call(&toolbox, nats_call(&server, put)).await;
    assert_eq!(stored.error, None);
    assert_eq!(stored.data.get("size"), Some(&Json::from(14)));
    let get = r#"{"operation": "object_get", "bucket": "files", "object": "a b.json"}"#;
    let read = run_call(&toolbox, nats_call(&server, get)).await;
    assert_eq!(read.data.get("data"), Some(&parse_json(r#"{"rows": [1, 2]}"#)));
    assert_eq!(read.data.get("digest"), stored.data.get("digest"));
    let list = r#"{"operation": "object_list", "bucket": "files"}"#;
    let list = run_call(&toolbox, nats_call(&server, list)).await;
    assert_eq!(list.data.get("count"), Some(&Json::from(1)));
    let delete = r#"{"operation": "object_delete", "bucket": "files", "object": "a b.json"}"#;
    run_data(&toolbox, nats_call(&server, delete)).await;
    let info = r#"{"operation": "object_info", "bucket": "files", "object": "a b.json"}"#;
    let (kind, _) = run_failing(&toolbox, nats_call(&server, info)).await;
    assert_eq!(kind, TaskErrorKind::NotFound);
    let (kind, _) = run_failing(&toolbox, nats_call(&server, get)).await;
    assert_eq!(kind, TaskErrorKind::NotFound);
}

#[tokio::test]
async fn retried_publish_is_deduplicated() {
    let (server, toolbox) = (start_nats(), test_toolbox());
    create_stream(&toolbox, &server).await;
    let publish = r#"{"operation": "js_publish", "subject": "$KV.box.x", "data": {"n": 1},
        "headers": {"Trace": "t1"}}"#;
    let first = run_data(&toolbox, nats_call(&server, publish)).await;
    assert_eq!(
        first,
        r#"{"duplicate":false,"seq":2,"status":"success","stream":"KV_box","subject":"$KV.box.x"}"#
    );
    let second = run_data(&toolbox, nats_call(&server, publish)).await;
    assert!(second.contains(r#""duplicate":true"#), "{second}");
    let by_seq = r#"{"operation": "js_get_msg", "stream": "KV_box", "seq": 2}"#;
    let by_seq = run_call(&toolbox, nats_call(&server, by_seq)).await;
    assert_eq!(by_seq.data.get("data"), Some(&parse_json(r#"{"n": 1}"#)));
    let headers = by_seq.data.get("headers").unwrap();
    assert_eq!(headers.get("Nats-Msg-Id"), Some(&Json::from("7001:4:greet:1")));
    assert_eq!(headers.get("Trace"), Some(&Json::from("t1")));
    let last = r#"{"operation": "js_get_msg", "stream": "KV_box", "last": "$KV.box.seed"}"#;
    let last = run_call(&toolbox, nats_call(&server, last)).await;
    assert_eq!(last.data.get("seq"), Some(&Json::from(1)));
    let info = r#"{"operation": "js_stream_info", "stream": "KV_box"}"#;
    let info = run_call(&toolbox, nats_call(&server, info)).await;
    assert_eq!(info.data.get("messages"), Some(&Json::from(2)));
    let no_stream = r#"{"operation": "js_publish", "subject": "no.stream", "data": 1}"#;
    let (kind, message) = run_failing(&toolbox, nats_call(&server, no_stream)).await;
    assert_eq!(kind, TaskErrorKind::NotFound, "{message}");
    let invalid = r#"{"operation": "js_publish", "subject": "a b", "data": 1}"#;
    let (kind, _) = run_failing(&toolbox, nats_call(&server, invalid)).await;
    assert_eq!(kind, TaskErrorKind::Schema);
}

#[tokio::test]
async fn acknowledged_messages_are_not_redelivered() {
    let (server, toolbox) = (start_nats(), test_toolbox());
    create_stream(&toolbox, &server).await;
    let consume = r#"{"operation": "js_consume", "stream": "KV_box", "consumer": "c",
        "batch": 5, "timeout_ms": 500}"#;
    let first = run_call(&toolbox, nats_call(&server, consume)).await;
    assert_eq!(first.data.get("count"), Some(&Json::from(1)), "{}", first.data);
    assert_eq!(first.data.get("acked"), Some(&Json::from(1)));
    let second = run_call(&toolbox, nats_call(&server, consume)).await;
    assert_eq!(second.data.get("count"), Some(&Json::from(0)));
    let missing = r#"{"operation": "js_consume", "stream": "none", "consumer": "c"}"#;
    let (kind, _) = run_failing(&toolbox, nats_call(&server, missing)).await;
    assert_eq!(kind, TaskErrorKind::NotFound);
}

#[tokio::test]
async fn poll_returns_ids_for_acknowledgement() {
    let (server, toolbox) = (start_nats(), test_toolbox());
    create_stream(&toolbox, &server).await;
    let subscription = |keys: &str| nats_server_call(&server, ToolKind::Subscription, keys);
    let poll = r#"{"source": "nats", "stream": "KV_box", "consumer": "s", "ack": "manual",
        "timeout_ms": 2000, "batch": 1}"#;
    let polled = run_call(&toolbox, subscription(poll)).await;
    assert_eq!(polled.data.get("count"), Some(&Json::from(1)), "{polled:?}");
    assert_eq!(polled.data.get("ack_mode"), Some(&Json::from("manual")));
    assert_eq!(polled.data.get("acked"), Some(&Json::from(0)));
    let ids = polled.data.get("ack_ids").unwrap();
    let nack = format!(r#"{{"source": "nats", "operation": "nack", "ack_ids": {ids}}}"#);
    run_data(&toolbox, subscription(&nack)).await;
    let second = run_call(&toolbox, subscription(poll)).await;
    assert_eq!(second.data.get("count"), Some(&Json::from(1)), "{second:?}");
    let ids = second.data.get("ack_ids").unwrap();
    let ack = format!(r#"{{"source": "nats", "operation": "ack", "ack_ids": {ids}}}"#);
    let acked = run_call(&toolbox, subscription(&ack)).await;
    assert_eq!(acked.data.get("acked"), Some(&Json::from(1)));
    let empty = poll.replace("2000", "100");
    let third = run_call(&toolbox, subscription(&empty)).await;
    assert_eq!((third.error, third.data.get("count")), (None, Some(&Json::from(0))));
    let foreign = r#"{"source": "nats", "operation": "ack", "ack_ids": ["noetl.commands"]}"#;
    let (kind, _) = run_failing(&toolbox, subscription(foreign)).await;
    assert_eq!(kind, TaskErrorKind::Schema);
    let kafka = r#"{"source": "kafka", "operation": "poll"}"#;
    let (kind, _) = run_failing(&toolbox, subscription(kafka)).await;
    assert_eq!(kind, TaskErrorKind::Unsupported);
}

#[tokio::test]
async fn egress_policy_applies_to_nats_servers() {
    let server = start_nats();
    let mut settings = test_settings();
    settings.egress = EgressPolicy::parse("").unwrap();
    let keys = r#"{"operation": "js_stream_info", "stream": "x"}"#;
    let (kind, message) =
        run_failing(&Toolbox::new(settings.clone()), nats_call(&server, keys)).await;
    assert_eq!(kind, TaskErrorKind::Auth, "{message}");
    // The server of the operator is not chosen by the task, so the policy does not apply.
    settings.nats = Some(NatsSettings { url: server.url().into(), ..NatsSettings::default() });
    let call = tool_call(ToolKind::Nats, &parse_json(keys));
    let (kind, _) = run_failing(&Toolbox::new(settings), call).await;
    assert_eq!(kind, TaskErrorKind::NotFound);
}

#[tokio::test]
async fn reconnects_to_restarted_server() {
    let (mut server, toolbox) = (start_nats(), test_toolbox());
    create_stream(&toolbox, &server).await;
    server.kill_server().unwrap();
    let get = r#"{"operation": "kv_get", "bucket": "box", "key": "seed"}"#;
    let (kind, message) = run_failing(&toolbox, nats_call(&server, get)).await;
    assert!(matches!(kind, TaskErrorKind::Connection | TaskErrorKind::Timeout), "{message}");
    server.restart_server().unwrap();
    assert!(run_data(&toolbox, nats_call(&server, get)).await.contains(r#""value":0"#));
}

#[tokio::test]
async fn rejected_login_is_auth_error() {
    let server =
        NatsServer::start_with_config("authorization: { user: ada, password: secret }").unwrap();
    let toolbox = test_toolbox();
    let keys = r#"{"operation": "js_stream_info", "stream": "x"}"#;
    let (kind, message) = run_failing(&toolbox, nats_call(&server, keys)).await;
    assert_eq!(kind, TaskErrorKind::Auth, "{message}");
    let auth = r#"{"operation": "js_stream_info", "stream": "x",
        "auth": {"type": "nats", "user": "ada", "password": "secret"}}"#;
    let (kind, _) = run_failing(&toolbox, nats_call(&server, auth)).await;
    assert_eq!(kind, TaskErrorKind::NotFound);
}
