//! Egress policy of every tool that connects to a host.

use noetl_tools::egress::EgressPolicy;
use noetl_tools::{Settings, ToolKind, Toolbox};
use noetl_types::{Json, TaskErrorKind};

use crate::http_server::{TestHttpServer, http_response};
use crate::support::{parse_json, run_call, tool_call};

/// Non-public hosts, in spellings that every resolver accepts.
const PRIVATE_HOSTS: [&str; 44] = [
    "127.0.0.1", "localhost", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::1]",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "169.254.169.254", "2852039166",
    "0xa9fea9fe", "0251.0376.0251.0376", "0xa9.0xfe.0xa9.0xfe", "169.254.43518", "169.16689662",
    "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::808:808]", "[2002:a9fe:a9fe::]", "[fd00:ec2::254]", "[fe80::1]", "[::]",
    "[0:0:0:0:0:0:0:1]", "[::127.0.0.1]", "10.0.0.1", "012.0.0.1", "0xa.1", "172.16.0.1",
    "192.168.0.1", "3232235521", "100.64.0.1", "0", "0x0", "LOCALHOST", "127.127.127.127",
    "0x7f.0.0.1", "0177.1", "017700000001", "224.0.0.1", "255.255.255.255", "198.18.0.1",
];

/// Non-public hosts in spellings that only URLs accept.
const PRIVATE_HOSTS_IN_URLS: [&str; 7] = [
    "user:pass@127.0.0.1", "8.8.8.8@127.0.0.1", "8.8.8.8%40@127.0.0.1", "１２７.0.0.1",
    "127。0。0。1", "①②⑦.⓪.⓪.①", "127.0.0.1.",
];

/// Creates a toolbox that may connect only to public addresses.
fn restricted_toolbox() -> Toolbox {
    Toolbox::new(Settings { egress: EgressPolicy::parse("").unwrap(), ..Settings::default() })
}

/// Calls a tool once for each host, and checks that the policy rejects it.
async fn assert_rejects_hosts(kind: ToolKind, hosts: &[&str], config: impl Fn(&str) -> String) {
    let toolbox = restricted_toolbox();
    for host in hosts {
        let config = config(host);
        let outcome = run_call(&toolbox, tool_call(kind, &parse_json(&config))).await;
        let error = outcome.error.unwrap_or_else(|| panic!("{config} succeeded"));
        let message = &error.message;
        assert_eq!(error.kind, TaskErrorKind::Auth, "{config}: {message}");
        assert!(message.contains("NOETL_EGRESS_ALLOW"), "{config}: {message}");
    }
}

/// Starts a server that no tool may reach.
async fn unreachable_server() -> TestHttpServer {
    TestHttpServer::with_response(&http_response("200 OK", "", "secret")).await
}

#[tokio::test]
async fn http_rejects_private_address_in_any_spelling() {
    let server = unreachable_server().await;
    let port = server.port;
    let hosts = [&PRIVATE_HOSTS[..], &PRIVATE_HOSTS_IN_URLS].concat();
    let config = |host: &str| format!(r#"{{"url": "http://{host}:{port}/"}}"#);
    assert_rejects_hosts(ToolKind::Http, &hosts, config).await;
    assert!(server.received_requests().is_empty());
}

#[tokio::test]
async fn mcp_rejects_private_address_in_any_spelling() {
    let server = unreachable_server().await;
    let port = server.port;
    let hosts = [&PRIVATE_HOSTS[..], &PRIVATE_HOSTS_IN_URLS].concat();
    let config = |host: &str| format!(r#"{{"endpoint": "http://{host}:{port}/mcp", "tool": "t"}}"#);
    assert_rejects_hosts(ToolKind::Mcp, &hosts, config).await;
    assert!(server.received_requests().is_empty());
}

#[tokio::test]
async fn postgres_rejects_private_address_in_any_spelling() {
    let server = unreachable_server().await;
    let port = server.port;
    // Without TLS a name need not be valid in a certificate, so that all names reach the policy.
    let login = r#""query": "SELECT 1", "db_user": "u", "db_name": "d", "sslmode": "disable""#;
    let field = |host: &str| format!(r#"{{"db_host": "{host}", "db_port": {port}, {login}}}"#);
    assert_rejects_hosts(ToolKind::Postgres, &PRIVATE_HOSTS, field).await;
    let quote = |string: String| Json::from(string).to_string();
    let url = |host: &str| {
        let string = quote(format!("postgresql://u:p@{host}:{port}/d?connect_timeout=60"));
        format!(r#"{{"connection_string": {string}, {login}}}"#)
    };
    assert_rejects_hosts(ToolKind::Postgres, &PRIVATE_HOSTS, url).await;
    // `hostaddr` takes precedence over any `host`.
    let is_address = |host: &&str| {
        let bare = host.trim_matches(['[', ']']);
        bare.parse::<std::net::IpAddr>().is_ok()
    };
    let addresses: Vec<&str> = PRIVATE_HOSTS.into_iter().filter(is_address).collect();
    assert!(addresses.len() > 20, "{addresses:?}");
    let pair = |host: &str| {
        let bare = host.trim_matches(['[', ']']);
        let string = quote(format!("host=8.8.8.8 hostaddr={bare} port={port}"));
        format!(r#"{{"connection_string": {string}, {login}}}"#)
    };
    assert_rejects_hosts(ToolKind::Postgres, &addresses, pair).await;
    assert!(server.received_requests().is_empty());
}

#[tokio::test]
async fn transfer_rejects_private_address_on_both_sides() {
    let server = unreachable_server().await;
    let port = server.port;
    let sqlite = r#""type": "sqlite", "database": ":memory:""#;
    let http_end = |host: &str| format!(r#""type": "http", "url": "http://{host}:{port}/""#);
    let postgres_end = |host: &str| {
        format!(
            r#""type": "postgres", "db_host": "{host}", "db_port": {port}, "sslmode": "disable""#
        )
    };
    let from = |end: String| {
        format!(
            r#"{{"source": {{{end}, "query": "SELECT 1 AS a"}},
                "target": {{{sqlite}, "query": "SELECT ?1"}}}}"#
        )
    };
    let to = |end: String| {
        format!(
            r#"{{"source": {{{sqlite}, "query": "SELECT 1 AS a"}},
                "target": {{{end}, "table": "t"}}}}"#
        )
    };
    let hosts = [&PRIVATE_HOSTS[..], &PRIVATE_HOSTS_IN_URLS].concat();
    assert_rejects_hosts(ToolKind::Transfer, &hosts, |host| from(http_end(host))).await;
    assert_rejects_hosts(ToolKind::Transfer, &hosts, |host| to(http_end(host))).await;
    assert_rejects_hosts(ToolKind::Transfer, &PRIVATE_HOSTS, |host| from(postgres_end(host))).await;
    assert_rejects_hosts(ToolKind::Transfer, &PRIVATE_HOSTS, |host| to(postgres_end(host))).await;
    assert!(server.received_requests().is_empty());
}
