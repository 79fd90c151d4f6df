use std::time::Duration;

use noetl_tools::{Call, CancellationToken, ToolKind};
use noetl_types::{Json, TaskErrorKind};

use crate::server::{Server, answer};
use crate::support::{call, error, is_alive, pid_in, run, text, toolbox, until, value};

fn script(config: &str) -> Call {
    call(ToolKind::Script, &value(config))
}

fn inline(content: &str) -> Call {
    let source = Json::object([
        ("type", Json::from("inline")),
        ("content", Json::from(content)),
    ]);
    call(ToolKind::Script, &Json::object([("script", source)]))
}

#[tokio::test]
async fn a_script_gives_its_output_in_order() {
    let outcome = run(&toolbox(), inline("echo one; echo two >&2; echo three")).await;
    assert_eq!(outcome.error, None);
    assert_eq!(text(&outcome, "output"), "one\ntwo\nthree\n");
    assert_eq!(text(&outcome, "status"), "completed");
    assert_eq!(outcome.data.get("exit_code"), Some(&Json::from(0)));
    let took = outcome
        .data
        .get("execution_time")
        .unwrap()
        .as_f64()
        .unwrap();
    assert!((0.0..60.0).contains(&took), "{took}");
}

#[tokio::test]
async fn a_failure_keeps_its_data() {
    let outcome = run(
        &toolbox(),
        inline("echo so far; echo 'no luck' >&2; exit 3"),
    )
    .await;
    let error = outcome.error.clone().unwrap();
    assert_eq!(error.kind, TaskErrorKind::Transform);
    assert_eq!(error.code, Some(Json::from(3)));
    assert_eq!(error.message, "the script ended with exit code 3: no luck");
    assert_eq!(text(&outcome, "status"), "failed");
    assert_eq!(text(&outcome, "output"), "so far\nno luck\n");
}

#[tokio::test]
async fn scripts_find_their_interpreter_arguments_and_input() {
    let python = "#!/usr/bin/env python3\nimport sys, json, os\n\
                  print(sys.argv[1:], json.load(open(os.environ['NOETL_INPUT_FILE'])), \
                  os.listdir('.'), os.environ['MINE'])";
    let config = Json::object([
        ("script", Json::object([("content", Json::from(python))])),
        ("args", value(r#"["a b", 5]"#)),
        ("env", value(r#"{"MINE": "m"}"#)),
    ]);
    let asked = Call {
        input: value(r#"{"k": [1]}"#).as_map().unwrap().clone(),
        ..call(ToolKind::Script, &config)
    };
    let outcome = run(&toolbox(), asked).await;
    assert_eq!(text(&outcome, "output"), "['a b', '5'] {'k': [1]} [] m\n");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.py");
    std::fs::write(&file, "import sys\nprint(sys.argv[1:])").unwrap();
    let config = format!(
        r#"{{"script": {{"type": "local", "uri": "{}"}}, "args": {{"to": "x", "dry": true}}}}"#,
        file.display()
    );
    let outcome = run(&toolbox(), script(&config)).await;
    assert_eq!(text(&outcome, "output"), "['--dry', '--to', 'x']\n");

    let server = Server::saying(&answer("200 OK", "", "echo \"from the web $1\"")).await;
    let config = format!(
        r#"{{"script": {{"type": "http", "uri": "{}"}}, "args": "'with love'"}}"#,
        server.url("/job.sh")
    );
    let outcome = run(&toolbox(), script(&config)).await;
    assert_eq!(text(&outcome, "output"), "from the web with love\n");

    let outcome = run(
        &toolbox(),
        script(r#"{"script": {"content": "pwd"}, "cwd": "/"}"#),
    )
    .await;
    assert_eq!(text(&outcome, "output"), "/\n");
}

#[tokio::test]
async fn what_cannot_run_says_why() {
    for (config, kind, part) in [
        ("{}", TaskErrorKind::Schema, "'script' is missing"),
        (
            r#"{"script": {"content": "x"}, "job": {"image": "i"}}"#,
            TaskErrorKind::Unsupported,
            "feature 'kubernetes'",
        ),
        (
            r#"{"script": {"type": "s3", "uri": "s3://b/k"}}"#,
            TaskErrorKind::Unsupported,
            "'s3'",
        ),
        (
            r#"{"script": {"uri": "/no/such.sh"}}"#,
            TaskErrorKind::NotFound,
            "/no/such.sh",
        ),
        (
            r#"{"script": {"content": "x"}, "args": 5}"#,
            TaskErrorKind::Schema,
            "'args'",
        ),
    ] {
        let (found, message) = error(&toolbox(), script(config)).await;
        assert_eq!(found, kind, "{message}");
        assert!(message.contains(part), "{message}");
    }
    let outcome = run(&toolbox(), inline("#!/no/such/interpreter\nx")).await;
    assert_eq!(outcome.error.unwrap().code, Some(Json::from(127)));
}

#[tokio::test]
async fn a_stopped_script_leaves_nobody_behind() {
    let folder = tempfile::tempdir().unwrap();
    let endless = |name: &str| {
        let file = folder.path().join(name);
        let code = format!("sleep 1000 & echo $! > {}; wait", file.display());
        (inline(&code), file)
    };
    let toolbox = toolbox();
    let (late, file) = endless("late");
    let late = Call {
        timeout: Duration::from_secs(3),
        ..late
    };
    assert_eq!(error(&toolbox, late).await.0, TaskErrorKind::Timeout);
    let pid = pid_in(&file).await;
    until("the grandchild ends", || !is_alive(pid)).await;

    let (unwanted, file) = endless("unwanted");
    let cancel = CancellationToken::new();
    let stop = async {
        let pid = pid_in(&file).await;
        cancel.cancel();
        pid
    };
    let (outcome, pid) = tokio::join!(toolbox.call(unwanted, cancel.clone()), stop);
    assert_eq!(outcome.error.unwrap().kind, TaskErrorKind::Cancelled);
    until("the grandchild ends", || !is_alive(pid)).await;
}
