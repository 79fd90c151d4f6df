//! Selects the server of a command, or the local database if no server is running.
//!
//! The order is: a server flag, a profile flag, the environment and the configuration file, the
//! selected profile. If none of these names a server, the command uses the server that has the
//! local database open. If no server has it open, the command reads the database file.
//!
//! A token is sent only to the server it belongs to. The server of a profile receives the token
//! that the profile names, or none. The token from the environment is sent only to servers that are
//! not named by a profile.

use noetl_api::client::BearerToken;
use noetl_api::{ApiError, Client, ClientSettings};
use noetl_types::Millis;
use tokio::runtime::Runtime;

use crate::config::table::{PROFILE, SERVER_URL, TOKEN};
use crate::config::{Config, GivenSettings, SettingInfo, SettingOrigin};
use crate::error::Error;
use crate::io::Io;
use crate::profile::ProfileFile;
use crate::render::palette;
use crate::roles::{self, OpenResult, StartError, StoreLocation, Target, TargetError};

/// Runtime threads of a client command. More would be idle.
const CLIENT_THREADS: usize = 2;

/// Access that a command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read-only. A database file is sufficient.
    ReadOnly,
    /// Changes something. Requires a server.
    Write,
}

/// Target of a command, with the tokio runtime for its requests.
pub(crate) struct TargetConnection {
    pub(crate) target: Target,
    runtime: Runtime,
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

impl TargetConnection {
    /// Selects the target and prepares the connection.
    pub(crate) fn connect(
        given: &GivenSettings,
        access: Access,
        quiet: bool,
        io: &mut Io<'_>,
    ) -> Result<Self, Error> {
        let config = Config::load(given, &io.env)?;
        if !quiet {
            io.print_warnings(&config.warnings)?;
        }
        let runtime = roles::build_tokio_runtime(&config, CLIENT_THREADS)?;
        let target = match select_server(&config, io)? {
            ServerSelection::Server { url, token, .. } => remote_target(&url, token, &config)?,
            ServerSelection::Unspecified => local_target(&config, access, quiet, io)?,
        };
        Ok(Self { target, runtime })
    }

    /// Name of the target in confirmation questions.
    pub(crate) fn display_name(&self) -> &str {
        match &self.target {
            Target::Remote(client) => client.base_url(),
            Target::Local(_) => "the local database",
        }
    }

    /// Runs a request. Errors of an unreachable server contain its address.
    pub(crate) fn block_on<T>(
        &self,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let result = self.runtime.block_on(request);
        match (result, &self.target) {
            (
                Err(Error::Target(TargetError::Remote(ApiError::Unreachable(reason)))),
                Target::Remote(client),
            ) => Err(unreachable_error(client.base_url(), &reason)),
            (result, _) => result,
        }
    }
}

/// Error for an unreachable server, with its address.
pub(crate) fn unreachable_error(url: &str, reason: &str) -> Error {
    Error::Unreachable {
        url: url.to_owned(),
        // The last cause is the specific one. The causes before it repeat the context.
        reason: reason.rsplit(": ").next().unwrap_or(reason).to_owned(),
    }
}

/// Selects the server from the configuration.
pub(crate) fn select_server(config: &Config, io: &Io<'_>) -> Result<ServerSelection, Error> {
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

/// True if a flag names the server or the profile.
pub(crate) fn is_server_flag_given(config: &Config) -> bool {
    is_given_as_flag(&SERVER_URL.info, config) || is_given_as_flag(&PROFILE.info, config)
}

fn is_given_as_flag(info: &SettingInfo, config: &Config) -> bool {
    matches!(config.text_and_origin(info).1, SettingOrigin::Flag(_))
}

/// True if two URLs have the same scheme, host and port.
pub(crate) fn is_same_server(left: &str, right: &str) -> bool {
    url_origin(left) == url_origin(right)
}

fn url_origin(url: &str) -> (String, String) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let scheme = scheme.to_ascii_lowercase();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.to_ascii_lowercase();
    let default_port = if scheme == "https" { ":443" } else { ":80" };
    let host = authority.strip_suffix(default_port).unwrap_or(&authority);
    (scheme, host.to_owned())
}

/// Selects the server of a profile, or of the selected profile if `name` is `None`. The server
/// receives the token named by the profile, never the one from the environment, which may belong to
/// another server.
pub(crate) fn select_profile_server(
    name: Option<String>,
    io: &Io<'_>,
) -> Result<ServerSelection, Error> {
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

fn remote_target(url: &str, token: Option<String>, config: &Config) -> Result<Target, Error> {
    Ok(Target::Remote(build_client(url, token, config)?))
}

/// Builds a client for a server with the TLS settings of the configuration.
pub(crate) fn build_client(
    url: &str,
    token: Option<String>,
    config: &Config,
) -> Result<Client, Error> {
    let settings =
        ClientSettings { token: token.map(BearerToken::new), ..roles::client_settings(config)? };
    Ok(Client::new(url, settings).map_err(StartError::Client)?)
}

/// Selects the target if no server is named.
fn local_target(
    config: &Config,
    access: Access,
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<Target, Error> {
    let location = StoreLocation::from_config(config)?;
    match location.find_server_or_open()? {
        Some(OpenResult::InUse(Some(lock_file))) => {
            remote_target(&lock_file.url, config.get(&TOKEN)?, config)
        }
        Some(OpenResult::Store(store)) if access == Access::ReadOnly => {
            if !quiet {
                let paint = io.err.paint();
                let note = format!("no server is running; reading {}", location.display_name());
                io.print_message(paint.text(palette::MUTED, note))?;
            }
            Ok(Target::Local(roles::open_read_only_runtime(store, config)?))
        }
        Some(OpenResult::Store(_) | OpenResult::InUse(None)) | None => {
            remote_target(&config.value(&SERVER_URL)?, config.get(&TOKEN)?, config)
        }
    }
}

/// Address of the server that has the local database open, or the default address.
pub(crate) fn local_server_url(config: &Config) -> Result<String, Error> {
    match StoreLocation::from_config(config)?.find_server_or_open()? {
        Some(OpenResult::InUse(Some(lock_file))) => Ok(lock_file.url),
        Some(OpenResult::Store(_) | OpenResult::InUse(None)) | None => {
            Ok(config.value(&SERVER_URL)?)
        }
    }
}

/// Builds a client with short timeouts, for health checks.
pub(crate) fn build_probe_client(
    url: &str,
    token: Option<String>,
    config: &Config,
) -> Result<Client, Error> {
    let settings = ClientSettings {
        token: token.map(BearerToken::new),
        connect_timeout: Millis::from_secs(2),
        timeout: Millis::from_secs(5),
        ..roles::client_settings(config)?
    };
    Ok(Client::new(url, settings).map_err(StartError::Client)?)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::empty;

    use super::*;
    use crate::io::{Env, OutputStream};
    use crate::profile::Profile;

    /// Resolves flags and an environment, with two profiles: `staging`, which names a token, and
    /// `bare`, which does not.
    pub(crate) fn resolve_with<T>(
        flags: &[(&'static str, &'static str, &str)],
        env: &[(&str, &str)],
        selected_profile: Option<&str>,
        resolve: impl FnOnce(&Config, &Io<'_>) -> Result<T, Error>,
    ) -> T {
        let home = tempfile::tempdir().unwrap();
        let config_home = home.path().to_string_lossy().into_owned();
        let default_env =
            [("XDG_CONFIG_HOME", config_home.as_str()), ("STAGING_TOKEN", "of-staging")];
        let env: Env = default_env.iter().chain(env).copied().collect();
        let mut profiles =
            ProfileFile { current: selected_profile.map(str::to_owned), ..ProfileFile::default() };
        for (name, token) in [("staging", Some("STAGING_TOKEN")), ("bare", None)] {
            let profile = Profile {
                server: format!("http://{name}:8082"),
                token_env: token.map(str::to_owned),
                token_file: None,
            };
            profiles.profiles.insert(name.to_owned(), profile);
        }
        profiles.save_file(&env).unwrap();
        let mut given = GivenSettings::default();
        for (name, flag, text) in flags {
            given.flags.insert(name, (flag, (*text).to_owned()));
        }
        let config = Config::load(&given, &env).unwrap();
        let (mut input, mut out, mut err) = (empty(), Vec::new(), Vec::new());
        let io = Io {
            input: &mut input,
            out: OutputStream::plain(&mut out),
            err: OutputStream::plain(&mut err),
            env,
        };
        resolve(&config, &io).unwrap()
    }

    const PRODUCTION: (&str, &str) = ("NOETL_TOKEN", "of-production");

    fn selected_url_and_token(
        flags: &[(&'static str, &'static str, &str)],
        env: &[(&str, &str)],
        selected_profile: Option<&str>,
    ) -> (String, Option<String>) {
        match resolve_with(flags, env, selected_profile, select_server) {
            ServerSelection::Server { url, token, .. } => (url, token),
            ServerSelection::Unspecified => panic!("a server is selected"),
        }
    }

    #[test]
    fn profile_uses_its_token_not_the_environment() {
        let staging = ("NOETL_PROFILE", "profile", "staging");
        let bare = ("NOETL_PROFILE", "profile", "bare");
        let of_staging = ("http://staging:8082".to_owned(), Some("of-staging".to_owned()));
        let of_bare = ("http://bare:8082".to_owned(), None);
        assert_eq!(selected_url_and_token(&[staging], &[PRODUCTION], None), of_staging);
        assert_eq!(selected_url_and_token(&[], &[PRODUCTION], Some("staging")), of_staging);
        let env = [PRODUCTION, ("NOETL_PROFILE", "staging")];
        assert_eq!(selected_url_and_token(&[], &env, None), of_staging);
        assert_eq!(selected_url_and_token(&[bare], &[PRODUCTION], None), of_bare);
        assert_eq!(selected_url_and_token(&[], &[PRODUCTION], Some("bare")), of_bare);
    }

    #[test]
    fn environment_token_is_for_servers_without_profile() {
        let token = Some("of-production".to_owned());
        let server = ("NOETL_SERVER_URL", "server", "http://there:1");
        let of_flag = ("http://there:1".to_owned(), token.clone());
        assert_eq!(selected_url_and_token(&[server], &[PRODUCTION], Some("staging")), of_flag);
        let env = [PRODUCTION, ("NOETL_SERVER_URL", "http://env:1")];
        let of_env = ("http://env:1".to_owned(), token);
        assert_eq!(selected_url_and_token(&[], &env, Some("staging")), of_env);
    }

    #[test]
    fn servers_are_compared_by_origin() {
        assert!(is_same_server("https://noetl.example.com", "https://NOETL.example.com:443/"));
        assert!(is_same_server("http://h:80/api", "http://h"));
        assert!(!is_same_server("http://h:8082", "http://h:8083"));
        assert!(!is_same_server("http://h:443", "https://h:443"));
        assert!(!is_same_server("http://h", "http://h.example.com"));
    }
}
