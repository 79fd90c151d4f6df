//! Clients that mean harm, or know no better, against a real server.
//!
//! Each test ends with the same look at the server: it answers, and its memory is bounded.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::house::{Caller, House};
use crate::process::Noetl;

/// Far more than a server needs in these tests, and far less than what it is sent.
const MOST_MIB: u64 = 160;
/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
const MIB: usize = 1 << 20;

fn address_of(server: &Noetl) -> SocketAddr {
    let url = server.url.as_deref().expect("a server");
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    address
        .replace("localhost", "127.0.0.1")
        .parse()
        .expect("an address")
}

async fn connect(server: &Noetl) -> TcpStream {
    TcpStream::connect(address_of(server))
        .await
        .expect("a connection")
}

/// Reads until the server hangs up.
async fn said_on(stream: &mut TcpStream) -> String {
    let reading = async {
        let mut all = Vec::new();
        let mut piece = [0; 4096];
        // A server that hangs up on somebody who still sends may reset the line: what came counts.
        while let Ok(length @ 1..) = stream.read(&mut piece).await {
            all.extend_from_slice(&piece[..length]);
        }
        String::from_utf8_lossy(&all).into_owned()
    };
    let said = tokio::time::timeout(PATIENCE, reading).await;
    said.expect("the server hangs up")
}

/// Sends bytes as they are; gives the answer.
async fn said(server: &Noetl, bytes: &[u8]) -> String {
    let mut stream = connect(server).await;
    // A server that has heard enough hangs up while others still speak.
    drop(stream.write_all(bytes).await);
    said_on(&mut stream).await
}

/// A request that asks to hang up afterwards.
fn request(line: &[u8], body: &[u8]) -> Vec<u8> {
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

async fn post(server: &Noetl, path: &str, body: &Value) -> (u16, String) {
    let line = format!("POST {path}");
    let bytes = request(line.as_bytes(), body.to_string().as_bytes());
    let said = said(server, &bytes).await;
    (status_of(&said), said)
}

/// What a problem document calls what is wrong; nothing where the answer is none.
fn code_of(said: &str) -> String {
    let code = body_of(said)["code"].as_str().map(str::to_owned);
    code.unwrap_or_default()
}

fn body_of(said: &str) -> Value {
    let body = said.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_default()
}

fn status_of(said: &str) -> u16 {
    let status = said.split(' ').nth(1).and_then(|word| word.parse().ok());
    status.unwrap_or_else(|| panic!("no answer: {said:?}"))
}

/// The server answers, and has not grown.
async fn is_well(server: &Noetl) {
    let alive = said(server, &request(b"GET /livez", b"")).await;
    assert_eq!(status_of(&alive), 200, "{alive}");
    let ready = said(server, &request(b"GET /readyz", b"")).await;
    assert_eq!(status_of(&ready), 200, "{ready}");
    let mib = server.resident_mib();
    assert!(mib < MOST_MIB, "{mib} MiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn huge_bodies_are_refused_before_they_are_read() {
    let house = House::on_sqlite();
    let server = house.server();
    for path in ["/api/execute", "/api/catalog/register", "/api/events/batch"] {
        // It says how long it is going to be.
        let told = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 104857600\r\n\r\n{{\"a\":\""
        );
        let said = said(&server, told.as_bytes()).await;
        assert_eq!(status_of(&said), 413, "{said}");
        // It does not, and goes on for a hundred MiB unless it is stopped.
        let mut stream = connect(&server).await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        let mut chunk = b"100000\r\n".to_vec();
        chunk.extend(vec![b'['; MIB]);
        chunk.extend(b"\r\n");
        let mut taken = 0;
        while taken < 100 && stream.write_all(&chunk).await.is_ok() {
            taken += 1;
        }
        assert!(taken < 100, "{path}: everything was taken");
        // The line may be reset before the answer is read; where there is one, it says why.
        let said = said_on(&mut stream).await;
        let is_told = said.is_empty() || status_of(&said) == 413;
        assert!(is_told, "{path}: {said}");
    }
    is_well(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_that_unfold_are_refused() {
    let house = House::on_sqlite();
    let server = house.server();
    let laughs: String = (1..=9)
        .map(|level| {
            let many = vec![format!("*l{}", level - 1); 10].join(",");
            format!("l{level}: &l{level} [{many}]\n")
        })
        .collect();
    let laughs = format!("l0: &l0 lol\n{laughs}workload: *l9\n");
    let deep = format!("workload: {}1{}\n", "[".repeat(20_000), "]".repeat(20_000));
    // As deep as it can be within the size of a document.
    let nested: String = (0..1_300)
        .map(|level| format!("{}a:\n", " ".repeat(level)))
        .collect();
    let itself = "workload: &a {b: *a}\n".to_owned();
    let long = format!("workload: {{a: \"{}\"}}\n", "x".repeat(7 * MIB));
    let many = format!("workload: [{}]\n", "1,".repeat(200_000));
    for (name, body, code) in [
        ("laughs", laughs, "NP007"),
        ("deep", deep, "NP001"),
        ("nested", nested, "NP007"),
        ("itself", itself, "NP001"),
        ("long", long, "NP007"),
        ("many", many, "NP007"),
    ] {
        let content = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: bomb }}\n{body}\
             workflow:\n  - {{step: a, tool: {{kind: noop}}}}\n"
        );
        let document = json!({ "content": content });
        let (status, said) = post(&server, "/api/catalog/register", &document).await;
        let text: String = said.chars().take(600).collect();
        // What is no YAML, and what is YAML and no playbook.
        let refusals = [(400, "yaml_syntax"), (422, "validation")];
        assert!(
            refusals.contains(&(status, &*code_of(&said))),
            "{name}: {text}"
        );
        assert_eq!(body_of(&said)["errors"][0]["code"], code, "{name}: {text}");
        let path = "/api/catalog/playbooks/validate";
        let (status, said) = post(&server, path, &document).await;
        let (text, body) = (said.chars().take(600).collect::<String>(), body_of(&said));
        assert_eq!(
            (status, &body["valid"]),
            (200, &json!(false)),
            "{name}: {text}"
        );
        assert_eq!(body["diagnostics"][0]["code"], code, "{name}: {text}");
    }
    is_well(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_that_never_end_fail_their_run() {
    let house = House::on_sqlite().with_leases_of(60);
    let server = house.server();
    let worker = house.worker(&server, "w1");
    let caller = Caller::of(&server);
    for (name, template) in [
        (
            "loops",
            "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
        ),
        (
            "grows",
            "{% for a in range(100000) %}{{ 'x' * 100000 }}{% endfor %}",
        ),
        ("lists", "{{ range(100000000) | list | length > 1 }}"),
    ] {
        let body = format!(
            "workflow:\n  - step: start\n    tool: {{kind: noop}}\n    next:\n      arcs:\n        \
             - {{step: last, when: \"{template}\"}}\n  - {{step: last, tool: {{kind: noop}}}}\n"
        );
        let content = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {name} }}\n{body}"
        );
        let (status, said) = post(
            &server,
            "/api/catalog/register",
            &json!({ "content": content }),
        )
        .await;
        assert_eq!(status, 200, "{name}: {said}");
        let run = caller.start(name, noetl_types::Json::empty_map()).await;
        let run = run.expect("started");
        caller.until(run, |status| status.failed).await;
    }
    is_well(&server).await;
    let mib = worker.resident_mib();
    assert!(mib < MOST_MIB, "{mib} MiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_hung_up_on_and_harm_nobody() {
    let house = House::on_sqlite();
    let quick = [("NOETL_HTTP_HEAD_SECS", "1"), ("NOETL_HTTP_BODY_SECS", "1")];
    let server = house.server_with(&quick);
    let mut heads = Vec::new();
    let mut bodies = Vec::new();
    for _ in 0..100 {
        let mut stream = connect(&server).await;
        stream
            .write_all(b"GET /livez HTTP/1.1\r\nhost: loc")
            .await
            .expect("sent");
        heads.push(stream);
        let mut stream = connect(&server).await;
        let begun = b"POST /api/execute HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n{";
        stream.write_all(begun).await.expect("sent");
        bodies.push(stream);
    }
    // Others are served meanwhile.
    is_well(&server).await;
    for mut stream in heads {
        let said = said_on(&mut stream).await;
        assert!(!said.contains(" 200 "), "{said}");
    }
    for mut stream in bodies {
        let said = said_on(&mut stream).await;
        assert_eq!(status_of(&said), 408, "{said}");
    }
    is_well(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_connections_are_told_to_come_back() {
    const ROOM: usize = 20;
    let house = House::on_sqlite();
    let server = house.server_with(&[("NOETL_HTTP_MAX_CONNECTIONS", "20")]);
    let mut held = Vec::new();
    while held.len() < ROOM {
        let mut stream = connect(&server).await;
        stream
            .write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .expect("sent");
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).await.expect("an answer");
        // The one that asked whether the server is there may not have gone yet.
        if &begin == b"HTTP/1.1 200" {
            held.push(stream);
        }
    }
    let beyond = said(&server, b"").await;
    assert_eq!(status_of(&beyond), 503, "{beyond}");
    assert!(
        beyond.to_ascii_lowercase().contains("retry-after"),
        "{beyond}"
    );
    drop(held);
    let caller = Caller::of(&server);
    let again = async {
        while caller.0.readyz().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let again = tokio::time::timeout(PATIENCE, again).await;
    assert!(again.is_ok(), "there is no room again");
    is_well(&server).await;
}

/// Lines of requests whose path or query is no text, or leads elsewhere, and what each is answered with.
const ODD_LINES: [(&[u8], u16); 24] = [
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
    (
        b"GET /api/result/resolve?ref=noetl://execution/../../etc/passwd",
        400,
    ),
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

/// Bodies that are no text, or texts that no column takes.
const ODD_BODIES: [&[u8]; 8] = [
    b"\xff\xfe\xfd",
    b"{\"path\":\"\xc3\x28\"}",
    b"{\"path\":\"a\\u0000b\"}",
    b"{\"path\":\"demo\",\"payload\":{\"a\\u0000\":\"\\u0000\"}}",
    b"{\"path\":\"demo\",\"payload\":{\"a\":\"\\ud800\"}}",
    b"{\"name\":\"a\\u0000\",\"payload\":\"\\u0000\"}",
    b"{\"content\":\"apiVersion: noetl.io/v2\\nkind: Playbook\\nmetadata: {name: \\u0000}\"}",
    b"{\"path\":\"demo\",\"payload\":1e999}",
];

async fn odd_texts_on(house: &House) {
    let server = house.server();
    Caller::of(&server)
        .register(
            "demo",
            "workflow:\n  - {step: a, tool: {kind: wait, signal: go}}\n",
        )
        .await;
    let check = |what: &[u8], said: &str, wanted: &[u16]| {
        let what = String::from_utf8_lossy(what).into_owned();
        assert!(wanted.contains(&status_of(said)), "{what}: {said}");
        assert!(!said.contains("root:"), "{what}: {said}");
    };
    for (line, wanted) in ODD_LINES {
        // What follows everything never ends, so it is refused or it would be waited for.
        let said = said(&server, &request(line, b"")).await;
        check(line, &said, &[wanted]);
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
        for body in ODD_BODIES {
            let line = format!("POST {path}");
            let said = said(&server, &request(line.as_bytes(), body)).await;
            check(body, &said, &[400, 422]);
            let code = code_of(&said);
            let is_of_body = ["bad_json", "validation", "yaml_syntax"].contains(&&*code);
            assert!(is_of_body, "{line}: {said}");
        }
    }
    // A list reads what it knows of a body, and these hold nothing that it does.
    for body in ODD_BODIES {
        let said = said(&server, &request(b"POST /api/catalog/list", body)).await;
        check(body, &said, &[200, 400]);
    }
    for (header, wanted) in [
        (&b"x-odd: \xff\xfe"[..], 200),
        (b"idempotency-key: \xff", 422),
        (b"x-odd: a\0b", 400),
        (b"authorization: Bearer \xff\0", 400),
    ] {
        let mut bytes =
            b"POST /api/signals HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n".to_vec();
        bytes.extend_from_slice(header);
        bytes.extend_from_slice(b"\r\ncontent-length: 15\r\n\r\n{\"name\":\"none\"}");
        let said = said(&server, &bytes).await;
        check(header, &said, &[wanted]);
    }
    is_well(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_are_none_break_nothing_on_sqlite() {
    odd_texts_on(&House::on_sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_are_none_break_nothing_on_postgres() {
    odd_texts_on(&House::on_postgres()).await;
}

/// Ways out of a folder, as names of things.
const WAYS_OUT: [&str; 12] = [
    "../../etc/passwd",
    "/etc/passwd",
    "a/../../../etc/passwd",
    "..",
    "./.",
    "a//b",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "..\\..\\windows\\win.ini",
    "file:///etc/passwd",
    "/proc/self/environ",
    "CON",
];

/// Nothing that a client names is ever a file of the server.
#[tokio::test(flavor = "multi_thread")]
async fn names_that_look_like_files_lead_to_none() {
    let house = House::on_sqlite();
    let server = house.server();
    let leads_nowhere = |what: &str, said: &str, wanted: &[(u16, &str)]| {
        let told = (status_of(said), code_of(said));
        let is_told = wanted.iter().any(|wanted| *wanted == (told.0, &*told.1));
        assert!(is_told, "{what}: {said}");
        for leak in ["root:", "PATH=", "HOME="] {
            assert!(!said.contains(leak), "{what}: {said}");
        }
    };
    for name in WAYS_OUT {
        for path in ["/api/execute", "/api/catalog/resource"] {
            let (_, said) = post(&server, path, &json!({ "path": name })).await;
            // Most of them are no paths; those that could be one lead to nothing.
            let refusals = [(422, "validation"), (404, "not_found")];
            leads_nowhere(name, &said, &refusals);
        }
        let encoded = name.replace('%', "%25").replace('\\', "%5C");
        let whole = encoded.replace('/', "%2F");
        let (gone, no_query) = ((404, "not_found"), (400, "bad_query"));
        for (line, wanted) in [
            (
                format!("GET /api/catalog/playbook/content?playbook_id={encoded}"),
                gone,
            ),
            (format!("GET /api/result/resolve?ref={encoded}"), no_query),
            (
                format!("GET /api/result/resolve?ref=noetl://result/{encoded}"),
                no_query,
            ),
            (format!("GET /api/credentials/{encoded}"), gone),
            (format!("GET /api/credentials/{whole}"), gone),
            (format!("GET /api/executions/{whole}"), (400, "bad_id")),
            (format!("GET /{encoded}"), gone),
        ] {
            let said = said(&server, &request(line.as_bytes(), b"")).await;
            leads_nowhere(&line, &said, &[wanted]);
        }
    }
    is_well(&server).await;
}
