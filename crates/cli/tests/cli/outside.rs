//! A server that the examples talk to: a shop with pages and sales, rates, the weather, and an MCP
//! server.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// The world outside, as long as the test lasts.
pub(crate) struct Outside {
    pub(crate) url: String,
}

/// How often the pages were asked for that are busy at first.
#[derive(Default)]
struct Visits {
    orders: AtomicU32,
    rates: AtomicU32,
}

/// The status and the body of an answer.
type Answer = (&'static str, String);

impl Outside {
    pub(crate) fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let visits = Arc::new(Visits::default());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let visits = Arc::clone(&visits);
                thread::spawn(move || serve(stream, &visits));
            }
        });
        Self { url }
    }

    /// The address of a page as a value for a workload.
    pub(crate) fn set(&self, name: &str, page: &str) -> String {
        format!("{name}={}{page}", self.url)
    }
}

fn serve(mut stream: TcpStream, visits: &Visits) {
    let Some((line, body)) = read(&mut stream) else {
        return;
    };
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (status, body) = match (method, path) {
        ("GET", "/orders") => orders(query, visits),
        ("GET", "/bad_orders") => ok(r#"{"rows":[{"id":9,"customer":"Eve","amount":-1}]}"#),
        ("GET", "/sales") => sales(query),
        ("GET", "/rates") => rates(query, visits),
        ("GET", "/cities") => ok(r#"["Oslo", "Rome", "Cairo"]"#),
        ("GET", "/weather/Oslo") => ok(r#"{"city": "Oslo", "degrees": 4}"#),
        ("GET", "/weather/Rome") => ok(r#"{"city": "Rome", "degrees": 21}"#),
        ("GET", "/weather/Cairo") => ok(r#"{"city": "Cairo", "degrees": 33}"#),
        ("POST", "/mcp") => mcp(&body),
        ("DELETE", "/mcp") => ok(""),
        _ => ("404 Not Found", r#"{"error":"nothing here"}"#.to_owned()),
    };
    let length = body.len();
    let reply = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    // Who has gone away wants no answer.
    let _ = stream.write_all(reply.as_bytes());
}

/// The first line of a request, and its body.
fn read(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let length = stream.read(&mut chunk).ok().filter(|length| *length > 0)?;
        bytes.extend(&chunk[..length]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let wanted = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .and_then(|(_, length)| length.parse().ok());
        if body.len() >= wanted.unwrap_or(0) {
            let line = head.lines().next().unwrap_or("");
            return Some((line.to_owned(), body.to_owned()));
        }
    }
}

fn ok(body: &str) -> Answer {
    ("200 OK", body.to_owned())
}

fn busy() -> Answer {
    ("503 Service Unavailable", "{}".to_owned())
}

fn value<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut found = pairs.filter(|(key, _)| *key == name);
    found.next().map(|(_, value)| value)
}

const ORDERS: [(u32, &str, u32); 5] = [
    (1, "Ada", 10),
    (2, "Bob", 20),
    (3, "Cyd", 30),
    (4, "Bob", 40),
    (5, "Ada", 50),
];

/// All orders, or a page of them. The second page is not there at once.
fn orders(query: &str, visits: &Visits) -> Answer {
    let number = |name| value(query, name).map(|text| text.parse::<usize>().unwrap());
    let (page, size) = (number("page"), number("size"));
    if page == Some(2) && visits.orders.fetch_add(1, Ordering::Relaxed) == 0 {
        return busy();
    }
    let size = size.unwrap_or(ORDERS.len());
    let page = page.unwrap_or(1);
    let rows: Vec<String> = ORDERS
        .iter()
        .skip((page - 1) * size)
        .take(size)
        .map(|(id, customer, amount)| {
            format!(r#"{{"id":{id},"customer":"{customer}","amount":{amount}}}"#)
        })
        .collect();
    let next = if page * size < ORDERS.len() {
        (page + 1).to_string()
    } else {
        "null".to_owned()
    };
    let rows = rows.join(",");
    ok(&format!(r#"{{"rows":[{rows}],"next":{next}}}"#))
}

/// The sales of a day, one of them without an amount.
fn sales(query: &str) -> Answer {
    match value(query, "day") {
        Some("2026-03-01") => ok(r#"{"rows":[
            {"product":"tea","amount":30},{"product":"jam","amount":"12.5"},{"product":"lost"}]}"#),
        _ => ok(r#"{"rows":[]}"#),
    }
}

/// The rate of the one currency that is listed, from the third time on.
fn rates(query: &str, visits: &Visits) -> Answer {
    if value(query, "base") != Some("EUR") {
        return ("404 Not Found", "{}".to_owned());
    }
    match visits.rates.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => busy(),
        _ => ok(r#"{"rate":1.25}"#),
    }
}

/// An MCP server with a tool that adds two numbers.
fn mcp(message: &str) -> Answer {
    let message: serde_json::Value = serde_json::from_str(message).unwrap();
    let arguments = &message["params"]["arguments"];
    let result = match message["method"].as_str() {
        Some("initialize") => r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#.to_owned(),
        Some("tools/list") => r#"{"tools":[{"name":"add","description":"Adds"}]}"#.to_owned(),
        Some("tools/call") => {
            let sum = arguments["a"].as_i64().unwrap() + arguments["b"].as_i64().unwrap();
            format!(
                r#"{{"content":[{{"type":"text","text":"{sum}"}}],"structuredContent":{{"sum":{sum}}}}}"#
            )
        }
        _ => return ("202 Accepted", String::new()),
    };
    let id = &message["id"];
    ok(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
    ))
}
