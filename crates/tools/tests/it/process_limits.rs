//! Timeouts, cancellation, limits and cleanup of processes.

use std::time::Duration;

use noetl_tools::{CancellationToken, ToolCall, ToolKind, Toolbox};
use noetl_types::{Json, TaskErrorKind};

use crate::support::{
    is_alive, output_text, parse_json, python_call, run_call, run_data, run_failing, shell_call,
    single_interpreter_toolbox, test_settings, test_toolbox, tool_call, wait_for_pid, wait_until,
};

fn with_short_timeout(call: ToolCall) -> ToolCall {
    ToolCall { timeout: Duration::from_secs(3), ..call }
}

#[tokio::test]
async fn noop_returns_its_result() {
    let noop = |config: &str| tool_call(ToolKind::Noop, &parse_json(config));
    assert_eq!(run_data(&test_toolbox(), noop(r#"{"result": [1]}"#)).await, "[1]");
    assert_eq!(
        run_data(&test_toolbox(), noop(r#"{"message": "hi"}"#)).await,
        r#"{"message":"hi","status":"ok"}"#
    );
}

#[tokio::test]
async fn server_side_kinds_are_unsupported() {
    let (kind, message) =
        run_failing(&test_toolbox(), tool_call(ToolKind::Wait, &Json::empty_map())).await;
    assert_eq!(kind, TaskErrorKind::Unsupported);
    assert!(message.contains("'wait'"), "{message}");
}

#[tokio::test]
async fn timeout_kills_process_group() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let plain = format!("sleep 1000 & echo $! > {}; wait", file("plain").display());
    let deaf =
        format!("trap '' TERM; sleep 1000 & echo $! > {}; wait; wait", file("deaf").display());
    let code = format!(
        "import subprocess\np = subprocess.Popen(['sleep', '1000'])\n\
         open('{}', 'w').write(str(p.pid))\nwhile True: pass",
        file("python").display()
    );
    let toolbox = test_toolbox();
    let (plain, deaf, python) = tokio::join!(
        run_call(&toolbox, with_short_timeout(shell_call(&plain))),
        run_call(&toolbox, with_short_timeout(shell_call(&deaf))),
        run_call(&toolbox, with_short_timeout(python_call(&code))),
    );
    for (outcome, name) in [(plain, "plain"), (deaf, "deaf"), (python, "python")] {
        let error = outcome.error.unwrap();
        assert_eq!(error.kind, TaskErrorKind::Timeout);
        assert_eq!(error.message, "the task did not end within 3s");
        let pid = wait_for_pid(&file(name)).await;
        wait_until("the grandchild ends", || !is_alive(pid)).await;
    }
}

#[tokio::test]
async fn cancellation_sends_sigterm_first() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let polite = shell_call(&format!(
        "trap 'echo bye; exit 0' TERM; sleep 1000 & echo $! > {}; wait",
        file.display()
    ));
    let cancel = CancellationToken::new();
    let toolbox = test_toolbox();
    let work = toolbox.call(polite, cancel.clone());
    let stop = async {
        let pid = wait_for_pid(&file).await;
        cancel.cancel();
        pid
    };
    let (outcome, pid) = tokio::join!(work, stop);
    assert_eq!(outcome.error.as_ref().unwrap().kind, TaskErrorKind::Cancelled);
    assert_eq!(output_text(&outcome, "stdout"), "bye\n");
    wait_until("the grandchild ends", || !is_alive(pid)).await;
}

#[tokio::test]
async fn cancelled_python_does_not_affect_next_call() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let toolbox = single_interpreter_toolbox();
    let cancel = CancellationToken::new();
    let endless = python_call(&format!(
        "import os\nopen('{}', 'w').write(str(os.getpid()))\nwhile True: pass",
        file.display()
    ));
    let stop = async {
        let pid = wait_for_pid(&file).await;
        cancel.cancel();
        pid
    };
    let (outcome, pid) = tokio::join!(toolbox.call(endless, cancel.clone()), stop);
    assert_eq!(outcome.error.unwrap().kind, TaskErrorKind::Cancelled);
    wait_until("the interpreter ends", || !is_alive(pid)).await;
    assert_eq!(run_data(&toolbox, python_call("result = 1")).await, "1");
}

#[tokio::test]
async fn dropped_call_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let toolbox = test_toolbox();
    let endless = shell_call(&format!("echo $$ > {}; sleep 1000", file.display()));
    let pid = tokio::select! {
        outcome = run_call(&toolbox, endless) => panic!("it ended: {outcome:?}"),
        pid = wait_for_pid(&file) => pid,
    };
    wait_until("the command ends", || !is_alive(pid)).await;
}

#[tokio::test]
async fn background_processes_are_killed() {
    let outcome = run_call(&test_toolbox(), shell_call("sleep 1000 & echo $!")).await;
    assert_eq!(outcome.error, None);
    let pid = output_text(&outcome, "stdout").trim().parse().unwrap();
    wait_until("the background process ends", || !is_alive(pid)).await;
}

#[tokio::test]
async fn wait_for_interpreter_does_not_count_as_attempt_time() {
    let toolbox = single_interpreter_toolbox();
    let quick = || with_short_timeout(python_call("import time\ntime.sleep(0.7)\nresult = 1"));
    // Start the interpreter first, so that the calls below measure only their own time.
    run_call(&toolbox, python_call("result = 0")).await;
    let calls = (0..6).map(|_| Box::pin(run_call(&toolbox, quick())));
    let joined = join_all(calls.collect()).await;
    assert!(joined.iter().all(|outcome| outcome.error.is_none()), "{joined:?}");
}

#[tokio::test]
async fn cancelled_call_does_not_wait_for_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let toolbox = single_interpreter_toolbox();
    let (busy, waiting) = (CancellationToken::new(), CancellationToken::new());
    let endless =
        python_call(&format!("open('{}', 'w').write('1')\nwhile True: pass", file.display()));
    let first = toolbox.call(endless, busy.clone());
    let second = async {
        wait_for_pid(&file).await;
        waiting.cancel();
        let outcome = toolbox.call(python_call("result = 1"), waiting.clone()).await;
        busy.cancel();
        outcome
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.error.unwrap().kind, TaskErrorKind::Cancelled);
    assert_eq!(second.error.unwrap().kind, TaskErrorKind::Cancelled);
}

/// Minimal isolation as seen from inside: nothing of the worker's environment, a separate process
/// group and folder, and all limits.
#[tokio::test]
async fn isolation_is_active_before_user_code() {
    // The test process itself has the second of these, from cargo.
    let canary = [("CANARY".to_owned(), "x".to_owned())];
    let mut settings = test_settings().with_environment(canary, &[]);
    settings.process_limits.memory = Some(noetl_types::ByteSize::from_gib(8));
    settings.process_limits.cpu_seconds = Some(77);
    settings.process_limits.processes = Some(900);
    settings.process_limits.open_files = Some(333);
    settings.process_limits.file_size = Some(noetl_types::ByteSize::from_mib(10));
    let toolbox = Toolbox::new(settings);
    let probe = "import os, resource\n\
        limit = lambda name: resource.getrlimit(getattr(resource, 'RLIMIT_' + name))[0]\n\
        limits = [limit(n) for n in ('CORE', 'AS', 'NPROC', 'NOFILE', 'FSIZE')]\n\
        cpu = limit('CPU')\n\
        leader = os.getpgrp() == os.getpid()\n\
        private = os.stat('.').st_mode & 0o777\n\
        seen = [name for name in ('CANARY', 'CARGO_MANIFEST_DIR') if name in os.environ]\n";
    let expected = format!("[[0,{},900,333,{}],true,448,[]]", 8_u64 << 30, 10 << 20);
    let code = format!("{probe}result = [limits, leader, private, seen]");
    assert_eq!(run_data(&toolbox, python_call(&code)).await, expected);
    let code = format!("{probe}result = 70 < cpu < 100");
    assert_eq!(run_data(&toolbox, python_call(&code)).await, "true");

    let script =
        format!("{probe}import json\nprint(json.dumps([limits, seen, cpu]).replace(' ', ''))");
    let config = Json::object([(
        "script",
        Json::object([("content", Json::from(format!("#!/usr/bin/env python3\n{script}")))]),
    )]);
    let outcome = run_call(&toolbox, tool_call(ToolKind::Script, &config)).await;
    let printed = output_text(&outcome, "output");
    let expected = format!("[[0,{},900,333,{}],", 8_u64 << 30, 10 << 20);
    assert!(printed.starts_with(&expected), "{printed}");
    assert!(printed.trim().ends_with(",[],77]"), "{printed}");
}

/// An operator can raise the limit of output, but not above a fixed maximum.
#[tokio::test]
async fn output_limit_has_fixed_maximum() {
    let mut settings = test_settings();
    settings.output_cap = noetl_types::ByteSize::from_gib(1);
    let call = shell_call("head -c 9437184 /dev/zero | tr '\\0' x");
    let outcome = run_call(&Toolbox::new(settings), call).await;
    let length = output_text(&outcome, "stdout").len() as u64;
    assert_eq!(length, noetl_tools::MAX_OUTPUT_SIZE.as_bytes());
    assert_eq!(outcome.data.get("truncated"), Some(&Json::from(true)));
}

/// Without a configured limit, a process may use all processors for the duration of its call.
#[tokio::test]
async fn cpu_time_is_limited_by_call_timeout() {
    let cores = std::thread::available_parallelism().unwrap().get() as u64;
    let outcome = run_call(&test_toolbox(), with_short_timeout(shell_call("ulimit -t"))).await;
    assert_eq!(output_text(&outcome, "stdout"), format!("{}\n", 5 * cores));
    let code = "import resource\nresult = resource.getrlimit(resource.RLIMIT_CPU)[0]";
    let limit: u64 =
        run_data(&test_toolbox(), with_short_timeout(python_call(code))).await.parse().unwrap();
    assert!(limit > 0 && limit <= 5 * cores + 5, "{limit}");
}

#[tokio::test]
async fn shutdown_stops_warm_interpreters() {
    let toolbox = single_interpreter_toolbox();
    let pid = run_data(&toolbox, python_call("import os\nresult = os.getppid()")).await;
    toolbox.shutdown().await;
    let pid = pid.parse().unwrap();
    wait_until("the interpreter ends", || !is_alive(pid)).await;
    let (kind, _) = run_failing(&toolbox, python_call("result = 1")).await;
    assert_eq!(kind, TaskErrorKind::Cancelled);
}

/// Awaits all futures together.
pub(crate) async fn join_all<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, outputs) in futures.iter_mut().zip(&mut outputs) {
            if outputs.is_none() {
                match std::pin::Pin::new(future).poll(context) {
                    std::task::Poll::Ready(value) => *outputs = Some(value),
                    std::task::Poll::Pending => pending = true,
                }
            }
        }
        if pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
