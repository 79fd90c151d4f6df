//! A server that encrypts, with certificates of the test's own.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use noetl_api::client::BearerToken;
use noetl_api::query::ExecutionsQuery;
use noetl_api::{Client, ClientSettings};
use noetl_store::MemoryStore;
use noetl_types::Scope;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::runtime_on;
use super::tokens::token_of;
use crate::http::{HttpSettings, Tls, serve};

/// Makes a certificate for this machine that signs itself.
fn certificate(folder: &Path) {
    let made = Command::new("openssl")
        .current_dir(folder)
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
}

#[tokio::test]
async fn a_server_encrypts_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    certificate(folder.path());
    let path = |name: &str| folder.path().join(name);
    let runtime = runtime_on(Arc::new(MemoryStore::new())).await;
    let token = token_of(&runtime, "acme", &[Scope::ExecRead]).await;
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let settings = HttpSettings {
        is_dev: false,
        tls: Some(Tls::read(&path("cert.pem"), &path("key.pem"), None).unwrap()),
        ..HttpSettings::default()
    };
    let stop = CancellationToken::new();
    let task = tokio::spawn(serve(runtime, listener, settings, stop.clone()));

    let url = format!("https://localhost:{port}");
    let trusting = |authority: Option<Vec<u8>>| ClientSettings {
        token: Some(BearerToken::new(token.as_str())),
        authority,
        ..ClientSettings::default()
    };
    let authority = std::fs::read(path("cert.pem")).unwrap();
    let client = Client::new(&url, trusting(Some(authority))).unwrap();
    let query = ExecutionsQuery::default();
    let page = client.executions(&query).await.unwrap();
    assert!(page.executions.is_empty());
    let stranger = Client::new(&url, trusting(None)).unwrap();
    assert!(stranger.executions(&query).await.is_err());

    // Who speaks plainly is not answered.
    let mut plain = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    plain
        .write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut said = Vec::new();
    drop(plain.read_to_end(&mut said).await);
    assert!(!String::from_utf8_lossy(&said).contains("HTTP/1.1"));
    drop(client);
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[test]
fn files_that_are_none_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    certificate(folder.path());
    let path = |name: &str| folder.path().join(name);
    let missing = Tls::read(&path("none.pem"), &path("key.pem"), None).unwrap_err();
    assert!(missing.to_string().contains("none.pem"), "{missing}");
    let swapped = Tls::read(&path("key.pem"), &path("cert.pem"), None).unwrap_err();
    assert!(swapped.to_string().contains("key.pem"), "{swapped}");
}
