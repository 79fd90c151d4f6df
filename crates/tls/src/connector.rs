//! TLS connector for the PostgreSQL driver.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use crate::verify::{client_config, parse_server_name};
use crate::{TlsError, TlsVerification};

/// Creates connectors for any host.
#[derive(Debug, Clone)]
pub struct MakeTlsConnector(Arc<ClientConfig>);

impl MakeTlsConnector {
    /// Creates a connector with this level of verification, and CA certificates in PEM or those of
    /// the system. The driver does not use it if TLS is disabled.
    pub fn new(verification: TlsVerification, roots: Option<&[u8]>) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(client_config(verification, roots)?)))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for MakeTlsConnector {
    type Stream = EncryptedStream<S>;
    type TlsConnect = HostTlsConnector;
    type Error = TlsError;

    fn make_tls_connect(&mut self, host: &str) -> Result<HostTlsConnector, TlsError> {
        // A Unix socket has no host name, and the driver does not encrypt it.
        let host = if host.is_empty() { "localhost" } else { host };
        Ok(HostTlsConnector { config: Arc::clone(&self.0), name: parse_server_name(host)? })
    }
}

/// A connector for one host.
pub struct HostTlsConnector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for HostTlsConnector {
    type Stream = EncryptedStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<EncryptedStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let stream = TlsConnector::from(self.config).connect(self.name, stream);
        Box::pin(async move { Ok(EncryptedStream(stream.await?)) })
    }
}

/// An encrypted stream for the driver.
pub struct EncryptedStream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for EncryptedStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for EncryptedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EncryptedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
