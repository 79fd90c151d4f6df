//! HTTP by hand, on both sides: requests as anybody may send them, and a server that tools talk to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use noetl_types::Json;
use noetl_types::json::parse;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A status and a body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Json,
}

impl Answer {
    /// The body of an answer that must be a good one.
    pub(crate) fn ok(self) -> Json {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.body
    }

    /// The code of an answer that must be a problem.
    pub(crate) fn code(&self) -> &str {
        let code = self.body.get("code").and_then(Json::as_str);
        code.unwrap_or_else(|| panic!("no problem: {self:?}"))
    }
}

/// Posts JSON to a server.
pub(crate) async fn post(base: &str, path: &str, body: &Json) -> Answer {
    let body = body.to_string();
    let length = body.len();
    let content =
        format!("content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
    talk(base, &format!("POST {path}"), &content).await
}

/// The same with headers of the caller's own, each with its end of line.
pub(crate) async fn post_with(base: &str, path: &str, headers: &str, body: &Json) -> Answer {
    let body = body.to_string();
    let length = body.len();
    let content = format!(
        "{headers}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    talk(base, &format!("POST {path}"), &content).await
}

/// Asks a server.
pub(crate) async fn get(base: &str, path: &str) -> Answer {
    talk(base, &format!("GET {path}"), "\r\n").await
}

/// What a server says that is no JSON.
pub(crate) async fn text(base: &str, path: &str) -> String {
    let (head, body) = said(base, &format!("GET {path}"), "\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    String::from_utf8(body).expect("a text")
}

/// Whatever a server says, to the end of it.
pub(crate) async fn anything(base: &str, path: &str) -> Vec<u8> {
    said(base, &format!("GET {path}"), "\r\n").await.1
}

async fn talk(base: &str, line: &str, rest: &str) -> Answer {
    let (head, body) = said(base, line, rest).await;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Answer {
        status: status.expect("a status"),
        body: parse(&body).unwrap_or_else(|error| panic!("{error}: {head}")),
    }
}

async fn said(base: &str, line: &str, rest: &str) -> (String, Vec<u8>) {
    let host = base.trim_start_matches("http://").trim_end_matches('/');
    let request = format!("{line} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{rest}");
    let mut stream = TcpStream::connect(host).await.expect("a server");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("an answer");
    let (head, body) = halves(&answer).expect("a head and a body");
    (head, body.to_vec())
}

fn halves(message: &[u8]) -> Option<(String, &[u8])> {
    let end = message.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&message[..end]).into_owned();
    Some((head, &message[end + 4..]))
}

/// A request as a tool sent it.
pub(crate) struct Asked {
    pub(crate) head: String,
    /// What came behind it.
    pub(crate) text: String,
    /// The same read as JSON; null where it is none.
    pub(crate) body: Json,
}

impl Asked {
    /// The method and the target.
    pub(crate) fn line(&self) -> (&str, &str) {
        let mut words = self.head.split(' ');
        (words.next().unwrap_or(""), words.next().unwrap_or(""))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value)
    }
}

/// A server that tools of a test talk to: an echo, a page that is busy at first, rows, and an MCP
/// server with one tool.
pub(crate) struct Outside {
    pub(crate) url: String,
}

impl Outside {
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let visits = Arc::new(Mutex::new(BTreeMap::new()));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&visits)));
            }
        });
        Self {
            url: format!("http://127.0.0.1:{port}"),
        }
    }
}

/// How often each page was asked for.
type Visits = Mutex<BTreeMap<String, u32>>;

async fn serve(mut stream: TcpStream, visits: Arc<Visits>) {
    let Some(asked) = read(&mut stream).await else {
        return;
    };
    let (status, headers, body) = answer(&asked, &visits);
    let length = body.len();
    let reply = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{headers}\r\n{body}"
    );
    // A tool that has gone away wants no answer.
    drop(stream.write_all(reply.as_bytes()).await);
}

/// Reads one request.
pub(crate) async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let read = stream
            .read(&mut chunk)
            .await
            .ok()
            .filter(|read| *read > 0)?;
        bytes.extend(&chunk[..read]);
        let Some((head, body)) = halves(&bytes) else {
            continue;
        };
        let mut asked = Asked {
            head,
            text: String::new(),
            body: Json::Null,
        };
        let length = asked
            .header("content-length")
            .and_then(|text| text.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            asked.body = parse(body).unwrap_or_default();
            asked.text = String::from_utf8_lossy(body).into_owned();
            return Some(asked);
        }
    }
}

fn answer(asked: &Asked, visits: &Visits) -> (&'static str, &'static str, String) {
    let (method, target) = asked.line();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match path {
        "/echo" => {
            let echo = Json::object([
                ("method", Json::from(method)),
                ("query", Json::from(query)),
                ("body", asked.body.clone()),
                (
                    "visitor",
                    Json::from(asked.header("x-visitor").unwrap_or("")),
                ),
            ]);
            ("200 OK", "", echo.to_string())
        }
        "/busy" => {
            let mut visits = visits.lock().expect("nobody panicked");
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
        "/mcp" => mcp(method, &asked.body),
        _ => (
            "404 Not Found",
            "",
            r#"{"error":"nothing here"}"#.to_owned(),
        ),
    }
}

/// An MCP server that adds two numbers.
fn mcp(method: &str, message: &Json) -> (&'static str, &'static str, String) {
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
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
        field("id")
    );
    ("200 OK", "mcp-session-id: s1\r\n", body)
}
