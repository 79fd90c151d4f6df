//! Commands of who runs an installation: tokens, workers, the outbox, retention, the stream.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use noetl_testkit::nats::Nats;

use super::Shown;
use crate::asking::House;
use crate::process::Process;
use crate::run::at_home;
use crate::serve::listening;
use crate::support::{CLEAN, Folder, Ran, wait_until};

const TOKEN: (&str, &str) = ("NOETL_INTERNAL_API_TOKEN", "sixteen characters and more");

#[test]
fn tokens() {
    let folder = Folder::new("each_tokens");
    let (mut server, url) = listening(&folder, &["server", "--port", "0"]);
    server.says("First token");
    let admin = server.says("noetl_").trim().to_owned();
    let line = |args: &[&str]| {
        let mut command = at_home(&folder, args);
        command
            .env("NOETL_SERVER_URL", &url)
            .env("NOETL_TOKEN", &admin);
        command
    };
    let show = || Shown::new(&line);
    let create = [
        "token",
        "create",
        "ci",
        "--scope",
        "exec:run",
        "--scope",
        "exec:read",
    ];
    let worker = [
        "token",
        "create",
        "hand",
        "--scope",
        "worker",
        "--pool",
        "gpu",
        "--ttl-days",
        "30",
    ];
    // What a token is proves itself by is shown once, and is another each time.
    let made = Ran::from(line(&create).output().unwrap());
    let again = super::terminal::Terminal::start(line(&worker), "").end();
    let secrets: Vec<String> = [&made.out, &again.1]
        .iter()
        .flat_map(|text| text.split_whitespace())
        .filter(|word| word.starts_with("noetl_"))
        .map(str::to_owned)
        .collect();
    let [first, second] = &*secrets else {
        panic!("{made:?} {again:?}");
    };
    show()
        .was_piped(&create, &made)
        .was_on_terminal(&worker, &again)
        .both(&["token", "create", "odd", "--scope", "exec:rum"])
        .is(
            "token_create",
            &[(first, "noetl_SECRET"), (second, "noetl_SECRET")],
        );
    let list = show().both(&["token", "list"]);
    let listed = Ran::from(line(&["token", "list", "-o", "jsonl"]).output().unwrap());
    let (ci, hand) = (id_of("ci", &listed.out), id_of("hand", &listed.out));
    show()
        .piped(&["token", "revoke", &ci])
        .piped(&["token", "revoke", &ci, "--yes"])
        .piped(&["token", "revoke", "none", "--yes"])
        .on_terminal(&["token", "revoke", &hand], "yes\n")
        .is("token_revoke", &[(&*url, "URL")]);
    let stranger = |args: &[&str]| {
        let mut command = at_home(&folder, args);
        command.env("NOETL_SERVER_URL", &url);
        command
    };
    let refused = Ran::from(stranger(&["token", "list"]).output().unwrap());
    list.both(&["token", "list"])
        .was_piped(&["token", "list"], &refused)
        .is("token_list", &[]);
}

/// The id of a token in a list, a line of JSON for each.
fn id_of(name: &str, listed: &str) -> String {
    let mut tokens = listed.lines().map(|line| {
        let token: serde_json::Value = serde_json::from_str(line).unwrap();
        (token["name"] == name).then(|| token["id"].as_str().unwrap().to_owned())
    });
    tokens.find_map(|id| id).unwrap()
}

#[test]
fn workers() {
    let folder = Folder::new("each_workers");
    let mut line = at_home(&folder, &["server", "--port", "0"]);
    line.env("NOETL_DEV", "true");
    let mut server = Process::start(line);
    let said = server.says("NoETL listening on http://127.0.0.1:");
    let url = said.split(' ').next_back().unwrap().to_owned();
    let line = |args: &[&str]| {
        let mut command = at_home(&folder, args);
        command.env("NOETL_SERVER_URL", &url);
        command
    };
    let show = || Shown::new(&line);
    let list = show().both(&["worker", "list"]);
    let mut workers = ["w1", "w2"].map(|id| {
        let args = ["worker", "--server", &url, "--id", id, "--concurrency", "2"];
        let mut command = at_home(&folder, &args);
        command.env("WORKER_HEARTBEAT_INTERVAL", "1");
        Process::start(command)
    });
    for worker in &mut workers {
        worker.tells("registered");
    }
    list.both(&["worker", "list"]).is("worker_list", &[]);
    show()
        .piped(&["worker", "drain", "w1"])
        .piped(&["worker", "drain", "w1", "--yes"])
        .piped(&["worker", "drain", "w3", "--yes"])
        .on_terminal(&["worker", "drain", "w2"], "yes\n")
        .is("worker_drain", &[(&*url, "URL")]);
    for worker in workers {
        let (code, _, err) = worker.end();
        assert_eq!(code, 0, "{err}");
    }
}

#[test]
fn the_outbox_and_retention() {
    let house = House::with("each_outbox", &[TOKEN, ("NOETL_OUTBOX_MAX_ATTEMPTS", "1")]);
    house.folder.write("clean.yaml", CLEAN);
    let line = |args: &[&str]| house.command(args);
    let show = || Shown::new(&line);
    house.get(&["run", "clean.yaml", "-q"]);
    show()
        .both(&["outbox", "list", "--limit", "1"])
        .both(&["outbox", "list", "--status", "odd"])
        .is("outbox_list", &[]);
    show().both(&["outbox", "dead"]).is("outbox_dead", &[]);
    show()
        .both(&["outbox", "replay", "7"])
        .both(&["outbox", "replay", "--all"])
        .is("outbox_replay", &[]);
    // Without a broker a publisher takes no row, so all are there to fail for the only time.
    let rows = told(&house, "outbox/claim", r#"{"limit":2}"#);
    for row in rows["rows"].as_array().unwrap() {
        let failed = serde_json::json!({ "outbox_id": row["outbox_id"], "error": "no" });
        told(&house, "outbox/mark-failed", &failed.to_string());
    }
    show()
        .piped(&["outbox", "replay", "--all"])
        .on_terminal(&["outbox", "replay", "--all"], "no\n")
        .on_terminal(&["outbox", "replay", "--all"], "yes\n")
        .piped(&["outbox", "replay", "--all", "7"])
        .is("outbox_replay_all", &[(house.url(), "URL")]);
    let refused = r#"{"events":[{"event_id":7,"event_type":"step.enter"}]}"#;
    told(&house, "events/project", refused);
    show()
        .both(&["outbox", "quarantined"])
        .both(&["outbox", "quarantined", "--source", "stream"])
        .is("outbox_quarantined", &[]);
    show()
        .piped(&["outbox", "discard", "7"])
        .on_terminal(&["outbox", "discard", "7"], "no\n")
        .on_terminal(&["outbox", "discard", "7"], "yes\n")
        .is("outbox_discard", &[]);
    show()
        .both(&["retention", "plan", "--events", "30"])
        .is("retention_plan", &[]);
    show()
        .piped(&["retention", "apply"])
        .piped(&["retention", "apply", "--yes"])
        .on_terminal(&["retention", "apply"], "no\n")
        .on_terminal(&["retention", "apply"], "yes\n")
        .is("retention_apply", &[(house.url(), "URL")]);
}

/// What a part of the platform is told by the internal API.
fn told(house: &House, path: &str, body: &str) -> serde_json::Value {
    let address = house.url().trim_start_matches("http://");
    let request = format!(
        "POST /api/internal/{path} HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        TOKEN.1,
        body.len()
    );
    let mut line = TcpStream::connect(address).unwrap();
    line.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    line.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{answer}");
    serde_json::from_str(body).unwrap()
}

#[test]
fn the_stream() {
    let nats = Nats::start().unwrap();
    let on = [
        ("NOETL_NATS_URL", nats.url()),
        ("NOETL_EVENT_STREAM_ENABLED", "on"),
        TOKEN,
    ];
    let off = House::with("each_stream_off", &[]);
    let is_off = |args: &[&str]| off.command(args);
    let house = House::with("each_stream", &on);
    house.folder.write("clean.yaml", CLEAN);
    house.get(&["run", "clean.yaml", "-q"]);
    wait_until("everything is published", || {
        let status = house.get(&["stream", "status", "-o", "json"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        status["state"] == "publishing" && status["lag_events"] == 0
    });
    let status = house.get(&["stream", "status", "-o", "json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let name = |field: &str| status[field].as_str().unwrap().to_owned();
    let (owner, version) = (name("owner"), name("nats_version"));
    let masks = [
        (&*owner, "SERVER"),
        (&*version, "VERSION"),
        (house.url(), "URL"),
    ];
    let line = |args: &[&str]| house.command(args);
    // The platform has runs of its own there, and nobody waits for the publisher.
    let counted = |args: &[&str]| {
        let mut ran = Ran::from(line(args).output().unwrap());
        ran.out = uncounted(&ran.out);
        let (code, screen) = super::terminal::Terminal::start(line(args), "").end();
        let ended = (code, uncounted(&screen));
        Shown::new(&line)
            .was_piped(args, &ran)
            .was_on_terminal(args, &ended)
    };
    let closed = |args: &[&str]| Ran::from(is_off(args).output().unwrap());
    let (status, rebuild) = (["stream", "status"], ["stream", "rebuild", "--yes"]);
    let asked = ["stream", "rebuild"];
    let mut alone = Ran::from(line(&asked).output().unwrap());
    alone.err = uncounted(&alone.err);
    counted(&status)
        .was_piped(&status, &closed(&status))
        .is("stream_status", &masks);
    counted(&rebuild)
        .was_piped(&rebuild, &closed(&rebuild))
        .was_piped(&asked, &alone)
        .is("stream_rebuild", &masks);
    off.folder.write("clean.yaml", CLEAN);
    off.get(&["run", "clean.yaml", "-q"]);
    let begin = ["stream", "tail", "--from-start", "--limit", "5"];
    Shown::new(&is_off).both(&begin).is("stream_tail", &[]);
}

/// The same, whatever was counted.
fn uncounted(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let name = ["behind     ", "published  "]
            .iter()
            .find(|name| line.starts_with(**name));
        name.map_or_else(|| line.to_owned(), |name| format!("{name}N\n"))
    });
    lines.collect()
}
