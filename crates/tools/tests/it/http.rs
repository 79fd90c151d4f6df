use std::time::Duration;

use noetl_tools::egress::EgressPolicy;
use noetl_tools::{CancellationToken, Settings, ToolCall, ToolKind, Toolbox};
use noetl_types::{Json, Millis, TaskErrorKind};

use crate::http_server::{TestHttpServer, http_response};
use crate::support::{parse_json, run_call, run_failing, test_toolbox, tool_call};

fn http_call(config: &str) -> ToolCall {
    tool_call(ToolKind::Http, &parse_json(config))
}

fn get_call(url: &str) -> ToolCall {
    tool_call(ToolKind::Http, &Json::object([("url", Json::from(url))]))
}

fn response_body(outcome: &noetl_tools::ToolOutcome) -> String {
    outcome.data.get("data").unwrap().to_string()
}

#[tokio::test]
async fn response_becomes_data() {
    let server = TestHttpServer::with_response(&http_response(
        "200 OK", "X-Thing: a\r\nx-thing: b\r\n", r#"{"a": [1]}"#,
    ))
    .await;
    let outcome = run_call(&test_toolbox(), get_call(&server.url("/x"))).await;
    assert_eq!(outcome.error, None);
    let mut data = outcome.data.as_map().unwrap().clone();
    assert!(data.remove("elapsed").unwrap().as_f64().unwrap() >= 0.0);
    let headers = r#"{"connection":"close","x-thing":"a, b"}"#;
    assert_eq!(
        Json::from(data).to_string(),
        format!(
            r#"{{"body":{{"a":[1]}},"data":{{"a":[1]}},"headers":{headers},"status_code":200,"url":"{}"}}"#,
            server.url("/x")
        )
    );
    assert_eq!(
        outcome.extras.get("http").unwrap().to_string(),
        format!(r#"{{"headers":{headers},"status":200}}"#)
    );
    let request = server.last_request();
    assert!(request.head.starts_with("GET /x HTTP/1.1"));
    assert_eq!(request.header("idempotency-key"), None);
}

#[tokio::test]
async fn decodes_response_bodies() {
    for (headers, body, response_type, expected) in [
        ("", "plain", "json", r#""plain""#),
        ("", "", "json", r#""""#),
        ("", "17", "json", "17"),
        ("", "17", "text", r#""17""#),
        ("", r#"{"a":"x\u0000","a":2}"#, "json", r#"{"a":2}"#),
        ("", "ab", "binary", r#"{"base64":"YWI=","bytes":2}"#),
    ] {
        let server = TestHttpServer::with_response(&http_response("200 OK", headers, body)).await;
        let config =
            format!(r#"{{"url": "{}", "response_type": "{response_type}"}}"#, server.url("/"));
        assert_eq!(response_body(&run_call(&test_toolbox(), http_call(&config)).await), expected);
    }
    let mut latin = http_response("200 OK", "content-type: text/plain; charset=ISO-8859-1\r\n", "")
        .into_bytes();
    latin.extend(b"caf\xe9 \0");
    let server = TestHttpServer::start(move |_| latin.clone()).await;
    let outcome = run_call(&test_toolbox(), get_call(&server.url("/"))).await;
    assert_eq!(response_body(&outcome), "\"café \u{FFFD}\"");
}

#[tokio::test]
async fn sends_configured_request() {
    let server = TestHttpServer::with_response(&http_response("204 No Content", "", "")).await;
    let send = async |config: &str| {
        let config = config.replace("URL", &server.url("/p?a=b"));
        let outcome = run_call(&test_toolbox(), http_call(&config)).await;
        assert_eq!(outcome.error, None, "{config}");
        server.last_request()
    };
    let request =
        send(r#"{"url": "URL", "params": {"t": true, "n": null, "f": 1.5, "l": [1, "x y"]}}"#)
            .await;
    assert_eq!(request.target(), "/p?a=b&f=1.5&l=1&l=x+y&t=true");

    let request = send(r#"{"url": "URL", "method": "post", "json": {"b": 1, "a": "ü"}}"#).await;
    assert!(request.head.starts_with("POST "));
    assert_eq!(request.body, r#"{"a":"ü","b":1}"#);
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("idempotency-key"), Some("7001:4:greet:1"));

    let request =
        send(r#"{"url": "URL", "method": "PUT", "form": {"a": "1 2", "b": null, "c": false}}"#)
            .await;
    assert_eq!(request.body, "a=1+2&c=false");
    assert_eq!(request.header("content-type"), Some("application/x-www-form-urlencoded"));

    let request = send(r#"{"url": "URL", "method": "POST", "body": "<x/>", "headers": {"Content-Type": "text/xml", "X-N": 5, "X-Null": null, "idempotency-key": "mine"}}"#).await;
    assert_eq!(request.body, "<x/>");
    assert_eq!(request.header("content-type"), Some("text/xml"));
    assert_eq!(request.header("x-n"), Some("5"));
    assert_eq!(request.header("x-null"), None);
    assert_eq!(request.header("idempotency-key"), Some("mine"));

    let request = send(r#"{"endpoint": "URL", "method": "POST", "payload": {"k": [1]}}"#).await;
    assert_eq!(request.body, r#"{"k":[1]}"#);
    let request = send(r#"{"url": "URL", "method": "DELETE"}"#).await;
    assert_eq!(request.header("idempotency-key"), Some("7001:4:greet:1"));
}

#[tokio::test]
async fn statuses_map_to_error_kinds() {
    for (status, kind) in [
        (301, TaskErrorKind::Unknown),
        (400, TaskErrorKind::ClientError),
        (401, TaskErrorKind::Auth),
        (403, TaskErrorKind::Auth),
        (404, TaskErrorKind::NotFound),
        (429, TaskErrorKind::RateLimit),
        (500, TaskErrorKind::ServerError),
        (503, TaskErrorKind::ServerError),
    ] {
        let server = TestHttpServer::with_response(&http_response(
            &format!("{status} X"),
            "",
            r#"{"why":1}"#,
        ))
        .await;
        let outcome = run_call(&test_toolbox(), get_call(&server.url("/of?key=k1"))).await;
        let error = outcome.error.clone().unwrap();
        assert_eq!(error.kind, kind);
        let url = server.url("/of");
        assert_eq!(error.message, format!("HTTP {status} response from {url}").as_str());
        assert_eq!(error.status, Some(status));
        assert_eq!(response_body(&outcome), r#"{"why":1}"#);
    }
}

#[tokio::test]
async fn long_url_is_shortened_in_errors() {
    let server = TestHttpServer::with_response(&http_response("404 X", "", "")).await;
    let outcome = run_call(&test_toolbox(), get_call(&server.url(&"/long".repeat(100)))).await;
    let message = outcome.error.unwrap().message;
    assert!(message.contains("/long/long") && message.ends_with('…'));
    assert!(message.chars().count() < 250, "{message}");
}

#[tokio::test]
async fn reads_retry_after() {
    let date = "date: Wed, 21 Oct 2015 07:28:00 GMT\r\n";
    for (status, headers, expected) in [
        ("429 X", "retry-after: 7\r\n".to_owned(), Some(Millis::from_secs(7))),
        ("503 X", "retry-after: 0\r\n".to_owned(), Some(Millis::from_secs(0))),
        ("500 X", "retry-after: 7\r\n".to_owned(), None),
        ("429 X", "retry-after: soon\r\n".to_owned(), None),
        ("429 X", String::new(), None),
        (
            "503 X",
            format!("{date}retry-after: Wed, 21 Oct 2015 07:29:30 GMT\r\n"),
            Some(Millis::from_secs(90)),
        ),
        (
            "503 X",
            format!("{date}retry-after: Wed, 21 Oct 2015 07:00:00 GMT\r\n"),
            Some(Millis::from_secs(0)),
        ),
    ] {
        let server = TestHttpServer::with_response(&http_response(status, &headers, "")).await;
        let outcome = run_call(&test_toolbox(), get_call(&server.url("/"))).await;
        assert_eq!(outcome.retry_after, expected, "{status} {headers}");
    }
}

#[tokio::test]
async fn sends_inline_credentials() {
    let server = TestHttpServer::with_response(&http_response("200 OK", "", "")).await;
    for (auth, header, expected) in [
        (r#"{"type": "bearer", "token": "t"}"#, "authorization", "Bearer t"),
        (r#"{"type": "basic", "username": "u", "password": "p"}"#, "authorization", "Basic dTpw"),
        (r#"{"type": "api_key", "api_key": "k"}"#, "x-api-key", "k"),
        (r#"{"type": "api_key", "api_key": "k", "header": "X-Mine"}"#, "x-mine", "k"),
    ] {
        let config = format!(r#"{{"url": "{}", "auth": {auth}}}"#, server.url("/"));
        assert_eq!(run_call(&test_toolbox(), http_call(&config)).await.error, None);
        assert_eq!(server.last_request().header(header), Some(expected));
    }
    for (auth, part) in [
        (r#""my_alias""#, "'my_alias'"),
        (r#"{"type": "postgres"}"#, "'postgres'"),
        (r#"{"type": "bearer"}"#, "'token'"),
        (r#"{"token": "t"}"#, "'type'"),
    ] {
        let config = format!(r#"{{"url": "{}", "auth": {auth}}}"#, server.url("/"));
        let (kind, message) = run_failing(&test_toolbox(), http_call(&config)).await;
        assert_eq!(kind, TaskErrorKind::Auth);
        assert!(message.contains(part), "{message}");
    }
}

/// Starts a server that redirects according to the path: `/<status>/<rest>`.
async fn start_redirecting_server(
    to: impl Fn(&str) -> String + Send + Sync + 'static,
) -> TestHttpServer {
    TestHttpServer::start(move |request| {
        let parts: Vec<&str> = request.target().splitn(3, '/').collect();
        match parts[..] {
            [_, status, rest] if status.starts_with('3') => {
                http_response(&format!("{status} X"), &format!("location: {}\r\n", to(rest)), "")
                    .into_bytes()
            }
            _ => http_response("200 OK", "", "there").into_bytes(),
        }
    })
    .await
}

#[tokio::test]
async fn redirect_keeps_or_drops_method_and_body() {
    for (status, method, next_method, body) in [
        (301, "POST", "GET", ""),
        (302, "POST", "GET", ""),
        (302, "PUT", "PUT", "x"),
        (303, "PUT", "GET", ""),
        (307, "POST", "POST", "x"),
        (308, "POST", "POST", "x"),
    ] {
        let server = start_redirecting_server(|rest| format!("/{rest}")).await;
        let config = format!(
            r#"{{"url": "{}", "method": "{method}", "body": "x", "headers": {{"authorization": "a"}}}}"#,
            server.url(&format!("/{status}/end"))
        );
        let outcome = run_call(&test_toolbox(), http_call(&config)).await;
        assert_eq!(outcome.error, None);
        assert_eq!(outcome.data.get("url").unwrap(), &Json::from(server.url("/end")));
        let request = server.last_request();
        assert!(request.head.starts_with(&format!("{next_method} /end ")), "{}", request.head);
        assert_eq!(request.body, body);
        assert_eq!(request.header("authorization"), Some("a"));
    }
}

#[tokio::test]
async fn redirects_are_limited_and_can_be_disabled() {
    let server = start_redirecting_server(|rest| format!("/{rest}")).await;
    let outcome = run_call(&test_toolbox(), get_call(&server.url("/302/302/302/end"))).await;
    assert_eq!(outcome.error, None);
    let (kind, message) =
        run_failing(&test_toolbox(), get_call(&server.url("/302/302/302/302/end"))).await;
    assert_eq!(kind, TaskErrorKind::Limit);
    assert!(message.starts_with("more than 3 redirects"), "{message}");

    let config = format!(r#"{{"url": "{}", "follow_redirects": false}}"#, server.url("/302/end"));
    let outcome = run_call(&test_toolbox(), http_call(&config)).await;
    assert_eq!(outcome.error.unwrap().status, Some(302));

    let server = start_redirecting_server(|_| "file:///etc/passwd".to_owned()).await;
    let (kind, message) = run_failing(&test_toolbox(), get_call(&server.url("/302/x"))).await;
    assert_eq!(kind, TaskErrorKind::Parse);
    assert!(message.contains("not an http or https URL"), "{message}");
}

#[tokio::test]
async fn credentials_do_not_cross_origins() {
    let target = TestHttpServer::with_response(&http_response("200 OK", "", "")).await;
    let to = target.url("/end");
    let server = start_redirecting_server(move |_| to.clone()).await;
    let config = format!(
        r#"{{"url": "{}", "method": "POST", "json": 1, "auth": {{"type": "api_key", "api_key": "k"}},
            "headers": {{"authorization": "a", "cookie": "c", "x-secret": "s", "accept": "text/x"}}}}"#,
        server.url("/307/x").replace("http://", "http://user:pass@")
    );
    let outcome = run_call(&test_toolbox(), http_call(&config)).await;
    assert_eq!(outcome.error, None);
    let first = server.last_request();
    assert_eq!(first.header("x-api-key"), Some("k"));
    let second = target.last_request();
    for name in ["authorization", "cookie", "x-secret", "x-api-key"] {
        assert_eq!(second.header(name), None, "{name}");
    }
    assert_eq!(second.header("accept"), Some("text/x"));
    assert_eq!(second.header("idempotency-key"), Some("7001:4:greet:1"));
    assert_eq!(second.body, "1");
}

fn restricted_toolbox(rules: &str) -> Toolbox {
    Toolbox::new(Settings { egress: EgressPolicy::parse(rules).unwrap(), ..Settings::default() })
}

/// Addresses that are invalid or not HTTP are rejected before any connection.
#[tokio::test]
async fn rejects_non_http_address() {
    let server = TestHttpServer::with_response(&http_response("200 OK", "", "secret")).await;
    let port = server.port;
    let toolbox = restricted_toolbox("");
    for url in [
        format!("http://127.0.0.1%00.example.com:{port}/"),
        format!("http://127.0.0.1%2f@:{port}/"),
        format!("http://[::1%25lo]:{port}/"),
        format!("http://127.0.0.256:{port}/"),
        format!("http://0x7f000001ff:{port}/"),
        format!("http:///127.0.0.1:{port}/"),
        format!(r"http:\\127.0.0.1:{port}\"),
        format!("//127.0.0.1:{port}/"),
        format!("ftp://127.0.0.1:{port}/"),
        format!("gopher://127.0.0.1:{port}/_x"),
        format!("dict://127.0.0.1:{port}/"),
        format!("ldap://127.0.0.1:{port}/"),
        "file:///etc/passwd".to_owned(),
        "file://127.0.0.1/etc/passwd".to_owned(),
        "jar:http://127.0.0.1!/".to_owned(),
        "unix:///var/run/docker.sock".to_owned(),
        "data:text/plain,secret".to_owned(),
        "http://".to_owned(),
        format!("http://localhost.:{port}/"),
        String::new(),
    ] {
        let config = Json::object([("url", Json::from(url.as_str()))]);
        let outcome = run_call(&toolbox, tool_call(ToolKind::Http, &config)).await;
        assert!(outcome.error.is_some(), "{url}: {}", outcome.data);
    }
    assert!(server.received_requests().is_empty());
}

#[tokio::test]
async fn egress_rules_allow_named_hosts() {
    let server = TestHttpServer::with_response(&http_response("200 OK", "", "in")).await;
    for rules in ["127.0.0.0/8", "*", &format!("localhost:{}, 127.0.0.1", server.port)] {
        let outcome = run_call(&restricted_toolbox(rules), get_call(&server.url("/"))).await;
        assert_eq!(outcome.error, None, "{rules}");
    }
    let named = format!("http://localhost:{}/", server.port);
    let rules = format!("localhost:{}", server.port);
    assert_eq!(run_call(&restricted_toolbox(&rules), get_call(&named)).await.error, None);
    assert_eq!(
        run_failing(&restricted_toolbox("localhost:1"), get_call(&named)).await.0,
        TaskErrorKind::Auth
    );
}

#[tokio::test]
async fn egress_policy_checks_every_redirect() {
    let hidden = TestHttpServer::with_response(&http_response("200 OK", "", "secret")).await;
    let to = hidden.url("/");
    let server = start_redirecting_server(move |_| to.clone()).await;
    let rules = format!("localhost:{}", server.port);
    let start = format!("http://localhost:{}/302/x", server.port);
    let (kind, _) = run_failing(&restricted_toolbox(&rules), get_call(&start)).await;
    assert_eq!(kind, TaskErrorKind::Auth);
    assert!(hidden.received_requests().is_empty());
}

#[tokio::test]
async fn large_body_is_rejected_while_streaming() {
    let small = || {
        Toolbox::new(Settings {
            payload_cap: noetl_types::ByteSize::from_kib(10),
            ..Settings::default()
        })
    };
    let body = "x".repeat(20_000);
    let with_length = http_response("200 OK", &format!("content-length: {}\r\n", 20_000), "");
    let without_length = http_response("200 OK", "", &body);
    for response in [with_length, without_length] {
        let server = TestHttpServer::with_response(&response).await;
        let (kind, message) = run_failing(&small(), get_call(&server.url("/"))).await;
        assert_eq!(kind, TaskErrorKind::Limit);
        assert_eq!(message, "the response body is larger than 10KiB");
    }
    let server = TestHttpServer::with_response(&http_response("200 OK", "", &body[..10_000])).await;
    assert_eq!(run_call(&small(), get_call(&server.url("/"))).await.error, None);
}

/// Pipes bytes through a program.
fn pipe_through(program: &str, argument: &str, input: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().write_all(input).unwrap();
    let output = std::process::Command::new(program)
        .args([argument, file.path().to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{program}");
    output.stdout
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let compressed = pipe_through("gzip", "-c", body);
    let headers = format!("content-encoding: gzip\r\ncontent-length: {}\r\n", compressed.len());
    [http_response("200 OK", &headers, "").as_bytes(), &compressed].concat()
}

#[tokio::test]
async fn compressed_response_is_limited_after_decoding() {
    let response = gzip(br#"{"a": "b"}"#);
    let server = TestHttpServer::start(move |_| response.clone()).await;
    let outcome = run_call(&test_toolbox(), get_call(&server.url("/"))).await;
    assert_eq!(outcome.error, None);
    assert_eq!(response_body(&outcome), r#"{"a":"b"}"#);
    let encodings = server.last_request().header("accept-encoding").unwrap().to_owned();
    assert!(encodings.contains("gzip"), "{encodings}");

    // Twenty megabytes compressed to twenty kilobytes.
    let bomb = gzip(&vec![b'x'; 20 << 20]);
    assert!(bomb.len() < 64 << 10);
    let server = TestHttpServer::start(move |_| bomb.clone()).await;
    let small = Toolbox::new(Settings {
        payload_cap: noetl_types::ByteSize::from_kib(64),
        ..Settings::default()
    });
    let (kind, message) = run_failing(&small, get_call(&server.url("/"))).await;
    assert_eq!(kind, TaskErrorKind::Limit);
    assert_eq!(message, "the response body is larger than 64KiB");

    // A truncated or uncompressed body is an error.
    let broken = http_response("200 OK", "content-encoding: gzip\r\n", "plain");
    let server = TestHttpServer::with_response(&broken).await;
    let (kind, _) = run_failing(&test_toolbox(), get_call(&server.url("/"))).await;
    assert_eq!(kind, TaskErrorKind::Connection);
}

#[tokio::test]
async fn binary_response_is_base64() {
    let mut response = http_response("200 OK", "content-type: image/png\r\n", "").into_bytes();
    response.extend([0, 255, 10]);
    let server = TestHttpServer::start(move |_| response.clone()).await;
    let config = format!(r#"{{"url": "{}", "response_type": "binary"}}"#, server.url("/"));
    let outcome = run_call(&test_toolbox(), http_call(&config)).await;
    assert_eq!(response_body(&outcome), r#"{"base64":"AP8K","bytes":3}"#);
}

#[tokio::test]
async fn reports_connection_failures() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let (kind, message) =
        run_failing(&test_toolbox(), get_call(&format!("http://127.0.0.1:{port}/"))).await;
    assert_eq!(kind, TaskErrorKind::Connection);
    assert!(message.contains("refused"), "{message}");
    let truncated = http_response("200 OK", "content-length: 100\r\n", "short");
    let server = TestHttpServer::with_response(&truncated).await;
    assert_eq!(
        run_failing(&test_toolbox(), get_call(&server.url("/"))).await.0,
        TaskErrorKind::Connection
    );
    let (kind, message) =
        run_failing(&test_toolbox(), get_call("http://no-such-host.invalid/")).await;
    assert_eq!(kind, TaskErrorKind::Connection, "{message}");
    // The TLS handshake fails with a server that does not speak TLS.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let plain = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"what?").await.ok();
    };
    let toolbox = test_toolbox();
    let ((kind, _), ()) = tokio::join!(run_failing(&toolbox, get_call(&url)), plain);
    assert_eq!(kind, TaskErrorKind::Connection);
}

#[tokio::test]
async fn timeout_and_cancellation_drop_request() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let slow = ToolCall { timeout: Duration::from_millis(300), ..get_call(&url) };
    assert_eq!(run_failing(&test_toolbox(), slow).await.0, TaskErrorKind::Timeout);

    let toolbox = test_toolbox();
    let cancel = CancellationToken::new();
    let stop = async {
        let accepted = listener.accept().await.unwrap();
        cancel.cancel();
        accepted
    };
    let (outcome, _) = tokio::join!(toolbox.call(get_call(&url), cancel.clone()), stop);
    assert_eq!(outcome.error.unwrap().kind, TaskErrorKind::Cancelled);
}

#[tokio::test]
async fn rejects_invalid_configs() {
    for (config, kind, part) in [
        ("{}", TaskErrorKind::Schema, "'url' is missing"),
        (r#"{"url": "nonsense"}"#, TaskErrorKind::Parse, "not a URL"),
        (r#"{"url": "file:///etc/passwd"}"#, TaskErrorKind::Parse, "'file'"),
        (r#"{"url": "http://h/", "method": "A B"}"#, TaskErrorKind::Parse, "method"),
        (r#"{"url": "http://h/", "headers": {"a b": "c"}}"#, TaskErrorKind::Parse, "headers.a b"),
        (r#"{"url": "http://h/", "headers": {"a": "b\nc"}}"#, TaskErrorKind::Parse, "headers.a"),
        (r#"{"url": "http://h/", "params": {"a": {"b": 1}}}"#, TaskErrorKind::Schema, "params.a"),
        (r#"{"url": "http://h/", "json": 1, "body": 2}"#, TaskErrorKind::Schema, "'body'"),
        (r#"{"url": "http://h/", "response_type": "xml"}"#, TaskErrorKind::Parse, "'xml'"),
    ] {
        let (actual, message) = run_failing(&test_toolbox(), http_call(config)).await;
        assert_eq!(actual, kind, "{message}");
        assert!(message.contains(part), "{message}");
    }
}
