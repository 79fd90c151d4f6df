//! What tasks of the test talk to, and who takes the traces.

use std::sync::{Arc, Mutex};

use noetl_types::Json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::wire::{Asked, read};

/// A server that repeats what it is told.
pub(super) struct World {
    pub(super) url: String,
    /// What came as traces.
    traces: Arc<Mutex<String>>,
}

impl World {
    /// A server whose tokens are this one.
    pub(super) async fn open(token: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let traces = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&traces);
        let token: Arc<str> = token.into();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&kept), Arc::clone(&token)));
            }
        });
        Self {
            url: format!("http://127.0.0.1:{port}"),
            traces,
        }
    }

    pub(super) fn traces(&self) -> String {
        self.traces.lock().expect("nobody panicked").clone()
    }
}

async fn serve(mut stream: TcpStream, traces: Arc<Mutex<String>>, token: Arc<str>) {
    let Some(asked) = read(&mut stream).await else {
        return;
    };
    let (path, query) = asked
        .line()
        .1
        .split_once('?')
        .unwrap_or((asked.line().1, ""));
    let echo = Json::object([
        ("head", Json::from(&*asked.head)),
        ("text", Json::from(&*asked.text)),
    ]);
    let echo = echo.to_string();
    let (status, headers, body) = match path {
        "/never" => return std::future::pending().await,
        "/v1/traces" => {
            let mut traces = traces.lock().expect("nobody panicked");
            traces.push_str(&asked.text);
            ("200 OK", String::new(), "{}".to_owned())
        }
        "/moved" => (
            "302 Found",
            format!("location: /echo?{query}\r\n"),
            String::new(),
        ),
        "/status/400" | "/refuses" => ("400 Bad Request", String::new(), echo),
        "/status/500" => ("500 Internal Server Error", String::new(), echo),
        "/status/503" => ("503 Service Unavailable", String::new(), echo),
        "/rows" => {
            let told = asked.header("authorization").unwrap_or("");
            let rows = Json::object([(
                "data",
                Json::list([Json::object([("v", Json::from(told))])]),
            )]);
            ("200 OK", String::new(), rows.to_string())
        }
        "/token" => {
            let body = Json::object([("access_token", Json::from(&*token))]);
            ("200 OK", String::new(), body.to_string())
        }
        "/mcp" => mcp(&asked),
        _ => ("200 OK", String::new(), echo),
    };
    let length = body.len();
    let reply = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{headers}\r\n{body}"
    );
    // A tool that has gone away wants no answer.
    drop(stream.write_all(reply.as_bytes()).await);
}

/// An MCP server that repeats the arguments of its tools, or fails with them.
fn mcp(asked: &Asked) -> (&'static str, String, String) {
    let field = |name: &str| asked.body.get(name).cloned().unwrap_or_default();
    let told = Json::from(format!("{} {}", asked.head, asked.text));
    let params = field("params");
    let outcome = match (field("method").as_str(), params.get("name")) {
        (Some("initialize"), _) => {
            r#""result":{"protocolVersion":"2025-06-18","capabilities":{}}"#.to_owned()
        }
        (Some("tools/call"), Some(name)) if *name == Json::from("fail") => {
            format!(r#""error":{{"code":-32000,"message":{told},"data":{told}}}"#)
        }
        (Some("tools/call"), _) => {
            format!(r#""result":{{"content":[{{"type":"text","text":{told}}}]}}"#)
        }
        _ => return ("202 Accepted", String::new(), String::new()),
    };
    let body = format!(r#"{{"jsonrpc":"2.0","id":{},{outcome}}}"#, field("id"));
    ("200 OK", "mcp-session-id: s1\r\n".to_owned(), body)
}
