//! Telemetry of a server: traces that it sends to a collector, and its log lines.

use std::fs::File;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use noetl_types::Json;
use noetl_types::json::parse;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use crate::system::deployment::{TestClient, TestDeployment, wait_until};
use crate::system::process::NoetlProcess;
use crate::system::raw_http::{RecordedRequest, post_json_with_headers, read_request};

/// HTTP server that records all requests: traces, and a page that tasks request.
struct TraceCollector {
    url: String,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl TraceCollector {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let recorded = Arc::clone(&recorded);
                tokio::spawn(async move {
                    let Some(request) = read_request(&mut stream).await else {
                        return;
                    };
                    recorded.lock().unwrap().push(request);
                    let response = "HTTP/1.1 200 OK\r\nconnection: close\r\n\
                         content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
                    drop(stream.write_all(response.as_bytes()).await);
                });
            }
        });
        let url = format!("http://127.0.0.1:{port}");
        Self { url, requests }
    }

    /// Returns the spans that were received so far.
    fn received_spans(&self) -> Vec<Json> {
        let requests = self.requests.lock().unwrap();
        let traces = requests.iter().filter(|request| request.request_line().1 == "/v1/traces");
        traces.flat_map(|request| extract_spans(&request.body)).collect()
    }

    /// Returns the `traceparent` header that the task sent.
    fn task_traceparent(&self) -> Option<String> {
        let requests = self.requests.lock().unwrap();
        let page = requests.iter().find(|request| request.request_line().1 == "/page")?;
        page.header("traceparent").map(str::to_owned)
    }
}

fn extract_spans(message: &Json) -> Vec<Json> {
    let list = |value: &Json, key: &str| {
        let list = value.get(key).and_then(Json::as_list);
        list.unwrap_or_default().to_vec()
    };
    let resources = list(message, "resourceSpans");
    let scopes = resources.iter().flat_map(|entry| list(entry, "scopeSpans"));
    scopes.flat_map(|entry| list(&entry, "spans")).collect()
}

fn span_text<'s>(span: &'s Json, key: &str) -> &'s str {
    span.get(key).and_then(Json::as_str).unwrap_or_default()
}

const TRACED_PLAYBOOK: &str = r"workload: { page: '' }
workflow:
  - step: start
    tool: { kind: http, url: '{{ workload.page }}' }
    next: { arcs: [{ step: rest }] }
  - step: rest
    tool: { kind: noop }
";

const CALLER_TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[tokio::test(flavor = "multi_thread")]
async fn run_joins_the_trace_of_its_caller() {
    let collector = TraceCollector::open().await;
    let deployment = TestDeployment::on_sqlite();
    let server = NoetlProcess::start_server(
        deployment
            .noetl_command()
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url)
            .args(["server", "--port", "0"]),
    );
    let client = TestClient::connect(&server);
    client.register_playbook("traced", TRACED_PLAYBOOK).await;
    let _worker = deployment.start_worker(&server, "w1");
    let page = Json::from(format!("{}/page", collector.url));
    let request =
        Json::object([("path", Json::from("traced")), ("payload", Json::object([("page", page)]))]);
    let headers = format!("traceparent: {CALLER_TRACEPARENT}\r\n");
    let base = server.url.as_deref().unwrap();
    let started =
        post_json_with_headers(base, "/api/execute", &headers, &request).await.expect_ok();
    let run = started.get("execution_id").expect("a run").to_string();
    let run = run.trim_matches('"').parse().unwrap();
    client.assert_completed(&[run]).await;
    wait_until("the trace is sent", || !collector.received_spans().is_empty()).await;
    let spans = collector.received_spans();
    assert!(
        spans.iter().all(|span| span_text(span, "traceId") == &CALLER_TRACEPARENT[3..35]),
        "{spans:?}"
    );
    let find_span = |name: &str| {
        let mut matches = spans.iter().filter(|span| span_text(span, "name") == name);
        let matches = (matches.next(), matches.next());
        assert!(matches!(matches, (Some(_), None)), "{name}: {spans:?}");
        matches.0.unwrap()
    };
    let root = find_span("traced");
    assert_eq!(span_text(root, "parentSpanId"), &CALLER_TRACEPARENT[36..52]);
    for (step, command) in [("start", "http start"), ("rest", "noop rest")] {
        let step = find_span(step);
        assert_eq!(span_text(step, "parentSpanId"), span_text(root, "spanId"));
        let command = find_span(command);
        assert_eq!(span_text(command, "parentSpanId"), span_text(step, "spanId"));
        let nanos = |key: &str| span_text(command, key).parse::<u128>().unwrap();
        assert!(nanos("startTimeUnixNano") <= nanos("endTimeUnixNano"));
    }
    let traceparent = collector.task_traceparent().expect("the task sends a traceparent");
    let attempt = format!(
        "00-{}-{}-01",
        &CALLER_TRACEPARENT[3..35],
        span_text(find_span("http start"), "spanId")
    );
    assert_eq!(traceparent, attempt);
}

#[tokio::test(flavor = "multi_thread")]
async fn log_lines_are_json_with_request_id() {
    let deployment = TestDeployment::on_sqlite();
    let path = deployment.dir.path().join("log");
    let log = File::create(&path).unwrap();
    let server = NoetlProcess::start_server_with_log(
        deployment
            .noetl_command()
            .env("NOETL_LOG", "debug")
            .env("NOETL_LOG_FORMAT", "json")
            .args(["server", "--port", "0"]),
        Stdio::from(log),
    );
    let base = server.url.as_deref().unwrap();
    let headers = "x-request-id: request-under-test\r\n";
    post_json_with_headers(base, "/api/execute", headers, &Json::empty_map()).await;
    let lines = || std::fs::read_to_string(&path).unwrap_or_default();
    wait_until("the request is logged", || lines().contains("request-under-test")).await;
    server.kill();
    let text = lines();
    // The last line may be incomplete, because the process was killed.
    let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
    let lines: Vec<Json> = complete
        .lines()
        .map(|line| parse(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert!(!lines.is_empty());
    for line in &lines {
        for key in ["timestamp", "level", "target", "message"] {
            assert!(line.get(key).is_some(), "{key}: {line}");
        }
    }
    let is_request =
        |line: &&Json| line.get("request_id") == Some(&Json::from("request-under-test"));
    assert!(lines.iter().any(|line| is_request(&line)), "{text}");
}
