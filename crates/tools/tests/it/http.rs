use std::time::Duration;

use noetl_tools::egress::EgressPolicy;
use noetl_tools::{Call, CancellationToken, Settings, ToolKind, Toolbox};
use noetl_types::{Json, Millis, TaskErrorKind};

use crate::server::{Server, answer};
use crate::support::{call, error, run, toolbox, value};

fn http(config: &str) -> Call {
    call(ToolKind::Http, &value(config))
}

fn get(url: &str) -> Call {
    call(ToolKind::Http, &Json::object([("url", Json::from(url))]))
}

fn body_of(outcome: &noetl_tools::Outcome) -> String {
    outcome.data.get("data").unwrap().to_string()
}

#[tokio::test]
async fn an_answer_becomes_data() {
    let server = Server::saying(&answer(
        "200 OK",
        "X-Thing: a\r\nx-thing: b\r\n",
        r#"{"a": [1]}"#,
    ))
    .await;
    let outcome = run(&toolbox(), get(&server.url("/x"))).await;
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
    let seen = server.last();
    assert!(seen.head.starts_with("GET /x HTTP/1.1"));
    assert_eq!(seen.header("idempotency-key"), None);
}

#[tokio::test]
async fn bodies_of_answers() {
    for (headers, body, wanted, expected) in [
        ("", "plain", "json", r#""plain""#),
        ("", "", "json", r#""""#),
        ("", "17", "json", "17"),
        ("", "17", "text", r#""17""#),
        ("", r#"{"a":"x\u0000","a":2}"#, "json", r#"{"a":2}"#),
        ("", "ab", "binary", r#"{"base64":"YWI=","bytes":2}"#),
    ] {
        let server = Server::saying(&answer("200 OK", headers, body)).await;
        let config = format!(
            r#"{{"url": "{}", "response_type": "{wanted}"}}"#,
            server.url("/")
        );
        assert_eq!(body_of(&run(&toolbox(), http(&config)).await), expected);
    }
    let mut latin = answer(
        "200 OK",
        "content-type: text/plain; charset=ISO-8859-1\r\n",
        "",
    )
    .into_bytes();
    latin.extend(b"caf\xe9 \0");
    let server = Server::start(move |_| latin.clone()).await;
    let outcome = run(&toolbox(), get(&server.url("/"))).await;
    assert_eq!(body_of(&outcome), "\"café \u{FFFD}\"");
}

#[tokio::test]
async fn what_is_sent() {
    let server = Server::saying(&answer("204 No Content", "", "")).await;
    let send = async |config: &str| {
        let config = config.replace("URL", &server.url("/p?a=b"));
        let outcome = run(&toolbox(), http(&config)).await;
        assert_eq!(outcome.error, None, "{config}");
        server.last()
    };
    let seen =
        send(r#"{"url": "URL", "params": {"t": true, "n": null, "f": 1.5, "l": [1, "x y"]}}"#)
            .await;
    assert_eq!(seen.target(), "/p?a=b&f=1.5&l=1&l=x+y&t=true");

    let seen = send(r#"{"url": "URL", "method": "post", "json": {"b": 1, "a": "ü"}}"#).await;
    assert!(seen.head.starts_with("POST "));
    assert_eq!(seen.body, r#"{"a":"ü","b":1}"#);
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("idempotency-key"), Some("7001:4:greet:1"));

    let seen =
        send(r#"{"url": "URL", "method": "PUT", "form": {"a": "1 2", "b": null, "c": false}}"#)
            .await;
    assert_eq!(seen.body, "a=1+2&c=false");
    assert_eq!(
        seen.header("content-type"),
        Some("application/x-www-form-urlencoded")
    );

    let seen = send(r#"{"url": "URL", "method": "POST", "body": "<x/>", "headers": {"Content-Type": "text/xml", "X-N": 5, "X-Null": null, "idempotency-key": "mine"}}"#).await;
    assert_eq!(seen.body, "<x/>");
    assert_eq!(seen.header("content-type"), Some("text/xml"));
    assert_eq!(seen.header("x-n"), Some("5"));
    assert_eq!(seen.header("x-null"), None);
    assert_eq!(seen.header("idempotency-key"), Some("mine"));

    let seen = send(r#"{"endpoint": "URL", "method": "POST", "payload": {"k": [1]}}"#).await;
    assert_eq!(seen.body, r#"{"k":[1]}"#);
    let seen = send(r#"{"url": "URL", "method": "DELETE"}"#).await;
    assert_eq!(seen.header("idempotency-key"), Some("7001:4:greet:1"));
}

#[tokio::test]
async fn statuses_become_kinds() {
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
        let server = Server::saying(&answer(&format!("{status} X"), "", r#"{"why":1}"#)).await;
        let outcome = run(&toolbox(), get(&server.url("/of?key=k1"))).await;
        let error = outcome.error.clone().unwrap();
        assert_eq!(error.kind, kind);
        let place = server.url("/of");
        assert_eq!(
            error.message,
            format!("HTTP {status} response from {place}").as_str()
        );
        assert_eq!(error.status, Some(status));
        assert_eq!(body_of(&outcome), r#"{"why":1}"#);
    }
}

#[tokio::test]
async fn a_long_address_is_told_in_part() {
    let server = Server::saying(&answer("404 X", "", "")).await;
    let outcome = run(&toolbox(), get(&server.url(&"/long".repeat(100)))).await;
    let message = outcome.error.unwrap().message;
    assert!(message.contains("/long/long") && message.ends_with('…'));
    assert!(message.chars().count() < 250, "{message}");
}

#[tokio::test]
async fn how_long_to_wait() {
    let date = "date: Wed, 21 Oct 2015 07:28:00 GMT\r\n";
    for (status, headers, expected) in [
        (
            "429 X",
            "retry-after: 7\r\n".to_owned(),
            Some(Millis::from_secs(7)),
        ),
        (
            "503 X",
            "retry-after: 0\r\n".to_owned(),
            Some(Millis::from_secs(0)),
        ),
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
        let server = Server::saying(&answer(status, &headers, "")).await;
        let outcome = run(&toolbox(), get(&server.url("/"))).await;
        assert_eq!(outcome.retry_after, expected, "{status} {headers}");
    }
}

#[tokio::test]
async fn inline_credentials() {
    let server = Server::saying(&answer("200 OK", "", "")).await;
    for (auth, header, expected) in [
        (
            r#"{"type": "bearer", "token": "t"}"#,
            "authorization",
            "Bearer t",
        ),
        (
            r#"{"type": "basic", "username": "u", "password": "p"}"#,
            "authorization",
            "Basic dTpw",
        ),
        (r#"{"type": "api_key", "api_key": "k"}"#, "x-api-key", "k"),
        (
            r#"{"type": "api_key", "api_key": "k", "header": "X-Mine"}"#,
            "x-mine",
            "k",
        ),
    ] {
        let config = format!(r#"{{"url": "{}", "auth": {auth}}}"#, server.url("/"));
        assert_eq!(run(&toolbox(), http(&config)).await.error, None);
        assert_eq!(server.last().header(header), Some(expected));
    }
    for (auth, part) in [
        (r#""my_alias""#, "'my_alias'"),
        (r#"{"type": "postgres"}"#, "'postgres'"),
        (r#"{"type": "bearer"}"#, "'token'"),
        (r#"{"token": "t"}"#, "'type'"),
    ] {
        let config = format!(r#"{{"url": "{}", "auth": {auth}}}"#, server.url("/"));
        let (kind, message) = error(&toolbox(), http(&config)).await;
        assert_eq!(kind, TaskErrorKind::Auth);
        assert!(message.contains(part), "{message}");
    }
}

/// A server whose path says where it sends the client: `/<status>/<rest>`.
async fn redirecting(to: impl Fn(&str) -> String + Send + Sync + 'static) -> Server {
    Server::start(move |seen| {
        let parts: Vec<&str> = seen.target().splitn(3, '/').collect();
        match parts[..] {
            [_, status, rest] if status.starts_with('3') => answer(
                &format!("{status} X"),
                &format!("location: {}\r\n", to(rest)),
                "",
            )
            .into_bytes(),
            _ => answer("200 OK", "", "there").into_bytes(),
        }
    })
    .await
}

#[tokio::test]
async fn redirects_keep_or_drop_method_and_body() {
    for (status, method, then, body) in [
        (301, "POST", "GET", ""),
        (302, "POST", "GET", ""),
        (302, "PUT", "PUT", "x"),
        (303, "PUT", "GET", ""),
        (307, "POST", "POST", "x"),
        (308, "POST", "POST", "x"),
    ] {
        let server = redirecting(|rest| format!("/{rest}")).await;
        let config = format!(
            r#"{{"url": "{}", "method": "{method}", "body": "x", "headers": {{"authorization": "a"}}}}"#,
            server.url(&format!("/{status}/end"))
        );
        let outcome = run(&toolbox(), http(&config)).await;
        assert_eq!(outcome.error, None);
        assert_eq!(
            outcome.data.get("url").unwrap(),
            &Json::from(server.url("/end"))
        );
        let seen = server.last();
        assert!(
            seen.head.starts_with(&format!("{then} /end ")),
            "{}",
            seen.head
        );
        assert_eq!(seen.body, body);
        assert_eq!(seen.header("authorization"), Some("a"));
    }
}

#[tokio::test]
async fn redirects_end_and_can_be_refused() {
    let server = redirecting(|rest| format!("/{rest}")).await;
    let outcome = run(&toolbox(), get(&server.url("/302/302/302/end"))).await;
    assert_eq!(outcome.error, None);
    let (kind, message) = error(&toolbox(), get(&server.url("/302/302/302/302/end"))).await;
    assert_eq!(kind, TaskErrorKind::Limit);
    assert!(message.starts_with("more than 3 redirects"), "{message}");

    let config = format!(
        r#"{{"url": "{}", "follow_redirects": false}}"#,
        server.url("/302/end")
    );
    let outcome = run(&toolbox(), http(&config)).await;
    assert_eq!(outcome.error.unwrap().status, Some(302));

    let elsewhere = redirecting(|_| "file:///etc/passwd".to_owned()).await;
    let (kind, message) = error(&toolbox(), get(&elsewhere.url("/302/x"))).await;
    assert_eq!(kind, TaskErrorKind::Parse);
    assert!(message.contains("neither http nor https"), "{message}");
}

#[tokio::test]
async fn credentials_do_not_cross_origins() {
    let target = Server::saying(&answer("200 OK", "", "")).await;
    let to = target.url("/end");
    let server = redirecting(move |_| to.clone()).await;
    let config = format!(
        r#"{{"url": "{}", "method": "POST", "json": 1, "auth": {{"type": "api_key", "api_key": "k"}},
            "headers": {{"authorization": "a", "cookie": "c", "x-secret": "s", "accept": "text/x"}}}}"#,
        server.url("/307/x").replace("http://", "http://user:pass@")
    );
    let outcome = run(&toolbox(), http(&config)).await;
    assert_eq!(outcome.error, None);
    let first = server.last();
    assert_eq!(first.header("x-api-key"), Some("k"));
    let second = target.last();
    for name in ["authorization", "cookie", "x-secret", "x-api-key"] {
        assert_eq!(second.header(name), None, "{name}");
    }
    assert_eq!(second.header("accept"), Some("text/x"));
    assert_eq!(second.header("idempotency-key"), Some("7001:4:greet:1"));
    assert_eq!(second.body, "1");
}

fn guarded(rules: &str) -> Toolbox {
    Toolbox::new(Settings {
        egress: EgressPolicy::parse(rules).unwrap(),
        ..Settings::default()
    })
}

/// What is no address, or another kind of one, reaches nobody either.
#[tokio::test]
async fn what_is_no_web_address_is_refused() {
    let server = Server::saying(&answer("200 OK", "", "secret")).await;
    let port = server.port;
    let toolbox = guarded("");
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
        let outcome = run(&toolbox, call(ToolKind::Http, &config)).await;
        assert!(outcome.error.is_some(), "{url}: {}", outcome.data);
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn the_guard_opens_what_its_rules_name() {
    let server = Server::saying(&answer("200 OK", "", "in")).await;
    for rules in [
        "127.0.0.0/8",
        "*",
        &format!("localhost:{}, 127.0.0.1", server.port),
    ] {
        let outcome = run(&guarded(rules), get(&server.url("/"))).await;
        assert_eq!(outcome.error, None, "{rules}");
    }
    let named = format!("http://localhost:{}/", server.port);
    let rules = format!("localhost:{}", server.port);
    assert_eq!(run(&guarded(&rules), get(&named)).await.error, None);
    assert_eq!(
        error(&guarded("localhost:1"), get(&named)).await.0,
        TaskErrorKind::Auth
    );
}

#[tokio::test]
async fn the_guard_looks_at_every_hop() {
    let hidden = Server::saying(&answer("200 OK", "", "secret")).await;
    let to = hidden.url("/");
    let server = redirecting(move |_| to.clone()).await;
    let rules = format!("localhost:{}", server.port);
    let start = format!("http://localhost:{}/302/x", server.port);
    let (kind, _) = error(&guarded(&rules), get(&start)).await;
    assert_eq!(kind, TaskErrorKind::Auth);
    assert!(hidden.seen().is_empty());
}

#[tokio::test]
async fn large_bodies_are_refused_while_they_come() {
    let small = || {
        Toolbox::new(Settings {
            payload_cap: noetl_types::ByteSize::from_kib(10),
            ..Settings::default()
        })
    };
    let body = "x".repeat(20_000);
    let announced = answer("200 OK", &format!("content-length: {}\r\n", 20_000), "");
    let silent = answer("200 OK", "", &body);
    for reply in [announced, silent] {
        let server = Server::saying(&reply).await;
        let (kind, message) = error(&small(), get(&server.url("/"))).await;
        assert_eq!(kind, TaskErrorKind::Limit);
        assert_eq!(message, "the body of the answer is larger than 10KiB");
    }
    let server = Server::saying(&answer("200 OK", "", &body[..10_000])).await;
    assert_eq!(run(&small(), get(&server.url("/"))).await.error, None);
}

/// What a program makes of some bytes.
fn piped(program: &str, argument: &str, input: &[u8]) -> Vec<u8> {
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

fn packed(body: &[u8]) -> Vec<u8> {
    let packed = piped("gzip", "-c", body);
    let headers = format!(
        "content-encoding: gzip\r\ncontent-length: {}\r\n",
        packed.len()
    );
    [answer("200 OK", &headers, "").as_bytes(), &packed].concat()
}

#[tokio::test]
async fn packed_answers_are_unpacked_within_the_bound() {
    let reply = packed(br#"{"a": "b"}"#);
    let server = Server::start(move |_| reply.clone()).await;
    let outcome = run(&toolbox(), get(&server.url("/"))).await;
    assert_eq!(outcome.error, None);
    assert_eq!(body_of(&outcome), r#"{"a":"b"}"#);
    let encodings = server.last().header("accept-encoding").unwrap().to_owned();
    assert!(encodings.contains("gzip"), "{encodings}");

    // Twenty megabytes in twenty kilobytes.
    let bomb = packed(&vec![b'x'; 20 << 20]);
    assert!(bomb.len() < 64 << 10);
    let server = Server::start(move |_| bomb.clone()).await;
    let small = Toolbox::new(Settings {
        payload_cap: noetl_types::ByteSize::from_kib(64),
        ..Settings::default()
    });
    let (kind, message) = error(&small, get(&server.url("/"))).await;
    assert_eq!(kind, TaskErrorKind::Limit);
    assert_eq!(message, "the body of the answer is larger than 64KiB");

    // One that is cut off or not packed at all is no answer.
    let broken = answer("200 OK", "content-encoding: gzip\r\n", "plain");
    let server = Server::saying(&broken).await;
    let (kind, _) = error(&toolbox(), get(&server.url("/"))).await;
    assert_eq!(kind, TaskErrorKind::Connection);
}

#[tokio::test]
async fn bytes_come_as_base64_whatever_they_are() {
    let mut reply = answer("200 OK", "content-type: image/png\r\n", "").into_bytes();
    reply.extend([0, 255, 10]);
    let server = Server::start(move |_| reply.clone()).await;
    let config = format!(
        r#"{{"url": "{}", "response_type": "binary"}}"#,
        server.url("/")
    );
    let outcome = run(&toolbox(), http(&config)).await;
    assert_eq!(body_of(&outcome), r#"{"base64":"AP8K","bytes":3}"#);
}

#[tokio::test]
async fn failures_of_the_connection() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let (kind, message) = error(&toolbox(), get(&format!("http://127.0.0.1:{port}/"))).await;
    assert_eq!(kind, TaskErrorKind::Connection);
    assert!(message.contains("refused"), "{message}");
    let cut = answer("200 OK", "content-length: 100\r\n", "short");
    let server = Server::saying(&cut).await;
    assert_eq!(
        error(&toolbox(), get(&server.url("/"))).await.0,
        TaskErrorKind::Connection
    );
    let (kind, message) = error(&toolbox(), get("http://no-such-host.invalid/")).await;
    assert_eq!(kind, TaskErrorKind::Connection, "{message}");
    // A client for TLS is made and fails on a server that speaks none.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let plain = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"what?")
            .await
            .ok();
    };
    let toolbox = toolbox();
    let ((kind, _), ()) = tokio::join!(error(&toolbox, get(&url)), plain);
    assert_eq!(kind, TaskErrorKind::Connection);
}

#[tokio::test]
async fn time_and_cancellation_drop_the_request() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let slow = Call {
        timeout: Duration::from_millis(300),
        ..get(&url)
    };
    assert_eq!(error(&toolbox(), slow).await.0, TaskErrorKind::Timeout);

    let toolbox = toolbox();
    let cancel = CancellationToken::new();
    let stop = async {
        let accepted = listener.accept().await.unwrap();
        cancel.cancel();
        accepted
    };
    let (outcome, _) = tokio::join!(toolbox.call(get(&url), cancel.clone()), stop);
    assert_eq!(outcome.error.unwrap().kind, TaskErrorKind::Cancelled);
}

#[tokio::test]
async fn configs_that_cannot_be_sent() {
    for (config, kind, part) in [
        ("{}", TaskErrorKind::Schema, "'url' is missing"),
        (r#"{"url": "nonsense"}"#, TaskErrorKind::Parse, "no URL"),
        (
            r#"{"url": "file:///etc/passwd"}"#,
            TaskErrorKind::Parse,
            "'file'",
        ),
        (
            r#"{"url": "http://h/", "method": "A B"}"#,
            TaskErrorKind::Parse,
            "method",
        ),
        (
            r#"{"url": "http://h/", "headers": {"a b": "c"}}"#,
            TaskErrorKind::Parse,
            "headers.a b",
        ),
        (
            r#"{"url": "http://h/", "headers": {"a": "b\nc"}}"#,
            TaskErrorKind::Parse,
            "headers.a",
        ),
        (
            r#"{"url": "http://h/", "params": {"a": {"b": 1}}}"#,
            TaskErrorKind::Schema,
            "params.a",
        ),
        (
            r#"{"url": "http://h/", "json": 1, "body": 2}"#,
            TaskErrorKind::Schema,
            "'body'",
        ),
        (
            r#"{"url": "http://h/", "response_type": "xml"}"#,
            TaskErrorKind::Parse,
            "'xml'",
        ),
    ] {
        let (found, message) = error(&toolbox(), http(config)).await;
        assert_eq!(found, kind, "{message}");
        assert!(message.contains(part), "{message}");
    }
}
