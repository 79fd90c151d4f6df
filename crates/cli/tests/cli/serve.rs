//! `noetl dev`, `noetl server` and `noetl worker` as processes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use crate::process::{Process, lives};
use crate::run::{at_home, masked};
use crate::support::{CLEAN, Folder, Ran, wait_until};

/// Asks a server for a page.
pub(crate) fn get(url: &str, path: &str) -> String {
    talk(url, &format!("GET {path}"), "")
}

/// Sends JSON to a server.
pub(crate) fn post(url: &str, path: &str, body: &str) -> String {
    talk(url, &format!("POST {path}"), body)
}

fn talk(url: &str, what: &str, body: &str) -> String {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{what} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

pub(crate) fn listening(folder: &Folder, args: &[&str]) -> (Process, String) {
    let mut process = Process::start(at_home(folder, args));
    let line = process.says("NoETL listening on http://127.0.0.1:");
    let url = line.split(' ').next_back().unwrap().to_owned();
    (process, url)
}

#[test]
fn dev_says_where_it_is_answers_and_stops() {
    let folder = Folder::new("dev");
    let (mut dev, url) = listening(&folder, &["dev", "--port", "0"]);
    dev.says("Data in ");
    dev.says("Stop with Ctrl-C");
    assert!(get(&url, "/livez").starts_with("HTTP/1.1 200"));
    assert!(folder.path("data/noetl.db.server.json").exists());
    dev.interrupt();
    let (code, _, err) = dev.end();
    assert_eq!(code, 0, "{err}");
    assert!(!folder.path("data/noetl.db.server.json").exists());
    let lines: Vec<&str> = err.lines().collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| line.starts_with("{\"timestamp\"")));
}

#[test]
fn a_run_beside_dev_is_handed_to_it() {
    let folder = Folder::new("dev_hand_over");
    folder.write("clean.yaml", CLEAN);
    let alone: Ran = at_home(&folder, &["run", "clean.yaml"])
        .output()
        .unwrap()
        .into();
    assert_eq!(alone.code, 0, "{}", alone.err);
    let (_dev, url) = listening(&folder, &["dev", "--port", "0"]);
    let beside: Ran = at_home(&folder, &["run", "clean.yaml"])
        .output()
        .unwrap()
        .into();
    assert_eq!(beside.code, 0, "{}", beside.err);
    assert!(
        beside.err.contains(&format!("· at {url}")),
        "{}",
        beside.err
    );
    let runs = get(&url, "/api/executions");
    for ran in [&alone, &beside] {
        let first = ran.err.lines().next().unwrap();
        let id = first
            .split("run ")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap();
        assert!(runs.contains(id), "{id} is not in {runs}");
    }
    let steps = |ran: &Ran| {
        let lines = masked(&folder, &ran.err);
        lines.lines().skip(1).take(3).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(steps(&alone), steps(&beside));
}

#[test]
fn a_run_that_was_handed_over_is_cancelled_there() {
    let folder = Folder::new("dev_cancel");
    folder.write("sleep.yaml", crate::run::sleep());
    let (_dev, url) = listening(&folder, &["dev", "--port", "0"]);
    let set = format!("folder={}", folder.path("").display());
    let process = Process::start(at_home(&folder, &["run", "sleep.yaml", "--set", &set]));
    folder.wait_for("pid");
    process.interrupt();
    let (code, _, err) = process.end();
    assert_eq!(code, 130, "{err}");
    assert!(get(&url, "/api/executions").contains("CANCELLED"));
    let id = folder.read("pid");
    wait_until("the worker kills the tool", || !lives(id.trim()));
}

#[test]
fn a_second_server_on_the_same_database_is_refused() {
    let folder = Folder::new("dev_twice");
    let (_dev, url) = listening(&folder, &["dev", "--port", "0"]);
    let second: Ran = at_home(&folder, &["server", "--port", "0"])
        .output()
        .unwrap()
        .into();
    assert_eq!((second.code, &*second.out), (4, ""));
    assert!(
        second.err.starts_with("error: another process uses"),
        "{}",
        second.err
    );
    assert!(second.err.contains(&format!("at {url}")), "{}", second.err);
}

#[test]
fn a_server_and_its_workers_are_processes() {
    let folder = Folder::new("server_worker");
    folder.write("clean.yaml", CLEAN);
    let (mut server, url) = listening(&folder, &["server", "--port", "0"]);
    server.says("First token");
    let admin = server.says("noetl_");
    let admin = admin.trim();
    let token = |args: &[&str]| -> Ran {
        let mut command = at_home(&folder, &[&["token"], args].concat());
        command
            .env("NOETL_SERVER_URL", &url)
            .env("NOETL_TOKEN", admin);
        command.output().unwrap().into()
    };
    let made = token(&["create", "hand", "--scope", "worker", "--pool", "shared"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let worker_token = made.out.trim();
    assert!(worker_token.starts_with("noetl_"), "{worker_token}");
    let listed = token(&["list"]).out;
    assert!(
        listed.contains("admin") && listed.contains("hand"),
        "{listed}"
    );
    assert!(!listed.contains(worker_token), "{listed}");
    let args = [
        "worker",
        "--server",
        &url,
        "--concurrency",
        "2",
        "--log-format",
        "text",
    ];
    let mut workers = [(); 2].map(|()| {
        let mut command = at_home(&folder, &args);
        command.env("NOETL_TOKEN", worker_token);
        Process::start(command)
    });
    for worker in &mut workers {
        worker.says("of pool shared for http://");
        worker.tells("registered");
    }
    let run = |token: Option<&str>| -> Ran {
        let mut command = at_home(&folder, &["run", "clean.yaml"]);
        command.envs(token.map(|token| ("NOETL_TOKEN", token)));
        command.output().unwrap().into()
    };
    for _ in 0..3 {
        let ran = run(Some(admin));
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    for token in [None, Some(worker_token)] {
        let refused = run(token);
        assert_eq!(refused.code, 6, "{}", refused.err);
    }
    for worker in workers {
        worker.interrupt();
        let (code, _, err) = worker.end();
        assert_eq!(code, 0, "{err}");
    }
    server.interrupt();
    assert_eq!(server.end().0, 0);
}

#[test]
fn what_cannot_start_says_what_to_do() {
    let folder = Folder::new("server_refused");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ran = |args: &[&str], variables: &[(&str, &str)]| -> Ran {
        let mut command = at_home(&folder, args);
        command.envs(variables.iter().copied());
        command.output().unwrap().into()
    };
    let shown = |ran: &Ran| ran.err.replace(&port, "PORT");

    let refused = ran(&["dev", "--port", &port], &[]);
    assert_eq!(refused.code, 4);
    insta::assert_snapshot!(shown(&refused), @r"
    error: port PORT of 127.0.0.1 is taken
      help: choose another by --port, or --port 0 for a free one
    ");

    let refused = ran(&["server", "--host", "0.0.0.0"], &[]);
    assert_eq!(refused.code, 2);
    insta::assert_snapshot!(shown(&refused), @r"
    error: 0.0.0.0 can be reached from other machines, and tokens would travel unencrypted
      help: listen on a loopback address such as 127.0.0.1, or set NOETL_TLS_CERT and NOETL_TLS_KEY, with NOETL_DEV=false
    ");

    let refused = ran(&["dev", "--host", "0.0.0.0"], &[]);
    assert_eq!(refused.code, 2);
    assert!(
        refused
            .err
            .contains("NOETL_DEV lets callers in without a token"),
        "{}",
        refused.err
    );

    let refused = ran(&["server"], &[("NOETL_PORT", "80800")]);
    assert_eq!(refused.code, 2);
    insta::assert_snapshot!(shown(&refused), @"error: NOETL_PORT is '80800': it has to be a number from 0 to 65535");

    let refused = ran(
        &["server", "--port", "0"],
        &[("NOETL_TLS_CLIENT_CA", "authority.pem")],
    );
    assert_eq!(refused.code, 2);
    insta::assert_snapshot!(shown(&refused), @"error: NOETL_TLS_CLIENT_CA asks clients for certificates, which only encrypted connections carry: set NOETL_TLS_CERT and NOETL_TLS_KEY too, or none of them");

    let shards = "host=a;database=noetl,host=b;database=noetl;password=hidden";
    let of_shards = "error: NOETL_SHARDS names several databases, and this version works with one";
    let cluster = "postgres://u:hidden@c/noetl";
    let of_cluster = "error: NOETL_CLUSTER_DSN names the database of what several databases share, \
        and this version works with one";
    for args in [&["server", "--port", "0"][..], &["db", "status"]] {
        for (name, value, text) in [
            ("NOETL_SHARDS", shards, of_shards),
            ("NOETL_CLUSTER_DSN", cluster, of_cluster),
        ] {
            let refused = ran(args, &[(name, value)]);
            assert_eq!(refused.code, 2);
            assert!(refused.err.starts_with(text), "{}", refused.err);
            assert!(!refused.err.contains("hidden"), "{}", refused.err);
        }
    }
    assert!(!folder.path("data/noetl.db").exists());

    let dsn = format!("postgres://u:secret@127.0.0.1:{port}/noetl");
    drop(taken);
    let refused = ran(&["server", "--port", "0"], &[("NOETL_DSN", &dsn)]);
    assert_eq!(refused.code, 1);
    assert!(!refused.err.contains("secret"), "{}", refused.err);
    assert!(
        shown(&refused)
            .contains("error: the PostgreSQL database at 127.0.0.1:PORT/noetl cannot be used: "),
        "{}",
        refused.err
    );

    let refused = ran(&["worker", "--server", "localhost:8082"], &[]);
    assert_eq!(refused.code, 2);
    insta::assert_snapshot!(shown(&refused), @"error: --server is 'localhost:8082': it has to begin with http:// or https://");
}

/// A process that lost its worker would only look as if it did something.
#[test]
fn dev_ends_with_its_worker() {
    let folder = Folder::new("dev_drained");
    let mut line = at_home(&folder, &["dev", "--port", "0"]);
    line.env("WORKER_HEARTBEAT_INTERVAL", "1")
        .env("WORKER_ID", "only");
    let mut dev = Process::start(line);
    let said = dev.says("NoETL listening on http://127.0.0.1:");
    let url = said.split(' ').next_back().unwrap().to_owned();
    drained(&folder, &url, "only");
    let (code, _, err) = dev.end();
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("error: the worker has left"), "{err}");
}

/// Asks a worker to leave, once it is there.
pub(crate) fn drained(folder: &Folder, url: &str, worker: &str) {
    wait_until("the worker is there", || {
        let mut line = at_home(folder, &["worker", "drain", worker, "--yes"]);
        let ran: Ran = line.env("NOETL_SERVER_URL", url).output().unwrap().into();
        assert!(matches!(ran.code, 0 | 3), "{}", ran.shown());
        ran.code == 0
    });
}

#[test]
fn settings_are_shown_with_where_they_come_from() {
    let folder = Folder::new("config_show");
    folder.write(
        "noetl.toml",
        "host = '127.0.0.2'\nworker_max_concurrent = 8\n",
    );
    let mut command = at_home(
        &folder,
        &["config", "show", "--origin", "--config", "noetl.toml"],
    );
    let servers = "search=https://mcp.example.com/mcp?key=secret";
    command
        .env("NOETL_PORT", "9")
        .env("NOETL_TOKEN", "secret")
        .env("NOETL_MCP_SERVERS", servers);
    let ran: Ran = command.output().unwrap().into();
    insta::assert_snapshot!(masked(&folder, &ran.shown()));
}

/// The address at the end of a line.
fn last_word(line: &str) -> String {
    line.split(' ').next_back().unwrap().to_owned()
}

#[test]
fn the_internal_api_and_metrics_have_doors_of_their_own() {
    let folder = Folder::new("doors");
    let token = "sixteen characters and more";
    let mut command = at_home(&folder, &["server", "--port", "0"]);
    command
        .env("NOETL_INTERNAL_API_TOKEN", token)
        .env("NOETL_INTERNAL_BIND", "127.0.0.1:0")
        .env("NOETL_METRICS_BIND", "localhost:0");
    let mut server = Process::start(command);
    let url = last_word(&server.says("NoETL listening on http://127.0.0.1:"));
    let internal = last_word(&server.says("Internal API on http://127.0.0.1:"));
    let metrics = last_word(&server.says("Metrics on http://127.0.0.1:"));
    let metrics = metrics.strip_suffix("/metrics").unwrap();
    let status = |url: &str, path: &str| get(url, path)[9..12].to_owned();
    let cells = "/api/internal/cells";
    assert_eq!(
        (&*status(&url, cells), &*status(&internal, cells)),
        ("404", "403")
    );
    assert!(get(metrics, "/metrics").contains("noetl_build_info"));
    assert_eq!(
        (
            &*status(&url, "/metrics"),
            &*status(metrics, "/api/executions")
        ),
        ("401", "404")
    );
    let ask = |args: &[&str], internal: Option<&str>| -> Ran {
        let mut command = at_home(&folder, args);
        command
            .env("NOETL_INTERNAL_API_TOKEN", token)
            .env("NOETL_SERVER_URL", &url)
            .envs(internal.map(|url| ("NOETL_INTERNAL_URL", url)));
        command.output().unwrap().into()
    };
    for args in [&["outbox", "list"][..], &["stream", "rebuild", "--dry-run"]] {
        let told = ask(args, Some(&internal));
        assert_eq!(told.code, 0, "{}", told.shown());
        assert_ne!(ask(args, None).code, 0);
    }
    let mut second = at_home(&folder, &["server", "--port", "0"]);
    second.env(
        "NOETL_INTERNAL_BIND",
        internal.strip_prefix("http://").unwrap(),
    );
    let second: Ran = second.output().unwrap().into();
    assert!(
        second.err.contains("choose another in NOETL_INTERNAL_BIND"),
        "{}",
        second.err
    );
}

#[test]
fn no_door_is_open_to_other_machines_without_encryption() {
    let folder = Folder::new("open_doors");
    for name in ["NOETL_INTERNAL_BIND", "NOETL_METRICS_BIND"] {
        let mut command = at_home(&folder, &["server", "--port", "0"]);
        let ran: Ran = command.env(name, "0.0.0.0:0").output().unwrap().into();
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains("unencrypted"), "{}", ran.err);
        let mut command = at_home(&folder, &["server", "--port", "0"]);
        let ran: Ran = command.env(name, "9090").output().unwrap().into();
        assert!(
            ran.err.contains(name) && ran.err.contains("127.0.0.1:9090"),
            "{}",
            ran.err
        );
    }
}

#[test]
fn a_worker_tells_its_metrics_where_it_is_told_to() {
    let folder = Folder::new("worker_metrics");
    folder.write("clean.yaml", CLEAN);
    let mut server = at_home(&folder, &["server", "--port", "0"]);
    server.env("NOETL_DEV", "true");
    let mut server = Process::start(server);
    let url = last_word(&server.says("NoETL listening on http://127.0.0.1:"));
    let worker = |bind: &str| {
        let mut command = at_home(&folder, &["worker", "--server", &url, "--id", "w1"]);
        command.env("WORKER_METRICS_BIND", bind);
        command
    };
    let mut first = Process::start(worker("127.0.0.1:0"));
    let door = last_word(&first.says("Metrics on http://127.0.0.1:"));
    let door = door.trim_end_matches("/metrics");
    let ran: Ran = at_home(&folder, &["run", "clean.yaml"])
        .output()
        .unwrap()
        .into();
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let told = get(door, "/metrics");
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    for line in [
        "noetl_worker_commands_total{kind=\"noop\",outcome=\"completed\"} 1",
        "noetl_worker_slots 32",
        "# EOF",
    ] {
        assert!(told.lines().any(|told| told == line), "{line}: {told}");
    }
    assert!(get(door, "/livez").starts_with("HTTP/1.1 200"));
    assert!(get(door, "/api/executions").starts_with("HTTP/1.1 404"));

    // A second one at the same door does not begin.
    let taken: Ran = worker(door.strip_prefix("http://").unwrap())
        .output()
        .unwrap()
        .into();
    assert_eq!(taken.code, 4, "{}", taken.shown());
    assert!(
        taken.err.contains("choose another in WORKER_METRICS_BIND"),
        "{}",
        taken.err
    );
    let open: Ran = worker("0.0.0.0:0").output().unwrap().into();
    assert_eq!(open.code, 2, "{}", open.shown());
    assert!(
        open.err.contains("NOETL_UNSAFE_PLAINTEXT=true"),
        "{}",
        open.err
    );
    first.interrupt();
    let (code, _, err) = first.end();
    assert_eq!(code, 0, "{err}");
}

/// What listens for one worker would be in the way of the next command on the machine.
#[test]
fn dev_and_run_open_no_door_for_the_metrics_of_workers() {
    let folder = Folder::new("worker_metrics_dev");
    folder.write("clean.yaml", CLEAN);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let bind = taken.local_addr().unwrap().to_string();
    let mut run = at_home(&folder, &["run", "clean.yaml"]);
    let ran: Ran = run
        .env("WORKER_METRICS_BIND", &bind)
        .output()
        .unwrap()
        .into();
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let mut dev = at_home(&folder, &["dev", "--port", "0"]);
    dev.env("WORKER_METRICS_BIND", &bind);
    let mut dev = Process::start(dev);
    dev.says("Stop with Ctrl-C");
    dev.interrupt();
    let (code, out, err) = dev.end();
    assert_eq!(code, 0, "{err}");
    assert!(!out.contains("Metrics on"), "{out}");
}
