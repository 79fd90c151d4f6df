//! Python code: its names, results and restrictions.

use noetl_tools::{ToolCall, ToolKind, Toolbox};
use noetl_types::{Json, TaskErrorKind};
use proptest::prelude::*;

use crate::http_server::{TestHttpServer, http_response};
use crate::support::{
    make_executable, output_text, parse_json, python_call, python_call_with_input, run_call,
    run_data, run_failing, single_interpreter_toolbox, test_settings, test_toolbox, tool_call,
};

#[tokio::test]
async fn result_by_return_assignment_or_main() {
    let toolbox = single_interpreter_toolbox();
    for (code, input, expected) in [
        ("result = {'n': n + 1}", r#"{"n": 1}"#, r#"{"n":2}"#),
        ("return n * 2", r#"{"n": 4}"#, "8"),
        ("if n > 3:\n    return 'big'\nreturn 'small'", r#"{"n": 4}"#, r#""big""#),
        ("n = n + 1\nreturn n", r#"{"n": 4}"#, "5"),
        ("for x in range(3):\n    def f():\n        return x\nresult = f()", "{}", "2"),
        ("from math import *\nimport os\nreturn floor(2.5)", "{}", "2"),
        ("def main(a, b=10):\n    return a + b", r#"{"a": 1, "c": 9}"#, "11"),
        ("def main(**all):\n    return all", r#"{"a": 1, "c": 9}"#, r#"{"a":1,"c":9}"#),
        ("def main(a, /, *, b):\n    return [a, b]", r#"{"a": 1, "b": 2}"#, "[1,2]"),
        (
            "import asyncio\nasync def main(a):\n    await asyncio.sleep(0)\n    return a",
            r#"{"a": 1}"#,
            "1",
        ),
        ("async def main():\n    return 'again'", "{}", r#""again""#),
        ("main = lambda a: a", r#"{"a": 7}"#, "7"),
        ("def main():\n    return 1\nresult = 2", "{}", "2"),
        ("def main():\n    return 1", r#"{"result": 5}"#, "5"),
        ("result = 1\nreturn 2", "{}", "2"),
        ("result = {'status': 'error'}", "{}", r#"{"status":"error"}"#),
        ("", r#"{"result": "preset"}"#, r#""preset""#),
        ("x = [i for i in range(3)]\ndef g():\n    return x\nreturn g()", "{}", "[0,1,2]"),
        ("'''doc'''\nfrom __future__ import annotations\nreturn 3", "{}", "3"),
    ] {
        assert_eq!(
            run_data(&toolbox, python_call_with_input(code, input)).await,
            expected,
            "{code}"
        );
    }
}

/// Without an executed `return`, the assigned result and `main` count. A bare `return` ends the
/// step.
#[tokio::test]
async fn unreached_return_is_ignored() {
    let toolbox = single_interpreter_toolbox();
    for (code, input, expected) in [
        ("if n > 3:\n    return 'big'\ndef main(n):\n    return n", r#"{"n": 2}"#, "2"),
        ("if n > 3:\n    return 'big'\nresult = n", r#"{"n": 2}"#, "2"),
        ("result = 0\nif n > 3:\n    return\ndef main(n):\n    return n", r#"{"n": 4}"#, "0"),
    ] {
        assert_eq!(
            run_data(&toolbox, python_call_with_input(code, input)).await,
            expected,
            "{code}"
        );
    }
}

#[tokio::test]
async fn code_sees_context_names() {
    let toolbox = single_interpreter_toolbox();
    let code = "return [args, input_data, context, variables, execution_id, step, a]";
    let call = ToolCall {
        context: parse_json(r#"{"earlier": {"x": 1}}"#),
        variables: parse_json(r#"{"v": 2}"#),
        ..python_call_with_input(code, r#"{"a": 1}"#)
    };
    assert_eq!(
        run_data(&toolbox, call).await,
        r#"[{"a":1},{"a":1},{"args":{"a":1},"earlier":{"x":1},"execution_id":"7001","variables":{"v":2}},{"v":2},"7001","greet",1]"#
    );
    assert_eq!(
        run_data(
            &toolbox,
            python_call_with_input("return [args, step]", r#"{"args": 1, "step": 2}"#)
        )
        .await,
        "[1,2]"
    );
    let code = "import sys, json\nresult = json.load(sys.stdin)";
    assert_eq!(
        run_data(&toolbox, python_call_with_input(code, r#"{"a": "ü"}"#)).await,
        r#"{"a":"ü"}"#
    );
}

#[tokio::test]
async fn missing_result_returns_output() {
    let toolbox = single_interpreter_toolbox();
    let code = "import sys, os\nprint('hello')\nprint('oh', file=sys.stderr)\nsys.stdout.flush()\nos.system('echo sub')";
    assert_eq!(
        run_data(&toolbox, python_call(code)).await,
        r#"{"stderr":"oh\n","stdout":"hello\nsub\n"}"#
    );
    assert_eq!(run_data(&toolbox, python_call("x = 1")).await, r#"{"stderr":"","stdout":""}"#);
    assert_eq!(
        run_data(&toolbox, python_call("def main():\n    print(1)")).await,
        r#"{"stderr":"","stdout":"1\n"}"#
    );

    let outcome = run_call(&toolbox, python_call("print('beside')\nresult = 1")).await;
    let py = outcome.extras.get("py").unwrap().to_string();
    assert_eq!(py, r#"{"stderr":"","stdout":"beside\n"}"#);
}

#[tokio::test]
async fn non_json_values_become_text() {
    let toolbox = single_interpreter_toolbox();
    for (code, expected) in [
        ("result = {1: 'a', '1': 'b'}", r#"{"1":"b"}"#),
        ("result = {(1, 2): 3}", r#"{"(1, 2)":3}"#),
        (
            "result = [float('nan'), float('inf'), -float('inf'), 1.5]",
            r#"["NaN","Infinity","-Infinity",1.5]"#,
        ),
        (
            "result = [2**63, 2**64, -2**63 - 1]",
            r#"[9223372036854775808,"18446744073709551616","-9223372036854775809"]"#,
        ),
        (
            "import decimal, datetime\nresult = [decimal.Decimal('1.10'), datetime.date(2024, 1, 2)]",
            r#"["1.10","2024-01-02"]"#,
        ),
        ("result = [b'bytes', (1, 2)]", r#"["bytes",[1,2]]"#),
        ("result = 'a\\0b'", "\"a\u{FFFD}b\""),
        ("result = {'a\\0b': 1}", "{\"a\u{FFFD}b\":1}"),
        ("result = '\\ud800x'", "\"?x\""),
        ("class T:\n    def __str__(self): return 'me'\nresult = T()", r#""me""#),
        ("class N:\n    def __index__(self): return 7\nresult = [N()]", "[7]"),
        ("result = 'söm€ 😀'", "\"söm€ 😀\""),
        ("result = False", "false"),
    ] {
        assert_eq!(run_data(&toolbox, python_call(code)).await, expected, "{code}");
    }
    let (kind, message) =
        run_failing(&toolbox, python_call("result = []\nresult.append(result)")).await;
    assert_eq!(kind, TaskErrorKind::Transform);
    assert!(message.contains("contains itself"), "{message}");
    let deep = "result = 1\nfor _ in range(100): result = [result]";
    assert_eq!(run_failing(&toolbox, python_call(deep)).await.0, TaskErrorKind::Limit);
}

#[tokio::test]
async fn exception_reports_its_line() {
    let toolbox = single_interpreter_toolbox();
    let code = "print('before')\ndef f():\n    raise ValueError('boom')\n\nf()";
    let outcome = run_call(&toolbox, python_call(code)).await;
    let error = outcome.error.clone().unwrap();
    assert_eq!(error.kind, TaskErrorKind::Transform);
    assert_eq!(error.message, "ValueError: boom (line 3)");
    assert_eq!(error.code, Some(Json::from("ValueError")));
    assert_eq!(output_text(&outcome, "error"), "ValueError: boom (line 3)");
    assert_eq!(output_text(&outcome, "stdout"), "before\n");
    let py = outcome.extras.get("py").unwrap();
    assert_eq!(py.get("type"), Some(&Json::from("ValueError")));
    assert_eq!(py.get("message"), Some(&Json::from("boom")));
    assert_eq!(
        py.get("traceback")
            .and_then(Json::as_str)
            .unwrap()
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with(['^', '~']))
            .collect::<Vec<_>>(),
        [
            "Traceback (most recent call last):",
            "File \"<greet>\", line 5, in <module>",
            "f()",
            "File \"<greet>\", line 3, in f",
            "raise ValueError('boom')",
            "ValueError: boom",
        ]
    );
    let outcome = run_call(&toolbox, python_call("x = 1\nif x:\n    return 1 / 0")).await;
    assert_eq!(outcome.error.unwrap().message, "ZeroDivisionError: division by zero (line 3)");
    let outcome = run_call(&toolbox, python_call("def main(a):\n    return a")).await;
    let message = outcome.error.unwrap().message;
    assert!(message.starts_with("TypeError: main() missing"), "{message}");
}

#[tokio::test]
async fn reports_syntax_error() {
    let toolbox = single_interpreter_toolbox();
    for code in ["x = 1\nif x\n    pass", "x = 1\ny = (\n", "x = 1\nyield 1", "def f(:\n"] {
        let outcome = run_call(&toolbox, python_call(code)).await;
        let error = outcome.error.unwrap();
        assert_eq!(error.kind, TaskErrorKind::Parse, "{code}");
        assert!(error.message.starts_with("SyntaxError: "), "{}", error.message);
        assert!(error.message.contains("(line "), "{}", error.message);
    }
    assert_eq!(run_data(&toolbox, python_call("result = 1")).await, "1");
}

#[tokio::test]
async fn handles_exit_calls() {
    let toolbox = single_interpreter_toolbox();
    assert_eq!(run_data(&toolbox, python_call("import sys\nresult = 4\nsys.exit()")).await, "4");
    assert_eq!(
        run_data(&toolbox, python_call("import sys\nsys.exit(0)")).await,
        r#"{"stderr":"","stdout":""}"#
    );
    let outcome = run_call(&toolbox, python_call("import sys\nsys.exit(3)")).await;
    let error = outcome.error.unwrap();
    assert_eq!((error.kind, error.code), (TaskErrorKind::Transform, Some(Json::from(3))));
    assert_eq!(error.message, "SystemExit: 3 (line 2)");
    let outcome = run_call(&toolbox, python_call("raise SystemExit('no')")).await;
    assert_eq!(outcome.error.unwrap().code, Some(Json::from(1)));
}

#[tokio::test]
async fn output_and_result_size_is_limited() {
    let toolbox = single_interpreter_toolbox();
    let outcome = run_call(&toolbox, python_call("import sys\nfor _ in range(300):\n    sys.stdout.write('x' * 10_000)\nsys.stderr.write('end')")).await;
    assert_eq!(outcome.error, None);
    assert_eq!(output_text(&outcome, "stdout").len(), 1024 * 1024);
    assert_eq!(output_text(&outcome, "stderr"), "end");
    assert_eq!(outcome.data.get("truncated"), Some(&Json::from(true)));

    let outcome = run_call(&toolbox, python_call("import os\nos.write(1, b'a\\0b\\xff')")).await;
    assert_eq!(output_text(&outcome, "stdout"), "a\u{FFFD}b\u{FFFD}");

    let mut settings = test_settings();
    settings.payload_cap = noetl_types::ByteSize::from_kib(100);
    let toolbox = Toolbox::new(settings);
    let (kind, message) = run_failing(&toolbox, python_call("result = 'x' * 200_000")).await;
    assert_eq!(kind, TaskErrorKind::Limit);
    assert_eq!(message, "the result has 200002 bytes; at most 100KiB is allowed");
    assert_eq!(run_data(&toolbox, python_call("result = len('x' * 90_000)")).await, "90000");
}

#[tokio::test]
async fn applies_libs_env_and_cwd() {
    let toolbox = single_interpreter_toolbox();
    let config = parse_json(
        r#"{"code": "import os\nresult = [m.floor(2.5), j('x'), os.environ['A'], os.environ['N'], os.getcwd()]",
            "libs": {"m": "math", "j": {"from": "json", "import": "dumps"}},
            "env": {"A": "b", "N": 5}, "cwd": "/"}"#,
    );
    assert_eq!(
        run_data(&toolbox, tool_call(ToolKind::Python, &config)).await,
        r#"[2,"\"x\"","b","5","/"]"#
    );
    let config = parse_json(r#"{"code": "result = 1", "libs": {"m": "no_such_module"}}"#);
    let (kind, message) = run_failing(&toolbox, tool_call(ToolKind::Python, &config)).await;
    assert_eq!(kind, TaskErrorKind::Transform);
    assert!(message.contains("no_such_module"), "{message}");
    let config = parse_json(r#"{"code": "result = 1", "libs": ["pandas"]}"#);
    assert_eq!(run_data(&toolbox, tool_call(ToolKind::Python, &config)).await, "1");
    let config = parse_json(r#"{"code": "result = 1", "cwd": "/not/there"}"#);
    let (kind, message) = run_failing(&toolbox, tool_call(ToolKind::Python, &config)).await;
    assert_eq!(kind, TaskErrorKind::Transform);
    assert!(message.contains("/not/there"), "{message}");
    let config = parse_json(r#"{"code": "result = 1", "env": {"A=B": "x"}}"#);
    let (kind, message) = run_failing(&toolbox, tool_call(ToolKind::Python, &config)).await;
    assert_eq!(kind, TaskErrorKind::Schema);
    assert!(message.contains("'A=B'"), "{message}");
    // A variable that only matters at startup gets an interpreter started with it.
    let config = parse_json(
        r#"{"code": "import sys\nresult = '/extra/path' in sys.path", "env": {"PYTHONPATH": "/extra/path"}}"#,
    );
    assert_eq!(run_data(&toolbox, tool_call(ToolKind::Python, &config)).await, "true");
    assert_eq!(
        run_data(&toolbox, python_call("import sys\nresult = '/extra/path' in sys.path")).await,
        "false"
    );
}

#[tokio::test]
async fn modules_are_scoped_to_their_folder() {
    let toolbox = single_interpreter_toolbox();
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(first.path().join("helper.py"), "v = 1").unwrap();
    std::fs::write(second.path().join("helper.py"), "v = 2").unwrap();
    for (folder, expected) in [(&first, "1"), (&second, "2"), (&first, "1")] {
        let config = Json::object([
            ("code", Json::from("import helper\nresult = helper.v")),
            ("cwd", Json::from(folder.path().to_str().unwrap())),
        ]);
        assert_eq!(run_data(&toolbox, tool_call(ToolKind::Python, &config)).await, expected);
    }
}

#[tokio::test]
async fn reads_code_from_each_source() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("step.py");
    std::fs::write(&file, "result = 'from file'").unwrap();
    let path = file.to_str().unwrap();
    let toolbox = single_interpreter_toolbox();
    for (config, expected) in [
        (r#"{"code_b64": "cmVzdWx0ID0g\nJ2I2NCc="}"#.to_owned(), r#""b64""#),
        (
            format!(r#"{{"script": {{"uri": "{path}", "source": {{"type": "file"}}}}}}"#),
            r#""from file""#,
        ),
        (format!(r#"{{"script": {{"uri": "file://{path}"}}}}"#), r#""from file""#),
        (r#"{"script": {"source": {"type": "inline", "content": "return 1"}}}"#.to_owned(), "1"),
    ] {
        assert_eq!(
            run_data(&toolbox, tool_call(ToolKind::Python, &parse_json(&config))).await,
            expected,
            "{config}"
        );
    }
    for (config, kind, part) in [
        (
            r#"{"script": {"uri": "s3://b/k", "source": {"type": "s3"}}}"#,
            TaskErrorKind::Unsupported,
            "'s3'",
        ),
        (
            r#"{"script": {"uri": "gs://b/k"}}"#,
            TaskErrorKind::Unsupported,
            "use inline, file or http",
        ),
        (r#"{"script": {"uri": "/no/such/file.py"}}"#, TaskErrorKind::NotFound, "/no/such/file.py"),
        (r#"{"code_b64": "%%"}"#, TaskErrorKind::Parse, "code_b64"),
        ("{}", TaskErrorKind::Schema, "'code'"),
    ] {
        let (actual, message) =
            run_failing(&toolbox, tool_call(ToolKind::Python, &parse_json(config))).await;
        assert_eq!(actual, kind, "{message}");
        assert!(message.contains(part), "{message}");
    }
    let mut settings = test_settings();
    settings.file_roots = Some(vec!["/usr".into()]);
    let config = format!(r#"{{"script": {{"uri": "{path}"}}}}"#);
    let (kind, _) =
        run_failing(&Toolbox::new(settings), tool_call(ToolKind::Python, &parse_json(&config)))
            .await;
    assert_eq!(kind, TaskErrorKind::Auth);
}

#[tokio::test]
async fn code_url_is_checked_by_egress_policy() {
    let server = TestHttpServer::start(|request| match request.target() {
        "/there.py" => http_response("200 OK", "", "result = 'from the web'").into_bytes(),
        "/moved.py" => http_response("302 X", "location: /there.py\r\n", "").into_bytes(),
        "/bytes.py" => [http_response("200 OK", "", "").as_bytes(), &[0xff]].concat(),
        _ => http_response("404 X", "", "").into_bytes(),
    })
    .await;
    let toolbox = single_interpreter_toolbox();
    let call_with_uri = |path: &str| {
        let config = format!(
            r#"{{"script": {{"uri": "{}", "source": {{"type": "http"}}}}}}"#,
            server.url(path)
        );
        tool_call(ToolKind::Python, &parse_json(&config))
    };
    for path in ["/there.py", "/moved.py"] {
        assert_eq!(run_data(&toolbox, call_with_uri(path)).await, r#""from the web""#);
    }
    let (kind, message) = run_failing(&toolbox, call_with_uri("/gone.py")).await;
    assert_eq!(kind, TaskErrorKind::NotFound);
    assert!(message.contains("HTTP 404 response"), "{message}");
    let (kind, _) = run_failing(&toolbox, call_with_uri("/bytes.py")).await;
    assert_eq!(kind, TaskErrorKind::Parse);

    let mut settings = test_settings();
    settings.egress = noetl_tools::egress::EgressPolicy::parse("").unwrap();
    let before = server.received_requests().len();
    let (kind, message) = run_failing(&Toolbox::new(settings), call_with_uri("/there.py")).await;
    assert_eq!(kind, TaskErrorKind::Auth);
    assert!(message.contains("NOETL_EGRESS_ALLOW"), "{message}");
    assert_eq!(server.received_requests().len(), before);
}

#[tokio::test]
async fn uses_named_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine");
    std::fs::write(&file, "#!/bin/sh\nMINE=yes exec python3 \"$@\"\n").unwrap();
    make_executable(&file);
    let config = Json::object([
        ("code", Json::from("import os\nresult = os.environ.get('MINE')")),
        ("python", Json::from(file.to_str().unwrap())),
    ]);
    let toolbox = single_interpreter_toolbox();
    let call = tool_call(ToolKind::Python, &config);
    assert_eq!(run_data(&toolbox, call).await, r#""yes""#);
    let plain = python_call("import os\nresult = os.environ.get('MINE', 'no')");
    assert_eq!(run_data(&toolbox, plain).await, r#""no""#);
}

#[tokio::test]
async fn missing_interpreter_names_package() {
    let config = parse_json(r#"{"code": "result = 1", "python": "no-such-python"}"#);
    let (kind, message) = run_failing(&test_toolbox(), tool_call(ToolKind::Python, &config)).await;
    assert_eq!(kind, TaskErrorKind::Unsupported);
    assert!(message.contains("'no-such-python' cannot be started"), "{message}");
    assert!(message.contains("install it"), "{message}");
    let config = parse_json(r#"{"code": "result = 1", "python": "false"}"#);
    let (kind, message) = run_failing(&test_toolbox(), tool_call(ToolKind::Python, &config)).await;
    assert_eq!(kind, TaskErrorKind::Unsupported);
    assert!(message.contains("exit code 1"), "{message}");
}

fn arb_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        proptest::num::f64::NORMAL.prop_map(|number| Json::from_f64(number).unwrap()),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
            proptest::collection::btree_map("[a-zü\"\\\\]{0,6}", inner, 0..6)
                .prop_map(Json::object),
        ]
    })
}

/// Every value round-trips unchanged.
#[test]
fn values_round_trip() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let toolbox = single_interpreter_toolbox();
    proptest!(ProptestConfig::with_cases(200), |(sent in arb_json())| {
        let call = ToolCall {
            input: [("sent".into(), sent.clone())].into(),
            ..python_call("result = [sent]")
        };
        let outcome = runtime.block_on(run_call(&toolbox, call));
        prop_assert_eq!(outcome.error, None);
        prop_assert_eq!(outcome.data, Json::list([sent]));
    });
}
