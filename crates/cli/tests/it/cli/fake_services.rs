//! HTTP server for the examples: a shop with orders and sales, exchange rates, the weather, and an
//! MCP server.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// HTTP server that runs until the test ends.
pub(crate) struct FakeServices {
    pub(crate) url: String,
}

/// Request counts of the pages that are busy at first.
#[derive(Default)]
struct VisitCounts {
    orders: AtomicU32,
    rates: AtomicU32,
}

/// Status line and body of a response.
type HttpResponse = (&'static str, String);

impl FakeServices {
    pub(crate) fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let visits = Arc::new(VisitCounts::default());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let visits = Arc::clone(&visits);
                thread::spawn(move || serve_connection(stream, &visits));
            }
        });
        Self { url }
    }

    /// Formats the address of a page as an argument for `--set`.
    pub(crate) fn set_argument(&self, name: &str, page: &str) -> String {
        format!("{name}={}{page}", self.url)
    }
}

fn serve_connection(mut stream: TcpStream, visits: &VisitCounts) {
    let Some((line, body)) = read_request(&mut stream) else {
        return;
    };
    let mut parts = line.split(' ');
    let (method, target) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (status, body) = match (method, path) {
        ("GET", "/orders") => orders_page(query, visits),
        ("GET", "/bad_orders") => {
            ok_response(r#"{"rows":[{"id":9,"customer":"Eve","amount":-1}]}"#)
        }
        ("GET", "/sales") => sales_page(query),
        ("GET", "/rates") => rates_page(query, visits),
        ("GET", "/cities") => ok_response(r#"["Oslo", "Rome", "Cairo"]"#),
        ("GET", "/weather/Oslo") => ok_response(r#"{"city": "Oslo", "degrees": 4}"#),
        ("GET", "/weather/Rome") => ok_response(r#"{"city": "Rome", "degrees": 21}"#),
        ("GET", "/weather/Cairo") => ok_response(r#"{"city": "Cairo", "degrees": 33}"#),
        ("POST", "/mcp") => mcp_response(&body),
        ("DELETE", "/mcp") => ok_response(""),
        _ => ("404 Not Found", r#"{"error":"nothing here"}"#.to_owned()),
    };
    let length = body.len();
    let response = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    // The client may have disconnected.
    let _ = stream.write_all(response.as_bytes());
}

/// Reads a request and returns its first line and its body.
fn read_request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let length = stream.read(&mut chunk).ok().filter(|length| *length > 0)?;
        bytes.extend(&chunk[..length]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let content_length = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .and_then(|(_, length)| length.parse().ok());
        if body.len() >= content_length.unwrap_or(0) {
            let line = head.lines().next().unwrap_or("");
            return Some((line.to_owned(), body.to_owned()));
        }
    }
}

fn ok_response(body: &str) -> HttpResponse {
    ("200 OK", body.to_owned())
}

fn busy_response() -> HttpResponse {
    ("503 Service Unavailable", "{}".to_owned())
}

fn query_value<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut matches = pairs.filter(|(key, _)| *key == name);
    matches.next().map(|(_, value)| value)
}

const ORDERS: [(u32, &str, u32); 5] =
    [(1, "Ada", 10), (2, "Bob", 20), (3, "Cyd", 30), (4, "Bob", 40), (5, "Ada", 50)];

/// Returns all orders, or a page of them. The first request for the second page fails.
fn orders_page(query: &str, visits: &VisitCounts) -> HttpResponse {
    let number = |name| query_value(query, name).map(|text| text.parse::<usize>().unwrap());
    let (page, size) = (number("page"), number("size"));
    if page == Some(2) && visits.orders.fetch_add(1, Ordering::Relaxed) == 0 {
        return busy_response();
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
    let next = if page * size < ORDERS.len() { (page + 1).to_string() } else { "null".to_owned() };
    let rows = rows.join(",");
    ok_response(&format!(r#"{{"rows":[{rows}],"next":{next}}}"#))
}

/// Returns the sales of a day, one of them without an amount.
fn sales_page(query: &str) -> HttpResponse {
    match query_value(query, "day") {
        Some("2026-03-01") => ok_response(
            r#"{"rows":[
            {"product":"tea","amount":30},{"product":"jam","amount":"12.5"},{"product":"lost"}]}"#,
        ),
        _ => ok_response(r#"{"rows":[]}"#),
    }
}

/// Returns the rate of the only listed currency from the third request on.
fn rates_page(query: &str, visits: &VisitCounts) -> HttpResponse {
    if query_value(query, "base") != Some("EUR") {
        return ("404 Not Found", "{}".to_owned());
    }
    match visits.rates.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => busy_response(),
        _ => ok_response(r#"{"rate":1.25}"#),
    }
}

/// Responds like an MCP server with a tool that adds two numbers.
fn mcp_response(message: &str) -> HttpResponse {
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
    ok_response(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}
