//! Listeners of a server.

use std::io;
use std::net::SocketAddr;

use noetl_server::http::{
    CertificateIdentities, HttpListeners, HttpSettings, InternalToken, ListenerTls,
};
use noetl_types::Millis;
use tokio::net::TcpListener;

use super::store::StoreLocation;
use crate::config::table::{
    AUTH_FAILURES, BODY_MAX, BODY_TIMEOUT_SECS, CORS_ORIGINS, DEV, DISABLE_METRICS,
    HEAD_TIMEOUT_SECS, HOST, INTERNAL_BIND, INTERNAL_TOKEN, MAX_CONNECTIONS, METRICS_BIND,
    MTLS_IDENTITIES, PORT, RATE_PER_TENANT, RATE_PER_TOKEN, REQUESTS_PER_TENANT,
    REQUESTS_PER_TOKEN, SQL_CONSOLE, TLS_CERT, TLS_CLIENT_CA, TLS_KEY, UNSAFE_DURABILITY,
    UNSAFE_NATS, UNSAFE_PLAINTEXT, WORKER_METRICS_BIND,
};
use crate::config::{Config, Setting, config_schema, missing_setting_error, unsafe_settings_error};
use crate::error::{Error, Result};

/// Default requests per second per token and tenant on a shared database.
const DEFAULT_REQUESTS_PER_SEC: u32 = 5_000;

/// HTTP settings of a server. `is_dev` is the default for accepting local clients without a token.
pub(crate) fn http_settings(
    config: &Config,
    location: &StoreLocation,
    is_dev: bool,
) -> Result<HttpSettings> {
    let tls = match (config.get(&TLS_CERT)?, config.get(&TLS_KEY)?) {
        (Some(certificate), Some(key)) => {
            let authority = config.get(&TLS_CLIENT_CA)?;
            let tls = ListenerTls::from_pem_files(&certificate, &key, authority.as_deref());
            Some(tls.map_err(|error| unsafe_settings_error(error.to_string()))?)
        }
        (None, None) if config.is_given(&TLS_CLIENT_CA) => {
            let text = "NOETL_TLS_CLIENT_CA requires client certificates, which need encrypted \
                connections; set NOETL_TLS_CERT and NOETL_TLS_KEY too, or unset all";
            return Err(Error::usage(text));
        }
        (None, None) => None,
        (Some(_), None) => return Err(missing_setting_error("NOETL_TLS_KEY")),
        (None, Some(_)) => return Err(missing_setting_error("NOETL_TLS_CERT")),
    };
    let identities = config.get(&MTLS_IDENTITIES)?.unwrap_or_default();
    if identities != CertificateIdentities::default() && !config.is_given(&TLS_CLIENT_CA) {
        let text = "NOETL_MTLS_IDENTITIES needs client certificates, which are requested only if \
            NOETL_TLS_CLIENT_CA names their authority; set both or neither";
        return Err(Error::usage(text));
    }
    let rate = match location {
        StoreLocation::Database(_) => DEFAULT_REQUESTS_PER_SEC,
        StoreLocation::File { .. } | StoreLocation::Memory => 0,
    };
    let max_connections = config.value(&MAX_CONNECTIONS)?;
    let to_count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let per_token = config.get(&REQUESTS_PER_TOKEN)?.unwrap_or(max_connections.div_ceil(4));
    let per_tenant = config.get(&REQUESTS_PER_TENANT)?.unwrap_or(max_connections.div_ceil(2));
    Ok(HttpSettings {
        is_dev: config.get(&DEV)?.unwrap_or(is_dev),
        tls,
        certificate_identities: identities,
        head_timeout: millis_from_secs(config.value(&HEAD_TIMEOUT_SECS)?),
        body_timeout: millis_from_secs(config.value(&BODY_TIMEOUT_SECS)?),
        max_body: config.value(&BODY_MAX)?,
        max_connections: to_count(max_connections),
        max_requests_per_token: to_count(per_token),
        max_requests_per_tenant: to_count(per_tenant),
        auth_failures_per_minute: config.value(&AUTH_FAILURES)?,
        unsafe_plaintext: config.value(&UNSAFE_PLAINTEXT)?,
        unsafe_durability: config.value(&UNSAFE_DURABILITY)?,
        unsafe_nats: config.value(&UNSAFE_NATS)?,
        rate_per_token: config.get(&RATE_PER_TOKEN)?.unwrap_or(rate),
        rate_per_tenant: config.get(&RATE_PER_TENANT)?.unwrap_or(rate),
        sql_console: config.value(&SQL_CONSOLE)?,
        config_schema: Some(config_schema().to_string().into()),
        internal_token: config.get(&INTERNAL_TOKEN)?.map(|token| InternalToken::new(&token)),
        allowed_origins: config.get(&CORS_ORIGINS)?.unwrap_or_default(),
        ..HttpSettings::default()
    })
}

fn millis_from_secs(seconds: u32) -> Millis {
    Millis::from_secs(seconds.into())
}

/// Bound listeners of a server and their addresses.
pub(crate) struct BoundListeners {
    pub(crate) listeners: HttpListeners,
    pub(crate) public: SocketAddr,
    pub(crate) internal: Option<SocketAddr>,
    pub(crate) metrics: Option<SocketAddr>,
}

/// Binds the configured addresses if they are safe.
pub(crate) async fn bind_listeners(
    config: &Config,
    settings: &HttpSettings,
) -> Result<BoundListeners> {
    let public = SocketAddr::new(config.value(&HOST)?, config.value(&PORT)?);
    let bind_extra = async |setting: &'static Setting<SocketAddr>| match config.get(setting)? {
        Some(address) => {
            check_address(address, settings)?;
            bind_address(address, setting.info.name).await.map(Some)
        }
        None => Ok::<_, Error>(None),
    };
    check_address(public, settings)?;
    let (public, address) = bind_address(public, PORT.info.name).await?;
    let (internal, internal_address) = bind_extra(&INTERNAL_BIND).await?.unzip();
    let (metrics, metrics_address) = bind_extra(&METRICS_BIND).await?.unzip();
    Ok(BoundListeners {
        listeners: HttpListeners { public, internal, metrics },
        public: address,
        internal: internal_address,
        metrics: metrics_address,
    })
}

/// Binds the metrics listener of a worker, if configured.
pub(crate) async fn bind_worker_metrics(
    config: &Config,
) -> Result<Option<(TcpListener, SocketAddr)>> {
    let Some(address) = config.get(&WORKER_METRICS_BIND)? else {
        return Ok(None);
    };
    if config.value(&DISABLE_METRICS)? {
        return Ok(None);
    }
    let is_loopback = address.ip().to_canonical().is_loopback();
    if !is_loopback && !config.value(&UNSAFE_PLAINTEXT)? {
        let text = "WORKER_METRICS_BIND can be reached from other machines, and metrics would be sent \
            unencrypted; use a loopback address such as 127.0.0.1:9090, or set NOETL_UNSAFE_PLAINTEXT=true";
        return Err(Error::usage(text));
    }
    bind_address(address, WORKER_METRICS_BIND.info.name).await.map(Some)
}

async fn bind_address(
    address: SocketAddr,
    setting: &'static str,
) -> Result<(TcpListener, SocketAddr)> {
    let failed = |error: io::Error| listen_error(address, setting, &error);
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let local_address = listener.local_addr().map_err(failed)?;
    Ok((listener, local_address))
}

fn listen_error(address: SocketAddr, setting: &str, error: &io::Error) -> Error {
    let is_in_use = error.kind() == io::ErrorKind::AddrInUse;
    let (port, ip) = (address.port(), address.ip());
    let error = if is_in_use {
        Error::conflict(format!("port {port} of {ip} is already in use"))
    } else {
        Error::failed(format!("cannot listen on {address}: {}", error.kind()))
    };
    error.with_help(match (setting == PORT.info.name, is_in_use) {
        (true, true) => "choose another with --port, or use --port 0 for a free one".to_owned(),
        (true, false) => "choose another address with --host and --port".to_owned(),
        (false, _) => format!("choose another in {setting}; port 0 selects a free one"),
    })
}

/// Checks an address before anything is opened. The server performs the same checks.
fn check_address(address: SocketAddr, settings: &HttpSettings) -> Result<()> {
    if address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    let ip = address.ip();
    if settings.is_dev {
        return Err(unsafe_settings_error(format!(
            "{ip} can be reached from other machines, and NOETL_DEV accepts callers without a token"
        )));
    }
    if settings.tls.is_none() && !settings.unsafe_plaintext {
        return Err(unsafe_settings_error(format!(
            "{ip} can be reached from other machines, and tokens would be sent unencrypted"
        )));
    }
    Ok(())
}
