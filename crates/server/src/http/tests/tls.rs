//! A server that encrypts, with certificates of the test's own.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use noetl_api::client::{BearerToken, ClientCertificate};
use noetl_api::query::ExecutionsQuery;
use noetl_api::{ApiError, Client, ClientSettings};
use noetl_store::MemoryStore;
use noetl_types::{ErrorCode, Scope};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::runtime_on;
use super::tokens::token_of;
use crate::http::{CertifiedNames, HttpSettings, InternalToken, ServeError, Tls, serve};

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

/// An authority, and what it signs.
struct Authority<'f>(&'f Path);

impl<'f> Authority<'f> {
    fn new(folder: &'f Path) -> Self {
        let authority = Self(folder);
        let new = [
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ];
        let about = ["-nodes", "-days", "2", "-subj", "/CN=authority"];
        let files = ["-keyout", "ca.key", "-out", "ca.pem"];
        authority.openssl(&[&new[..], &about, &files].concat());
        authority
    }

    fn openssl(&self, args: &[&str]) {
        let made = Command::new("openssl")
            .current_dir(self.0)
            .args(args)
            .output();
        let made = made.unwrap();
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success(), "{said}");
    }

    /// Signs a certificate for a name, `DNS:…` or `URI:…`; gives its chain and its key.
    fn signed(&self, file: &str, name: &str) -> ClientCertificate {
        let (key, request) = (format!("{file}.key"), format!("{file}.csr"));
        let (extensions, chain) = (format!("{file}.ext"), format!("{file}.pem"));
        std::fs::write(self.0.join(&extensions), format!("subjectAltName={name}\n")).unwrap();
        let new = [
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ];
        let about = ["-subj", "/CN=admin", "-keyout", &key, "-out", &request];
        self.openssl(&[&new[..], &about].concat());
        let sign = [
            "x509", "-req", "-in", &request, "-CA", "ca.pem", "-CAkey", "ca.key",
        ];
        let how = [
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            &extensions,
            "-out",
            &chain,
        ];
        self.openssl(&[&sign[..], &how].concat());
        let read = |name: &str| std::fs::read(self.0.join(name)).unwrap();
        ClientCertificate {
            chain: read(&chain),
            key: read(&key),
        }
    }
}

/// A server that wants certificates, and what makes some.
struct Mutual {
    folder: tempfile::TempDir,
    url: String,
    /// A token of the tenant `acme`.
    token: String,
    stop: CancellationToken,
    server: tokio::task::JoinHandle<Result<(), ServeError>>,
}

impl Mutual {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new(folder.path());
        authority.signed("server", "DNS:localhost,IP:127.0.0.1");
        let path = |name: &str| folder.path().join(name);
        let runtime = runtime_on(Arc::new(MemoryStore::new())).await;
        let token = token_of(&runtime, "acme", &[Scope::ExecRead]).await;
        let names = "spiffe://test/worker=worker+pool:gpu+tenant:acme;\
            dns:ops.test=admin+internal:outbox";
        let (chain, key) = (path("server.pem"), path("server.key"));
        let tls = Tls::read(&chain, &key, Some(&path("ca.pem")));
        let settings = HttpSettings {
            is_dev: false,
            tls: Some(tls.unwrap()),
            certified: CertifiedNames::read(names).unwrap(),
            internal_token: Some(InternalToken::new("opens what is internal")),
            ..HttpSettings::default()
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = CancellationToken::new();
        Self {
            folder,
            url: format!("https://localhost:{port}"),
            token,
            stop: stop.clone(),
            server: tokio::spawn(serve(runtime, listener, settings, stop)),
        }
    }

    /// A certificate of the authority that the server trusts.
    fn signed(&self, file: &str, name: &str) -> ClientCertificate {
        Authority(self.folder.path()).signed(file, name)
    }

    fn client(&self, certificate: Option<&ClientCertificate>, token: Option<&str>) -> Client {
        let authority = std::fs::read(self.folder.path().join("ca.pem")).unwrap();
        let settings = ClientSettings {
            token: token.map(BearerToken::new),
            authority: Some(authority),
            certificate: certificate.cloned(),
            ..ClientSettings::default()
        };
        Client::new(&self.url, settings).unwrap()
    }

    async fn end(self) {
        self.stop.cancel();
        self.server.await.unwrap().unwrap();
    }
}

fn code<T: std::fmt::Debug>(refused: Result<T, ApiError>) -> ErrorCode {
    refused.unwrap_err().code().unwrap()
}

#[tokio::test]
async fn a_certificate_stands_for_whom_it_is_said_to() {
    let house = Mutual::new().await;
    let worker = house.signed("worker", "URI:spiffe://test/worker");
    let client = house.client(Some(&worker), None);
    let me = client.whoami().await.unwrap();
    assert_eq!(
        (&*me.actor, &*me.tenant_id),
        ("spiffe://test/worker", "acme")
    );
    assert_eq!(me.scopes, ["worker"]);
    let refused = client.executions(&ExecutionsQuery::default()).await;
    assert_eq!(code(refused), ErrorCode::Forbidden);

    let ops = house.signed("ops", "DNS:other.test,DNS:ops.test");
    let client = house.client(Some(&ops), None);
    let me = client.whoami().await.unwrap();
    assert_eq!((&*me.actor, &*me.tenant_id), ("ops.test", "default"));
    assert!(client.outbox_pending().await.is_ok());
    // Whoever shows a token is who the token says, and nobody where that is wrong.
    let client = house.client(Some(&ops), Some(&house.token));
    assert_eq!(&*client.whoami().await.unwrap().tenant_id, "acme");
    let client = house.client(Some(&ops), Some("noetl_a_b"));
    assert_eq!(code(client.whoami().await), ErrorCode::Unauthenticated);
    house.end().await;
}

/// The subject of a certificate says nothing, nor does a name that only looks like a listed one.
#[tokio::test]
async fn a_certificate_that_nobody_lists_stands_for_nobody() {
    let house = Mutual::new().await;
    for name in [
        "DNS:worker.test",
        "DNS:x.ops.test",
        "DNS:*.test",
        "URI:spiffe://test/worker2",
        "URI:dns:ops.test",
    ] {
        let stranger = house.signed("stranger", name);
        let client = house.client(Some(&stranger), None);
        let refused = client.whoami().await;
        assert_eq!(code(refused), ErrorCode::Unauthenticated, "{name}");
        let client = house.client(Some(&stranger), Some(&house.token));
        assert_eq!(&*client.whoami().await.unwrap().tenant_id, "acme", "{name}");
    }
    // Without a certificate of this authority nobody gets through at all.
    let elsewhere = tempfile::tempdir().unwrap();
    let forged = Authority::new(elsewhere.path()).signed("ops", "DNS:ops.test");
    for certificate in [None, Some(&forged)] {
        let client = house.client(certificate, Some(&house.token));
        let refused = client.whoami().await.unwrap_err();
        assert!(matches!(refused, ApiError::Unreachable(_)), "{refused:?}");
    }
    house.end().await;
}
