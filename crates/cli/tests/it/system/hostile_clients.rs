//! Malicious and broken clients against a real server.
//!
//! Each test ends with the same check: the server responds, and its memory is bounded.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::system::deployment::{TestClient, TestDeployment};
use crate::system::process::NoetlProcess;

/// Memory limit of a process: an unoptimized build needs up to 180 MiB here, and the documents would
/// expand to gigabytes.
const MAX_MEMORY_MIB: u64 = 256;
/// Upper bound of any wait on a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_mins(2);
const BYTES_PER_MIB: usize = 1 << 20;

fn server_address(server: &NoetlProcess) -> SocketAddr {
    let url = server.url.as_deref().expect("a server");
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    address.replace("localhost", "127.0.0.1").parse().expect("an address")
}

async fn open_connection(server: &NoetlProcess) -> TcpStream {
    TcpStream::connect(server_address(server)).await.expect("a connection")
}

/// Reads until the server closes the connection.
async fn read_to_close(stream: &mut TcpStream) -> String {
    let reading = async {
        let mut received = Vec::new();
        let mut chunk = [0; 4096];
        // Closing while the client still sends may reset the connection. Data read before it
        // counts.
        while let Ok(length @ 1..) = stream.read(&mut chunk).await {
            received.extend_from_slice(&chunk[..length]);
        }
        String::from_utf8_lossy(&received).into_owned()
    };
    let response = tokio::time::timeout(WAIT_TIMEOUT, reading).await;
    response.expect("the server closes the connection")
}

/// Sends bytes unchanged and returns the response.
async fn send_bytes(server: &NoetlProcess, bytes: &[u8]) -> String {
    let mut stream = open_connection(server).await;
    // The server may close the connection before it has read everything.
    drop(stream.write_all(bytes).await);
    read_to_close(&mut stream).await
}

/// Builds a request with `connection: close`.
fn build_request(line: &[u8], body: &[u8]) -> Vec<u8> {
    let mut bytes = line.to_vec();
    let head = format!(
        " HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    bytes.extend_from_slice(head.as_bytes());
    bytes.extend_from_slice(body);
    bytes
}

async fn post_document(server: &NoetlProcess, path: &str, body: &Value) -> (u16, String) {
    let line = format!("POST {path}");
    let bytes = build_request(line.as_bytes(), body.to_string().as_bytes());
    let response = send_bytes(server, &bytes).await;
    (parse_status(&response), response)
}

/// Returns the error code of a problem document, or an empty string.
fn problem_code_of(response: &str) -> String {
    let code = parse_body(response)["code"].as_str().map(str::to_owned);
    code.unwrap_or_default()
}

fn parse_body(response: &str) -> Value {
    let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_default()
}

fn parse_status(response: &str) -> u16 {
    let status = response.split(' ').nth(1).and_then(|text| text.parse().ok());
    status.unwrap_or_else(|| panic!("no response: {response:?}"))
}

/// Asserts that the server responds and that its memory is bounded.
async fn assert_healthy(server: &NoetlProcess) {
    let liveness = send_bytes(server, &build_request(b"GET /livez", b"")).await;
    assert_eq!(parse_status(&liveness), 200, "{liveness}");
    let readiness = send_bytes(server, &build_request(b"GET /readyz", b"")).await;
    assert_eq!(parse_status(&readiness), 200, "{readiness}");
    let mib = server.peak_memory_mib();
    assert!(mib < MAX_MEMORY_MIB, "{mib} MiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_huge_bodies_before_reading_them() {
    let deployment = TestDeployment::on_sqlite();
    let server = deployment.start_server();
    for path in ["/api/execute", "/api/catalog/register", "/api/events/batch"] {
        // The body with its length in the header.
        let declared = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 104857600\r\n\r\n{{\"a\":\""
        );
        let response = send_bytes(&server, declared.as_bytes()).await;
        assert_eq!(parse_status(&response), 413, "{response}");
        // The body without a length, which continues for 100 MiB unless it is rejected.
        let mut stream = open_connection(&server).await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        let mut chunk = b"100000\r\n".to_vec();
        chunk.extend(vec![b'['; BYTES_PER_MIB]);
        chunk.extend(b"\r\n");
        let mut accepted = 0;
        while accepted < 100 && stream.write_all(&chunk).await.is_ok() {
            accepted += 1;
        }
        assert!(accepted < 100, "{path}: the whole body was accepted");
        // The connection may be reset before the response is read. A response must be a 413.
        let response = read_to_close(&mut stream).await;
        let is_expected = response.is_empty() || parse_status(&response) == 413;
        assert!(is_expected, "{path}: {response}");
    }
    assert_healthy(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_documents_that_expand() {
    let deployment = TestDeployment::on_sqlite();
    let server = deployment.start_server();
    let laughs: String = (1..=9)
        .map(|level| {
            let many = vec![format!("*l{}", level - 1); 10].join(",");
            format!("l{level}: &l{level} [{many}]\n")
        })
        .collect();
    let laughs = format!("l0: &l0 lol\n{laughs}workload: *l9\n");
    let deep = format!("workload: {}1{}\n", "[".repeat(20_000), "]".repeat(20_000));
    // The deepest nesting that fits into the maximum document size.
    let nested: String = (0..1_300).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    let recursive = "workload: &a {b: *a}\n".to_owned();
    let long = format!("workload: {{a: \"{}\"}}\n", "x".repeat(7 * BYTES_PER_MIB));
    let many = format!("workload: [{}]\n", "1,".repeat(200_000));
    for (name, body, code) in [
        ("laughs", laughs, "NP007"),
        ("deep", deep, "NP001"),
        ("nested", nested, "NP007"),
        ("itself", recursive, "NP001"),
        ("long", long, "NP007"),
        ("many", many, "NP007"),
    ] {
        let content = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: bomb }}\n{body}\
             workflow:\n  - {{step: a, tool: {{kind: noop}}}}\n"
        );
        let document = json!({ "content": content });
        let (status, response) = post_document(&server, "/api/catalog/register", &document).await;
        let text: String = response.chars().take(600).collect();
        // Invalid YAML, and valid YAML that is not a playbook.
        let rejections = [(400, "yaml_syntax"), (422, "validation")];
        assert!(rejections.contains(&(status, &*problem_code_of(&response))), "{name}: {text}");
        assert_eq!(parse_body(&response)["errors"][0]["code"], code, "{name}: {text}");
        let path = "/api/catalog/playbooks/validate";
        let (status, response) = post_document(&server, path, &document).await;
        let (text, body) = (response.chars().take(600).collect::<String>(), parse_body(&response));
        assert_eq!((status, &body["valid"]), (200, &json!(false)), "{name}: {text}");
        assert_eq!(body["diagnostics"][0]["code"], code, "{name}: {text}");
    }
    assert_healthy(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_templates_fail_the_run() {
    let deployment = TestDeployment::on_sqlite().with_lease_secs(60);
    let server = deployment.start_server();
    let worker = deployment.start_worker(&server, "w1");
    let client = TestClient::connect(&server);
    for (name, template) in [
        (
            "loops",
            "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
        ),
        ("grows", "{% for a in range(100000) %}{{ 'x' * 100000 }}{% endfor %}"),
        ("lists", "{{ range(100000000) | list | length > 1 }}"),
    ] {
        let body = format!(
            "workflow:\n  - step: start\n    tool: {{kind: noop}}\n    next:\n      arcs:\n        \
             - {{step: last, when: \"{template}\"}}\n  - {{step: last, tool: {{kind: noop}}}}\n"
        );
        let content = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {name} }}\n{body}"
        );
        let (status, response) =
            post_document(&server, "/api/catalog/register", &json!({ "content": content })).await;
        assert_eq!(status, 200, "{name}: {response}");
        let run = client.start(name, noetl_types::Json::empty_map()).await;
        let run = run.expect("started");
        client.wait_for_status(run, |status| status.failed).await;
    }
    assert_healthy(&server).await;
    let mib = worker.peak_memory_mib();
    assert!(mib < MAX_MEMORY_MIB, "{mib} MiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_disconnected() {
    let deployment = TestDeployment::on_sqlite();
    let short_timeouts = [("NOETL_HTTP_HEAD_SECS", "1"), ("NOETL_HTTP_BODY_SECS", "1")];
    let server = deployment.start_server_with_env(&short_timeouts);
    let mut heads = Vec::new();
    let mut bodies = Vec::new();
    for _ in 0..100 {
        let mut stream = open_connection(&server).await;
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: loc").await.expect("sent");
        heads.push(stream);
        let mut stream = open_connection(&server).await;
        let partial =
            b"POST /api/execute HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n{";
        stream.write_all(partial).await.expect("sent");
        bodies.push(stream);
    }
    // Other clients are served in the meantime.
    assert_healthy(&server).await;
    for mut stream in heads {
        let response = read_to_close(&mut stream).await;
        assert!(!response.contains(" 200 "), "{response}");
    }
    for mut stream in bodies {
        let response = read_to_close(&mut stream).await;
        assert_eq!(parse_status(&response), 408, "{response}");
    }
    assert_healthy(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn excess_connections_get_503_with_retry_after() {
    const MAX_CONNECTIONS: usize = 20;
    let deployment = TestDeployment::on_sqlite();
    let server = deployment.start_server_with_env(&[("NOETL_HTTP_MAX_CONNECTIONS", "20")]);
    let mut connections = Vec::new();
    while connections.len() < MAX_CONNECTIONS {
        let mut stream = open_connection(&server).await;
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
        let mut status_line = [0; 12];
        stream.read_exact(&mut status_line).await.expect("an answer");
        // The connection of the readiness probe may still be open.
        if &status_line == b"HTTP/1.1 200" {
            connections.push(stream);
        }
    }
    let excess = send_bytes(&server, b"").await;
    assert_eq!(parse_status(&excess), 503, "{excess}");
    assert!(excess.to_ascii_lowercase().contains("retry-after"), "{excess}");
    drop(connections);
    let client = TestClient::connect(&server);
    let recovery = async {
        while client.0.check_readiness().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let recovery = tokio::time::timeout(WAIT_TIMEOUT, recovery).await;
    assert!(recovery.is_ok(), "no connection is accepted again");
    assert_healthy(&server).await;
}

/// Request lines with an invalid or traversing path or query, and the expected status.
const MALFORMED_REQUEST_LINES: [(&[u8], u16); 24] = [
    (b"GET /api/executions/%00", 400),
    (b"GET /api/executions/\0", 400),
    (b"GET /api/executions/%ff%fe", 400),
    (b"GET /api/executions/\xff\xfe", 400),
    (b"GET /api/executions?path=%00", 400),
    (b"GET /api/executions?path=%ff", 200),
    (b"GET /api/executions?cursor=%00%00", 400),
    (b"GET /api/executions?limit=%ff", 400),
    (b"GET /api/catalog/playbook/content?playbook_id=%00", 400),
    (b"GET /api/catalog/demo%00two/versions", 404),
    (b"GET /api/catalog/%2e%2e/%2e%2e/etc/passwd/versions", 404),
    (b"GET /api/credentials/%00", 404),
    (b"GET /api/credentials/..%2f..%2f..%2fetc%2fpasswd", 404),
    (b"GET /api/result/resolve?ref=%00", 400),
    (b"GET /api/result/resolve?ref=noetl://execution/../../etc/passwd", 400),
    (b"GET /api/result/resolve?ref=file:///etc/passwd", 400),
    (b"GET /api/vars/7000000000000000000/%00", 404),
    (b"GET /../../../etc/passwd", 404),
    (b"GET /api/../../etc/passwd", 404),
    (b"GET //etc/passwd", 404),
    (b"GET /api/executions/9999999999999999999999999999", 400),
    (b"GET /api/executions/-1", 400),
    (b"GET /api/events/stream?last_event_id=%00", 400),
    (b"GET /api/replay/state?execution_id=%00", 400),
];

/// Bodies that are not valid text, or that contain text which no column can store.
const MALFORMED_BODIES: [&[u8]; 8] = [
    b"\xff\xfe\xfd",
    b"{\"path\":\"\xc3\x28\"}",
    b"{\"path\":\"a\\u0000b\"}",
    b"{\"path\":\"demo\",\"payload\":{\"a\\u0000\":\"\\u0000\"}}",
    b"{\"path\":\"demo\",\"payload\":{\"a\":\"\\ud800\"}}",
    b"{\"name\":\"a\\u0000\",\"payload\":\"\\u0000\"}",
    b"{\"content\":\"apiVersion: noetl.io/v2\\nkind: Playbook\\nmetadata: {name: \\u0000}\"}",
    b"{\"path\":\"demo\",\"payload\":1e999}",
];

async fn check_malformed_texts(deployment: &TestDeployment) {
    let server = deployment.start_server();
    TestClient::connect(&server)
        .register_playbook("demo", "workflow:\n  - {step: a, tool: {kind: wait, signal: go}}\n")
        .await;
    let check = |what: &[u8], response: &str, expected: &[u16]| {
        let what = String::from_utf8_lossy(what).into_owned();
        assert!(expected.contains(&parse_status(response)), "{what}: {response}");
        assert!(!response.contains("root:"), "{what}: {response}");
    };
    for (line, expected) in MALFORMED_REQUEST_LINES {
        // The event stream never ends, so it must be refused, or this would wait forever.
        let response = send_bytes(&server, &build_request(line, b"")).await;
        check(line, &response, &[expected]);
    }
    for path in [
        "/api/execute",
        "/api/execute/batch",
        "/api/signals",
        "/api/catalog/register",
        "/api/events",
        "/api/commands/lease",
        "/api/worker/pool/register",
        "/api/vars/7000000000000000000",
    ] {
        for body in MALFORMED_BODIES {
            let line = format!("POST {path}");
            let response = send_bytes(&server, &build_request(line.as_bytes(), body)).await;
            check(body, &response, &[400, 422]);
            let code = problem_code_of(&response);
            let is_body_error = ["bad_json", "validation", "yaml_syntax"].contains(&&*code);
            assert!(is_body_error, "{line}: {response}");
        }
    }
    // The list operation ignores unknown fields, and these bodies have no known ones.
    for body in MALFORMED_BODIES {
        let response = send_bytes(&server, &build_request(b"POST /api/catalog/list", body)).await;
        check(body, &response, &[200, 400]);
    }
    for (header, expected) in [
        (&b"x-odd: \xff\xfe"[..], 200),
        (b"idempotency-key: \xff", 422),
        (b"x-odd: a\0b", 400),
        (b"authorization: Bearer \xff\0", 400),
    ] {
        let mut bytes =
            b"POST /api/signals HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n".to_vec();
        bytes.extend_from_slice(header);
        bytes.extend_from_slice(b"\r\ncontent-length: 15\r\n\r\n{\"name\":\"none\"}");
        let response = send_bytes(&server, &bytes).await;
        check(header, &response, &[expected]);
    }
    assert_healthy(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_texts_are_rejected_on_sqlite() {
    check_malformed_texts(&TestDeployment::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_texts_are_rejected_on_postgres() {
    check_malformed_texts(&TestDeployment::on_postgres()).await;
}

/// Names that would leave a directory if they were used as paths.
const PATH_TRAVERSALS: [&str; 12] = [
    "../../etc/passwd", "/etc/passwd", "a/../../../etc/passwd", "..", "./.", "a//b",
    "..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "..\\..\\windows\\win.ini",
    "file:///etc/passwd", "/proc/self/environ", "CON",
];

/// A name sent by a client never selects a file of the server.
#[tokio::test(flavor = "multi_thread")]
async fn path_traversal_names_read_no_file() {
    let deployment = TestDeployment::on_sqlite();
    let server = deployment.start_server();
    let assert_rejected = |what: &str, response: &str, expected: &[(u16, &str)]| {
        let actual = (parse_status(response), problem_code_of(response));
        let is_expected = expected.iter().any(|expected| *expected == (actual.0, &*actual.1));
        assert!(is_expected, "{what}: {response}");
        for leak in ["root:", "PATH=", "HOME="] {
            assert!(!response.contains(leak), "{what}: {response}");
        }
    };
    for name in PATH_TRAVERSALS {
        for path in ["/api/execute", "/api/catalog/resource"] {
            let (_, response) = post_document(&server, path, &json!({ "path": name })).await;
            // Most are invalid playbook paths. The valid ones are not found.
            let rejections = [(422, "validation"), (404, "not_found")];
            assert_rejected(name, &response, &rejections);
        }
        let encoded = name.replace('%', "%25").replace('\\', "%5C");
        let escaped = encoded.replace('/', "%2F");
        let (not_found, bad_query) = ((404, "not_found"), (400, "bad_query"));
        for (line, expected) in [
            (format!("GET /api/catalog/playbook/content?playbook_id={encoded}"), not_found),
            (format!("GET /api/result/resolve?ref={encoded}"), bad_query),
            (format!("GET /api/result/resolve?ref=noetl://result/{encoded}"), bad_query),
            (format!("GET /api/credentials/{encoded}"), not_found),
            (format!("GET /api/credentials/{escaped}"), not_found),
            (format!("GET /api/executions/{escaped}"), (400, "bad_id")),
            (format!("GET /{encoded}"), not_found),
        ] {
            let response = send_bytes(&server, &build_request(line.as_bytes(), b"")).await;
            assert_rejected(&line, &response, &[expected]);
        }
    }
    assert_healthy(&server).await;
}
