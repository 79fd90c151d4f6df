use std::time::Duration;

use noetl_tools::{CancellationToken, ToolCall, ToolKind};
use noetl_types::{Json, TaskErrorKind};

use crate::http_server::{TestHttpServer, http_response};
use crate::support::{
    is_alive, output_text, parse_json, run_call, run_failing, test_toolbox, tool_call,
    wait_for_pid, wait_until,
};

fn script_call(config: &str) -> ToolCall {
    tool_call(ToolKind::Script, &parse_json(config))
}

fn inline_script_call(content: &str) -> ToolCall {
    let source = Json::object([("type", Json::from("inline")), ("content", Json::from(content))]);
    tool_call(ToolKind::Script, &Json::object([("script", source)]))
}

#[tokio::test]
async fn returns_output_in_order() {
    let outcome =
        run_call(&test_toolbox(), inline_script_call("echo one; echo two >&2; echo three")).await;
    assert_eq!(outcome.error, None);
    assert_eq!(output_text(&outcome, "output"), "one\ntwo\nthree\n");
    assert_eq!(output_text(&outcome, "status"), "completed");
    assert_eq!(outcome.data.get("exit_code"), Some(&Json::from(0)));
    let took = outcome.data.get("execution_time").unwrap().as_f64().unwrap();
    assert!((0.0..60.0).contains(&took), "{took}");
}

#[tokio::test]
async fn failure_keeps_data() {
    let outcome =
        run_call(&test_toolbox(), inline_script_call("echo so far; echo 'no luck' >&2; exit 3"))
            .await;
    let error = outcome.error.clone().unwrap();
    assert_eq!(error.kind, TaskErrorKind::Transform);
    assert_eq!(error.code, Some(Json::from(3)));
    assert_eq!(error.message, "the script ended with exit code 3: no luck");
    assert_eq!(output_text(&outcome, "status"), "failed");
    assert_eq!(output_text(&outcome, "output"), "so far\nno luck\n");
}

#[tokio::test]
async fn selects_interpreter_arguments_and_input() {
    let python = "#!/usr/bin/env python3\nimport sys, json, os\n\
                  print(sys.argv[1:], json.load(open(os.environ['NOETL_INPUT_FILE'])), \
                  os.listdir('.'), os.environ['MINE'])";
    let config = Json::object([
        ("script", Json::object([("content", Json::from(python))])),
        ("args", parse_json(r#"["a b", 5]"#)),
        ("env", parse_json(r#"{"MINE": "m"}"#)),
    ]);
    let call = ToolCall {
        input: parse_json(r#"{"k": [1]}"#).as_map().unwrap().clone(),
        ..tool_call(ToolKind::Script, &config)
    };
    let outcome = run_call(&test_toolbox(), call).await;
    assert_eq!(output_text(&outcome, "output"), "['a b', '5'] {'k': [1]} [] m\n");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.py");
    std::fs::write(&file, "import sys\nprint(sys.argv[1:])").unwrap();
    let config = format!(
        r#"{{"script": {{"type": "local", "uri": "{}"}}, "args": {{"to": "x", "dry": true}}}}"#,
        file.display()
    );
    let outcome = run_call(&test_toolbox(), script_call(&config)).await;
    assert_eq!(output_text(&outcome, "output"), "['--dry', '--to', 'x']\n");

    let server =
        TestHttpServer::with_response(&http_response("200 OK", "", "echo \"from the web $1\""))
            .await;
    let config = format!(
        r#"{{"script": {{"type": "http", "uri": "{}"}}, "args": "'with love'"}}"#,
        server.url("/job.sh")
    );
    let outcome = run_call(&test_toolbox(), script_call(&config)).await;
    assert_eq!(output_text(&outcome, "output"), "from the web with love\n");

    let outcome =
        run_call(&test_toolbox(), script_call(r#"{"script": {"content": "pwd"}, "cwd": "/"}"#))
            .await;
    assert_eq!(output_text(&outcome, "output"), "/\n");
}

#[tokio::test]
async fn invalid_script_is_rejected_with_reason() {
    for (config, kind, part) in [
        ("{}", TaskErrorKind::Schema, "'script' is missing"),
        (
            r#"{"script": {"content": "x"}, "job": {"image": "i"}}"#,
            TaskErrorKind::Unsupported,
            "on Kubernetes",
        ),
        (r#"{"script": {"type": "s3", "uri": "s3://b/k"}}"#, TaskErrorKind::Unsupported, "'s3'"),
        (r#"{"script": {"uri": "/no/such.sh"}}"#, TaskErrorKind::NotFound, "/no/such.sh"),
        (r#"{"script": {"content": "x"}, "args": 5}"#, TaskErrorKind::Schema, "'args'"),
    ] {
        let (actual, message) = run_failing(&test_toolbox(), script_call(config)).await;
        assert_eq!(actual, kind, "{message}");
        assert!(message.contains(part), "{message}");
    }
    let outcome = run_call(&test_toolbox(), inline_script_call("#!/no/such/interpreter\nx")).await;
    assert_eq!(outcome.error.unwrap().code, Some(Json::from(127)));
}

#[tokio::test]
async fn stopped_script_leaves_no_processes() {
    let folder = tempfile::tempdir().unwrap();
    let endless = |name: &str| {
        let file = folder.path().join(name);
        let code = format!("sleep 1000 & echo $! > {}; wait", file.display());
        (inline_script_call(&code), file)
    };
    let toolbox = test_toolbox();
    let (limited, file) = endless("late");
    let limited = ToolCall { timeout: Duration::from_secs(3), ..limited };
    assert_eq!(run_failing(&toolbox, limited).await.0, TaskErrorKind::Timeout);
    let pid = wait_for_pid(&file).await;
    wait_until("the grandchild ends", || !is_alive(pid)).await;

    let (cancelled, file) = endless("unwanted");
    let cancel = CancellationToken::new();
    let stop = async {
        let pid = wait_for_pid(&file).await;
        cancel.cancel();
        pid
    };
    let (outcome, pid) = tokio::join!(toolbox.call(cancelled, cancel.clone()), stop);
    assert_eq!(outcome.error.unwrap().kind, TaskErrorKind::Cancelled);
    wait_until("the grandchild ends", || !is_alive(pid)).await;
}
