//! The conversation with an MCP server, which is played here.

use noetl_tools::egress::EgressPolicy;
use noetl_tools::{Call, Outcome, Settings, ToolKind, Toolbox};
use noetl_types::{Json, TaskErrorKind};

use crate::server::{Seen, Server, answer};
use crate::support::{call, error, run, text, toolbox, value};

fn reply(seen: &Seen, result: &str) -> String {
    let id = value(&seen.body).get("id").cloned().unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn json(headers: &str, body: &str) -> Vec<u8> {
    let headers = format!("content-type: application/json\r\n{headers}");
    answer("200 OK", &headers, body).into_bytes()
}

fn method_of(seen: &Seen) -> String {
    if !seen.head.starts_with("POST") {
        return seen.head.split(' ').next().unwrap().to_owned();
    }
    let message = value(&seen.body);
    message.get("method").unwrap().as_str().unwrap().to_owned()
}

/// A server with a greeting and a session, that answers requests by a function.
async fn server(ask: impl Fn(&Seen) -> Vec<u8> + Send + Sync + 'static) -> Server {
    Server::start(move |seen| match &*method_of(seen) {
        "initialize" => json(
            "mcp-session-id: s1\r\n",
            &reply(
                seen,
                r#"{"protocolVersion":"2025-03-26","capabilities":{}}"#,
            ),
        ),
        "notifications/initialized" => answer("202 Accepted", "", "").into_bytes(),
        "DELETE" => answer("200 OK", "", "").into_bytes(),
        _ => ask(seen),
    })
    .await
}

fn mcp_at(url: &str) -> Call {
    let config = format!(r#"{{"endpoint": "{url}", "tool": "t"}}"#);
    call(ToolKind::Mcp, &value(&config))
}

fn mcp(server: &Server, rest: &str) -> Call {
    let config = format!(r#"{{"endpoint": "{}"{rest}}}"#, server.url("/mcp"));
    call(ToolKind::Mcp, &value(&config))
}

fn failed(outcome: &Outcome) -> (TaskErrorKind, String) {
    let error = outcome.error.as_ref().unwrap();
    (error.kind, error.message.to_string())
}

#[tokio::test]
async fn a_tool_is_called_in_a_session() {
    let server = server(|seen| {
        let result = r#"{"content":[{"type":"text","text":"12"},{"type":"image"},
            {"type":"text","text":"degrees"}],"structuredContent":{"t":12}}"#;
        json("", &reply(seen, result))
    })
    .await;
    let rest = r#", "tool": "weather", "arguments": {"city": "Bonn"},
        "auth": {"type": "bearer", "token": "t"}, "headers": {"x-mine": "m"}"#;
    let outcome = run(&toolbox(), mcp(&server, rest)).await;
    assert_eq!(outcome.error, None);
    assert_eq!(text(&outcome, "status"), "success");
    assert_eq!(text(&outcome, "text"), "12\ndegrees");
    assert_eq!(text(&outcome, "method"), "tools/call");
    assert_eq!(text(&outcome, "tool"), "weather");
    assert_eq!(text(&outcome, "endpoint"), server.url("/mcp"));
    assert_eq!(outcome.data.get("server"), Some(&Json::Null));
    let result = outcome.data.get("result").unwrap();
    let structured = result.get("structuredContent").unwrap();
    assert_eq!(structured.to_string(), r#"{"t":12}"#);
    assert_eq!(
        outcome.data.get("arguments").unwrap().to_string(),
        r#"{"city":"Bonn"}"#
    );

    let seen = server.seen();
    let methods: Vec<String> = seen.iter().map(method_of).collect();
    assert_eq!(
        methods,
        [
            "initialize",
            "notifications/initialized",
            "tools/call",
            "DELETE"
        ]
    );
    let greeting = value(&seen[0].body);
    let params = greeting.get("params").unwrap();
    assert_eq!(
        params.get("protocolVersion"),
        Some(&Json::from("2025-06-18"))
    );
    for (index, request) in seen.iter().enumerate() {
        let later = (index > 0).then_some("s1");
        assert_eq!(request.header("mcp-session-id"), later);
        let version = (index > 0).then_some("2025-03-26");
        assert_eq!(request.header("mcp-protocol-version"), version);
        assert_eq!(request.header("authorization"), Some("Bearer t"));
        assert_eq!(request.header("x-mine"), Some("m"));
        let accept = request.header("accept").unwrap();
        assert!(accept.contains("text/event-stream"), "{accept}");
    }
    assert_eq!(
        value(&seen[2].body).get("params").unwrap().to_string(),
        r#"{"arguments":{"city":"Bonn"},"name":"weather"}"#
    );
    assert_eq!(seen[2].header("idempotency-key"), Some("7001:4:greet:1"));
}

/// The stream has other messages before the answer, and what comes after it is not waited for.
#[tokio::test]
async fn an_answer_may_come_in_a_stream() {
    let server = server(|seen| {
        let stream = format!(
            ": hello\n\nevent: message\ndata: {{\"jsonrpc\":\"2.0\",\
             \"method\":\"notifications/progress\"}}\n\n\
             data: {{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}}\n\n\
             id: 7\ndata: {}\n\ndata: not json\n\n",
            reply(seen, r#"{"tools":[]}"#)
        );
        let headers = "content-type: text/event-stream; charset=utf-8\r\ncontent-length: 9999\r\n";
        answer("200 OK", headers, &stream).into_bytes()
    })
    .await;
    let outcome = run(&toolbox(), mcp(&server, r#", "method": "tools/list""#)).await;
    assert_eq!(outcome.error, None);
    let result = outcome.data.get("result").unwrap().to_string();
    assert_eq!(result, r#"{"tools":[]}"#);
    assert_eq!(outcome.data.get("tool"), Some(&Json::Null));
}

#[tokio::test]
async fn failures_of_tools_and_requests() {
    let server = server(|seen| {
        let message = value(&seen.body);
        let tool = message.get("params").and_then(|params| params.get("name"));
        match tool.and_then(Json::as_str) {
            Some("broken") => json(
                "",
                &reply(
                    seen,
                    r#"{"isError":true,"content":[{"type":"text","text":"no luck"}]}"#,
                ),
            ),
            Some("refused") => {
                let id = message.get("id").unwrap();
                let error = r#"{"code":-32602,"message":"bad arguments","data":{"k":1}}"#;
                json(
                    "",
                    &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#),
                )
            }
            Some("gone") => answer("404 X", "", "").into_bytes(),
            Some("down") => answer("503 X", "", "").into_bytes(),
            Some("cut") => {
                answer("200 OK", "content-type: text/event-stream\r\n", ": hi\n\n").into_bytes()
            }
            _ => json("", "what?"),
        }
    })
    .await;
    let ask =
        async |tool: &str| run(&toolbox(), mcp(&server, &format!(r#", "tool": "{tool}""#))).await;
    let outcome = ask("broken").await;
    assert_eq!(
        failed(&outcome),
        (
            TaskErrorKind::Transform,
            "'broken' reported an error: no luck".to_owned()
        )
    );
    assert_eq!(text(&outcome, "status"), "error");
    assert_eq!(text(&outcome, "text"), "no luck");

    let outcome = ask("refused").await;
    let error = outcome.error.clone().unwrap();
    assert_eq!(error.kind, TaskErrorKind::Transform);
    assert_eq!(error.message, "bad arguments");
    assert_eq!(error.code, Some(Json::from(-32602)));
    assert_eq!(error.details.unwrap().to_string(), r#"{"k":1}"#);
    assert_eq!(text(&outcome, "status"), "error");

    let kinds = [
        ("gone", TaskErrorKind::Connection),
        ("down", TaskErrorKind::ServerError),
        ("cut", TaskErrorKind::Connection),
        ("other", TaskErrorKind::Parse),
    ];
    for (tool, kind) in kinds {
        assert_eq!(failed(&ask(tool).await).0, kind, "{tool}");
    }
}

#[tokio::test]
async fn a_server_without_a_greeting_is_called_all_the_same() {
    let server = Server::start(|seen| {
        if method_of(seen) == "initialize" {
            let error = r#"{"code":-32601,"message":"unknown method"}"#;
            return json(
                "",
                &format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#),
            );
        }
        json("", &reply(seen, r#"{"content":[]}"#))
    })
    .await;
    let asked = Call {
        input: value(r#"{"from": "input"}"#).as_map().unwrap().clone(),
        ..mcp(&server, r#", "tool": "t""#)
    };
    assert_eq!(run(&toolbox(), asked).await.error, None);
    let methods: Vec<String> = server.seen().iter().map(method_of).collect();
    assert_eq!(methods, ["initialize", "tools/call"]);
    let params = value(&server.last().body)
        .get("params")
        .unwrap()
        .to_string();
    assert_eq!(params, r#"{"arguments":{"from":"input"},"name":"t"}"#);
}

#[tokio::test]
async fn servers_by_name_and_the_guard() {
    let server = server(|seen| json("", &reply(seen, "{}"))).await;
    let settings = |rules: &str| Settings {
        mcp_servers: [("tools".to_owned(), server.url("/mcp"))].into(),
        egress: EgressPolicy::parse(rules).unwrap(),
        ..Settings::default()
    };
    let named = || {
        let config = r#"{"server": "tools", "tool": "t", "protocol_version": "2024-11-05"}"#;
        call(ToolKind::Mcp, &value(config))
    };
    let outcome = run(&Toolbox::new(settings("*")), named()).await;
    assert_eq!(outcome.error, None);
    assert_eq!(text(&outcome, "server"), "tools");
    assert!(server.seen()[0].body.contains("2024-11-05"));

    let (kind, message) = error(&Toolbox::new(settings("")), named()).await;
    assert_eq!(kind, TaskErrorKind::Auth);
    assert!(message.contains("NOETL_EGRESS_ALLOW"), "{message}");

    for (config, kind, part) in [
        (
            r#"{"tool": "t"}"#,
            TaskErrorKind::Schema,
            "'endpoint' or 'server'",
        ),
        (
            r#"{"server": "x", "tool": "t"}"#,
            TaskErrorKind::NotFound,
            "'x'",
        ),
        (
            r#"{"server": "tools"}"#,
            TaskErrorKind::Schema,
            "'tool' is missing",
        ),
        (
            r#"{"endpoint": "ftp://h", "tool": "t"}"#,
            TaskErrorKind::Parse,
            "'ftp'",
        ),
        (
            r#"{"server": "tools", "tool": "t", "auth": "alias"}"#,
            TaskErrorKind::Auth,
            "'alias'",
        ),
    ] {
        let asked = call(ToolKind::Mcp, &value(config));
        let (found, message) = error(&Toolbox::new(settings("*")), asked).await;
        assert_eq!(found, kind, "{message}");
        assert!(message.contains(part), "{message}");
    }
}

/// An address of the operator may have a key in it, which nobody reads in a result or an error.
#[tokio::test]
async fn a_key_in_the_address_of_a_named_server_is_not_told() {
    let well = server(|seen| json("", &reply(seen, "{}"))).await;
    let away = |to: &'static str| {
        Server::start(move |_| {
            let location = format!("location: {to}\r\n");
            answer("307 X", &location, "").into_bytes()
        })
    };
    let around = away("/mcp?key=SECRET").await;
    let astray = away("ftp://h/mcp?key=SECRET").await;
    let with_key = |server: &Server| server.url("/mcp?key=SECRET#SECRET");
    let settings = Settings {
        mcp_servers: [
            ("well".to_owned(), with_key(&well)),
            ("around".to_owned(), with_key(&around)),
            ("astray".to_owned(), with_key(&astray)),
            ("broken".to_owned(), "http://h:99999/?key=SECRET".to_owned()),
        ]
        .into(),
        ..Settings::default()
    };
    let toolbox = Toolbox::new(settings);
    let ask = |name: &str| {
        let config = format!(r#"{{"server": "{name}", "tool": "t"}}"#);
        call(ToolKind::Mcp, &value(&config))
    };
    let outcome = run(&toolbox, ask("well")).await;
    assert_eq!(outcome.error, None);
    assert_eq!(text(&outcome, "endpoint"), well.url("/mcp"));
    assert!(!outcome.data.to_string().contains("SECRET"));
    assert_eq!(well.last().target(), "/mcp?key=SECRET");
    for (name, kind, part) in [
        ("around", TaskErrorKind::Limit, "redirects"),
        ("astray", TaskErrorKind::Parse, "neither http nor https"),
        ("broken", TaskErrorKind::Parse, "'broken'"),
    ] {
        let (found, message) = error(&toolbox, ask(name)).await;
        assert_eq!(found, kind, "{message}");
        assert!(message.contains(part), "{message}");
        assert!(!message.contains("SECRET"), "{message}");
    }
    // What a task says itself is told as it is.
    let own = run(&toolbox, mcp_at(&well.url("/mcp?of=task"))).await;
    assert_eq!(text(&own, "endpoint"), well.url("/mcp?of=task"));
}

#[tokio::test]
async fn answers_are_bounded() {
    let server = server(|seen| {
        let long = "x".repeat(20_000);
        json(
            "",
            &reply(seen, &format!(r#"{{"content":[{{"text":"{long}"}}]}}"#)),
        )
    })
    .await;
    let small = Toolbox::new(Settings {
        payload_cap: noetl_types::ByteSize::from_kib(10),
        ..Settings::default()
    });
    let (kind, _) = error(&small, mcp(&server, r#", "tool": "t""#)).await;
    assert_eq!(kind, TaskErrorKind::Limit);
}
