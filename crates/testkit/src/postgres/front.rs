//! A front of a cluster that decrypts and passes on: TLS with certificates that tests know.
//!
//! The certificates are for `localhost`, from an authority that signed nothing else.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_rustls::TlsAcceptor;

use super::Database;

/// The authority, in PEM.
pub const AUTHORITY: &str = include_str!("tls/authority.pem");
const CERTIFICATE: &str = include_str!("tls/server.pem");
const KEY: &str = include_str!("tls/server.key");

/// What a client sends that wants TLS.
const REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Starts a front for the cluster of a database, for as long as the runtime lives; gives its port on
/// the loopback address. Nothing plain gets through.
pub async fn tls_front(database: &Database) -> io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let socket = database.cluster().socket_folder().join(".s.PGSQL.5432");
    let acceptor = acceptor().map_err(io::Error::other)?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, acceptor.clone(), socket.clone()));
        }
    });
    Ok(port)
}

fn acceptor() -> Result<TlsAcceptor, Box<dyn std::error::Error + Send + Sync>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes())?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Answers a request for TLS, and passes on what was encrypted.
async fn serve(mut stream: TcpStream, acceptor: TlsAcceptor, socket: PathBuf) -> io::Result<()> {
    let mut asked = [0; 8];
    stream.read_exact(&mut asked).await?;
    if asked != REQUEST {
        return Ok(());
    }
    stream.write_all(b"S").await?;
    let mut stream = acceptor.accept(stream).await?;
    let mut server = UnixStream::connect(socket).await?;
    copy_bidirectional(&mut stream, &mut server).await?;
    Ok(())
}
