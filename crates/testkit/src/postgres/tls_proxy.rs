//! TLS proxy in front of a cluster, with certificates that tests have.
//!
//! The certificates are for `localhost`, signed by an authority that is used for nothing else.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_rustls::TlsAcceptor;

use super::TestDatabase;

/// Certificate authority, in PEM.
pub const TLS_AUTHORITY_PEM: &str = include_str!("tls/authority.pem");
const SERVER_CERTIFICATE_PEM: &str = include_str!("tls/server.pem");
const SERVER_KEY_PEM: &str = include_str!("tls/server.key");

/// Bytes of an `SSLRequest` message.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Starts a TLS proxy for the cluster of a database and returns its port on the loopback address.
/// It runs as long as the runtime. Unencrypted connections are closed.
pub async fn start_tls_proxy(database: &TestDatabase) -> io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let socket = database.cluster().socket_folder().join(".s.PGSQL.5432");
    let acceptor = tls_acceptor().map_err(io::Error::other)?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(proxy_connection(stream, acceptor.clone(), socket.clone()));
        }
    });
    Ok(port)
}

fn tls_acceptor() -> Result<TlsAcceptor, Box<dyn std::error::Error + Send + Sync>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificate = CertificateDer::from_pem_slice(SERVER_CERTIFICATE_PEM.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(SERVER_KEY_PEM.as_bytes())?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts a TLS request, and forwards the decrypted traffic.
async fn proxy_connection(
    mut stream: TcpStream,
    acceptor: TlsAcceptor,
    socket: PathBuf,
) -> io::Result<()> {
    let mut request = [0; 8];
    stream.read_exact(&mut request).await?;
    if request != SSL_REQUEST {
        return Ok(());
    }
    stream.write_all(b"S").await?;
    let mut stream = acceptor.accept(stream).await?;
    let mut server = UnixStream::connect(socket).await?;
    copy_bidirectional(&mut stream, &mut server).await?;
    Ok(())
}
