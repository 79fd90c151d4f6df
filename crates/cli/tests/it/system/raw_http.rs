//! Hand-written HTTP: raw requests to a server, and fake services for the tools of tests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use noetl_types::Json;
use noetl_types::json::parse;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Status and JSON body of a response.
#[derive(Debug)]
pub(crate) struct JsonResponse {
    pub(crate) status: u16,
    pub(crate) body: Json,
}

impl JsonResponse {
    /// Returns the body of a response that must be successful.
    pub(crate) fn expect_ok(self) -> Json {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.body
    }

    /// Returns the error code of a problem response.
    pub(crate) fn problem_code(&self) -> &str {
        let code = self.body.get("code").and_then(Json::as_str);
        code.unwrap_or_else(|| panic!("no problem: {self:?}"))
    }
}

pub(crate) async fn post_json(base: &str, path: &str, body: &Json) -> JsonResponse {
    let body = body.to_string();
    let length = body.len();
    let content =
        format!("content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
    send_json_request(base, &format!("POST {path}"), &content).await
}

/// Posts JSON with additional headers, each with its line end.
pub(crate) async fn post_json_with_headers(
    base: &str,
    path: &str,
    headers: &str,
    body: &Json,
) -> JsonResponse {
    let body = body.to_string();
    let length = body.len();
    let content = format!(
        "{headers}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    send_json_request(base, &format!("POST {path}"), &content).await
}

pub(crate) async fn get_json(base: &str, path: &str) -> JsonResponse {
    send_json_request(base, &format!("GET {path}"), "\r\n").await
}

/// Returns a response body as text, for bodies other than JSON.
pub(crate) async fn get_text(base: &str, path: &str) -> String {
    let (head, body) = send_raw_request(base, &format!("GET {path}"), "\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    String::from_utf8(body).expect("a text")
}

/// Returns a response body as bytes, read to its end.
pub(crate) async fn get_bytes(base: &str, path: &str) -> Vec<u8> {
    send_raw_request(base, &format!("GET {path}"), "\r\n").await.1
}

async fn send_json_request(base: &str, line: &str, rest: &str) -> JsonResponse {
    let (head, body) = send_raw_request(base, line, rest).await;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    JsonResponse {
        status: status.expect("a status"),
        body: parse(&body).unwrap_or_else(|error| panic!("{error}: {head}")),
    }
}

async fn send_raw_request(base: &str, line: &str, rest: &str) -> (String, Vec<u8>) {
    let host = base.trim_start_matches("http://").trim_end_matches('/');
    let request = format!("{line} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{rest}");
    let mut stream = TcpStream::connect(host).await.expect("a server");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.expect("an answer");
    let (head, body) = split_message(&response).expect("a head and a body");
    (head, body.to_vec())
}

fn split_message(message: &[u8]) -> Option<(String, &[u8])> {
    let end = message.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&message[..end]).into_owned();
    Some((head, &message[end + 4..]))
}

/// Request that a tool sent.
pub(crate) struct RecordedRequest {
    pub(crate) head: String,
    /// Body as text.
    pub(crate) text: String,
    /// Body as JSON, or null if it is not JSON.
    pub(crate) body: Json,
}

impl RecordedRequest {
    /// Returns the method and the target.
    pub(crate) fn request_line(&self) -> (&str, &str) {
        let mut parts = self.head.split(' ');
        (parts.next().unwrap_or(""), parts.next().unwrap_or(""))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut matches = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        matches.next().map(|(_, value)| value)
    }
}

/// HTTP server for the tools of tests: an echo, a page that fails twice before it succeeds, rows,
/// and an MCP server with one tool.
pub(crate) struct FakeServices {
    pub(crate) url: String,
}

impl FakeServices {
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let visits = Arc::new(Mutex::new(BTreeMap::new()));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve_connection(stream, Arc::clone(&visits)));
            }
        });
        Self { url: format!("http://127.0.0.1:{port}") }
    }
}

/// Number of requests for each page.
type VisitCounts = Mutex<BTreeMap<String, u32>>;

async fn serve_connection(mut stream: TcpStream, visits: Arc<VisitCounts>) {
    let Some(request) = read_request(&mut stream).await else {
        return;
    };
    let (status, headers, body) = route_request(&request, &visits);
    let length = body.len();
    let response = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{headers}\r\n{body}"
    );
    // The tool may have disconnected.
    drop(stream.write_all(response.as_bytes()).await);
}

pub(crate) async fn read_request(stream: &mut TcpStream) -> Option<RecordedRequest> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let length = stream.read(&mut chunk).await.ok().filter(|length| *length > 0)?;
        bytes.extend(&chunk[..length]);
        let Some((head, body)) = split_message(&bytes) else {
            continue;
        };
        let mut request = RecordedRequest { head, text: String::new(), body: Json::Null };
        let length = request.header("content-length").and_then(|text| text.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            request.body = parse(body).unwrap_or_default();
            request.text = String::from_utf8_lossy(body).into_owned();
            return Some(request);
        }
    }
}

fn route_request(
    request: &RecordedRequest,
    visits: &VisitCounts,
) -> (&'static str, &'static str, String) {
    let (method, target) = request.request_line();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match path {
        "/echo" => {
            let echo = Json::object([
                ("method", Json::from(method)),
                ("query", Json::from(query)),
                ("body", request.body.clone()),
                ("visitor", Json::from(request.header("x-visitor").unwrap_or(""))),
            ]);
            ("200 OK", "", echo.to_string())
        }
        "/busy" => {
            let mut visits = visits.lock().expect("no holder panicked");
            let visits = visits.entry(query.to_owned()).or_default();
            *visits += 1;
            match *visits {
                1 | 2 => ("503 Service Unavailable", "", "{}".to_owned()),
                visits => ("200 OK", "", format!(r#"{{"visits":{visits}}}"#)),
            }
        }
        "/rates" => {
            let rows = r#"{"data":[{"code":"EUR","rate":1.1},{"code":"CHF","rate":0.95}]}"#;
            ("200 OK", "", rows.to_owned())
        }
        "/mcp" => mcp_response(method, &request.body),
        _ => ("404 Not Found", "", r#"{"error":"nothing here"}"#.to_owned()),
    }
}

/// Responds like an MCP server that adds two numbers.
fn mcp_response(method: &str, message: &Json) -> (&'static str, &'static str, String) {
    if method == "DELETE" {
        return ("200 OK", "", String::new());
    }
    let field = |name: &str| message.get(name).cloned().unwrap_or_default();
    let result = match field("method").as_str() {
        Some("initialize") => r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#.to_owned(),
        Some("tools/call") => {
            let params = field("params");
            let number = |name: &str| params.get("arguments")?.get(name)?.as_i64();
            let sum = number("a").unwrap_or(0) + number("b").unwrap_or(0);
            format!(
                r#"{{"content":[{{"type":"text","text":"{sum}"}}],"structuredContent":{{"sum":{sum}}}}}"#
            )
        }
        _ => return ("202 Accepted", "", String::new()),
    };
    let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, field("id"));
    ("200 OK", "mcp-session-id: s1\r\n", body)
}
