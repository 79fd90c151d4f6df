//! Tasks against a real NATS server.

use noetl_testkit::nats::Nats;
use noetl_tools::egress::EgressPolicy;
use noetl_tools::{Call, NatsSettings, ToolKind, Toolbox};
use noetl_types::{Json, TaskErrorKind};

use crate::support::{call, data, error, run, settings, toolbox, value};

fn server() -> Nats {
    Nats::start().unwrap()
}

fn on(server: &Nats, kind: ToolKind, keys: &str) -> Call {
    let mut config = value(keys).as_map().unwrap().clone();
    config.insert("url".into(), Json::from(server.url()));
    call(kind, &config.into())
}

fn nats(server: &Nats, keys: &str) -> Call {
    on(server, ToolKind::Nats, keys)
}

/// A stream with one subject, which only a bucket makes by itself: so it is made as one.
async fn with_stream(toolbox: &Toolbox, server: &Nats) {
    let made = r#"{"operation": "kv_put", "bucket": "box", "key": "seed", "value": 0}"#;
    data(toolbox, nats(server, made)).await;
}

#[tokio::test]
async fn keys_are_put_read_listed_and_forgotten() {
    let (server, toolbox) = (server(), toolbox());
    let missing = r#"{"operation": "kv_get", "bucket": "cfg", "key": "a"}"#;
    let (kind, message) = error(&toolbox, nats(&server, missing)).await;
    assert_eq!(kind, TaskErrorKind::NotFound);
    assert_eq!(message, "there is no bucket 'cfg'");
    let put = r#"{"operation": "kv_put", "bucket": "cfg", "key": "user.7", "ttl": "1h",
        "value": {"name": "Ada"}}"#;
    assert_eq!(
        data(&toolbox, nats(&server, put)).await,
        r#"{"bucket":"cfg","key":"user.7","revision":1,"status":"success"}"#
    );
    let text = r#"{"operation": "kv_put", "bucket": "cfg", "key": "note", "value": "plain"}"#;
    data(&toolbox, nats(&server, text)).await;
    let get = r#"{"operation": "kv_get", "bucket": "cfg", "key": "user.7"}"#;
    assert_eq!(
        data(&toolbox, nats(&server, get)).await,
        r#"{"bucket":"cfg","key":"user.7","revision":1,"status":"success","value":{"name":"Ada"}}"#
    );
    let absent = r#"{"operation": "kv_get", "bucket": "cfg", "key": "none"}"#;
    assert_eq!(
        data(&toolbox, nats(&server, absent)).await,
        r#"{"bucket":"cfg","key":"none","status":"not_found","value":null}"#
    );
    let keys = r#"{"operation": "kv_keys", "bucket": "cfg", "pattern": "user.*"}"#;
    assert_eq!(
        data(&toolbox, nats(&server, keys)).await,
        r#"{"bucket":"cfg","count":1,"keys":["user.7"],"status":"success"}"#
    );
    let delete = r#"{"operation": "kv_delete", "bucket": "cfg", "key": "user.7"}"#;
    data(&toolbox, nats(&server, delete)).await;
    let purge = r#"{"operation": "kv_purge", "bucket": "cfg", "key": "note"}"#;
    data(&toolbox, nats(&server, purge)).await;
    let gone = data(&toolbox, nats(&server, get)).await;
    assert!(gone.contains(r#""status":"not_found""#), "{gone}");
    let none = r#"{"operation": "kv_keys", "bucket": "cfg"}"#;
    let none = data(&toolbox, nats(&server, none)).await;
    assert!(none.contains(r#""count":0"#), "{none}");
}

#[tokio::test]
async fn objects_are_put_read_listed_and_forgotten() {
    let (server, toolbox) = (server(), toolbox());
    let put = r#"{"operation": "object_put", "bucket": "files", "object": "a b.json",
        "data": {"rows": [1, 2]}}"#;
    let stored = run(&toolbox, nats(&server, put)).await;
    assert_eq!(stored.error, None);
    assert_eq!(stored.data.get("size"), Some(&Json::from(14)));
    let get = r#"{"operation": "object_get", "bucket": "files", "object": "a b.json"}"#;
    let read = run(&toolbox, nats(&server, get)).await;
    assert_eq!(read.data.get("data"), Some(&value(r#"{"rows": [1, 2]}"#)));
    assert_eq!(read.data.get("digest"), stored.data.get("digest"));
    let list = r#"{"operation": "object_list", "bucket": "files"}"#;
    let list = run(&toolbox, nats(&server, list)).await;
    assert_eq!(list.data.get("count"), Some(&Json::from(1)));
    let delete = r#"{"operation": "object_delete", "bucket": "files", "object": "a b.json"}"#;
    data(&toolbox, nats(&server, delete)).await;
    let info = r#"{"operation": "object_info", "bucket": "files", "object": "a b.json"}"#;
    let (kind, _) = error(&toolbox, nats(&server, info)).await;
    assert_eq!(kind, TaskErrorKind::NotFound);
    let (kind, _) = error(&toolbox, nats(&server, get)).await;
    assert_eq!(kind, TaskErrorKind::NotFound);
}

#[tokio::test]
async fn a_message_is_published_once_however_often_it_is_tried() {
    let (server, toolbox) = (server(), toolbox());
    with_stream(&toolbox, &server).await;
    let publish = r#"{"operation": "js_publish", "subject": "$KV.box.x", "data": {"n": 1},
        "headers": {"Trace": "t1"}}"#;
    let first = data(&toolbox, nats(&server, publish)).await;
    assert_eq!(
        first,
        r#"{"duplicate":false,"seq":2,"status":"success","stream":"KV_box","subject":"$KV.box.x"}"#
    );
    let again = data(&toolbox, nats(&server, publish)).await;
    assert!(again.contains(r#""duplicate":true"#), "{again}");
    let by_seq = r#"{"operation": "js_get_msg", "stream": "KV_box", "seq": 2}"#;
    let by_seq = run(&toolbox, nats(&server, by_seq)).await;
    assert_eq!(by_seq.data.get("data"), Some(&value(r#"{"n": 1}"#)));
    let headers = by_seq.data.get("headers").unwrap();
    assert_eq!(
        headers.get("Nats-Msg-Id"),
        Some(&Json::from("7001:4:greet:1"))
    );
    assert_eq!(headers.get("Trace"), Some(&Json::from("t1")));
    let last = r#"{"operation": "js_get_msg", "stream": "KV_box", "last": "$KV.box.seed"}"#;
    let last = run(&toolbox, nats(&server, last)).await;
    assert_eq!(last.data.get("seq"), Some(&Json::from(1)));
    let info = r#"{"operation": "js_stream_info", "stream": "KV_box"}"#;
    let info = run(&toolbox, nats(&server, info)).await;
    assert_eq!(info.data.get("messages"), Some(&Json::from(2)));
    let nowhere = r#"{"operation": "js_publish", "subject": "nobody.hears", "data": 1}"#;
    let (kind, message) = error(&toolbox, nats(&server, nowhere)).await;
    assert_eq!(kind, TaskErrorKind::NotFound, "{message}");
    let strange = r#"{"operation": "js_publish", "subject": "a b", "data": 1}"#;
    let (kind, _) = error(&toolbox, nats(&server, strange)).await;
    assert_eq!(kind, TaskErrorKind::Schema);
}

#[tokio::test]
async fn messages_are_consumed_and_what_is_acknowledged_does_not_come_again() {
    let (server, toolbox) = (server(), toolbox());
    with_stream(&toolbox, &server).await;
    let consume = r#"{"operation": "js_consume", "stream": "KV_box", "consumer": "c",
        "batch": 5, "timeout_ms": 500}"#;
    let first = run(&toolbox, nats(&server, consume)).await;
    assert_eq!(
        first.data.get("count"),
        Some(&Json::from(1)),
        "{}",
        first.data
    );
    assert_eq!(first.data.get("acked"), Some(&Json::from(1)));
    let again = run(&toolbox, nats(&server, consume)).await;
    assert_eq!(again.data.get("count"), Some(&Json::from(0)));
    let missing = r#"{"operation": "js_consume", "stream": "none", "consumer": "c"}"#;
    let (kind, _) = error(&toolbox, nats(&server, missing)).await;
    assert_eq!(kind, TaskErrorKind::NotFound);
}

#[tokio::test]
async fn a_poll_gives_ids_by_which_messages_are_settled() {
    let (server, toolbox) = (server(), toolbox());
    with_stream(&toolbox, &server).await;
    let subscription = |keys: &str| on(&server, ToolKind::Subscription, keys);
    let poll = r#"{"source": "nats", "stream": "KV_box", "consumer": "s", "ack": "manual",
        "timeout_ms": 2000, "batch": 1}"#;
    let polled = run(&toolbox, subscription(poll)).await;
    assert_eq!(polled.data.get("count"), Some(&Json::from(1)), "{polled:?}");
    assert_eq!(polled.data.get("ack_mode"), Some(&Json::from("manual")));
    assert_eq!(polled.data.get("acked"), Some(&Json::from(0)));
    let ids = polled.data.get("ack_ids").unwrap();
    let nack = format!(r#"{{"source": "nats", "operation": "nack", "ack_ids": {ids}}}"#);
    data(&toolbox, subscription(&nack)).await;
    let again = run(&toolbox, subscription(poll)).await;
    assert_eq!(again.data.get("count"), Some(&Json::from(1)), "{again:?}");
    let ids = again.data.get("ack_ids").unwrap();
    let ack = format!(r#"{{"source": "nats", "operation": "ack", "ack_ids": {ids}}}"#);
    let acked = run(&toolbox, subscription(&ack)).await;
    assert_eq!(acked.data.get("acked"), Some(&Json::from(1)));
    let empty = poll.replace("2000", "100");
    let none = run(&toolbox, subscription(&empty)).await;
    assert_eq!(
        (none.error, none.data.get("count")),
        (None, Some(&Json::from(0)))
    );
    let foreign = r#"{"source": "nats", "operation": "ack", "ack_ids": ["noetl.commands"]}"#;
    let (kind, _) = error(&toolbox, subscription(foreign)).await;
    assert_eq!(kind, TaskErrorKind::Schema);
    let kafka = r#"{"source": "kafka", "operation": "poll"}"#;
    let (kind, _) = error(&toolbox, subscription(kafka)).await;
    assert_eq!(kind, TaskErrorKind::Unsupported);
}

#[tokio::test]
async fn a_server_is_reached_only_where_the_operator_lets_tools_go() {
    let server = server();
    let mut guarded = settings();
    guarded.egress = EgressPolicy::parse("").unwrap();
    let keys = r#"{"operation": "js_stream_info", "stream": "x"}"#;
    let (kind, message) = error(&Toolbox::new(guarded.clone()), nats(&server, keys)).await;
    assert_eq!(kind, TaskErrorKind::Auth, "{message}");
    // The server of the house is no choice of the task's.
    guarded.nats = Some(NatsSettings {
        url: server.url().into(),
        ..NatsSettings::default()
    });
    let own = call(ToolKind::Nats, &value(keys));
    let (kind, _) = error(&Toolbox::new(guarded), own).await;
    assert_eq!(kind, TaskErrorKind::NotFound);
}

#[tokio::test]
async fn a_server_that_comes_back_is_used_again() {
    let (mut server, toolbox) = (server(), toolbox());
    with_stream(&toolbox, &server).await;
    server.kill().unwrap();
    let get = r#"{"operation": "kv_get", "bucket": "box", "key": "seed"}"#;
    let (kind, message) = error(&toolbox, nats(&server, get)).await;
    assert!(
        matches!(kind, TaskErrorKind::Connection | TaskErrorKind::Timeout),
        "{message}"
    );
    server.restart().unwrap();
    assert!(
        data(&toolbox, nats(&server, get))
            .await
            .contains(r#""value":0"#)
    );
}

#[tokio::test]
async fn who_is_not_let_in_is_told_so() {
    let server = Nats::configured("authorization: { user: ada, password: secret }").unwrap();
    let toolbox = toolbox();
    let keys = r#"{"operation": "js_stream_info", "stream": "x"}"#;
    let (kind, message) = error(&toolbox, nats(&server, keys)).await;
    assert_eq!(kind, TaskErrorKind::Auth, "{message}");
    let auth = r#"{"operation": "js_stream_info", "stream": "x",
        "auth": {"type": "nats", "user": "ada", "password": "secret"}}"#;
    let (kind, _) = error(&toolbox, nats(&server, auth)).await;
    assert_eq!(kind, TaskErrorKind::NotFound);
}
