use std::sync::Arc;
use std::time::Duration;

use noetl_tools::egress::EgressPolicy;
use noetl_tools::{CancellationToken, Settings, ToolCall, ToolKind, Toolbox};
use noetl_types::{Json, TaskErrorKind};

use crate::http_server::{TestHttpServer, http_response};
use crate::support::{
    parse_json, run_call, run_data, run_failing, test_settings, test_toolbox, tool_call, wait_until,
};

fn rhai_call(code: &str) -> ToolCall {
    tool_call(ToolKind::Rhai, &Json::object([("code", Json::from(code))]))
}

#[tokio::test]
async fn last_expression_is_data() {
    let toolbox = test_toolbox();
    for (code, expected) in [
        ("40 + 2", "42"),
        ("()", "null"),
        ("[1, 2.5, 'x', \"text\", true, ()]", r#"[1,2.5,"x","text",true,null]"#),
        ("#{b: 1, a: [#{c: 2}]}", r#"{"a":[{"c":2}],"b":1}"#),
        ("1.0 / 0.0", "\"inf\""),
        ("let n = 0; for i in 0..10 { n += i } n", "45"),
        (r#"parse_json("{\"a\": [1, null]}")"#, r#"{"a":[1,null]}"#),
        ("to_json(#{a: [1, ()]})", r#""{\"a\":[1,null]}""#),
        (r#""noetl".contains("oe") && [1, 2].contains(2)"#, "true"),
        ("timestamp().len() > 19", "true"),
    ] {
        assert_eq!(run_data(&toolbox, rhai_call(code)).await, expected, "{code}");
    }
}

#[tokio::test]
async fn script_sees_step_and_input_names() {
    let mut call = rhai_call("#{sum: n + ctx.base, all: args, step: name}");
    call.input = parse_json(r#"{"n": 2}"#).as_map().unwrap().clone();
    call.context = parse_json(r#"{"ctx": {"base": 40}, "name": "s", "n": 7}"#);
    assert_eq!(run_data(&test_toolbox(), call).await, r#"{"all":{"n":2},"step":"s","sum":42}"#);
}

#[tokio::test]
async fn script_output_is_captured() {
    let outcome =
        run_call(&test_toolbox(), rhai_call("log(\"one\"); print(2); throw \"no\"")).await;
    let error = outcome.error.unwrap();
    assert_eq!(error.kind, TaskErrorKind::Transform);
    assert!(error.message.as_str().contains("no"), "{}", error.message);
    assert_eq!(error.details.unwrap().get("line"), Some(&Json::from(1)));
    assert_eq!(outcome.extras.get("rhai").unwrap().to_string(), r#"{"log":"one\n2\n"}"#);
}

#[tokio::test]
async fn script_limits_apply() {
    let toolbox = test_toolbox();
    for (code, kind) in [
        ("let x = ", TaskErrorKind::Parse),
        ("parse_json(\"{\")", TaskErrorKind::Transform),
        ("fn f(n) { f(n + 1) } f(0)", TaskErrorKind::Limit),
        ("let a = []; a.pad(2000000, 0); a", TaskErrorKind::Limit),
        ("import \"x\" as y; 1", TaskErrorKind::Parse),
        ("unknown_function()", TaskErrorKind::Transform),
    ] {
        let (actual, message) = run_failing(&toolbox, rhai_call(code)).await;
        assert_eq!(actual, kind, "{code}: {message}");
    }
}

#[tokio::test]
async fn script_stops_with_its_call() {
    let toolbox = Arc::new(test_toolbox());
    let server = TestHttpServer::with_response(&http_response("200 OK", "", "{}")).await;
    for code in ["loop { }", "sleep(1000)", "sleep(1000.5)"] {
        let code = format!("http_get(\"{}\"); {code}", server.url("/"));
        let before = server.received_requests().len();
        let cancel = CancellationToken::new();
        let task = {
            let (toolbox, cancel, script) =
                (Arc::clone(&toolbox), cancel.clone(), rhai_call(&code));
            tokio::spawn(async move { toolbox.call(script, cancel).await })
        };
        wait_until("the script runs", || server.received_requests().len() > before).await;
        cancel.cancel();
        assert_eq!(task.await.unwrap().error.unwrap().kind, TaskErrorKind::Cancelled);
    }
    let mut slow = rhai_call("loop { }");
    slow.timeout = Duration::from_millis(50);
    assert_eq!(run_failing(&toolbox, slow).await.0, TaskErrorKind::Timeout);
}

#[tokio::test]
async fn requests_are_checked_by_egress_policy() {
    let server = TestHttpServer::with_response(&http_response(
        "404 Not Found",
        "content-type: application/json\r\n",
        r#"{"a": 1}"#,
    ))
    .await;
    let code = format!(
        r#"let r = http_post("{}", #{{b: 2}}, #{{"x-mine": "1"}}); [r.status_code, r.data.a]"#,
        server.url("/in")
    );
    assert_eq!(run_data(&test_toolbox(), rhai_call(&code)).await, "[404,1]");
    assert_eq!(server.last_request().body, r#"{"b":2}"#);
    assert_eq!(server.last_request().header("x-mine"), Some("1"));
    let code = format!(r#"http_delete("{}").status_code"#, server.url("/"));
    assert_eq!(run_data(&test_toolbox(), rhai_call(&code)).await, "404");
    let restricted = Toolbox::new(Settings {
        egress: EgressPolicy::Public { allow: Vec::new() },
        ..test_settings()
    });
    let (kind, message) = run_failing(&restricted, rhai_call(&code)).await;
    assert_eq!(kind, TaskErrorKind::Transform);
    assert!(message.contains("NOETL_EGRESS_ALLOW"), "{message}");
}
