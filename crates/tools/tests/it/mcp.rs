//! Protocol with an MCP server, which the tests simulate.

use noetl_tools::egress::EgressPolicy;
use noetl_tools::{Settings, ToolCall, ToolKind, ToolOutcome, Toolbox};
use noetl_types::{Json, TaskErrorKind};

use crate::http_server::{ReceivedRequest, TestHttpServer, http_response};
use crate::support::{output_text, parse_json, run_call, run_failing, test_toolbox, tool_call};

fn rpc_response(request: &ReceivedRequest, result: &str) -> String {
    let id = parse_json(&request.body).get("id").cloned().unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn json_response(headers: &str, body: &str) -> Vec<u8> {
    let headers = format!("content-type: application/json\r\n{headers}");
    http_response("200 OK", &headers, body).into_bytes()
}

fn rpc_method(request: &ReceivedRequest) -> String {
    if !request.head.starts_with("POST") {
        return request.head.split(' ').next().unwrap().to_owned();
    }
    let message = parse_json(&request.body);
    message.get("method").unwrap().as_str().unwrap().to_owned()
}

/// Starts a server with an initialize handshake and a session, which responds to requests with
/// a function.
async fn start_mcp_server(
    respond: impl Fn(&ReceivedRequest) -> Vec<u8> + Send + Sync + 'static,
) -> TestHttpServer {
    TestHttpServer::start(move |request| match &*rpc_method(request) {
        "initialize" => json_response(
            "mcp-session-id: s1\r\n",
            &rpc_response(request, r#"{"protocolVersion":"2025-03-26","capabilities":{}}"#),
        ),
        "notifications/initialized" => http_response("202 Accepted", "", "").into_bytes(),
        "DELETE" => http_response("200 OK", "", "").into_bytes(),
        _ => respond(request),
    })
    .await
}

fn mcp_call_to(url: &str) -> ToolCall {
    let config = format!(r#"{{"endpoint": "{url}", "tool": "t"}}"#);
    tool_call(ToolKind::Mcp, &parse_json(&config))
}

fn mcp_call(server: &TestHttpServer, rest: &str) -> ToolCall {
    let config = format!(r#"{{"endpoint": "{}"{rest}}}"#, server.url("/mcp"));
    tool_call(ToolKind::Mcp, &parse_json(&config))
}

fn failure_details(outcome: &ToolOutcome) -> (TaskErrorKind, String) {
    let error = outcome.error.as_ref().unwrap();
    (error.kind, error.message.to_string())
}

#[tokio::test]
async fn calls_tool_in_session() {
    let server = start_mcp_server(|request| {
        let result = r#"{"content":[{"type":"text","text":"12"},{"type":"image"},
            {"type":"text","text":"degrees"}],"structuredContent":{"t":12}}"#;
        json_response("", &rpc_response(request, result))
    })
    .await;
    let rest = r#", "tool": "weather", "arguments": {"city": "Bonn"},
        "auth": {"type": "bearer", "token": "t"}, "headers": {"x-mine": "m"}"#;
    let outcome = run_call(&test_toolbox(), mcp_call(&server, rest)).await;
    assert_eq!(outcome.error, None);
    assert_eq!(output_text(&outcome, "status"), "success");
    assert_eq!(output_text(&outcome, "text"), "12\ndegrees");
    assert_eq!(output_text(&outcome, "method"), "tools/call");
    assert_eq!(output_text(&outcome, "tool"), "weather");
    assert_eq!(output_text(&outcome, "endpoint"), server.url("/mcp"));
    assert_eq!(outcome.data.get("server"), Some(&Json::Null));
    let result = outcome.data.get("result").unwrap();
    let structured = result.get("structuredContent").unwrap();
    assert_eq!(structured.to_string(), r#"{"t":12}"#);
    assert_eq!(outcome.data.get("arguments").unwrap().to_string(), r#"{"city":"Bonn"}"#);

    let requests = server.received_requests();
    let methods: Vec<String> = requests.iter().map(rpc_method).collect();
    assert_eq!(methods, ["initialize", "notifications/initialized", "tools/call", "DELETE"]);
    let initialize = parse_json(&requests[0].body);
    let params = initialize.get("params").unwrap();
    assert_eq!(params.get("protocolVersion"), Some(&Json::from("2025-06-18")));
    for (index, request) in requests.iter().enumerate() {
        let session_id = (index > 0).then_some("s1");
        assert_eq!(request.header("mcp-session-id"), session_id);
        let version = (index > 0).then_some("2025-03-26");
        assert_eq!(request.header("mcp-protocol-version"), version);
        assert_eq!(request.header("authorization"), Some("Bearer t"));
        assert_eq!(request.header("x-mine"), Some("m"));
        let accept = request.header("accept").unwrap();
        assert!(accept.contains("text/event-stream"), "{accept}");
    }
    assert_eq!(
        parse_json(&requests[2].body).get("params").unwrap().to_string(),
        r#"{"arguments":{"city":"Bonn"},"name":"weather"}"#
    );
    assert_eq!(requests[2].header("idempotency-key"), Some("7001:4:greet:1"));
}

/// The stream has other messages before the response. The client does not wait for later messages.
#[tokio::test]
async fn reads_response_from_event_stream() {
    let server = start_mcp_server(|request| {
        let stream = format!(
            ": hello\n\nevent: message\ndata: {{\"jsonrpc\":\"2.0\",\
             \"method\":\"notifications/progress\"}}\n\n\
             data: {{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}}\n\n\
             id: 7\ndata: {}\n\ndata: not json\n\n",
            rpc_response(request, r#"{"tools":[]}"#)
        );
        let headers = "content-type: text/event-stream; charset=utf-8\r\ncontent-length: 9999\r\n";
        http_response("200 OK", headers, &stream).into_bytes()
    })
    .await;
    let outcome = run_call(&test_toolbox(), mcp_call(&server, r#", "method": "tools/list""#)).await;
    assert_eq!(outcome.error, None);
    let result = outcome.data.get("result").unwrap().to_string();
    assert_eq!(result, r#"{"tools":[]}"#);
    assert_eq!(outcome.data.get("tool"), Some(&Json::Null));
}

#[tokio::test]
async fn reports_tool_and_request_failures() {
    let server = start_mcp_server(|request| {
        let message = parse_json(&request.body);
        let tool = message.get("params").and_then(|params| params.get("name"));
        match tool.and_then(Json::as_str) {
            Some("broken") => json_response(
                "",
                &rpc_response(
                    request,
                    r#"{"isError":true,"content":[{"type":"text","text":"no luck"}]}"#,
                ),
            ),
            Some("refused") => {
                let id = message.get("id").unwrap();
                let error = r#"{"code":-32602,"message":"bad arguments","data":{"k":1}}"#;
                json_response("", &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
            }
            Some("gone") => http_response("404 X", "", "").into_bytes(),
            Some("down") => http_response("503 X", "", "").into_bytes(),
            Some("cut") => {
                http_response("200 OK", "content-type: text/event-stream\r\n", ": hi\n\n")
                    .into_bytes()
            }
            _ => json_response("", "what?"),
        }
    })
    .await;
    let call_tool = async |tool: &str| {
        run_call(&test_toolbox(), mcp_call(&server, &format!(r#", "tool": "{tool}""#))).await
    };
    let outcome = call_tool("broken").await;
    assert_eq!(
        failure_details(&outcome),
        (TaskErrorKind::Transform, "'broken' reported an error: no luck".to_owned())
    );
    assert_eq!(output_text(&outcome, "status"), "error");
    assert_eq!(output_text(&outcome, "text"), "no luck");

    let outcome = call_tool("refused").await;
    let error = outcome.error.clone().unwrap();
    assert_eq!(error.kind, TaskErrorKind::Transform);
    assert_eq!(error.message, "bad arguments");
    assert_eq!(error.code, Some(Json::from(-32602)));
    assert_eq!(error.details.unwrap().to_string(), r#"{"k":1}"#);
    assert_eq!(output_text(&outcome, "status"), "error");

    let kinds = [
        ("gone", TaskErrorKind::Connection),
        ("down", TaskErrorKind::ServerError),
        ("cut", TaskErrorKind::Connection),
        ("other", TaskErrorKind::Parse),
    ];
    for (tool, kind) in kinds {
        assert_eq!(failure_details(&call_tool(tool).await).0, kind, "{tool}");
    }
}

#[tokio::test]
async fn calls_server_without_initialize() {
    let server = TestHttpServer::start(|request| {
        if rpc_method(request) == "initialize" {
            let error = r#"{"code":-32601,"message":"unknown method"}"#;
            return json_response("", &format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#));
        }
        json_response("", &rpc_response(request, r#"{"content":[]}"#))
    })
    .await;
    let call = ToolCall {
        input: parse_json(r#"{"from": "input"}"#).as_map().unwrap().clone(),
        ..mcp_call(&server, r#", "tool": "t""#)
    };
    assert_eq!(run_call(&test_toolbox(), call).await.error, None);
    let methods: Vec<String> = server.received_requests().iter().map(rpc_method).collect();
    assert_eq!(methods, ["initialize", "tools/call"]);
    let params = parse_json(&server.last_request().body).get("params").unwrap().to_string();
    assert_eq!(params, r#"{"arguments":{"from":"input"},"name":"t"}"#);
}

#[tokio::test]
async fn named_servers_follow_egress_policy() {
    let server = start_mcp_server(|request| json_response("", &rpc_response(request, "{}"))).await;
    let settings = |rules: &str| Settings {
        mcp_servers: [("tools".to_owned(), server.url("/mcp"))].into(),
        egress: EgressPolicy::parse(rules).unwrap(),
        ..Settings::default()
    };
    let named = || {
        let config = r#"{"server": "tools", "tool": "t", "protocol_version": "2024-11-05"}"#;
        tool_call(ToolKind::Mcp, &parse_json(config))
    };
    let outcome = run_call(&Toolbox::new(settings("*")), named()).await;
    assert_eq!(outcome.error, None);
    assert_eq!(output_text(&outcome, "server"), "tools");
    assert!(server.received_requests()[0].body.contains("2024-11-05"));

    let (kind, message) = run_failing(&Toolbox::new(settings("")), named()).await;
    assert_eq!(kind, TaskErrorKind::Auth);
    assert!(message.contains("NOETL_EGRESS_ALLOW"), "{message}");

    for (config, kind, part) in [
        (r#"{"tool": "t"}"#, TaskErrorKind::Schema, "'endpoint' or 'server'"),
        (r#"{"server": "x", "tool": "t"}"#, TaskErrorKind::NotFound, "'x'"),
        (r#"{"server": "tools"}"#, TaskErrorKind::Schema, "'tool' is missing"),
        (r#"{"endpoint": "ftp://h", "tool": "t"}"#, TaskErrorKind::Parse, "'ftp'"),
        (r#"{"server": "tools", "tool": "t", "auth": "alias"}"#, TaskErrorKind::Auth, "'alias'"),
    ] {
        let call = tool_call(ToolKind::Mcp, &parse_json(config));
        let (actual, message) = run_failing(&Toolbox::new(settings("*")), call).await;
        assert_eq!(actual, kind, "{message}");
        assert!(message.contains(part), "{message}");
    }
}

/// The URL of a server configured by the operator may contain a key, which must not appear in
/// results or errors.
#[tokio::test]
async fn key_in_named_server_url_is_redacted() {
    let working = start_mcp_server(|request| json_response("", &rpc_response(request, "{}"))).await;
    let start_redirect = |to: &'static str| {
        TestHttpServer::start(move |_| {
            let location = format!("location: {to}\r\n");
            http_response("307 X", &location, "").into_bytes()
        })
    };
    let redirect_loop = start_redirect("/mcp?key=SECRET").await;
    let bad_redirect = start_redirect("ftp://h/mcp?key=SECRET").await;
    let with_key = |server: &TestHttpServer| server.url("/mcp?key=SECRET#SECRET");
    let settings = Settings {
        mcp_servers: [
            ("working".to_owned(), with_key(&working)),
            ("redirect_loop".to_owned(), with_key(&redirect_loop)),
            ("bad_redirect".to_owned(), with_key(&bad_redirect)),
            ("broken".to_owned(), "http://h:99999/?key=SECRET".to_owned()),
        ]
        .into(),
        ..Settings::default()
    };
    let toolbox = Toolbox::new(settings);
    let named_call = |name: &str| {
        let config = format!(r#"{{"server": "{name}", "tool": "t"}}"#);
        tool_call(ToolKind::Mcp, &parse_json(&config))
    };
    let outcome = run_call(&toolbox, named_call("working")).await;
    assert_eq!(outcome.error, None);
    assert_eq!(output_text(&outcome, "endpoint"), working.url("/mcp"));
    assert!(!outcome.data.to_string().contains("SECRET"));
    assert_eq!(working.last_request().target(), "/mcp?key=SECRET");
    for (name, kind, part) in [
        ("redirect_loop", TaskErrorKind::Limit, "redirects"),
        ("bad_redirect", TaskErrorKind::Parse, "not an http or https URL"),
        ("broken", TaskErrorKind::Parse, "'broken'"),
    ] {
        let (actual, message) = run_failing(&toolbox, named_call(name)).await;
        assert_eq!(actual, kind, "{message}");
        assert!(message.contains(part), "{message}");
        assert!(!message.contains("SECRET"), "{message}");
    }
    // A URL in the task itself is reported unchanged.
    let outcome = run_call(&toolbox, mcp_call_to(&working.url("/mcp?of=task"))).await;
    assert_eq!(output_text(&outcome, "endpoint"), working.url("/mcp?of=task"));
}

#[tokio::test]
async fn response_size_is_limited() {
    let server = start_mcp_server(|request| {
        let long = "x".repeat(20_000);
        json_response(
            "",
            &rpc_response(request, &format!(r#"{{"content":[{{"text":"{long}"}}]}}"#)),
        )
    })
    .await;
    let small = Toolbox::new(Settings {
        payload_cap: noetl_types::ByteSize::from_kib(10),
        ..Settings::default()
    });
    let (kind, _) = run_failing(&small, mcp_call(&server, r#", "tool": "t""#)).await;
    assert_eq!(kind, TaskErrorKind::Limit);
}
