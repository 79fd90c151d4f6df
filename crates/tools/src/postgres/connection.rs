//! One connection to a server: opened to a checked address, and ended with a cancel request if its
//! statement is abandoned.

use std::path::Path;
use std::time::Duration;

use noetl_tls::{MakeTlsConnector, TlsVerification};
use noetl_types::{ByteSize, TaskError, TaskErrorKind};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config as PostgresConfig};

use super::error::{is_unreachable, login_error};
use super::target::{PostgresTarget, ServerEndpoint};
use crate::egress::EgressPolicy;
use crate::file_access;
use crate::settings::Settings;
use crate::tls::tls_error;

/// Timeout of a cancel request.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a certificate file.
const MAX_CERTIFICATE_FILE_SIZE: ByteSize = ByteSize::from_mib(1);

/// A connection to a server.
pub(super) struct ServerConnection {
    pub(super) client: Client,
    /// Task that moves bytes between the client and the socket.
    driver: JoinHandle<()>,
    /// Encrypts the connection, and a cancel request to the same address.
    tls: MakeTlsConnector,
    /// True if a statement may be running.
    pub(super) busy: bool,
}

impl ServerConnection {
    /// Connects to the first endpoint of a target that responds.
    pub(super) async fn open(
        target: &PostgresTarget,
        settings: &Settings,
    ) -> Result<Self, TaskError> {
        let connect_timeout = target.connect_timeout.unwrap_or(settings.postgres.connect_timeout);
        let roots = match &target.root_certificates {
            Some(root) => Some(read_certificates(root, settings).await?),
            None => None,
        };
        let mut failure = None;
        for endpoint in &target.endpoints {
            let attempt = connect_to(endpoint, target, roots.as_deref(), &settings.egress);
            match timeout(connect_timeout, attempt).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => failure = Some(error),
                Err(_) => {
                    let message = format!("the server at {endpoint} does not respond");
                    failure = Some(TaskError::new(TaskErrorKind::DbConnection, message));
                }
            }
        }
        Err(failure.unwrap_or_else(|| {
            TaskError::new(TaskErrorKind::DbConnection, "the task names no server to connect to")
        }))
    }
}

/// A connection that is dropped during a statement cancels that statement: closing the socket alone
/// would leave the server working on it.
impl Drop for ServerConnection {
    fn drop(&mut self) {
        if !self.busy {
            return;
        }
        // Without a runtime the process is about to end, which closes the socket.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let cancel = self.client.cancel_token();
        let tls = self.tls.clone();
        let driver = self.driver.abort_handle();
        runtime.spawn(async move {
            match timeout(CANCEL_TIMEOUT, cancel.cancel_query(tls)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a cancel request failed"),
                Err(_) => tracing::debug!("a cancel request timed out"),
            }
            driver.abort();
        });
    }
}

/// Connects to an endpoint at an address that was checked.
async fn connect_to(
    endpoint: &ServerEndpoint,
    target: &PostgresTarget,
    roots: Option<&[u8]>,
    egress: &EgressPolicy,
) -> Result<ServerConnection, TaskError> {
    let connector = |verification| {
        MakeTlsConnector::new(verification, roots).map_err(|error| tls_error(&error))
    };
    let mut config = target.login.clone();
    match endpoint {
        ServerEndpoint::Tcp { name, address, port } => {
            let tls = connector(target.verification)?;
            let addresses = egress.resolve_host(address, *port).await;
            let addresses =
                addresses.map_err(|error| error.to_task_error(TaskErrorKind::DbConnection))?;
            let mut result = Err(no_address(endpoint));
            for address in addresses {
                let mut config = config.clone();
                config.host(name).hostaddr(address.ip()).port(*port);
                result = match log_in(&config, &tls).await {
                    Err(error) if is_unreachable(&error) => Err(login_error(endpoint, &error)),
                    result => return result.map_err(|error| login_error(endpoint, &error)),
                };
            }
            result
        }
        ServerEndpoint::Unix { folder, port } => {
            // A socket of this machine is not a public address.
            if !egress.names_host(folder, *port) {
                let message = format!(
                    "'{folder}' is a local socket of the worker; the operator can allow it with \
                     NOETL_EGRESS_ALLOW"
                );
                return Err(TaskError::new(TaskErrorKind::Auth, message));
            }
            // It needs no encryption, regardless of the task's settings.
            let tls = connector(TlsVerification::Disable)?;
            config.host_path(folder).port(*port).ssl_mode(SslMode::Disable);
            log_in(&config, &tls).await.map_err(|error| login_error(endpoint, &error))
        }
    }
}

fn no_address(endpoint: &ServerEndpoint) -> TaskError {
    let message = format!("the server at {endpoint} cannot be reached: it has no address");
    TaskError::new(TaskErrorKind::DbConnection, message)
}

async fn log_in(
    config: &PostgresConfig,
    tls: &MakeTlsConnector,
) -> Result<ServerConnection, tokio_postgres::Error> {
    let (client, connection) = config.connect(tls.clone()).await?;
    let driver = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to PostgreSQL ended");
        }
    });
    Ok(ServerConnection { client, driver, tls: tls.clone(), busy: true })
}

/// Reads PEM certificates, given as text or as a file.
async fn read_certificates(root: &str, settings: &Settings) -> Result<Vec<u8>, TaskError> {
    if root.trim_start().starts_with("-----BEGIN") {
        return Ok(root.as_bytes().to_vec());
    }
    let path = Path::new(root);
    let max_size = MAX_CERTIFICATE_FILE_SIZE;
    file_access::read_allowed_file("certificate file", path, max_size, settings).await
}
