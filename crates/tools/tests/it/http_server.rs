//! Small HTTP server on a free port.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A received request.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReceivedRequest {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl ReceivedRequest {
    pub(crate) fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

/// A server that computes each response from the request.
pub(crate) struct TestHttpServer {
    pub(crate) port: u16,
    received_requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl TestHttpServer {
    /// Starts a server. The function returns the complete response.
    pub(crate) async fn start(
        respond: impl Fn(&ReceivedRequest) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let request_log = Arc::clone(&requests);
        let respond = Arc::new(respond);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (request_log, respond) = (Arc::clone(&request_log), Arc::clone(&respond));
                tokio::spawn(
                    async move { serve_connection(stream, &request_log, &*respond).await },
                );
            }
        });
        Self { port, received_requests: requests }
    }

    /// Starts a server with one fixed response.
    pub(crate) async fn with_response(response: &str) -> Self {
        let response = response.as_bytes().to_vec();
        Self::start(move |_| response.clone()).await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn received_requests(&self) -> Vec<ReceivedRequest> {
        self.received_requests.lock().unwrap().clone()
    }

    pub(crate) fn last_request(&self) -> ReceivedRequest {
        self.received_requests().pop().expect("no request was received")
    }
}

/// Builds a response that ends with its connection.
pub(crate) fn http_response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n{body}")
}

async fn serve_connection(
    mut stream: TcpStream,
    log: &Mutex<Vec<ReceivedRequest>>,
    respond: &(dyn Fn(&ReceivedRequest) -> Vec<u8> + Send + Sync),
) {
    let mut bytes = Vec::new();
    let head_length = loop {
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(read) => bytes.extend(&chunk[..read]),
        }
        if let Some(head_length) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break head_length;
        }
    };
    let mut request = ReceivedRequest {
        head: String::from_utf8_lossy(&bytes[..head_length]).into_owned(),
        body: String::new(),
    };
    let length = request.header("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = bytes.split_off(head_length + 4);
    while body.len() < length {
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(read) => body.extend(&chunk[..read]),
        }
    }
    request.body = String::from_utf8_lossy(&body).into_owned();
    let response = respond(&request);
    log.lock().unwrap().push(request);
    stream.write_all(&response).await.ok();
    stream.shutdown().await.ok();
}
