//! Connections of commands: selects the server, or the local database if no server is running.
//!
//! The order is: a server flag, a profile flag, the environment and the configuration file, the
//! selected profile. If none of these names a server, the command uses the server that has the
//! local database open. If no server has it open, a command that only reads uses the database file.
//! Other commands use a server at the default address if one responds. Otherwise they open the
//! database file themselves, or use the 'noetl run' that has it open.
//!
//! A token is sent only to the server it belongs to. The server of a profile receives the token
//! that the profile names, or none. The token from the environment is sent only to servers that are
//! not named by a profile.

use std::sync::Arc;

use clap::Args;
use noetl_api::client::BearerToken;
use noetl_api::{ApiError, Client, ClientSettings};
use noetl_types::{Millis, PoolName};
use tokio::runtime::Runtime;

use crate::config::table::{INTERNAL_TOKEN, INTERNAL_URL, PROFILE, SERVER_URL, TOKEN};
use crate::config::{Config, GivenSettings, SettingFlags, SettingInfo, SettingOrigin};
use crate::error::{Error, Result};
use crate::io::Io;
use crate::output::OutputArgs;
use crate::profile::ProfileFile;
use crate::roles::{self, FileHost, InProcessWorker, KeyFile, OpenResult, StoreLocation, Target};

/// Output options and server of a client command.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) target: SettingFlags<crate::config::Client>,
}

impl ClientArgs {
    /// Connects a command that only reads.
    pub(crate) fn connect_for_reading(&self, io: &mut Io<'_>) -> Result<Connection> {
        Connection::for_reading(&self.target.given, io)
    }

    /// Connects a command that requires a server.
    pub(crate) fn connect_to_server(&self, io: &mut Io<'_>) -> Result<Connection> {
        Connection::to_server(&self.target.given, io)
    }
}

/// Runtime threads of a client command. More would be idle.
const CLIENT_THREADS: usize = 2;

/// Connection of a command to its target, with the tokio runtime for its requests.
pub(crate) struct Connection {
    pub(crate) target: Target,
    runtime: Runtime,
    config: Config,
    /// Access to the database file if there is no server.
    file_host: Option<FileHost>,
    /// Worker of the runs that this command started in the database file.
    worker: Option<InProcessWorker>,
    /// True if requests are those of an operator.
    is_operator: bool,
}

/// Server selected by flags, environment and profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerSelection {
    Server {
        url: String,
        token: Option<String>,
        /// Description of the flag, variable, file or profile that named the server.
        selected_by: String,
        /// True if a profile named the server.
        is_profile: bool,
    },
    /// No server is named.
    Unspecified,
}

impl Connection {
    /// Connects a command that only reads to a server, or to the local database.
    pub(crate) fn for_reading(given: &GivenSettings, io: &mut Io<'_>) -> Result<Self> {
        let config = load_config(given, io)?;
        let (url, token) = match select_server(&config, io)? {
            ServerSelection::Server { url, token, .. } => (url, token),
            ServerSelection::Unspecified => {
                let location = StoreLocation::from_config(&config)?;
                let url = match location.find_server_or_open()? {
                    Some(OpenResult::Store(store)) => {
                        let name = location.display_name();
                        io.print_tip(format_args!("no server is running; reading {name}"))?;
                        let reader = roles::open_read_only_runtime(store, &config)?;
                        return Self::new(Target::Local(reader), &config);
                    }
                    Some(OpenResult::InUse(Some(lock_file))) => lock_file.url,
                    Some(OpenResult::InUse(None)) | None => config.value(&SERVER_URL)?,
                };
                (url, config.get(&TOKEN)?)
            }
        };
        Self::new(Target::Remote(build_client(&url, token, &config)?), &config)
    }

    /// Connects a command that changes something to a server, or to the local database.
    pub(crate) fn to_server(given: &GivenSettings, io: &mut Io<'_>) -> Result<Self> {
        let config = load_config(given, io)?;
        match select_server(&config, io)? {
            ServerSelection::Unspecified => Self::to_local(&config, config.get(&TOKEN)?, io),
            ServerSelection::Server { .. } => Self::from_config(&config, io),
        }
    }

    /// Connects to the server on this machine. If there is none, uses the local database.
    fn to_local(config: &Config, token: Option<String>, io: &mut Io<'_>) -> Result<Self> {
        let location = StoreLocation::from_config(config)?;
        if let Some(OpenResult::InUse(Some(lock_file))) = location.find_server_or_open()? {
            return Self::new(Target::Remote(build_client(&lock_file.url, token, config)?), config);
        }
        let url = config.value(&SERVER_URL)?;
        let runtime = roles::build_tokio_runtime(config, CLIENT_THREADS)?;
        let probe = build_probe_client(&url, token.clone(), config)?;
        let is_running =
            !matches!(runtime.block_on(probe.check_readiness()), Err(ApiError::Unreachable(_)));
        // Tasks of the host run in this runtime.
        let guard = runtime.enter();
        let host = if is_running {
            None
        } else {
            FileHost::start(&location, config, KeyFile::CreateIfMissing)?
        };
        drop(guard);
        let Some(mut host) = host else {
            return Self::new(Target::Remote(build_client(&url, token, config)?), config);
        };
        if !runtime.block_on(host.is_reachable())? {
            return Err(location.in_use_error("wait until it ends, or stop it"));
        }
        let name = location.display_name();
        io.print_tip(format_args!("no server is running; using {name}"))?;
        let (target, config) = (Target::File(host.client().clone()), config.clone());
        Ok(Self {
            target,
            runtime,
            config,
            file_host: Some(host),
            worker: None,
            is_operator: false,
        })
    }

    /// Starts a worker for runs in the database file, and returns its pool. Returns `None` if there
    /// is a server, whose workers run them.
    pub(crate) fn start_local_worker(&mut self, io: &Io<'_>) -> Result<Option<PoolName>> {
        let Some(host) = &self.file_host else { return Ok(None) };
        let (api, pool) = (Arc::new(host.client().clone()), roles::local_pool_name());
        let _guard = self.runtime.enter();
        let worker =
            InProcessWorker::start(api, pool.clone(), Millis::ZERO, &self.config, &io.env)?;
        self.worker = Some(worker);
        Ok(Some(pool))
    }

    /// Connects to the configured server.
    pub(crate) fn from_config(config: &Config, io: &Io<'_>) -> Result<Self> {
        let (url, token) = match select_server(config, io)? {
            ServerSelection::Server { url, token, .. } => (url, token),
            ServerSelection::Unspecified => (local_server_url(config)?, config.get(&TOKEN)?),
        };
        Self::new(Target::Remote(build_client(&url, token, config)?), config)
    }

    /// Connects an operator command to the internal API of a server: the one named on the command
    /// line, else the internal API if it has its own address, else the server of all other commands.
    pub(crate) fn for_operator(given: &GivenSettings, io: &mut Io<'_>) -> Result<Self> {
        let config = Config::load(given, &io.env)?;
        io.print_warnings(&config.warnings)?;
        let (url, token) = select_operator_endpoint(&config, io)?;
        let Some(url) = url else {
            let mut connection = Self::to_local(&config, token, io)?;
            connection.is_operator = true;
            return Ok(connection);
        };
        let target = Target::Remote(build_client(&url, token, &config)?);
        let mut connection = Self::new(target, &config)?;
        connection.is_operator = true;
        Ok(connection)
    }

    fn new(target: Target, config: &Config) -> Result<Self> {
        let runtime = roles::build_tokio_runtime(config, CLIENT_THREADS)?;
        let config = config.clone();
        Ok(Self { target, runtime, config, file_host: None, worker: None, is_operator: false })
    }

    /// Name of the target in questions: the address of the server.
    pub(crate) fn display_name(&self) -> &str {
        match &self.target {
            Target::Remote(client) => client.base_url(),
            Target::Local(_) | Target::File(_) => "the local database",
        }
    }

    /// Performs requests. Errors of an unreachable server contain its address.
    pub(crate) fn block_on<T>(&self, requests: impl Future<Output = Result<T>>) -> Result<T> {
        self.runtime.block_on(requests).map_err(|error| match error {
            Error::Api(ApiError::Unreachable(reason)) => {
                Error::unreachable(self.display_name(), &reason)
            }
            Error::Api(error) if self.is_operator => Error::Operator(error),
            error => error,
        })
    }

    /// Performs requests that only a server supports.
    pub(crate) fn send<T, E: Into<Error>>(
        &self,
        requests: impl AsyncFnOnce(&Client) -> Result<T, E>,
    ) -> Result<T> {
        let client = self.target.require_server()?;
        self.block_on(async { requests(client).await.map_err(Into::into) })
    }
}

/// Ends the tasks of this process, and closes the database.
impl Drop for Connection {
    fn drop(&mut self) {
        let (worker, host) = (self.worker.take(), self.file_host.take());
        self.runtime.block_on(async {
            if let Some(worker) = worker {
                worker.stop.cancel();
                drop(worker.task.await);
            }
            if let Some(host) = host
                && let Err(error) = host.stop().await
            {
                tracing::warn!(%error, "cannot close the database");
            }
        });
    }
}

/// Loads the settings of a client command and prints their warnings.
fn load_config(given: &GivenSettings, io: &mut Io<'_>) -> Result<Config> {
    let config = Config::load(given, &io.env)?;
    if !io.quiet {
        io.print_warnings(&config.warnings)?;
    }
    Ok(config)
}

/// Selects the server from the configuration.
pub(crate) fn select_server(config: &Config, io: &Io<'_>) -> Result<ServerSelection> {
    let (_, origin) = config.text_and_origin(&SERVER_URL.info);
    let url_has_priority =
        is_given_as_flag(&SERVER_URL.info, config) || !is_given_as_flag(&PROFILE.info, config);
    if config.is_given(&SERVER_URL) && url_has_priority {
        return Ok(ServerSelection::Server {
            url: config.value(&SERVER_URL)?,
            token: config.get(&TOKEN)?,
            selected_by: origin.to_string(),
            is_profile: false,
        });
    }
    select_profile_server(config.get(&PROFILE)?, io)
}

/// Selects the server of a profile, or of the selected profile if `name` is `None`. The server
/// receives the token named by the profile, never the one from the environment, which may belong to
/// another server.
pub(crate) fn select_profile_server(name: Option<String>, io: &Io<'_>) -> Result<ServerSelection> {
    let profiles = ProfileFile::load_file(&io.env)?;
    let Some(name) = name.or_else(|| profiles.current.clone()) else {
        return Ok(ServerSelection::Unspecified);
    };
    let profile = profiles.find_profile(&name)?;
    Ok(ServerSelection::Server {
        url: profile.server.clone(),
        token: profile.read_token(&name, &io.env)?,
        selected_by: format!("profile {name}"),
        is_profile: true,
    })
}

/// Selects the address and token of an operator command. The address from the environment applies
/// only if the command line does not name a server. Otherwise an operation meant for one server
/// would run on another.
/// Returns no address for the server or the database on this machine.
fn select_operator_endpoint(
    config: &Config,
    io: &Io<'_>,
) -> Result<(Option<String>, Option<String>)> {
    let internal_url = config.get(&INTERNAL_URL)?;
    let own_token = config.get(&INTERNAL_TOKEN)?;
    let is_server_named =
        is_given_as_flag(&SERVER_URL.info, config) || is_given_as_flag(&PROFILE.info, config);
    if let Some(url) = internal_url.clone().filter(|_| !is_server_named) {
        return Ok((Some(url), own_token.or(config.get(&TOKEN)?)));
    }
    Ok(match select_server(config, io)? {
        ServerSelection::Unspecified => (None, own_token.or(config.get(&TOKEN)?)),
        ServerSelection::Server { url, token, is_profile, .. } => {
            // The platform token grants full access, so it is sent only to the server it belongs
            // to.
            let explicit_url = config.is_given(&SERVER_URL).then(|| config.value(&SERVER_URL));
            let is_own_server = [internal_url, explicit_url.transpose()?]
                .iter()
                .flatten()
                .any(|own_url| url_origin(own_url) == url_origin(&url));
            let own_token = own_token.filter(|_| !is_profile || is_own_server);
            (Some(url), own_token.or(token))
        }
    })
}

fn is_given_as_flag(info: &SettingInfo, config: &Config) -> bool {
    matches!(config.text_and_origin(info).1, SettingOrigin::Flag(_))
}

/// Scheme, host and port of a URL.
fn url_origin(url: &str) -> (String, String) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let scheme = scheme.to_ascii_lowercase();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.to_ascii_lowercase();
    let default_port = if scheme == "https" { ":443" } else { ":80" };
    let host = authority.strip_suffix(default_port).unwrap_or(&authority);
    (scheme, host.to_owned())
}

/// Address of the server that has the local database open, or the default address.
pub(crate) fn local_server_url(config: &Config) -> Result<String> {
    match StoreLocation::from_config(config)?.find_server_or_open()? {
        Some(OpenResult::InUse(Some(lock_file))) => Ok(lock_file.url),
        Some(OpenResult::Store(_) | OpenResult::InUse(None)) | None => config.value(&SERVER_URL),
    }
}

/// Builds a client for a server with the TLS settings of the configuration.
pub(crate) fn build_client(url: &str, token: Option<String>, config: &Config) -> Result<Client> {
    let token = token.map(BearerToken::new);
    Ok(Client::new(url, ClientSettings { token, ..roles::client_settings(config)? })?)
}

/// Builds a client with short timeouts, for health checks.
pub(crate) fn build_probe_client(
    url: &str,
    token: Option<String>,
    config: &Config,
) -> Result<Client> {
    let settings = ClientSettings {
        token: token.map(BearerToken::new),
        connect_timeout: Millis::from_secs(2),
        timeout: Millis::from_secs(5),
        ..roles::client_settings(config)?
    };
    Ok(Client::new(url, settings)?)
}

#[cfg(test)]
mod tests;
