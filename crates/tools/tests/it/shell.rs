use noetl_tools::{Settings, ToolCall, ToolKind, Toolbox};
use noetl_types::{ByteSize, Json, TaskErrorKind};

use crate::support::{
    output_text, parse_json, run_call, run_data, run_failing, shell_call, test_settings,
    test_toolbox, tool_call,
};

#[tokio::test]
async fn returns_exit_code_and_output() {
    assert_eq!(
        run_data(&test_toolbox(), shell_call("echo out; echo err >&2")).await,
        r#"{"exit_code":0,"stderr":"err\n","stdout":"out\n"}"#
    );
}

#[tokio::test]
async fn failure_keeps_data() {
    let outcome =
        run_call(&test_toolbox(), shell_call("echo so far; echo 'no luck' >&2; exit 3")).await;
    let error = outcome.error.clone().unwrap();
    assert_eq!(error.kind, TaskErrorKind::Transform);
    assert_eq!(error.code, Some(Json::from(3)));
    assert_eq!(error.message, "the command ended with exit code 3: no luck");
    assert_eq!(error.task.unwrap(), "greet");
    assert_eq!(output_text(&outcome, "stdout"), "so far\n");

    let outcome = run_call(&test_toolbox(), shell_call("kill -9 $$")).await;
    assert_eq!(outcome.error.unwrap().code, Some(Json::from(137)));
}

#[tokio::test]
async fn commands_stop_at_the_first_failure() {
    let config = parse_json(r#"{"cmds": ["echo one > f; echo 1", "cat f; exit 2", "echo never"]}"#);
    let outcome = run_call(&test_toolbox(), tool_call(ToolKind::Shell, &config)).await;
    assert_eq!(output_text(&outcome, "stdout"), "1\none\n");
    assert_eq!(outcome.data.get("exit_code"), Some(&Json::from(2)));
}

#[tokio::test]
async fn environment_contains_only_allowed_variables() {
    let mut settings = test_settings();
    settings = settings.with_environment(
        [
            ("SECRET".to_owned(), "s".to_owned()),
            ("LC_ALL".to_owned(), "C".to_owned()),
            ("OPENED".to_owned(), "yes".to_owned()),
        ],
        &["OPENED".to_owned()],
    );
    let config = parse_json(
        r#"{"command": "echo [$SECRET][$LC_ALL][$OPENED][$MINE][$N]; echo $NOETL_EXECUTION_ID $NOETL_STEP $NOETL_IDEMPOTENCY_KEY", "env": {"MINE": true, "N": 5, "GONE": null}}"#,
    );
    let outcome = run_call(&Toolbox::new(settings), tool_call(ToolKind::Shell, &config)).await;
    assert_eq!(output_text(&outcome, "stdout"), "[][C][yes][true][5]\n7001 greet 7001:4:greet:1\n");
}

#[tokio::test]
async fn each_call_has_separate_folder() {
    let toolbox = test_toolbox();
    let first = run_call(&toolbox, shell_call("touch left; pwd")).await;
    let second = run_call(&toolbox, shell_call("ls; pwd")).await;
    let folder = output_text(&first, "stdout");
    assert_ne!(folder, output_text(&second, "stdout"));
    assert!(!std::path::Path::new(folder.trim()).exists());

    let config = parse_json(r#"{"command": "pwd", "cwd": "/"}"#);
    assert_eq!(
        output_text(&run_call(&toolbox, tool_call(ToolKind::Shell, &config)).await, "stdout"),
        "/\n"
    );
    let config = parse_json(r#"{"command": "pwd", "cwd": "/not/there"}"#);
    let (kind, message) = run_failing(&toolbox, tool_call(ToolKind::Shell, &config)).await;
    assert_eq!(kind, TaskErrorKind::Transform);
    assert_eq!(message, "the folder '/not/there' does not exist");
}

#[tokio::test]
async fn truncated_output_does_not_stop_command() {
    let outcome = run_call(
        &test_toolbox(),
        shell_call("head -c 3000000 /dev/zero | tr '\\0' x; echo end >&2"),
    )
    .await;
    assert_eq!(outcome.error, None);
    assert_eq!(output_text(&outcome, "stdout").len(), 1024 * 1024);
    assert_eq!(output_text(&outcome, "stderr"), "end\n");
    assert_eq!(outcome.data.get("truncated"), Some(&Json::from(true)));
}

#[tokio::test]
async fn invalid_utf8_becomes_replacement_characters() {
    let outcome = run_call(&test_toolbox(), shell_call(r"printf 'a\000b\377c'")).await;
    assert_eq!(output_text(&outcome, "stdout"), "a\u{FFFD}b\u{FFFD}c");
}

#[tokio::test]
async fn supports_other_shells_and_no_capture() {
    let config = parse_json(r#"{"command": "echo ${BASH_VERSION:+bash}", "shell": "bash"}"#);
    assert_eq!(
        output_text(
            &run_call(&test_toolbox(), tool_call(ToolKind::Shell, &config)).await,
            "stdout"
        ),
        "bash\n"
    );

    let config = parse_json(r#"{"command": "echo x", "shell": "no-such-shell"}"#);
    let outcome = run_call(&test_toolbox(), tool_call(ToolKind::Shell, &config)).await;
    assert_eq!(outcome.error.unwrap().code, Some(Json::from(127)));

    let config = parse_json(r#"{"command": "echo x", "capture": false}"#);
    assert_eq!(
        run_data(&test_toolbox(), tool_call(ToolKind::Shell, &config)).await,
        r#"{"exit_code":0,"stderr":"","stdout":""}"#
    );
}

/// Every user of the machine can read the arguments of a process. Arguments of other programs than the
/// shell show that the test would find the secret.
#[tokio::test]
async fn command_is_not_visible_in_process_list() {
    let command = "env; tr '\\0' ' ' < /proc/$$/cmdline; : first-secret-7; \
                   sh -c 'tr \"\\0\" \" \" < /proc/$$/cmdline; : second-secret-7'; true";
    let outcome = run_call(&test_toolbox(), shell_call(command)).await;
    let printed = output_text(&outcome, "stdout");
    assert!(!printed.contains("first-secret-7"), "{printed}");
    assert!(printed.contains(": second-secret-7"), "{printed}");
}

/// The call ends although a process that left its group goes on writing to its output.
#[tokio::test]
async fn endless_output_of_escaped_process_does_not_block_call() {
    let settings = Settings { output_cap: ByteSize::from_kib(1), ..test_settings() };
    let call = shell_call("setsid yes & sleep 0.2; echo done");
    let outcome = run_call(&Toolbox::new(settings), call).await;
    assert_eq!(outcome.error, None);
    assert_eq!(outcome.data.get("truncated"), Some(&Json::from(true)));
}

#[tokio::test]
async fn applies_limits_before_command_runs() {
    let outcome = run_call(&test_toolbox(), shell_call("ulimit -n; ulimit -c; ulimit -v")).await;
    assert_eq!(output_text(&outcome, "stdout"), "4096\n0\n33554432\n");
    let mut settings = test_settings();
    settings.process_limits.file_size = Some(ByteSize::from_kib(64));
    let outcome =
        run_call(&Toolbox::new(settings), shell_call("head -c 1000000 /dev/zero > big")).await;
    assert!(outcome.error.is_some());
}

#[tokio::test]
async fn invalid_config_names_its_key() {
    for (config, kind, message) in [
        ("{}", TaskErrorKind::Schema, "'command' or 'cmds' is missing"),
        (r#"{"command": 5}"#, TaskErrorKind::Schema, "'command' must be a text, not number"),
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
            "'env' contains 'A=B', which is not a valid environment variable",
        ),
    ] {
        let call: ToolCall = tool_call(ToolKind::Shell, &parse_json(config));
        assert_eq!(run_failing(&test_toolbox(), call).await, (kind, message.to_owned()));
    }
}
