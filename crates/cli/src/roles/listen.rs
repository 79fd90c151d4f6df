//! The listeners of a server.

use std::io;
use std::net::SocketAddr;

use noetl_server::http::{CertifiedNames, HttpSettings, InternalToken, Listeners, Tls};
use noetl_types::Millis;
use tokio::net::TcpListener;

use super::error::StartError;
use super::store::Place;
use crate::config::table::{
    BODY_MAX, BODY_TIMEOUT, CORS_ORIGINS, DEV, DISABLE_METRICS, HEAD_TIMEOUT, HOST, INTERNAL_BIND,
    INTERNAL_TOKEN, MAX_CONNECTIONS, METRICS_BIND, MTLS_IDENTITIES, PORT, RATE_PER_TENANT,
    RATE_PER_TOKEN, SQL_CONSOLE, TLS_CERT, TLS_CLIENT_CA, TLS_KEY, UNSAFE_DURABILITY,
    UNSAFE_PLAINTEXT, WORKER_METRICS_BIND,
};
use crate::config::{Config, ConfigError, Setting, schema};
use crate::error::Error;

/// Requests in a second for each token and tenant, where many may share a database.
const RATE: u32 = 5_000;

/// How requests are taken. `is_dev` says whether callers of this machine need no token, unless the
/// user does.
pub(crate) fn http_settings(
    config: &Config,
    place: &Place,
    is_dev: bool,
) -> Result<HttpSettings, Error> {
    let tls = match (config.get(&TLS_CERT)?, config.get(&TLS_KEY)?) {
        (Some(certificate), Some(key)) => {
            let authority = config.get(&TLS_CLIENT_CA)?;
            let tls = Tls::read(&certificate, &key, authority.as_deref());
            Some(tls.map_err(|refused| ConfigError::Unsafe(refused.to_string()))?)
        }
        (None, None) if config.is_given(&TLS_CLIENT_CA) => {
            let text = "NOETL_TLS_CLIENT_CA asks clients for certificates, which only encrypted \
                connections carry: set NOETL_TLS_CERT and NOETL_TLS_KEY too, or none of them";
            return Err(ConfigError::Refused(text).into());
        }
        (None, None) => None,
        (Some(_), None) => {
            return Err(ConfigError::Missing {
                name: "NOETL_TLS_KEY",
            }
            .into());
        }
        (None, Some(_)) => {
            return Err(ConfigError::Missing {
                name: "NOETL_TLS_CERT",
            }
            .into());
        }
    };
    let certified = config.get(&MTLS_IDENTITIES)?.unwrap_or_default();
    if certified != CertifiedNames::default() && !config.is_given(&TLS_CLIENT_CA) {
        let text = "NOETL_MTLS_IDENTITIES is about certificates of clients, which are asked for where \
            NOETL_TLS_CLIENT_CA names their authority: set both, or none of them";
        return Err(ConfigError::Refused(text).into());
    }
    let rate = match place {
        Place::Database(_) => RATE,
        Place::File { .. } | Place::Memory => 0,
    };
    Ok(HttpSettings {
        is_dev: config.get(&DEV)?.unwrap_or(is_dev),
        tls,
        certified,
        head_timeout: secs(config.value(&HEAD_TIMEOUT)?),
        body_timeout: secs(config.value(&BODY_TIMEOUT)?),
        max_body: config.value(&BODY_MAX)?,
        max_connections: usize::try_from(config.value(&MAX_CONNECTIONS)?).unwrap_or(usize::MAX),
        unsafe_plaintext: config.value(&UNSAFE_PLAINTEXT)?,
        unsafe_durability: config.value(&UNSAFE_DURABILITY)?,
        rate_per_token: config.get(&RATE_PER_TOKEN)?.unwrap_or(rate),
        rate_per_tenant: config.get(&RATE_PER_TENANT)?.unwrap_or(rate),
        sql_console: config.value(&SQL_CONSOLE)?,
        config_schema: Some(schema().to_string().into()),
        internal_token: config
            .get(&INTERNAL_TOKEN)?
            .map(|token| InternalToken::new(&token)),
        origins: config.get(&CORS_ORIGINS)?.unwrap_or_default(),
        ..HttpSettings::default()
    })
}

fn secs(number: u32) -> Millis {
    Millis::from_secs(number.into())
}

/// The listeners of a server, and where each of them is.
pub(crate) struct Listening {
    pub(crate) listeners: Listeners,
    pub(crate) public: SocketAddr,
    pub(crate) internal: Option<SocketAddr>,
    pub(crate) metrics: Option<SocketAddr>,
}

/// Listens where the configuration says, if that is safe.
pub(crate) async fn listen(config: &Config, settings: &HttpSettings) -> Result<Listening, Error> {
    let public = SocketAddr::new(config.value(&HOST)?, config.value(&PORT)?);
    let beside = async |setting: &'static Setting<SocketAddr>| match config.get(setting)? {
        Some(wanted) => {
            check(wanted, settings)?;
            bind(wanted, setting.facts.name).await.map(Some)
        }
        None => Ok::<_, Error>(None),
    };
    check(public, settings)?;
    let (public, address) = bind(public, PORT.facts.name).await?;
    let (internal, internal_address) = beside(&INTERNAL_BIND).await?.unzip();
    let (metrics, metrics_address) = beside(&METRICS_BIND).await?.unzip();
    Ok(Listening {
        listeners: Listeners {
            public,
            internal,
            metrics,
        },
        public: address,
        internal: internal_address,
        metrics: metrics_address,
    })
}

/// Where a worker tells its metrics, if it does.
pub(crate) async fn listen_for_scrapes(
    config: &Config,
) -> Result<Option<(TcpListener, SocketAddr)>, Error> {
    let Some(wanted) = config.get(&WORKER_METRICS_BIND)? else {
        return Ok(None);
    };
    if config.value(&DISABLE_METRICS)? {
        return Ok(None);
    }
    let is_near = wanted.ip().to_canonical().is_loopback();
    if !is_near && !config.value(&UNSAFE_PLAINTEXT)? {
        let text = "WORKER_METRICS_BIND can be reached from other machines, and metrics would travel \
            unencrypted: name a loopback address such as 127.0.0.1:9090, or set NOETL_UNSAFE_PLAINTEXT=true";
        return Err(ConfigError::Refused(text).into());
    }
    bind(wanted, WORKER_METRICS_BIND.facts.name).await.map(Some)
}

async fn bind(
    wanted: SocketAddr,
    setting: &'static str,
) -> Result<(TcpListener, SocketAddr), Error> {
    let refused = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => StartError::PortTaken {
            address: wanted,
            setting,
        },
        _ => StartError::Listen {
            address: wanted,
            setting,
            source,
        },
    };
    let listener = TcpListener::bind(wanted).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// The server refuses the same; here it is told before anything is opened.
fn check(address: SocketAddr, settings: &HttpSettings) -> Result<(), ConfigError> {
    if address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    let ip = address.ip();
    if settings.is_dev {
        return Err(ConfigError::Unsafe(format!(
            "{ip} can be reached from other machines, and NOETL_DEV lets callers in without a token"
        )));
    }
    if settings.tls.is_none() && !settings.unsafe_plaintext {
        return Err(ConfigError::Unsafe(format!(
            "{ip} can be reached from other machines, and tokens would travel unencrypted"
        )));
    }
    Ok(())
}
