//! The guard of outbound connections, by every way that leads a tool to a host.

use noetl_tools::egress::EgressPolicy;
use noetl_tools::{Settings, ToolKind, Toolbox};
use noetl_types::{Json, TaskErrorKind};

use crate::server::{Server, answer};
use crate::support::{call, run, value};

/// Hosts that are not public, in spellings that every resolver knows.
const PRIVATE: [&str; 44] = [
    "127.0.0.1",
    "localhost",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "127.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "0.0.0.0",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "0xa9.0xfe.0xa9.0xfe",
    "169.254.43518",
    "169.16689662",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::808:808]",
    "[2002:a9fe:a9fe::]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::127.0.0.1]",
    "10.0.0.1",
    "012.0.0.1",
    "0xa.1",
    "172.16.0.1",
    "192.168.0.1",
    "3232235521",
    "100.64.0.1",
    "0",
    "0x0",
    "LOCALHOST",
    "127.127.127.127",
    "0x7f.0.0.1",
    "0177.1",
    "017700000001",
    "224.0.0.1",
    "255.255.255.255",
    "198.18.0.1",
];

/// And in those that a URL makes the same of.
const IN_URLS: [&str; 7] = [
    "user:pass@127.0.0.1",
    "8.8.8.8@127.0.0.1",
    "8.8.8.8%40@127.0.0.1",
    "１２７.0.0.1",
    "127。0。0。1",
    "①②⑦.⓪.⓪.①",
    "127.0.0.1.",
];

/// A worker that may go nowhere but to the public.
fn guarded() -> Toolbox {
    Toolbox::new(Settings {
        egress: EgressPolicy::parse("").unwrap(),
        ..Settings::default()
    })
}

/// Calls a tool once for each host, which it must refuse by the rule.
async fn refuses(kind: ToolKind, hosts: &[&str], config: impl Fn(&str) -> String) {
    let toolbox = guarded();
    for host in hosts {
        let config = config(host);
        let outcome = run(&toolbox, call(kind, &value(&config))).await;
        let error = outcome
            .error
            .unwrap_or_else(|| panic!("{config} went well"));
        let message = &error.message;
        assert_eq!(error.kind, TaskErrorKind::Auth, "{config}: {message}");
        assert!(
            message.contains("NOETL_EGRESS_ALLOW"),
            "{config}: {message}"
        );
    }
}

/// A listener of the machine, which nobody may find.
async fn listener() -> Server {
    Server::saying(&answer("200 OK", "", "secret")).await
}

#[tokio::test]
async fn http_reaches_no_private_address_in_any_spelling() {
    let server = listener().await;
    let port = server.port;
    let hosts = [&PRIVATE[..], &IN_URLS].concat();
    let config = |host: &str| format!(r#"{{"url": "http://{host}:{port}/"}}"#);
    refuses(ToolKind::Http, &hosts, config).await;
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn mcp_reaches_no_private_address_in_any_spelling() {
    let server = listener().await;
    let port = server.port;
    let hosts = [&PRIVATE[..], &IN_URLS].concat();
    let config = |host: &str| format!(r#"{{"endpoint": "http://{host}:{port}/mcp", "tool": "t"}}"#);
    refuses(ToolKind::Mcp, &hosts, config).await;
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn postgres_reaches_no_private_address_in_any_spelling() {
    let server = listener().await;
    let port = server.port;
    // Without TLS a name need not be one that a certificate can have, so that all get to the guard.
    let login = r#""query": "SELECT 1", "db_user": "u", "db_name": "d", "sslmode": "disable""#;
    let field = |host: &str| format!(r#"{{"db_host": "{host}", "db_port": {port}, {login}}}"#);
    refuses(ToolKind::Postgres, &PRIVATE, field).await;
    let text = |string: String| Json::from(string).to_string();
    let url = |host: &str| {
        let string = text(format!(
            "postgresql://u:p@{host}:{port}/d?connect_timeout=60"
        ));
        format!(r#"{{"connection_string": {string}, {login}}}"#)
    };
    refuses(ToolKind::Postgres, &PRIVATE, url).await;
    // The address goes before the name, whatever that is.
    let is_address = |host: &&str| {
        let bare = host.trim_matches(['[', ']']);
        bare.parse::<std::net::IpAddr>().is_ok()
    };
    let addresses: Vec<&str> = PRIVATE.into_iter().filter(is_address).collect();
    assert!(addresses.len() > 20, "{addresses:?}");
    let pair = |host: &str| {
        let bare = host.trim_matches(['[', ']']);
        let string = text(format!("host=8.8.8.8 hostaddr={bare} port={port}"));
        format!(r#"{{"connection_string": {string}, {login}}}"#)
    };
    refuses(ToolKind::Postgres, &addresses, pair).await;
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn neither_side_of_a_transfer_reaches_a_private_address() {
    let server = listener().await;
    let port = server.port;
    let here = r#""type": "sqlite", "database": ":memory:""#;
    let web = |host: &str| format!(r#""type": "http", "url": "http://{host}:{port}/""#);
    let base = |host: &str| {
        format!(
            r#""type": "postgres", "db_host": "{host}", "db_port": {port}, "sslmode": "disable""#
        )
    };
    let from = |side: String| {
        format!(
            r#"{{"source": {{{side}, "query": "SELECT 1 AS a"}},
                "target": {{{here}, "query": "SELECT ?1"}}}}"#
        )
    };
    let to = |side: String| {
        format!(
            r#"{{"source": {{{here}, "query": "SELECT 1 AS a"}},
                "target": {{{side}, "table": "t"}}}}"#
        )
    };
    let hosts = [&PRIVATE[..], &IN_URLS].concat();
    refuses(ToolKind::Transfer, &hosts, |host| from(web(host))).await;
    refuses(ToolKind::Transfer, &hosts, |host| to(web(host))).await;
    refuses(ToolKind::Transfer, &PRIVATE, |host| from(base(host))).await;
    refuses(ToolKind::Transfer, &PRIVATE, |host| to(base(host))).await;
    assert!(server.seen().is_empty());
}
