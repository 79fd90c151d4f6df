//! A server that a test plays, for answers that a real one gives only after much work.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use noetl_api::Problem;
use noetl_types::ErrorCode;
use noetl_types::limits::PageLimit;
use serde_json::{Value, json};

use crate::run::at_home;
use crate::support::{Folder, Ran};

/// What is asked for: a path, its parameters, and what was sent along.
struct Asked {
    path: String,
    query: Vec<(String, String)>,
    body: Value,
}

impl Asked {
    fn read(target: &str, body: &[u8]) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Self {
            path: path.to_owned(),
            query: pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            body: serde_json::from_slice(body).unwrap_or_default(),
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.query.iter().filter(|(key, _)| key == name);
        found.next().map(|(_, value)| value.as_str())
    }

    /// How many are wanted, and how many were given on the pages before.
    fn page(&self) -> (usize, usize) {
        let number = |name, usual| self.get(name).map_or(usual, |text| text.parse().unwrap());
        let usual = usize::try_from(PageLimit::default().get()).unwrap();
        (number("limit", usual), number("cursor", 0))
    }
}

/// The status and the body of an answer, and where the next page begins.
struct Answer {
    status: u16,
    body: Value,
    next: Option<usize>,
}

impl Answer {
    fn of(body: Value) -> Self {
        Self {
            status: 200,
            body,
            next: None,
        }
    }

    fn refusal(code: ErrorCode) -> Self {
        let problem = Problem::new(code, "not now");
        Self {
            status: code.status(),
            body: serde_json::to_value(problem).unwrap(),
            next: None,
        }
    }
}

/// The server, as long as the test lasts.
struct Played {
    folder: Folder,
    url: String,
}

impl Played {
    fn new(test: &str, answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let answer = Arc::clone(&answer);
                thread::spawn(move || serve(stream, &*answer));
            }
        });
        let folder = Folder::new(test);
        Self { folder, url }
    }

    fn ask(&self, args: &[&str]) -> Ran {
        let mut command = at_home(&self.folder, args);
        command.env("NOETL_SERVER_URL", &self.url);
        command.output().unwrap().into()
    }
}

fn serve(mut stream: TcpStream, answer: &impl Fn(&Asked) -> Answer) {
    let mut came = Vec::new();
    let mut chunk = [0; 4096];
    let mut wanted = None;
    while wanted.is_none_or(|length| came.len() < length) {
        match stream.read(&mut chunk) {
            Ok(length) if length > 0 => came.extend(&chunk[..length]),
            _ => return,
        }
        let end = came.windows(4).position(|end| end == b"\r\n\r\n");
        wanted = end.map(|end| end + 4 + length_of(&came[..end]));
    }
    let text = String::from_utf8(came).unwrap();
    let (head, sent) = text.split_once("\r\n\r\n").unwrap();
    let target = head.split(' ').nth(1).unwrap();
    let asked = Asked::read(target, sent.as_bytes());
    let Answer { status, body, next } = answer(&asked);
    let body = body.to_string();
    let next = next.map_or_else(String::new, |next| format!("x-next-cursor: {next}\r\n"));
    let reply = format!(
        "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-type: application/json\r\n{next}\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    // Who has gone away wants no answer.
    let _ = stream.write_all(reply.as_bytes());
}

/// How many bytes a head says that follow it.
fn length_of(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let mut lines = head.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length: "));
    length.map_or(0, |length| length.parse().unwrap())
}

const TIME: &str = "2026-01-01T00:00:00.000Z";

fn a_run(id: usize, status: &str) -> Value {
    json!({
        "execution_id": id.to_string(), "catalog_id": null, "path": "demo/played", "version": 1,
        "status": status, "started_at": TIME, "completed_at": null, "start_time": TIME,
        "end_time": null, "duration_seconds": 0.0, "duration_human": "0s", "progress": 0,
        "parent_execution_id": null, "event_count": 1,
    })
}

/// A server with so many runs of each status, newest first.
fn with_runs(test: &str, count: impl Fn(&str) -> usize + Send + Sync + 'static) -> Played {
    Played::new(test, move |asked| {
        assert_eq!(asked.path, "/api/executions");
        let words = ["COMPLETED", "RUNNING", "PAUSED", "PENDING"];
        let wanted = asked.get("status");
        let words = words
            .iter()
            .filter(|word| wanted.is_none_or(|wanted| wanted == **word));
        let all: Vec<(usize, &str)> = words
            .flat_map(|word| (0..count(word)).map(move |at| (at, *word)))
            .collect();
        let (limit, from) = asked.page();
        // Those that have ended are the newest.
        let ids = |(at, word): &(usize, &str)| match *word {
            "COMPLETED" => 9_000_000 - at,
            "RUNNING" => 500_000 - at,
            "PAUSED" => 300_000 - at,
            _ => 100_000 - at,
        };
        let page = all.iter().skip(from).take(limit);
        let runs: Vec<Value> = page.map(|run| a_run(ids(run), run.1)).collect();
        let next = from + runs.len();
        Answer {
            next: (next < all.len()).then_some(next),
            ..Answer::of(Value::from(runs))
        }
    })
}

/// What has ended since does not stand before what still goes on.
#[test]
fn old_runs_that_go_on_are_cancelled_too() {
    let server = with_runs("played_cancel", |status| match status {
        "COMPLETED" => 12_000,
        _ => 1,
    });
    let ran = server.ask(&["runs", "cancel", "--all", "--dry-run"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(ran.err.contains("3 runs would be cancelled"), "{}", ran.err);
    for id in ["500000", "300000", "100000"] {
        assert!(ran.err.contains(id), "{}", ran.err);
    }
    let paused = ["runs", "cancel", "--all", "--status", "paused", "--dry-run"];
    let ran = server.ask(&paused);
    assert!(ran.err.contains("1 run would be cancelled"), "{}", ran.err);
}

#[test]
fn more_runs_than_are_cancelled_at_once_are_told() {
    let server = with_runs("played_cancel_many", |status| match status {
        "RUNNING" => 10_500,
        _ => 0,
    });
    let ran = server.ask(&["runs", "cancel", "--all", "--dry-run", "--quiet"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let warning = "warning: there are more than 10000 such runs";
    assert!(ran.err.contains(warning), "{}", ran.err);
    assert!(
        ran.err.contains("10000 runs would be cancelled"),
        "{}",
        ran.err
    );
}

/// Lines are printed as they are asked for, however many a table would hold.
#[test]
fn as_many_last_events_are_printed_as_are_asked_for() {
    const EVENTS: usize = 25_000;
    let server = Played::new("played_events", |asked| {
        let (limit, from) = asked.page();
        let next = (from + limit).min(EVENTS);
        // The last one comes first.
        let event = |at: usize| {
            let seq = EVENTS - at;
            json!({
                "event_id": seq.to_string(), "seq": seq, "execution_id": "3084000000000000001",
                "event_type": "call.done", "node_name": "s", "status": "COMPLETED",
                "created_at": TIME, "timestamp": TIME, "result": null, "error": null,
            })
        };
        let events: Vec<Value> = (from..next).map(event).collect();
        let next = (next < EVENTS).then(|| next.to_string());
        Answer::of(json!({ "events": events, "next_cursor": next }))
    });
    let ask = |form: &str| {
        let run = "3084000000000000001";
        server.ask(&["runs", "events", run, "-n", "50000", "-o", form])
    };
    let lines = ask("jsonl");
    assert_eq!(lines.code, 0, "{}", lines.err);
    assert_eq!(lines.out.lines().count(), EVENTS);
    assert!(!lines.err.contains("longer than"), "{}", lines.err);
    let first: Value = serde_json::from_str(lines.out.lines().next().unwrap()).unwrap();
    assert_eq!(first["seq"], 1);
    let table = ask("table");
    assert!(table.err.contains("longer than 20000"), "{}", table.err);
}

/// Who may write a name must not write on the screens of others.
#[test]
fn what_others_wrote_cannot_move_the_cursor() {
    const EVIL: &str = "\u{1b}]0;owned\u{7}\u{202e}";
    let server = Played::new("played_escapes", |asked| {
        let token = json!({
            "id": "7", "name": EVIL, "prefix": "p", "tenant_id": "t", "organization_id": "o",
            "scopes": [], "created_at": TIME, "created_by": "c",
        });
        let secret = json!({
            "id": "7", "name": EVIL, "type": EVIL, "tags": [], "description": EVIL,
            "created_at": TIME, "updated_at": TIME,
        });
        let body = match asked.path.as_str() {
            "/api/tokens" => json!({ "tokens": [token] }),
            "/api/tokens/7" => token,
            "/api/credentials" => json!({ "items": [secret] }),
            other => panic!("{other}"),
        };
        Answer::of(body)
    });
    for args in [
        &["token", "list"][..],
        &["token", "revoke", "7", "--yes"],
        &["secret", "list"],
    ] {
        let ran = server.ask(args);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        let shown = ran.shown();
        assert!(shown.contains("owned"), "{args:?}: {shown}");
        for letter in ['\u{1b}', '\u{7}', '\u{202e}'] {
            assert!(!shown.contains(letter), "{args:?}: {shown:?}");
        }
    }
}

#[test]
fn a_list_of_secrets_says_when_it_is_cut() {
    let server = Played::new("played_secrets", |asked| {
        assert_eq!(asked.path, "/api/credentials");
        let secret = |at: usize| {
            json!({
                "id": (at + 1).to_string(), "name": format!("s{at}"), "type": "secret", "tags": [],
                "created_at": TIME, "updated_at": TIME,
            })
        };
        let items: Vec<Value> = (0..10_000).map(secret).collect();
        Answer::of(json!({ "items": items }))
    });
    let ran = server.ask(&["secret", "list", "--no-headers"]);
    assert_eq!(ran.out.lines().count(), 10_000);
    let warning = "warning: only the first 10000 secrets are shown";
    assert!(ran.err.contains(warning), "{}", ran.err);
}

#[test]
fn a_run_is_explained_as_of_a_moment() {
    let server = Played::new("played_explain", |asked| {
        let at = asked.get("at").unwrap_or("now");
        Answer::of(json!({
            "execution_id": "3084000000000000001", "status": "RUNNING",
            "summary": format!("as of {at}"), "waiting_on": [], "cause": [],
        }))
    });
    for (flags, moment) in [
        (&[][..], "now"),
        (&["--at-seq", "12"], "12"),
        (
            &["--at-time", "2026-01-01T00:00:00Z"],
            "2026-01-01T00%3A00%3A00Z",
        ),
    ] {
        let line = ["runs", "explain", "3084000000000000001"];
        let ran = server.ask(&[&line[..], flags].concat());
        assert_eq!(ran.code, 0, "{}", ran.shown());
        let told = format!("as of {moment}\n");
        assert!(ran.out.contains(&told), "{}", ran.out);
    }
    let both = [
        "runs",
        "explain",
        "last",
        "--at-seq",
        "1",
        "--at-time",
        TIME,
    ];
    assert_eq!(server.ask(&both).code, 2);
}

/// What was done before something failed is done, and is told.
#[test]
fn rows_that_were_changed_before_a_failure_are_told() {
    let server = Played::new("played_replay", |asked| {
        assert_eq!(asked.path, "/api/internal/outbox/replay");
        match asked.body["outbox_ids"].as_array().unwrap().len() {
            500 => Answer::of(json!({ "changed": 499 })),
            _ => Answer::refusal(ErrorCode::StoreUnavailable),
        }
    });
    let rows: Vec<String> = (1..=600).map(|row| row.to_string()).collect();
    let replay = |form: &str| {
        let mut args = vec!["outbox", "replay", "--yes", "-o", form];
        args.extend(rows.iter().map(String::as_str));
        server.ask(&args)
    };
    let table = replay("table");
    assert_eq!(table.code, 5, "{}", table.shown());
    assert_eq!(table.out, "499 rows sent out again\n");
    assert!(table.err.contains("1 of 500 rows"), "{}", table.err);
    assert!(table.err.contains("error: not now"), "{}", table.err);
    let json = replay("jsonl");
    assert_eq!((json.code, &*json.out), (5, "{\"changed\":499}\n"));
}

#[test]
fn where_no_row_is_dead_programs_are_told_so_too() {
    let server = Played::new("played_no_dead", |asked| {
        assert_eq!(asked.path, "/api/internal/outbox");
        Answer::of(json!({ "rows": [] }))
    });
    let all = server.ask(&["outbox", "replay", "--all", "-o", "jsonl"]);
    assert_eq!((all.code, &*all.out), (0, "{\"changed\":0}\n"));
    let one = server.ask(&["outbox", "discard", "7", "-o", "jsonl"]);
    assert_eq!((one.code, &*one.out), (3, "{\"changed\":0}\n"));
}

#[test]
fn workers_that_were_drained_before_a_failure_are_told() {
    let worker = |name: &str, status: &str| {
        json!({
            "runtime_id": "7", "name": name, "kind": "worker_pool", "status": status,
            "labels": {}, "heartbeat": TIME, "created_at": TIME,
        })
    };
    let server = Played::new("played_drain", move |asked| {
        match (&*asked.path, asked.body["name"].as_str()) {
            ("/api/worker/pools", _) => Answer::of(json!({
                "items": [worker("w1", "active"), worker("w2", "active")],
                "count": 2, "pools": [],
            })),
            (_, Some("w1")) => Answer::of(worker("w1", "draining")),
            _ => Answer::refusal(ErrorCode::StoreUnavailable),
        }
    });
    let drain = ["worker", "drain", "w1", "w2", "--yes"];
    let table = server.ask(&drain);
    assert_eq!((table.code, &*table.out), (5, "w1 draining\n"));
    let lines = server.ask(&[&drain[..], &["-o", "jsonl"]].concat());
    assert_eq!(lines.code, 5, "{}", lines.shown());
    let told: Value = serde_json::from_str(lines.out.trim()).unwrap();
    assert_eq!(
        (&told["name"], &told["status"]),
        (&json!("w1"), &json!("draining"))
    );
}

/// A key that a secret is still under must not be thrown away by a script.
#[test]
fn secrets_that_could_not_be_opened_fail_a_rotation() {
    let server = Played::new("played_rotate", |asked| {
        assert_eq!(asked.path, "/api/credentials/rotate");
        Answer::of(json!({ "processed": 3, "rewrapped": 1, "skipped": 0, "failed": 2 }))
    });
    for form in ["table", "json", "jsonl", "yaml"] {
        let ran = server.ask(&["secret", "rotate", "-o", form]);
        assert_eq!(ran.code, 1, "{}", ran.shown());
        let warning = "warning: 2 secrets could not be opened";
        assert!(ran.err.contains(warning), "{}", ran.err);
        assert_eq!(ran.out.contains("failed"), form != "table");
    }
}

#[test]
fn each_refused_event_is_a_line() {
    let server = Played::new("played_refused", |asked| {
        assert_eq!(asked.path, "/api/internal/quarantine");
        let row = |id: u32| {
            json!({
                "quarantine_id": id, "source": "stream", "code": "too_large", "message": "m",
                "raw": "{}", "created_at": TIME,
            })
        };
        Answer::of(json!({ "rows": [row(7), row(8)], "next_after": 8 }))
    });
    let lines = server.ask(&["outbox", "quarantined", "-o", "jsonl"]);
    let ids = lines.out.lines().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        row["quarantine_id"].as_u64().unwrap()
    });
    assert_eq!(ids.collect::<Vec<_>>(), [7, 8], "{}", lines.shown());
    assert!(lines.err.contains("--after 8"), "{}", lines.err);
    let whole = server.ask(&["outbox", "quarantined", "-o", "json"]);
    let whole: Value = serde_json::from_str(&whole.out).unwrap();
    assert_eq!(whole["next_after"], 8);
}

/// What cannot be had any more is left out with a word about it; a server that refuses is not.
#[test]
fn output_that_is_gone_is_told_and_a_refusal_is_an_error() {
    const RUN: &str = "3084000000000000001";
    for (code, exit) in [
        (ErrorCode::NotFound, 0),
        (ErrorCode::RetentionDropped, 0),
        (ErrorCode::TooLarge, 0),
        (ErrorCode::Unauthenticated, 6),
        (ErrorCode::Forbidden, 6),
        (ErrorCode::RateLimited, 5),
        (ErrorCode::StoreUnavailable, 5),
    ] {
        let server = Played::new("played_gone", move |asked| {
            if asked.path == "/api/result/resolve" {
                return Answer::refusal(code);
            }
            let reference = json!({ "ref": "noetl://execution/7/result/s/9", "bytes": 70_000 });
            Answer::of(json!({ "events": [{
                "event_id": "1", "seq": 1, "execution_id": RUN, "event_type": "call.done",
                "node_name": "s", "status": "COMPLETED", "created_at": TIME, "timestamp": TIME,
                "result": { "reference": reference }, "error": null,
            }] }))
        });
        let ran = server.ask(&["runs", "logs", RUN, "--quiet"]);
        assert_eq!(ran.code, exit, "{code:?}: {}", ran.shown());
        let warning = "warning: 1 result could not be looked at";
        assert_eq!(ran.err.contains(warning), exit == 0, "{}", ran.err);
    }
}
