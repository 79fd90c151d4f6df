//! TLS connectors for the PostgreSQL driver.

use std::fmt;
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
#[derive(Clone)]
pub struct MakeTlsConnector {
    config: Arc<ClientConfig>,
}

impl MakeTlsConnector {
    /// Creates a connector with this level of verification, and CA certificates in PEM or those of
    /// the system. Returns `None` if TLS is disabled.
    pub fn new(
        verification: TlsVerification,
        roots: Option<&[u8]>,
    ) -> Result<Option<Self>, TlsError> {
        let config = client_config(verification, roots)?;
        Ok(config.map(|config| Self { config: Arc::new(config) }))
    }

    /// Creates the connector for one host.
    pub fn for_host(&self, host: &str) -> Result<HostTlsConnector, TlsError> {
        Ok(HostTlsConnector { config: Arc::clone(&self.config), name: parse_server_name(host)? })
    }
}

impl fmt::Debug for MakeTlsConnector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MakeTlsConnector").finish_non_exhaustive()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for MakeTlsConnector {
    type Stream = EncryptedStream<S>;
    type TlsConnect = HostTlsConnector;
    type Error = TlsError;

    fn make_tls_connect(&mut self, host: &str) -> Result<HostTlsConnector, TlsError> {
        // A Unix socket has no host name, and the driver does not encrypt it.
        self.for_host(if host.is_empty() { "localhost" } else { host })
    }
}

/// A connector for one host.
#[derive(Clone)]
pub struct HostTlsConnector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for HostTlsConnector {
    type Stream = EncryptedStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<EncryptedStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let connector = TlsConnector::from(self.config);
            connector.connect(self.name, stream).await.map(EncryptedStream)
        })
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
