//! HTTP server that tasks of the test call, and that receives the traces.

use std::sync::{Arc, Mutex};

use noetl_types::Json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::system::raw_http::{RecordedRequest, read_request};

/// Server that echoes each request.
pub(super) struct EchoServer {
    pub(super) url: String,
    /// Bodies of all received trace exports.
    received_traces: Arc<Mutex<String>>,
}

impl EchoServer {
    /// Starts a server that issues `token`.
    pub(super) async fn open(token: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let traces = Arc::new(Mutex::new(String::new()));
        let recorded = Arc::clone(&traces);
        let token: Arc<str> = token.into();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve_connection(stream, Arc::clone(&recorded), Arc::clone(&token)));
            }
        });
        Self { url: format!("http://127.0.0.1:{port}"), received_traces: traces }
    }

    pub(super) fn received_traces(&self) -> String {
        self.received_traces.lock().expect("no holder panicked").clone()
    }
}

async fn serve_connection(mut stream: TcpStream, traces: Arc<Mutex<String>>, token: Arc<str>) {
    let Some(request) = read_request(&mut stream).await else {
        return;
    };
    let (path, query) =
        request.request_line().1.split_once('?').unwrap_or((request.request_line().1, ""));
    let echo =
        Json::object([("head", Json::from(&*request.head)), ("text", Json::from(&*request.text))]);
    let echo = echo.to_string();
    let (status, headers, body) = match path {
        "/never" => return std::future::pending().await,
        "/v1/traces" => {
            let mut traces = traces.lock().expect("no holder panicked");
            traces.push_str(&request.text);
            ("200 OK", String::new(), "{}".to_owned())
        }
        "/moved" => ("302 Found", format!("location: /echo?{query}\r\n"), String::new()),
        "/status/400" | "/refuses" => ("400 Bad Request", String::new(), echo),
        "/status/500" => ("500 Internal Server Error", String::new(), echo),
        "/status/503" => ("503 Service Unavailable", String::new(), echo),
        "/rows" => {
            let authorization = request.header("authorization").unwrap_or("");
            let rows = Json::object([(
                "data",
                Json::list([Json::object([("v", Json::from(authorization))])]),
            )]);
            ("200 OK", String::new(), rows.to_string())
        }
        "/token" => {
            let body = Json::object([("access_token", Json::from(&*token))]);
            ("200 OK", String::new(), body.to_string())
        }
        "/mcp" => mcp_response(&request),
        _ => ("200 OK", String::new(), echo),
    };
    let length = body.len();
    let response = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{headers}\r\n{body}"
    );
    // The tool may have disconnected.
    drop(stream.write_all(response.as_bytes()).await);
}

/// Responds like an MCP server that echoes the arguments of its tools, or fails with them.
fn mcp_response(request: &RecordedRequest) -> (&'static str, String, String) {
    let field = |name: &str| request.body.get(name).cloned().unwrap_or_default();
    let echoed = Json::from(format!("{} {}", request.head, request.text));
    let params = field("params");
    let outcome = match (field("method").as_str(), params.get("name")) {
        (Some("initialize"), _) => {
            r#""result":{"protocolVersion":"2025-06-18","capabilities":{}}"#.to_owned()
        }
        (Some("tools/call"), Some(name)) if *name == Json::from("fail") => {
            format!(r#""error":{{"code":-32000,"message":{echoed},"data":{echoed}}}"#)
        }
        (Some("tools/call"), _) => {
            format!(r#""result":{{"content":[{{"type":"text","text":{echoed}}}]}}"#)
        }
        _ => return ("202 Accepted", String::new(), String::new()),
    };
    let body = format!(r#"{{"jsonrpc":"2.0","id":{},{outcome}}}"#, field("id"));
    ("200 OK", "mcp-session-id: s1\r\n".to_owned(), body)
}
