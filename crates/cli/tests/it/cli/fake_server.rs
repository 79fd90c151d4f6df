//! Fake server with canned responses that a real one would give only after much work.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use noetl_api::Problem;
use noetl_types::ErrorCode;
use noetl_types::limits::PageLimit;
use serde_json::{Value, json};

use crate::cli::run::isolated_command;
use crate::cli::support::{CommandOutput, TestDir};

/// Path, query parameters and body of a request.
struct RecordedRequest {
    path: String,
    query: Vec<(String, String)>,
    body: Value,
}

impl RecordedRequest {
    fn read(target: &str, body: &[u8]) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Self {
            path: path.to_owned(),
            query: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: serde_json::from_slice(body).unwrap_or_default(),
        }
    }

    fn query_param(&self, name: &str) -> Option<&str> {
        let mut matches = self.query.iter().filter(|(key, _)| key == name);
        matches.next().map(|(_, value)| value.as_str())
    }

    /// Returns the page size and the number of items on the previous pages.
    fn page_bounds(&self) -> (usize, usize) {
        let number =
            |name, default| self.query_param(name).map_or(default, |text| text.parse().unwrap());
        let default = usize::try_from(PageLimit::default().get()).unwrap();
        (number("limit", default), number("cursor", 0))
    }
}

/// Status and body of a response, and the position of the next page.
struct CannedResponse {
    status: u16,
    body: Value,
    next: Option<usize>,
}

impl CannedResponse {
    fn ok_json(body: Value) -> Self {
        Self { status: 200, body, next: None }
    }

    fn error_response(code: ErrorCode) -> Self {
        let problem = Problem::new(code, "not now");
        Self {
            status: code.http_status(),
            body: serde_json::to_value(problem).unwrap(),
            next: None,
        }
    }
}

/// Server that runs until the test ends.
struct FakeServer {
    dir: TestDir,
    url: String,
}

impl FakeServer {
    fn new(
        test: &str,
        handler: impl Fn(&RecordedRequest) -> CannedResponse + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let handler = Arc::new(handler);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let handler = Arc::clone(&handler);
                thread::spawn(move || serve_connection(stream, &*handler));
            }
        });
        let dir = TestDir::new(test);
        Self { dir, url }
    }

    fn run_client(&self, args: &[&str]) -> CommandOutput {
        let mut command = isolated_command(&self.dir, args);
        command.env("NOETL_SERVER_URL", &self.url);
        command.output().unwrap().into()
    }
}

fn serve_connection(mut stream: TcpStream, handler: &impl Fn(&RecordedRequest) -> CannedResponse) {
    let mut received = Vec::new();
    let mut chunk = [0; 4096];
    let mut expected_length = None;
    while expected_length.is_none_or(|length| received.len() < length) {
        match stream.read(&mut chunk) {
            Ok(length) if length > 0 => received.extend(&chunk[..length]),
            _ => return,
        }
        let end = received.windows(4).position(|end| end == b"\r\n\r\n");
        expected_length = end.map(|end| end + 4 + content_length(&received[..end]));
    }
    let text = String::from_utf8(received).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let target = head.split(' ').nth(1).unwrap();
    let request = RecordedRequest::read(target, body.as_bytes());
    let CannedResponse { status, body, next } = handler(&request);
    let body = body.to_string();
    let next = next.map_or_else(String::new, |next| format!("x-next-cursor: {next}\r\n"));
    let response = format!(
        "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-type: application/json\r\n{next}\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    // The client may have disconnected.
    let _ = stream.write_all(response.as_bytes());
}

/// Returns the `content-length` of a request head.
fn content_length(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let mut lines = head.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length: "));
    length.map_or(0, |length| length.parse().unwrap())
}

const FIXED_TIME: &str = "2026-01-01T00:00:00.000Z";

fn run_summary(id: usize, status: &str) -> Value {
    json!({
        "execution_id": id.to_string(), "catalog_id": null, "path": "demo/played", "version": 1,
        "status": status, "started_at": FIXED_TIME, "completed_at": null, "start_time": FIXED_TIME,
        "end_time": null, "duration_seconds": 0.0, "duration_human": "0s", "progress": 0,
        "parent_execution_id": null, "event_count": 1,
    })
}

/// Starts a server that lists `count` runs of each status, newest first.
fn server_with_runs(
    test: &str,
    count: impl Fn(&str) -> usize + Send + Sync + 'static,
) -> FakeServer {
    FakeServer::new(test, move |request| {
        assert_eq!(request.path, "/api/executions");
        let statuses = ["COMPLETED", "RUNNING", "PAUSED", "PENDING"];
        let filter = request.query_param("status");
        let statuses =
            statuses.iter().filter(|status| filter.is_none_or(|filter| filter == **status));
        let runs: Vec<(usize, &str)> = statuses
            .flat_map(|status| (0..count(status)).map(move |index| (index, *status)))
            .collect();
        let (limit, from) = request.page_bounds();
        // Ended runs are the newest.
        let ids = |(index, status): &(usize, &str)| match *status {
            "COMPLETED" => 9_000_000 - index,
            "RUNNING" => 500_000 - index,
            "PAUSED" => 300_000 - index,
            _ => 100_000 - index,
        };
        let page = runs.iter().skip(from).take(limit);
        let page: Vec<Value> = page.map(|run| run_summary(ids(run), run.1)).collect();
        let next = from + page.len();
        CannedResponse {
            next: (next < runs.len()).then_some(next),
            ..CannedResponse::ok_json(Value::from(page))
        }
    })
}

/// Newer ended runs do not hide older active ones.
#[test]
fn cancel_all_finds_old_running_runs() {
    let server = server_with_runs("played_cancel", |status| match status {
        "COMPLETED" => 12_000,
        _ => 1,
    });
    let output = server.run_client(&["runs", "cancel", "--all", "--dry-run"]);
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
    assert!(output.err.contains("3 runs would be cancelled"), "{}", output.err);
    for id in ["500000", "300000", "100000"] {
        assert!(output.err.contains(id), "{}", output.err);
    }
    let paused = ["runs", "cancel", "--all", "--status", "paused", "--dry-run"];
    let output = server.run_client(&paused);
    assert!(output.err.contains("1 run would be cancelled"), "{}", output.err);
}

#[test]
fn cancel_all_warns_beyond_limit() {
    let server = server_with_runs("played_cancel_many", |status| match status {
        "RUNNING" => 10_500,
        _ => 0,
    });
    let output = server.run_client(&["runs", "cancel", "--all", "--dry-run", "--quiet"]);
    assert_eq!(output.code, 0, "{}", output.to_snapshot());
    let warning = "warning: more than 10000 runs match";
    assert!(output.err.contains(warning), "{}", output.err);
    assert!(output.err.contains("10000 runs would be cancelled"), "{}", output.err);
}

/// The limit of tables does not apply to JSON lines.
#[test]
fn prints_requested_number_of_events() {
    const EVENTS: usize = 25_000;
    let server = FakeServer::new("played_events", |request| {
        let (limit, from) = request.page_bounds();
        let next = (from + limit).min(EVENTS);
        // The newest event comes first.
        let event = |index: usize| {
            let seq = EVENTS - index;
            json!({
                "event_id": seq.to_string(), "seq": seq, "execution_id": "3084000000000000001",
                "event_type": "call.done", "node_name": "s", "status": "COMPLETED",
                "created_at": FIXED_TIME, "timestamp": FIXED_TIME, "result": null, "error": null,
            })
        };
        let events: Vec<Value> = (from..next).map(event).collect();
        let next = (next < EVENTS).then(|| next.to_string());
        CannedResponse::ok_json(json!({ "events": events, "next_cursor": next }))
    });
    let fetch_events = |format: &str| {
        let run = "3084000000000000001";
        server.run_client(&["runs", "events", run, "-n", "50000", "-o", format])
    };
    let lines = fetch_events("jsonl");
    assert_eq!(lines.code, 0, "{}", lines.err);
    assert_eq!(lines.out.lines().count(), EVENTS);
    assert!(!lines.err.contains("longer than"), "{}", lines.err);
    let first: Value = serde_json::from_str(lines.out.lines().next().unwrap()).unwrap();
    assert_eq!(first["seq"], 1);
    let table = fetch_events("table");
    assert!(table.err.contains("longer than 20000"), "{}", table.err);
}

/// Names written by other users must not control the terminal.
#[test]
fn control_characters_are_escaped() {
    const EVIL: &str = "\u{1b}]0;owned\u{7}\u{202e}";
    let server = FakeServer::new("played_escapes", |request| {
        let token = json!({
            "id": "7", "name": EVIL, "prefix": "p", "tenant_id": "t", "organization_id": "o",
            "scopes": [], "created_at": FIXED_TIME, "created_by": "c",
        });
        let secret = json!({
            "id": "7", "name": EVIL, "type": EVIL, "tags": [], "description": EVIL,
            "created_at": FIXED_TIME, "updated_at": FIXED_TIME,
        });
        let body = match request.path.as_str() {
            "/api/tokens" => json!({ "tokens": [token] }),
            "/api/tokens/7" => token,
            "/api/credentials" => json!({ "items": [secret] }),
            other => panic!("{other}"),
        };
        CannedResponse::ok_json(body)
    });
    for args in [&["token", "list"][..], &["token", "revoke", "7", "--yes"], &["secret", "list"]] {
        let output = server.run_client(args);
        assert_eq!(output.code, 0, "{}", output.to_snapshot());
        let snapshot = output.to_snapshot();
        assert!(snapshot.contains("owned"), "{args:?}: {snapshot}");
        for c in ['\u{1b}', '\u{7}', '\u{202e}'] {
            assert!(!snapshot.contains(c), "{args:?}: {snapshot:?}");
        }
    }
}

#[test]
fn truncated_secret_list_warns() {
    let server = FakeServer::new("played_secrets", |request| {
        assert_eq!(request.path, "/api/credentials");
        let secret = |index: usize| {
            json!({
                "id": (index + 1).to_string(), "name": format!("s{index}"), "type": "secret", "tags": [],
                "created_at": FIXED_TIME, "updated_at": FIXED_TIME,
            })
        };
        let items: Vec<Value> = (0..10_000).map(secret).collect();
        CannedResponse::ok_json(json!({ "items": items }))
    });
    let output = server.run_client(&["secret", "list", "--no-headers"]);
    assert_eq!(output.out.lines().count(), 10_000);
    let warning = "warning: only the first 10000 secrets are shown";
    assert!(output.err.contains(warning), "{}", output.err);
}

#[test]
fn explains_run_at_position() {
    let server = FakeServer::new("played_explain", |request| {
        let position = request.query_param("at").unwrap_or("now");
        CannedResponse::ok_json(json!({
            "execution_id": "3084000000000000001", "status": "RUNNING",
            "summary": format!("as of {position}"), "waiting_on": [], "cause": [],
        }))
    });
    for (flags, position) in [
        (&[][..], "now"),
        (&["--at-seq", "12"], "12"),
        (&["--at-time", "2026-01-01T00:00:00Z"], "2026-01-01T00%3A00%3A00Z"),
    ] {
        let command = ["runs", "explain", "3084000000000000001"];
        let output = server.run_client(&[&command[..], flags].concat());
        assert_eq!(output.code, 0, "{}", output.to_snapshot());
        let expected = format!("as of {position}\n");
        assert!(output.out.contains(&expected), "{}", output.out);
    }
    let both = ["runs", "explain", "last", "--at-seq", "1", "--at-time", FIXED_TIME];
    assert_eq!(server.run_client(&both).code, 2);
}

/// Completed changes are reported even if a later request fails.
#[test]
fn partial_replay_is_reported_on_failure() {
    let server = FakeServer::new("played_replay", |request| {
        assert_eq!(request.path, "/api/internal/outbox/replay");
        match request.body["outbox_ids"].as_array().unwrap().len() {
            500 => CannedResponse::ok_json(json!({ "changed": 499 })),
            _ => CannedResponse::error_response(ErrorCode::StoreUnavailable),
        }
    });
    let rows: Vec<String> = (1..=600).map(|row| row.to_string()).collect();
    let replay = |format: &str| {
        let mut args = vec!["outbox", "replay", "--yes", "-o", format];
        args.extend(rows.iter().map(String::as_str));
        server.run_client(&args)
    };
    let table = replay("table");
    assert_eq!(table.code, 5, "{}", table.to_snapshot());
    assert_eq!(table.out, "499 rows queued for publishing again\n");
    assert!(table.err.contains("1 of 500 rows"), "{}", table.err);
    assert!(table.err.contains("error: not now"), "{}", table.err);
    let json = replay("jsonl");
    assert_eq!((json.code, &*json.out), (5, "{\"changed\":499}\n"));
}

#[test]
fn no_dead_rows_prints_zero_as_json() {
    let server = FakeServer::new("played_no_dead", |request| {
        assert_eq!(request.path, "/api/internal/outbox");
        CannedResponse::ok_json(json!({ "rows": [] }))
    });
    let all = server.run_client(&["outbox", "replay", "--all", "-o", "jsonl"]);
    assert_eq!((all.code, &*all.out), (0, "{\"changed\":0}\n"));
    let one = server.run_client(&["outbox", "discard", "7", "-o", "jsonl"]);
    assert_eq!((one.code, &*one.out), (3, "{\"changed\":0}\n"));
}

#[test]
fn partial_drain_is_reported_on_failure() {
    let worker = |name: &str, status: &str| {
        json!({
            "runtime_id": "7", "name": name, "kind": "worker_pool", "status": status,
            "labels": {}, "heartbeat": FIXED_TIME, "created_at": FIXED_TIME,
        })
    };
    let server = FakeServer::new("played_drain", move |request| {
        match (&*request.path, request.body["name"].as_str()) {
            ("/api/worker/pools", _) => CannedResponse::ok_json(json!({
                "items": [worker("w1", "active"), worker("w2", "active")],
                "count": 2, "pools": [],
            })),
            (_, Some("w1")) => CannedResponse::ok_json(worker("w1", "draining")),
            _ => CannedResponse::error_response(ErrorCode::StoreUnavailable),
        }
    });
    let drain = ["worker", "drain", "w1", "w2", "--yes"];
    let table = server.run_client(&drain);
    assert_eq!((table.code, &*table.out), (5, "w1 draining\n"));
    let lines = server.run_client(&[&drain[..], &["-o", "jsonl"]].concat());
    assert_eq!(lines.code, 5, "{}", lines.to_snapshot());
    let reported: Value = serde_json::from_str(lines.out.trim()).unwrap();
    assert_eq!((&reported["name"], &reported["status"]), (&json!("w1"), &json!("draining")));
}

/// A script must not delete a key that still encrypts a secret, so the rotation has to fail.
#[test]
fn undecryptable_secrets_fail_rotation() {
    let server = FakeServer::new("played_rotate", |request| {
        assert_eq!(request.path, "/api/credentials/rotate");
        CannedResponse::ok_json(
            json!({ "processed": 3, "rewrapped": 1, "skipped": 0, "failed": 2 }),
        )
    });
    for format in ["table", "json", "jsonl", "yaml"] {
        let output = server.run_client(&["secret", "rotate", "-o", format]);
        assert_eq!(output.code, 1, "{}", output.to_snapshot());
        let warning = "warning: 2 secrets could not be decrypted";
        assert!(output.err.contains(warning), "{}", output.err);
        assert_eq!(output.out.contains("failed"), format != "table");
    }
}

#[test]
fn quarantined_events_print_one_per_line() {
    let server = FakeServer::new("played_refused", |request| {
        assert_eq!(request.path, "/api/internal/quarantine");
        let row = |id: u32| {
            json!({
                "quarantine_id": id, "source": "stream", "code": "too_large", "message": "m",
                "raw": "{}", "created_at": FIXED_TIME,
            })
        };
        CannedResponse::ok_json(json!({ "rows": [row(7), row(8)], "next_after": 8 }))
    });
    let lines = server.run_client(&["outbox", "quarantined", "-o", "jsonl"]);
    let ids = lines.out.lines().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        row["quarantine_id"].as_u64().unwrap()
    });
    assert_eq!(ids.collect::<Vec<_>>(), [7, 8], "{}", lines.to_snapshot());
    assert!(lines.err.contains("--after 8"), "{}", lines.err);
    let document = server.run_client(&["outbox", "quarantined", "-o", "json"]);
    let document: Value = serde_json::from_str(&document.out).unwrap();
    assert_eq!(document["next_after"], 8);
}

/// Output that no longer exists is omitted with a warning. A refusal by the server is an error.
#[test]
fn missing_output_warns_and_refusal_fails() {
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
        let server = FakeServer::new("played_gone", move |request| {
            if request.path == "/api/result/resolve" {
                return CannedResponse::error_response(code);
            }
            if request.path.ends_with("/logs") {
                return CannedResponse::ok_json(json!({ "chunks": [] }));
            }
            let reference = json!({ "ref": "noetl://execution/7/result/s/9", "bytes": 70_000 });
            CannedResponse::ok_json(json!({ "events": [{
                "event_id": "1", "seq": 1, "execution_id": RUN, "event_type": "call.done",
                "node_name": "s", "status": "COMPLETED", "created_at": FIXED_TIME, "timestamp": FIXED_TIME,
                "result": { "reference": reference }, "error": null,
            }] }))
        });
        let output = server.run_client(&["runs", "logs", RUN, "--quiet"]);
        assert_eq!(output.code, exit, "{code:?}: {}", output.to_snapshot());
        let warning = "warning: 1 result could not be read";
        assert_eq!(output.err.contains(warning), exit == 0, "{}", output.err);
    }
}
