//! Interpreters that outlive their calls: a call must not affect the next one.

use std::collections::BTreeSet;
use std::time::Duration;

use noetl_tools::Toolbox;
use noetl_types::{Json, TaskErrorKind};

use crate::process_limits::join_all;
use crate::support::{
    is_alive, output_text, python_call, python_call_with_input, run_call, run_data,
    single_interpreter_toolbox, test_settings, wait_until,
};

#[tokio::test]
async fn crash_fails_only_its_own_call() {
    let toolbox = single_interpreter_toolbox();
    let outcome =
        run_call(&toolbox, python_call("import os\nprint('last words', flush=True)\nos._exit(7)"))
            .await;
    let error = outcome.error.clone().unwrap();
    assert_eq!(error.kind, TaskErrorKind::Transform);
    assert_eq!(error.message, "the interpreter ended with exit code 7");
    assert_eq!(error.code, Some(Json::from(7)));
    assert_eq!(output_text(&outcome, "stdout"), "last words\n");
    assert_eq!(run_data(&toolbox, python_call("result = 1")).await, "1");

    let outcome =
        run_call(&toolbox, python_call("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"))
            .await;
    assert_eq!(outcome.error.unwrap().message, "the interpreter ended with signal 11");
    // A child that keeps the channel open does not hide the end of its parent.
    let outcome = run_call(
        &toolbox,
        python_call("import os, time\nif os.fork() == 0:\n    time.sleep(1000)\nos._exit(1)"),
    )
    .await;
    assert_eq!(outcome.error.unwrap().message, "the interpreter ended with exit code 1");
    // Code that closes all descriptors loses the channel.
    let outcome = run_call(&toolbox, python_call("import os\nos.closerange(0, 300)")).await;
    assert!(outcome.error.is_some());
    assert_eq!(run_data(&toolbox, python_call("result = 1")).await, "1");
}

/// Code that leaves side effects behind. The next call must not see any of them.
const SIDE_EFFECTS: &[&str] = &[
    "leak = 1",
    "import builtins\ndel builtins.len",
    "import builtins\nbuiltins.print = None\nbuiltins.isinstance = None",
    "import json\njson.dumps = json.loads = None\njson.JSONEncoder.encode = None",
    "import sys\ndel sys.modules['json']\nsys.modules['os'] = None",
    "import sys\nsys.stdout.close()\nsys.stderr = None",
    "import os\nos.close(1)\nos.close(2)\nos.close(0)",
    "import sys\nsys.stdout = None\ndel sys.stdin",
    "import sys, io\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='latin-1')\nprint('x')",
    "import sys\nsys.path.clear()\nsys.argv.append('x')\nsys.setrecursionlimit(80)",
    "import os\nos.environ.clear()\nos.environ['LEAK'] = '1'\nos.chdir('/')\nos.umask(0)",
    "import threading, time\nt = threading.Thread(target=time.sleep, args=(1000,), daemon=True)\nt.start()",
    "import subprocess\nsubprocess.Popen(['sleep', '1000'])",
    "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.alarm(1)",
    "def f():\n    f()\nf()",
    "import gc, random, logging\ngc.disable()\nrandom.seed(1)\nlogging.basicConfig(level=10)",
    "import sys\nsys.settrace(lambda *a: None)\nsys.exit = None",
    "import os\nif os.fork() == 0:\n    leak = 2",
    "import asyncio\nloop = asyncio.new_event_loop()\nasyncio.set_event_loop(loop)\nloop.close()",
    "import decimal\ndecimal.getcontext().prec = 2",
    "open('left', 'w').write('x')\nopen('helper.py', 'w').write('v = 1')\nimport helper",
    "import os, shutil\nshutil.rmtree(os.getcwd())",
    "import os\nos.open = os.read = os.write = os.dup2 = None",
    "raise KeyboardInterrupt",
    "class E(Exception):\n    def __str__(self): raise self\nraise E()",
    "import sys\nsys.stdout.write('\\ud800')",
    "__builtins__.len = None",
    "globals().clear()",
];

const SIDE_EFFECT_PROBE: &str = r"
import asyncio, decimal, gc, json, os, signal, sys, threading, importlib.util
assert 'leak' not in globals()
assert len([1]) == 1 and isinstance(1, int) and callable(print)
assert json.loads(json.dumps({'a': 1})) == {'a': 1}
assert sys.path and len(sys.argv) == 1 and sys.getrecursionlimit() == 1000
assert 'LEAK' not in os.environ and 'PATH' in os.environ
assert os.getcwd() != '/' and os.listdir('.') == []
assert threading.active_count() == 1 and gc.isenabled()
assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
assert decimal.getcontext().prec == 28
assert importlib.util.find_spec('helper') is None
async def nothing(): return 5
assert asyncio.run(nothing()) == 5
print('fine')
print('too', file=sys.stderr)
assert sys.stdin.read() == '{}'
";

#[tokio::test]
async fn side_effects_do_not_reach_next_call() {
    let toolbox = single_interpreter_toolbox();
    for code in SIDE_EFFECTS {
        let first = run_call(&toolbox, python_call(code)).await;
        if let Some(error) = &first.error {
            assert_eq!(error.kind, TaskErrorKind::Transform, "{code}: {error:?}");
        }
        let probe = run_call(&toolbox, python_call(SIDE_EFFECT_PROBE)).await;
        assert_eq!(
            (probe.error, probe.data.to_string().as_str()),
            (None, r#"{"stderr":"too\n","stdout":"fine\n"}"#),
            "after {code}"
        );
    }
}

#[tokio::test]
async fn clean_calls_share_an_interpreter() {
    let toolbox = single_interpreter_toolbox();
    let mut pids = BTreeSet::new();
    for code in [
        "import os\nresult = os.getpid()",
        "import os, logging\nlogging.basicConfig()\nprint('x')\nreturn os.getpid()",
        "import os, asyncio\nasync def main():\n    return os.getpid()",
        "import os, sys\nsys.path.insert(0, '/x')\nos.environ['A'] = 'b'\nos.chdir('/')\nresult = os.getpid()",
        "import os, subprocess\nsubprocess.run(['true'])\nresult = os.getpid()",
        "import os, threading\nt = threading.Thread(target=print)\nt.start()\nt.join()\nresult = os.getpid()",
        "import os, sys\nsys.stdout.close()\nresult = os.getpid()",
        "import os\nopen('f', 'w').write('x')\nresult = os.getpid()",
        "import os\ntry:\n    1 / 0\nexcept Exception:\n    result = os.getpid()",
    ] {
        pids.insert(run_data(&toolbox, python_call(code)).await);
    }
    let outcome = run_call(&toolbox, python_call("raise ValueError")).await;
    assert!(outcome.error.is_some());
    pids.insert(run_data(&toolbox, python_call("import os\nresult = os.getpid()")).await);
    assert_eq!(pids.len(), 1, "{pids:?}");
}

#[tokio::test]
async fn interpreter_is_replaced_after_max_calls() {
    let mut settings = test_settings();
    settings.python.pool_size = 1;
    settings.python.max_calls = 2;
    let toolbox = Toolbox::new(settings.clone());
    let mut pids = BTreeSet::new();
    for _ in 0..6 {
        pids.insert(run_data(&toolbox, python_call("import os\nresult = os.getpid()")).await);
    }
    assert_eq!(pids.len(), 3);

    settings.python.max_calls = 100;
    settings.python.max_memory = noetl_types::ByteSize::from_mib(100);
    let toolbox = Toolbox::new(settings);
    let pid = "import os\nresult = os.getpid()";
    let first = run_data(&toolbox, python_call(pid)).await;
    // Freed memory is no reason to replace an interpreter, but memory leaked by a library is.
    let big = "import os\nx = b'x' * 200_000_000\nresult = os.getpid()";
    assert_eq!(first, run_data(&toolbox, python_call(big)).await);
    let leak = "import ctypes, os\nlibc = ctypes.CDLL(None)\nlibc.malloc.restype = ctypes.c_void_p
ctypes.memset(libc.malloc(ctypes.c_size_t(200_000_000)), 1, 200_000_000)\nresult = os.getpid()";
    assert_eq!(first, run_data(&toolbox, python_call(leak)).await);
    assert_ne!(first, run_data(&toolbox, python_call(pid)).await);
}

/// A process inherits the peak memory of its parent, and a worker may be large.
#[tokio::test]
async fn worker_memory_does_not_count_for_interpreter() {
    let large = vec![1_u8; 300_000_000];
    let mut settings = test_settings();
    settings.python.pool_size = 1;
    settings.python.max_memory = noetl_types::ByteSize::from_mib(100);
    let toolbox = Toolbox::new(settings);
    let pid = "import os\nresult = os.getpid()";
    let first = run_data(&toolbox, python_call(pid)).await;
    assert_eq!(first, run_data(&toolbox, python_call(pid)).await);
    assert_eq!(large.iter().step_by(4096).filter(|byte| **byte == 1).count(), 73_243);
}

#[tokio::test]
async fn idle_interpreters_are_stopped() {
    let mut settings = test_settings();
    settings.python.idle = Duration::from_millis(20);
    let toolbox = Toolbox::new(settings);
    let pid = run_data(&toolbox, python_call("import os\nresult = os.getpid()")).await;
    let pid = pid.parse().unwrap();
    wait_until("the interpreter ends", || !is_alive(pid)).await;
    assert_eq!(run_data(&toolbox, python_call("result = 1")).await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_many_calls_with_two_interpreters() {
    let mut settings = test_settings();
    settings.python.pool_size = 2;
    let toolbox = Toolbox::new(settings);
    let code = "import os\nprint(n)\nresult = [n, os.getpid()]";
    let calls = (0..200).map(|n| {
        let toolbox = &toolbox;
        Box::pin(async move {
            run_call(toolbox, python_call_with_input(code, &format!("{{\"n\": {n}}}"))).await
        })
    });
    let outcomes = join_all(calls.collect()).await;
    let mut pids = BTreeSet::new();
    for (n, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.error, None);
        let items = outcome.data.as_list().unwrap();
        assert_eq!(items[0], Json::from(n));
        pids.insert(items[1].as_i64());
        let py = outcome.extras.get("py").unwrap();
        assert_eq!(py.get("stdout").unwrap(), &Json::from(format!("{n}\n")));
    }
    assert!(pids.len() <= 2, "{pids:?}");
}
