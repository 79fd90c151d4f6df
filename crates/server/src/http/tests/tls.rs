//! TLS and client certificates, with certificates created by the tests.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use noetl_api::client::{BearerToken, ClientCertificate};
use noetl_api::query::ExecutionsQuery;
use noetl_api::{ApiError, Client, ClientSettings};
use noetl_store::SqliteStore;
use noetl_types::{ErrorCode, Scope};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::open_services;
use super::tokens::create_token;
use crate::http::{
    CertificateIdentities, HttpSettings, InternalToken, ListenerTls, ServeError, serve_http,
};

/// Creates a self-signed certificate for this machine.
fn create_self_signed_certificate(folder: &Path) {
    let created = Command::new("openssl")
        .current_dir(folder)
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .output()
        .unwrap();
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
}

#[tokio::test]
async fn serves_tls_only() {
    let folder = tempfile::tempdir().unwrap();
    create_self_signed_certificate(folder.path());
    let path = |name: &str| folder.path().join(name);
    let services = open_services(Arc::new(SqliteStore::in_memory().unwrap())).await;
    let token = create_token(&services, "acme", &[Scope::ExecRead]).await;
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let settings = HttpSettings {
        is_dev: false,
        tls: Some(ListenerTls::from_pem_files(&path("cert.pem"), &path("key.pem"), None).unwrap()),
        ..HttpSettings::default()
    };
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(serve_http(services, listener, settings, shutdown.clone()));

    let url = format!("https://localhost:{port}");
    let client_settings = |authority: Option<Vec<u8>>| ClientSettings {
        token: Some(BearerToken::new(token.as_str())),
        authority,
        ..ClientSettings::default()
    };
    let authority = std::fs::read(path("cert.pem")).unwrap();
    let client = Client::new(&url, client_settings(Some(authority))).unwrap();
    let query = ExecutionsQuery::default();
    let page = client.list_executions(&query).await.unwrap();
    assert!(page.executions.is_empty());
    let stranger = Client::new(&url, client_settings(None)).unwrap();
    assert!(stranger.list_executions(&query).await.is_err());

    // Requests without TLS get only the advice to use it.
    let mut plain = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    plain.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut received = Vec::new();
    drop(plain.read_to_end(&mut received).await);
    let received = String::from_utf8_lossy(&received);
    assert!(received.ends_with("\r\n\r\nthis port requires TLS; use an https:// address"));
    assert!(received.contains("content-length: 47\r\n"), "{received}");
    drop(client);
    shutdown.cancel();
    task.await.unwrap().unwrap();
}

#[test]
fn names_invalid_tls_files() {
    let folder = tempfile::tempdir().unwrap();
    create_self_signed_certificate(folder.path());
    let path = |name: &str| folder.path().join(name);
    let missing =
        ListenerTls::from_pem_files(&path("none.pem"), &path("key.pem"), None).unwrap_err();
    assert!(missing.to_string().contains("none.pem"), "{missing}");
    let swapped =
        ListenerTls::from_pem_files(&path("key.pem"), &path("cert.pem"), None).unwrap_err();
    assert!(swapped.to_string().contains("key.pem"), "{swapped}");
}

/// A certificate authority.
struct CertificateAuthority<'f>(&'f Path);

impl<'f> CertificateAuthority<'f> {
    fn new(folder: &'f Path) -> Self {
        let authority = Self(folder);
        let new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
        let subject = ["-nodes", "-days", "2", "-subj", "/CN=authority"];
        let files = ["-keyout", "ca.key", "-out", "ca.pem"];
        authority.run_openssl(&[&new[..], &subject, &files].concat());
        authority
    }

    fn run_openssl(&self, args: &[&str]) {
        let output = Command::new("openssl").current_dir(self.0).args(args).output();
        let output = output.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{stderr}");
    }

    /// Issues a certificate for a name, `DNS:…` or `URI:…`. Returns its chain and key.
    fn issue_certificate(&self, file: &str, name: &str) -> ClientCertificate {
        let (key, request) = (format!("{file}.key"), format!("{file}.csr"));
        let (extensions, chain) = (format!("{file}.ext"), format!("{file}.pem"));
        std::fs::write(self.0.join(&extensions), format!("subjectAltName={name}\n")).unwrap();
        let new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
        let subject = ["-subj", "/CN=admin", "-keyout", &key, "-out", &request];
        self.run_openssl(&[&new[..], &subject].concat());
        let sign = ["x509", "-req", "-in", &request, "-CA", "ca.pem", "-CAkey", "ca.key"];
        let options = ["-CAcreateserial", "-days", "2", "-extfile", &extensions, "-out", &chain];
        self.run_openssl(&[&sign[..], &options].concat());
        let read = |name: &str| std::fs::read(self.0.join(name)).unwrap();
        ClientCertificate { chain: read(&chain), key: read(&key) }
    }
}

/// A server that requires client certificates, and its authority.
struct MutualTlsServer {
    folder: tempfile::TempDir,
    url: String,
    /// Token of the tenant `acme`.
    token: String,
    shutdown: CancellationToken,
    server_task: tokio::task::JoinHandle<Result<(), ServeError>>,
}

impl MutualTlsServer {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = CertificateAuthority::new(folder.path());
        authority.issue_certificate("server", "DNS:localhost,IP:127.0.0.1");
        let path = |name: &str| folder.path().join(name);
        let services = open_services(Arc::new(SqliteStore::in_memory().unwrap())).await;
        let token = create_token(&services, "acme", &[Scope::ExecRead]).await;
        let names = "spiffe://test/worker=worker+pool:gpu+tenant:acme;\
            dns:ops.test=admin+internal:outbox";
        let (chain, key) = (path("server.pem"), path("server.key"));
        let tls = ListenerTls::from_pem_files(&chain, &key, Some(&path("ca.pem")));
        let settings = HttpSettings {
            is_dev: false,
            tls: Some(tls.unwrap()),
            certificate_identities: CertificateIdentities::parse_list(names).unwrap(),
            internal_token: Some(InternalToken::new("internal-token-for-tests")),
            ..HttpSettings::default()
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shutdown = CancellationToken::new();
        Self {
            folder,
            url: format!("https://localhost:{port}"),
            token,
            shutdown: shutdown.clone(),
            server_task: tokio::spawn(serve_http(services, listener, settings, shutdown)),
        }
    }

    /// Issues a certificate that the server trusts.
    fn issue_certificate(&self, file: &str, name: &str) -> ClientCertificate {
        CertificateAuthority(self.folder.path()).issue_certificate(file, name)
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

    async fn stop_server(self) {
        self.shutdown.cancel();
        self.server_task.await.unwrap().unwrap();
    }
}

fn error_code<T: std::fmt::Debug>(result: Result<T, ApiError>) -> ErrorCode {
    result.unwrap_err().code().unwrap()
}

#[tokio::test]
async fn client_certificate_identifies_caller() {
    let server = MutualTlsServer::new().await;
    let worker = server.issue_certificate("worker", "URI:spiffe://test/worker");
    let client = server.client(Some(&worker), None);
    let me = client.whoami().await.unwrap();
    assert_eq!((&*me.actor, &*me.tenant_id), ("spiffe://test/worker", "acme"));
    assert_eq!(me.scopes, ["worker"]);
    let refused = client.list_executions(&ExecutionsQuery::default()).await;
    assert_eq!(error_code(refused), ErrorCode::Forbidden);

    let ops = server.issue_certificate("ops", "DNS:other.test,DNS:ops.test");
    let client = server.client(Some(&ops), None);
    let me = client.whoami().await.unwrap();
    assert_eq!((&*me.actor, &*me.tenant_id), ("ops.test", "default"));
    assert!(client.count_pending_outbox().await.is_ok());
    // A token takes precedence, and an invalid token is rejected.
    let client = server.client(Some(&ops), Some(&server.token));
    assert_eq!(&*client.whoami().await.unwrap().tenant_id, "acme");
    let client = server.client(Some(&ops), Some("noetl_a_b"));
    assert_eq!(error_code(client.whoami().await), ErrorCode::Unauthenticated);
    server.stop_server().await;
}

/// The subject is ignored, and names that only resemble a listed name do not match.
#[tokio::test]
async fn unlisted_certificate_is_unauthenticated() {
    let server = MutualTlsServer::new().await;
    for name in [
        "DNS:worker.test", "DNS:x.ops.test", "DNS:*.test", "URI:spiffe://test/worker2",
        "URI:dns:ops.test",
    ] {
        let stranger = server.issue_certificate("stranger", name);
        let client = server.client(Some(&stranger), None);
        let refused = client.whoami().await;
        assert_eq!(error_code(refused), ErrorCode::Unauthenticated, "{name}");
        let client = server.client(Some(&stranger), Some(&server.token));
        assert_eq!(&*client.whoami().await.unwrap().tenant_id, "acme", "{name}");
    }
    // Without a certificate of this authority the handshake fails.
    let elsewhere = tempfile::tempdir().unwrap();
    let forged =
        CertificateAuthority::new(elsewhere.path()).issue_certificate("ops", "DNS:ops.test");
    for certificate in [None, Some(&forged)] {
        let client = server.client(certificate, Some(&server.token));
        let refused = client.whoami().await.unwrap_err();
        assert!(matches!(refused, ApiError::Unreachable(_)), "{refused:?}");
    }
    server.stop_server().await;
}
