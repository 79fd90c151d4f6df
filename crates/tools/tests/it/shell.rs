use noetl_tools::{Call, ToolKind, Toolbox};
use noetl_types::{Json, TaskErrorKind};

use crate::support::{call, data, error, run, settings, shell, text, toolbox, value};

#[tokio::test]
async fn a_command_gives_its_code_and_outputs() {
    assert_eq!(
        data(&toolbox(), shell("echo out; echo err >&2")).await,
        r#"{"exit_code":0,"stderr":"err\n","stdout":"out\n"}"#
    );
}

#[tokio::test]
async fn a_failure_keeps_its_data() {
    let outcome = run(&toolbox(), shell("echo so far; echo 'no luck' >&2; exit 3")).await;
    let error = outcome.error.clone().unwrap();
    assert_eq!(error.kind, TaskErrorKind::Transform);
    assert_eq!(error.code, Some(Json::from(3)));
    assert_eq!(error.message, "the command ended with exit code 3: no luck");
    assert_eq!(error.task.unwrap(), "greet");
    assert_eq!(text(&outcome, "stdout"), "so far\n");

    let outcome = run(&toolbox(), shell("kill -9 $$")).await;
    assert_eq!(outcome.error.unwrap().code, Some(Json::from(137)));
}

#[tokio::test]
async fn commands_stop_at_the_first_failure() {
    let config = value(r#"{"cmds": ["echo one > f; echo 1", "cat f; exit 2", "echo never"]}"#);
    let outcome = run(&toolbox(), call(ToolKind::Shell, &config)).await;
    assert_eq!(text(&outcome, "stdout"), "1\none\n");
    assert_eq!(outcome.data.get("exit_code"), Some(&Json::from(2)));
}

#[tokio::test]
async fn the_environment_is_cleared_but_for_what_is_allowed() {
    let mut settings = settings();
    settings = settings.with_environment(
        [
            ("SECRET".to_owned(), "s".to_owned()),
            ("LC_ALL".to_owned(), "C".to_owned()),
            ("OPENED".to_owned(), "yes".to_owned()),
        ],
        &["OPENED".to_owned()],
    );
    let config = value(
        r#"{"command": "echo [$SECRET][$LC_ALL][$OPENED][$MINE][$N]; echo $NOETL_EXECUTION_ID $NOETL_STEP $NOETL_IDEMPOTENCY_KEY", "env": {"MINE": true, "N": 5, "GONE": null}}"#,
    );
    let outcome = run(&Toolbox::new(settings), call(ToolKind::Shell, &config)).await;
    assert_eq!(
        text(&outcome, "stdout"),
        "[][C][yes][true][5]\n7001 greet 7001:4:greet:1\n"
    );
}

#[tokio::test]
async fn each_call_has_a_folder_of_its_own() {
    let toolbox = toolbox();
    let first = run(&toolbox, shell("touch left; pwd")).await;
    let second = run(&toolbox, shell("ls; pwd")).await;
    let folder = text(&first, "stdout");
    assert_ne!(folder, text(&second, "stdout"));
    assert!(!std::path::Path::new(folder.trim()).exists());

    let config = value(r#"{"command": "pwd", "cwd": "/"}"#);
    assert_eq!(
        text(
            &run(&toolbox, call(ToolKind::Shell, &config)).await,
            "stdout"
        ),
        "/\n"
    );
    let config = value(r#"{"command": "pwd", "cwd": "/not/there"}"#);
    let (kind, message) = error(&toolbox, call(ToolKind::Shell, &config)).await;
    assert_eq!(kind, TaskErrorKind::Transform);
    assert_eq!(message, "the folder '/not/there' does not exist");
}

#[tokio::test]
async fn output_is_cut_but_the_command_ends() {
    let outcome = run(
        &toolbox(),
        shell("head -c 3000000 /dev/zero | tr '\\0' x; echo end >&2"),
    )
    .await;
    assert_eq!(outcome.error, None);
    assert_eq!(text(&outcome, "stdout").len(), 1024 * 1024);
    assert_eq!(text(&outcome, "stderr"), "end\n");
    assert_eq!(outcome.data.get("truncated"), Some(&Json::from(true)));
}

#[tokio::test]
async fn bytes_that_are_no_text_become_replacement_characters() {
    let outcome = run(&toolbox(), shell(r"printf 'a\000b\377c'")).await;
    assert_eq!(text(&outcome, "stdout"), "a\u{FFFD}b\u{FFFD}c");
}

#[tokio::test]
async fn other_shells_and_no_capture() {
    let config = value(r#"{"command": "echo ${BASH_VERSION:+bash}", "shell": "bash"}"#);
    assert_eq!(
        text(
            &run(&toolbox(), call(ToolKind::Shell, &config)).await,
            "stdout"
        ),
        "bash\n"
    );

    let config = value(r#"{"command": "echo x", "shell": "no-such-shell"}"#);
    let outcome = run(&toolbox(), call(ToolKind::Shell, &config)).await;
    assert_eq!(outcome.error.unwrap().code, Some(Json::from(127)));

    let config = value(r#"{"command": "echo x", "capture": false}"#);
    assert_eq!(
        data(&toolbox(), call(ToolKind::Shell, &config)).await,
        r#"{"exit_code":0,"stderr":"","stdout":""}"#
    );
}

#[tokio::test]
async fn limits_are_raised_before_the_command_runs() {
    let outcome = run(&toolbox(), shell("ulimit -n; ulimit -c; ulimit -v")).await;
    assert_eq!(text(&outcome, "stdout"), "4096\n0\n33554432\n");
    let mut settings = settings();
    settings.walls.file_size = Some(noetl_types::ByteSize::from_kib(64));
    let full = run(
        &Toolbox::new(settings),
        shell("head -c 1000000 /dev/zero > big"),
    )
    .await;
    assert!(full.error.is_some());
}

#[tokio::test]
async fn a_config_of_the_wrong_shape_names_the_key() {
    for (config, kind, message) in [
        (
            "{}",
            TaskErrorKind::Schema,
            "'command' or 'cmds' is missing",
        ),
        (
            r#"{"command": 5}"#,
            TaskErrorKind::Schema,
            "'command' must be a text, not number",
        ),
        (
            r#"{"cmds": ["a", 1]}"#,
            TaskErrorKind::Schema,
            "'cmds' must be a list of texts, not number",
        ),
        (
            r#"{"command": "x", "env": {"A": [1]}}"#,
            TaskErrorKind::Schema,
            "'env.A' must be a text or a number, not list",
        ),
        (
            r#"{"command": "x", "env": {"A=B": "1"}}"#,
            TaskErrorKind::Schema,
            "'env' holds 'A=B', which cannot be a variable",
        ),
    ] {
        let call: Call = call(ToolKind::Shell, &value(config));
        assert_eq!(error(&toolbox(), call).await, (kind, message.to_owned()));
    }
}
