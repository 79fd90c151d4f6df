//! What a server tells those who watch it: traces for a collector, lines of its log.

use std::fs::File;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use noetl_types::Json;
use noetl_types::json::parse;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use crate::house::{Caller, House, until};
use crate::process::Noetl;
use crate::wire::{Asked, post_with, read};

/// Somebody who takes whatever is sent, and a page that tasks ask for.
struct Collector {
    url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Collector {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                tokio::spawn(async move {
                    let Some(asked) = read(&mut stream).await else {
                        return;
                    };
                    kept.lock().unwrap().push(asked);
                    let reply = "HTTP/1.1 200 OK\r\nconnection: close\r\n\
                         content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
                    drop(stream.write_all(reply.as_bytes()).await);
                });
            }
        });
        let url = format!("http://127.0.0.1:{port}");
        Self { url, asked }
    }

    /// The spans that have come so far.
    fn spans(&self) -> Vec<Json> {
        let asked = self.asked.lock().unwrap();
        let traces = asked.iter().filter(|asked| asked.line().1 == "/v1/traces");
        traces.flat_map(|asked| spans_in(&asked.body)).collect()
    }

    /// The place in a trace that a task told this page.
    fn told(&self) -> Option<String> {
        let asked = self.asked.lock().unwrap();
        let page = asked.iter().find(|asked| asked.line().1 == "/page")?;
        page.header("traceparent").map(str::to_owned)
    }
}

fn spans_in(message: &Json) -> Vec<Json> {
    let list = |value: &Json, key: &str| {
        let list = value.get(key).and_then(Json::as_list);
        list.unwrap_or_default().to_vec()
    };
    let resources = list(message, "resourceSpans");
    let scopes = resources.iter().flat_map(|it| list(it, "scopeSpans"));
    scopes.flat_map(|it| list(&it, "spans")).collect()
}

fn text<'s>(span: &'s Json, key: &str) -> &'s str {
    span.get(key).and_then(Json::as_str).unwrap_or_default()
}

const BOOK: &str = r"workload: { page: '' }
workflow:
  - step: start
    tool: { kind: http, url: '{{ workload.page }}' }
    next: { arcs: [{ step: rest }] }
  - step: rest
    tool: { kind: noop }
";

const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_one_trace_that_its_caller_and_those_it_calls_share() {
    let collector = Collector::open().await;
    let house = House::on_sqlite();
    let server = Noetl::serving(
        house
            .command()
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url)
            .args(["server", "--port", "0"]),
    );
    let caller = Caller::of(&server);
    caller.register("traced", BOOK).await;
    let _worker = house.worker(&server, "w1");
    let page = Json::from(format!("{}/page", collector.url));
    let request = Json::object([
        ("path", Json::from("traced")),
        ("payload", Json::object([("page", page)])),
    ]);
    let headers = format!("traceparent: {GIVEN}\r\n");
    let base = server.url.as_deref().unwrap();
    let begun = post_with(base, "/api/execute", &headers, &request)
        .await
        .ok();
    let run = begun.get("execution_id").expect("a run").to_string();
    let run = run.trim_matches('"').parse().unwrap();
    caller.completed(&[run]).await;
    until("the trace is sent", || !collector.spans().is_empty()).await;
    let spans = collector.spans();
    assert!(
        spans
            .iter()
            .all(|span| text(span, "traceId") == &GIVEN[3..35]),
        "{spans:?}"
    );
    let named = |name: &str| {
        let mut found = spans.iter().filter(|span| text(span, "name") == name);
        let found = (found.next(), found.next());
        assert!(matches!(found, (Some(_), None)), "{name}: {spans:?}");
        found.0.unwrap()
    };
    let root = named("traced");
    assert_eq!(text(root, "parentSpanId"), &GIVEN[36..52]);
    for (step, command) in [("start", "http start"), ("rest", "noop rest")] {
        let step = named(step);
        assert_eq!(text(step, "parentSpanId"), text(root, "spanId"));
        let command = named(command);
        assert_eq!(text(command, "parentSpanId"), text(step, "spanId"));
        let micros = |key: &str| text(command, key).parse::<u128>().unwrap();
        assert!(micros("startTimeUnixNano") <= micros("endTimeUnixNano"));
    }
    let told = collector.told().expect("the task tells its place");
    let attempt = format!(
        "00-{}-{}-01",
        &GIVEN[3..35],
        text(named("http start"), "spanId")
    );
    assert_eq!(told, attempt);
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_the_log_are_json_and_name_their_request() {
    let house = House::on_sqlite();
    let path = house.folder.path().join("log");
    let log = File::create(&path).unwrap();
    let server = Noetl::serving_and_telling(
        house
            .command()
            .env("NOETL_LOG", "debug")
            .env("NOETL_LOG_FORMAT", "json")
            .args(["server", "--port", "0"]),
        Stdio::from(log),
    );
    let base = server.url.as_deref().unwrap();
    let headers = "x-request-id: the-one-I-mean\r\n";
    post_with(base, "/api/execute", headers, &Json::empty_map()).await;
    let lines = || std::fs::read_to_string(&path).unwrap_or_default();
    until("the request is logged", || {
        lines().contains("the-one-I-mean")
    })
    .await;
    server.kill();
    let text = lines();
    // The last line may be cut where the process was killed.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines: Vec<Json> = whole
        .lines()
        .map(|line| parse(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert!(!lines.is_empty());
    for line in &lines {
        for key in ["timestamp", "level", "target", "message"] {
            assert!(line.get(key).is_some(), "{key}: {line}");
        }
    }
    let is_it = |line: &&Json| line.get("request_id") == Some(&Json::from("the-one-I-mean"));
    assert!(lines.iter().any(|line| is_it(&line)), "{text}");
}
