//! A small HTTP server on a free port.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A request as it came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Seen {
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

/// A server that answers each request by a function of it.
pub(crate) struct Server {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Starts a server; the function gives the whole answer.
    pub(crate) async fn start(answer: impl Fn(&Seen) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                tokio::spawn(async move { serve(stream, &log, &*answer).await });
            }
        });
        Self { port, seen }
    }

    /// A server with one answer to everything.
    pub(crate) async fn saying(answer: &str) -> Self {
        let answer = answer.as_bytes().to_vec();
        Self::start(move |_| answer.clone()).await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn last(&self) -> Seen {
        self.seen().pop().expect("no request came")
    }
}

/// An answer that ends with its connection.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n{body}")
}

async fn serve(
    mut stream: TcpStream,
    log: &Mutex<Vec<Seen>>,
    answer: &(dyn Fn(&Seen) -> Vec<u8> + Send + Sync),
) {
    let mut bytes = Vec::new();
    let end = loop {
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(read) => bytes.extend(&chunk[..read]),
        }
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
    };
    let mut seen = Seen {
        head: String::from_utf8_lossy(&bytes[..end]).into_owned(),
        body: String::new(),
    };
    let length = seen
        .header("content-length")
        .map_or(0, |text| text.parse().unwrap());
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(read) => body.extend(&chunk[..read]),
        }
    }
    seen.body = String::from_utf8_lossy(&body).into_owned();
    let reply = answer(&seen);
    log.lock().unwrap().push(seen);
    stream.write_all(&reply).await.ok();
    stream.shutdown().await.ok();
}
