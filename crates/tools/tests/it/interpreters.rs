//! Warm interpreters: a call must not affect the next one.

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
async fn calls_have_separate_processes_of_one_interpreter() {
    let toolbox = single_interpreter_toolbox();
    let code = "import os\nresult = [os.getpid(), os.getppid()]";
    let (mut processes, mut parents) = (BTreeSet::new(), BTreeSet::new());
    for call in [code, "import os\nos._exit(1)", "raise ValueError", code, code] {
        let outcome = run_call(&toolbox, python_call(call)).await;
        if let Some([process, parent]) = outcome.data.as_list() {
            processes.insert(process.as_i64());
            parents.insert(parent.as_i64());
        }
    }
    assert_eq!((processes.len(), parents.len()), (3, 1), "{processes:?} {parents:?}");
}

/// Otherwise each call would load the libraries again.
#[tokio::test]
async fn interpreter_imports_modules_of_steps_once() {
    let toolbox = single_interpreter_toolbox();
    let probe = "import sys\nresult = [name in sys.modules for name in ('fractions', 'helper')]";
    assert_eq!(run_data(&toolbox, python_call(probe)).await, "[false,false]");
    let code = "open('helper.py', 'w').close()\nimport fractions\nimport helper\nresult = 1";
    assert_eq!(run_data(&toolbox, python_call(code)).await, "1");
    assert_eq!(run_data(&toolbox, python_call(probe)).await, "[true,false]");
}

/// A module that crashes the interpreter when it is imported fails only the calls that import it.
#[tokio::test]
async fn crash_of_interpreter_does_not_stop_later_calls() {
    let toolbox = single_interpreter_toolbox();
    let kill = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nsignal.pause()";
    let outcome = run_call(&toolbox, python_call(kill)).await;
    assert_eq!(outcome.error.unwrap().kind, TaskErrorKind::Transform);
    assert_eq!(run_data(&toolbox, python_call("result = 1")).await, "1");
}

#[tokio::test]
async fn idle_interpreters_are_stopped() {
    let mut settings = test_settings();
    settings.python.idle = Duration::from_millis(20);
    let toolbox = Toolbox::new(settings);
    let pid = run_data(&toolbox, python_call("import os\nresult = os.getppid()")).await;
    let pid = pid.parse().unwrap();
    wait_until("the interpreter ends", || !is_alive(pid)).await;
    assert_eq!(run_data(&toolbox, python_call("result = 1")).await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_many_calls_at_once() {
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
    assert_eq!(pids.len(), 200);
}
