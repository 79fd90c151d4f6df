//! Time, cancellation and what is left behind.

use std::time::Duration;

use noetl_tools::{Call, CancellationToken, ToolKind, Toolbox};
use noetl_types::{Json, TaskErrorKind};

use crate::support::{
    call, data, error, is_alive, one_interpreter, pid_in, python, run, settings, shell, text,
    toolbox, until, value,
};

fn short(call: Call) -> Call {
    Call {
        timeout: Duration::from_secs(3),
        ..call
    }
}

#[tokio::test]
async fn noop_gives_its_result() {
    let noop = |config: &str| call(ToolKind::Noop, &value(config));
    assert_eq!(data(&toolbox(), noop(r#"{"result": [1]}"#)).await, "[1]");
    assert_eq!(
        data(&toolbox(), noop(r#"{"message": "hi"}"#)).await,
        r#"{"message":"hi","status":"ok"}"#
    );
}

#[tokio::test]
async fn other_kinds_are_not_supported() {
    let (kind, message) = error(&toolbox(), call(ToolKind::Wait, &Json::empty_map())).await;
    assert_eq!(kind, TaskErrorKind::Unsupported);
    assert!(message.contains("'wait'"), "{message}");
}

#[tokio::test]
async fn a_timeout_kills_the_whole_group() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let plain = format!("sleep 1000 & echo $! > {}; wait", file("plain").display());
    let deaf = format!(
        "trap '' TERM; sleep 1000 & echo $! > {}; wait; wait",
        file("deaf").display()
    );
    let code = format!(
        "import subprocess\np = subprocess.Popen(['sleep', '1000'])\n\
         open('{}', 'w').write(str(p.pid))\nwhile True: pass",
        file("python").display()
    );
    let toolbox = toolbox();
    let (plain, deaf, python) = tokio::join!(
        run(&toolbox, short(shell(&plain))),
        run(&toolbox, short(shell(&deaf))),
        run(&toolbox, short(python(&code))),
    );
    for (outcome, name) in [(plain, "plain"), (deaf, "deaf"), (python, "python")] {
        let error = outcome.error.unwrap();
        assert_eq!(error.kind, TaskErrorKind::Timeout);
        assert_eq!(error.message, "the task did not end within 3s");
        let pid = pid_in(&file(name)).await;
        until("the grandchild ends", || !is_alive(pid)).await;
    }
}

#[tokio::test]
async fn cancellation_asks_first() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let polite = shell(&format!(
        "trap 'echo bye; exit 0' TERM; sleep 1000 & echo $! > {}; wait",
        file.display()
    ));
    let cancel = CancellationToken::new();
    let toolbox = toolbox();
    let work = toolbox.call(polite, cancel.clone());
    let stop = async {
        let pid = pid_in(&file).await;
        cancel.cancel();
        pid
    };
    let (outcome, pid) = tokio::join!(work, stop);
    assert_eq!(
        outcome.error.as_ref().unwrap().kind,
        TaskErrorKind::Cancelled
    );
    assert_eq!(text(&outcome, "stdout"), "bye\n");
    until("the grandchild ends", || !is_alive(pid)).await;
}

#[tokio::test]
async fn cancelled_python_ends_and_the_next_call_works() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let toolbox = one_interpreter();
    let cancel = CancellationToken::new();
    let endless = python(&format!(
        "import os\nopen('{}', 'w').write(str(os.getpid()))\nwhile True: pass",
        file.display()
    ));
    let stop = async {
        let pid = pid_in(&file).await;
        cancel.cancel();
        pid
    };
    let (outcome, pid) = tokio::join!(toolbox.call(endless, cancel.clone()), stop);
    assert_eq!(outcome.error.unwrap().kind, TaskErrorKind::Cancelled);
    until("the interpreter ends", || !is_alive(pid)).await;
    assert_eq!(data(&toolbox, python("result = 1")).await, "1");
}

#[tokio::test]
async fn a_dropped_call_is_stopped_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let toolbox = toolbox();
    let endless = shell(&format!("echo $$ > {}; sleep 1000", file.display()));
    let pid = tokio::select! {
        outcome = run(&toolbox, endless) => panic!("it ended: {outcome:?}"),
        pid = pid_in(&file) => pid,
    };
    until("the command ends", || !is_alive(pid)).await;
}

#[tokio::test]
async fn what_a_command_leaves_in_the_background_ends() {
    let outcome = run(&toolbox(), shell("sleep 1000 & echo $!")).await;
    assert_eq!(outcome.error, None);
    let pid = text(&outcome, "stdout").trim().parse().unwrap();
    until("the background process ends", || !is_alive(pid)).await;
}

#[tokio::test]
async fn waiting_for_a_place_is_not_time_of_the_attempt() {
    let toolbox = one_interpreter();
    let quick = || short(python("import time\ntime.sleep(0.7)\nresult = 1"));
    // Start the interpreter first, so that the calls below are about their own time.
    run(&toolbox, python("result = 0")).await;
    let calls = (0..6).map(|_| Box::pin(run(&toolbox, quick())));
    let joined = join_all(calls.collect()).await;
    assert!(
        joined.iter().all(|outcome| outcome.error.is_none()),
        "{joined:?}"
    );
}

#[tokio::test]
async fn a_cancelled_call_does_not_wait_for_a_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let toolbox = one_interpreter();
    let (busy, waiting) = (CancellationToken::new(), CancellationToken::new());
    let endless = python(&format!(
        "open('{}', 'w').write('1')\nwhile True: pass",
        file.display()
    ));
    let first = toolbox.call(endless, busy.clone());
    let second = async {
        pid_in(&file).await;
        waiting.cancel();
        let outcome = toolbox.call(python("result = 1"), waiting.clone()).await;
        busy.cancel();
        outcome
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.error.unwrap().kind, TaskErrorKind::Cancelled);
    assert_eq!(second.error.unwrap().kind, TaskErrorKind::Cancelled);
}

/// The hard minimum, seen from inside: nothing of the worker's environment, a group and a folder for
/// itself alone, and a limit on everything.
#[tokio::test]
async fn every_wall_stands_before_user_code_runs() {
    // The test itself has the second of these, from cargo.
    let canary = [("CANARY".to_owned(), "x".to_owned())];
    let mut settings = settings().with_environment(canary, &[]);
    settings.walls.memory = Some(noetl_types::ByteSize::from_gib(8));
    settings.walls.cpu_seconds = Some(77);
    settings.walls.processes = Some(900);
    settings.walls.open_files = Some(333);
    settings.walls.file_size = Some(noetl_types::ByteSize::from_mib(10));
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
    assert_eq!(data(&toolbox, python(&code)).await, expected);
    let code = format!("{probe}result = 70 < cpu < 100");
    assert_eq!(data(&toolbox, python(&code)).await, "true");

    let script =
        format!("{probe}import json\nprint(json.dumps([limits, seen, cpu]).replace(' ', ''))");
    let config = Json::object([(
        "script",
        Json::object([(
            "content",
            Json::from(format!("#!/usr/bin/env python3\n{script}")),
        )]),
    )]);
    let outcome = run(&toolbox, call(ToolKind::Script, &config)).await;
    let printed = text(&outcome, "output");
    let expected = format!("[[0,{},900,333,{}],", 8_u64 << 30, 10 << 20);
    assert!(printed.starts_with(&expected), "{printed}");
    assert!(printed.trim().ends_with(",[],77]"), "{printed}");
}

/// An operator can keep more of an output than usual, but not without bound.
#[tokio::test]
async fn outputs_have_a_bound_that_no_setting_lifts() {
    let mut settings = settings();
    settings.output_cap = noetl_types::ByteSize::from_gib(1);
    let nine = shell("head -c 9437184 /dev/zero | tr '\\0' x");
    let outcome = run(&Toolbox::new(settings), nine).await;
    let kept = text(&outcome, "stdout").len() as u64;
    assert_eq!(kept, noetl_tools::LARGEST_OUTPUT.as_bytes());
    assert_eq!(outcome.data.get("truncated"), Some(&Json::from(true)));
}

/// Without a limit of its own, a process may use what the machine can give in its time.
#[tokio::test]
async fn processor_time_is_bounded_by_the_time_of_the_call() {
    let cores = std::thread::available_parallelism().unwrap().get() as u64;
    let outcome = run(&toolbox(), short(shell("ulimit -t"))).await;
    assert_eq!(text(&outcome, "stdout"), format!("{}\n", 5 * cores));
    let code = "import resource\nresult = resource.getrlimit(resource.RLIMIT_CPU)[0]";
    let limit: u64 = data(&toolbox(), short(python(code))).await.parse().unwrap();
    assert!(limit > 0 && limit <= 5 * cores + 5, "{limit}");
}

#[tokio::test]
async fn after_shutdown_nothing_is_warm() {
    let toolbox = one_interpreter();
    let pid = data(&toolbox, python("import os\nresult = os.getpid()")).await;
    toolbox.shutdown().await;
    let pid = pid.parse().unwrap();
    until("the interpreter ends", || !is_alive(pid)).await;
    let (kind, _) = error(&toolbox, python("result = 1")).await;
    assert_eq!(kind, TaskErrorKind::Cancelled);
}

/// Awaits all futures together.
pub(crate) async fn join_all<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    let mut done: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none() {
                match std::pin::Pin::new(future).poll(context) {
                    std::task::Poll::Ready(value) => *done = Some(value),
                    std::task::Poll::Pending => pending = true,
                }
            }
        }
        if pending {
            std::task::Poll::Pending
        } else {
            std::task::Poll::Ready(())
        }
    })
    .await;
    done.into_iter().flatten().collect()
}
