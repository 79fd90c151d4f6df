use std::sync::Arc;
use std::time::Duration;

use noetl_tools::egress::EgressPolicy;
use noetl_tools::{Call, CancellationToken, Settings, ToolKind, Toolbox};
use noetl_types::{Json, TaskErrorKind};

use crate::server::{Server, answer};
use crate::support::{call, data, error, run, settings, toolbox, until, value};

fn script(code: &str) -> Call {
    call(ToolKind::Rhai, &Json::object([("code", Json::from(code))]))
}

#[tokio::test]
async fn the_last_expression_is_the_data() {
    let toolbox = toolbox();
    for (code, expected) in [
        ("40 + 2", "42"),
        ("()", "null"),
        (
            "[1, 2.5, 'x', \"text\", true, ()]",
            r#"[1,2.5,"x","text",true,null]"#,
        ),
        ("#{b: 1, a: [#{c: 2}]}", r#"{"a":[{"c":2}],"b":1}"#),
        ("1.0 / 0.0", "\"inf\""),
        ("let n = 0; for i in 0..10 { n += i } n", "45"),
        (r#"parse_json("{\"a\": [1, null]}")"#, r#"{"a":[1,null]}"#),
        ("to_json(#{a: [1, ()]})", r#""{\"a\":[1,null]}""#),
        (r#""noetl".contains("oe") && [1, 2].contains(2)"#, "true"),
        ("timestamp().len() > 19", "true"),
    ] {
        assert_eq!(data(&toolbox, script(code)).await, expected, "{code}");
    }
}

#[tokio::test]
async fn names_of_the_step_and_input() {
    let mut call = script("#{sum: n + ctx.base, all: args, step: name}");
    call.input = value(r#"{"n": 2}"#).as_map().unwrap().clone();
    call.context = value(r#"{"ctx": {"base": 40}, "name": "s", "n": 7}"#);
    assert_eq!(
        data(&toolbox(), call).await,
        r#"{"all":{"n":2},"step":"s","sum":42}"#
    );
}

#[tokio::test]
async fn what_a_script_says_is_kept() {
    let outcome = run(&toolbox(), script("log(\"one\"); print(2); throw \"no\"")).await;
    let error = outcome.error.unwrap();
    assert_eq!(error.kind, TaskErrorKind::Transform);
    assert!(error.message.as_str().contains("no"), "{}", error.message);
    assert_eq!(error.details.unwrap().get("line"), Some(&Json::from(1)));
    assert_eq!(
        outcome.extras.get("rhai").unwrap().to_string(),
        r#"{"log":"one\n2\n"}"#
    );
}

#[tokio::test]
async fn scripts_have_bounds() {
    let toolbox = toolbox();
    for (code, kind) in [
        ("let x = ", TaskErrorKind::Parse),
        ("parse_json(\"{\")", TaskErrorKind::Transform),
        ("fn f(n) { f(n + 1) } f(0)", TaskErrorKind::Limit),
        ("let a = []; a.pad(2000000, 0); a", TaskErrorKind::Limit),
        ("import \"x\" as y; 1", TaskErrorKind::Parse),
        ("unknown_function()", TaskErrorKind::Transform),
    ] {
        let (found, message) = error(&toolbox, script(code)).await;
        assert_eq!(found, kind, "{code}: {message}");
    }
}

#[tokio::test]
async fn a_script_ends_with_its_call() {
    let toolbox = Arc::new(toolbox());
    let server = Server::saying(&answer("200 OK", "", "{}")).await;
    for code in ["loop { }", "sleep(1000)", "sleep(1000.5)"] {
        let code = format!("http_get(\"{}\"); {code}", server.url("/"));
        let seen = server.seen().len();
        let cancel = CancellationToken::new();
        let task = {
            let (toolbox, cancel, script) = (Arc::clone(&toolbox), cancel.clone(), script(&code));
            tokio::spawn(async move { toolbox.call(script, cancel).await })
        };
        until("the script runs", || server.seen().len() > seen).await;
        cancel.cancel();
        assert_eq!(
            task.await.unwrap().error.unwrap().kind,
            TaskErrorKind::Cancelled
        );
    }
    let mut slow = script("loop { }");
    slow.timeout = Duration::from_millis(50);
    assert_eq!(error(&toolbox, slow).await.0, TaskErrorKind::Timeout);
}

#[tokio::test]
async fn requests_go_through_the_guard() {
    let server = Server::saying(&answer(
        "404 Not Found",
        "content-type: application/json\r\n",
        r#"{"a": 1}"#,
    ))
    .await;
    let code = format!(
        r#"let r = http_post("{}", #{{b: 2}}, #{{"x-mine": "1"}}); [r.status_code, r.data.a]"#,
        server.url("/in")
    );
    assert_eq!(data(&toolbox(), script(&code)).await, "[404,1]");
    assert_eq!(server.last().body, r#"{"b":2}"#);
    assert_eq!(server.last().header("x-mine"), Some("1"));
    let code = format!(r#"http_delete("{}").status_code"#, server.url("/"));
    assert_eq!(data(&toolbox(), script(&code)).await, "404");
    let guarded = Toolbox::new(Settings {
        egress: EgressPolicy::Public { allow: Vec::new() },
        ..settings()
    });
    let (kind, message) = error(&guarded, script(&code)).await;
    assert_eq!(kind, TaskErrorKind::Transform);
    assert!(message.contains("NOETL_EGRESS_ALLOW"), "{message}");
}
