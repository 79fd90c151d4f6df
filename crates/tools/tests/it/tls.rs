//! TLS towards a server: a front of the test's own that decrypts and passes on to PostgreSQL.
//!
//! The certificates are for `localhost`, from an authority that signed nothing else.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use noetl_testkit::postgres::Database;
use noetl_tools::ToolKind;
use noetl_types::{Json, TaskErrorKind};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_rustls::TlsAcceptor;

use crate::database::{database, fault, rows, until_rows};
use crate::support::{call, error, toolbox, value};

const AUTHORITY: &str = include_str!("tls/authority.pem");
const CERTIFICATE: &str = include_str!("tls/server.pem");
const KEY: &str = include_str!("tls/server.key");

/// Starts a front for a database; gives its port.
async fn front(database: &Database) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let socket = database.cluster().socket_folder().join(".s.PGSQL.5432");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, acceptor.clone(), socket.clone()));
        }
    });
    port
}

/// Answers a request for TLS, and passes on what was encrypted. Nothing plain gets through.
async fn serve(mut stream: TcpStream, acceptor: TlsAcceptor, socket: PathBuf) {
    const REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
    let mut asked = [0; 8];
    if stream.read_exact(&mut asked).await.is_err() || asked != REQUEST {
        return;
    }
    stream.write_all(b"S").await.unwrap();
    let Ok(mut stream) = acceptor.accept(stream).await else {
        return;
    };
    let mut server = UnixStream::connect(socket).await.unwrap();
    copy_bidirectional(&mut stream, &mut server).await.ok();
}

fn through(database: &Database, place: (&str, u16), text: &str, more: &str) -> noetl_tools::Call {
    let mut config = value(more).as_map().unwrap().clone();
    config.insert("query".into(), Json::from(text));
    config.insert("db_host".into(), Json::from(place.0));
    config.insert("db_port".into(), Json::from(u32::from(place.1)));
    config.insert("db_user".into(), Json::from("postgres"));
    config.insert("db_name".into(), Json::from(database.name()));
    call(ToolKind::Postgres, &config.into())
}

fn trusting(mode: &str) -> String {
    let keys = [
        ("sslmode", Json::from(mode)),
        ("sslrootcert", Json::from(AUTHORITY)),
    ];
    Json::object(keys).to_string()
}

#[tokio::test]
async fn as_much_is_verified_as_the_mode_says() {
    let database = database();
    let toolbox = toolbox();
    let port = front(&database).await;
    let one = "SELECT 1 AS n";
    for mode in ["prefer", "require"] {
        let keys = format!(r#"{{"sslmode": "{mode}"}}"#);
        let call = through(&database, ("127.0.0.1", port), one, &keys);
        assert_eq!(rows(&toolbox, call).await, r#"[{"n":1}]"#, "{mode}");
    }
    for (mode, host) in [
        ("verify-ca", "127.0.0.1"),
        ("verify-ca", "localhost"),
        ("verify-full", "localhost"),
    ] {
        let call = through(&database, (host, port), one, &trusting(mode));
        assert_eq!(rows(&toolbox, call).await, r#"[{"n":1}]"#, "{mode} {host}");
    }
    for (keys, host) in [
        (trusting("verify-full"), "127.0.0.1"),
        (r#"{"sslmode": "verify-full"}"#.to_owned(), "localhost"),
        (r#"{"sslmode": "verify-ca"}"#.to_owned(), "localhost"),
        (r#"{"sslmode": "disable"}"#.to_owned(), "localhost"),
    ] {
        let error = fault(&toolbox, through(&database, (host, port), one, &keys)).await;
        assert_eq!(
            error.kind,
            TaskErrorKind::DbConnection,
            "{keys}: {}",
            error.message
        );
    }
    let broken = r#"{"sslmode": "verify-full", "sslrootcert": "-----BEGIN nothing"}"#;
    let error = fault(
        &toolbox,
        through(&database, ("localhost", port), one, broken),
    )
    .await;
    assert_eq!(error.kind, TaskErrorKind::Parse);
}

#[tokio::test]
async fn a_cancel_request_is_encrypted_as_well() {
    let database = database();
    let toolbox = toolbox();
    let port = front(&database).await;
    let keys = trusting("verify-full");
    let mut sleeper = through(
        &database,
        ("localhost", port),
        "SELECT pg_sleep(1000)",
        &keys,
    );
    sleeper.timeout = Duration::from_millis(500);
    assert_eq!(error(&toolbox, sleeper).await.0, TaskErrorKind::Timeout);
    let sleepers = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() \
         AND state = 'active' AND query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()";
    until_rows(&database, sleepers, r#"[{"n":0}]"#).await;
}
