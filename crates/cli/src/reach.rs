//! How commands find the server that they ask, or the file where none runs.
//!
//! A flag goes before a profile of the command line, that before the environment and the file, those
//! before the profile in use. Where nobody names a server, it is the one that has the database of
//! this machine; where none has it, the file itself is read.
//!
//! A token goes only where it belongs: the server of a profile is shown the token that the profile
//! names, or none; the token of the environment is for servers that no profile names.

use noetl_api::client::BearerToken;
use noetl_api::{ApiError, Client, ClientSettings};
use noetl_types::Millis;
use tokio::runtime::Runtime as Threads;

use crate::config::table::{PROFILE, SERVER_URL, TOKEN};
use crate::config::{Config, Facts, Given, Origin};
use crate::error::Error;
use crate::io::Io;
use crate::profile::Profiles;
use crate::render::palette;
use crate::roles::{self, Host, HostError, Opened, Place, StartError};

/// Threads of a command that asks: more have nothing to do.
const THREADS: usize = 2;

/// What a command wants of whom it asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    /// To look: the file of a database does.
    Look,
    /// To change something: only a server can.
    Act,
}

/// Whom a command asks, and the threads to do so.
pub(crate) struct Reached {
    pub(crate) host: Host,
    threads: Threads,
}

/// The server that the user means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meant {
    /// The one at an address, with a token.
    Server {
        url: String,
        token: Option<String>,
        /// Who named it.
        by: String,
        /// Whether that is a profile.
        is_profile: bool,
    },
    /// Nobody named one.
    Nobody,
}

impl Reached {
    /// Finds whom to ask.
    pub(crate) fn find(
        given: &Given,
        wants: Wants,
        quiet: bool,
        io: &mut Io<'_>,
    ) -> Result<Self, Error> {
        let config = Config::load(given, &io.env)?;
        if !quiet {
            io.warn(&config.warnings)?;
        }
        let threads = roles::threads(&config, THREADS)?;
        let host = match meant(&config, io)? {
            Meant::Server { url, token, .. } => client(&url, token, &config)?,
            Meant::Nobody => of_this_machine(&config, wants, quiet, io)?,
        };
        Ok(Self { host, threads })
    }

    /// What to call it in questions: whoever agrees should know where it happens.
    pub(crate) fn name(&self) -> &str {
        match &self.host {
            Host::There(client) => client.base_url(),
            Host::Here(_) => "the database of this machine",
        }
    }

    /// Asks. A server that cannot be reached is told by its address.
    pub(crate) fn ask<T>(
        &self,
        asking: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let asked = self.threads.block_on(asking);
        match (asked, &self.host) {
            (
                Err(Error::Host(HostError::There(ApiError::Unreachable(reason)))),
                Host::There(client),
            ) => Err(unreachable(client.base_url(), &reason)),
            (asked, _) => asked,
        }
    }
}

/// A server that cannot be reached, told by its address.
pub(crate) fn unreachable(url: &str, reason: &str) -> Error {
    Error::Unreachable {
        url: url.to_owned(),
        // The last cause says it; those before it only say who says so.
        reason: reason.rsplit(": ").next().unwrap_or(reason).to_owned(),
    }
}

/// The server that the user means.
pub(crate) fn meant(config: &Config, io: &Io<'_>) -> Result<Meant, Error> {
    let (_, server_from) = config.shown(&SERVER_URL.facts);
    let is_url_first = is_flag(&SERVER_URL.facts, config) || !is_flag(&PROFILE.facts, config);
    if config.is_given(&SERVER_URL) && is_url_first {
        return Ok(Meant::Server {
            url: config.value(&SERVER_URL)?,
            token: config.get(&TOKEN)?,
            by: server_from.to_string(),
            is_profile: false,
        });
    }
    of_profile(config.get(&PROFILE)?, io)
}

/// Whether the command line itself names the server, by its address or by a profile.
pub(crate) fn is_named(config: &Config) -> bool {
    is_flag(&SERVER_URL.facts, config) || is_flag(&PROFILE.facts, config)
}

fn is_flag(facts: &Facts, config: &Config) -> bool {
    matches!(config.shown(facts).1, Origin::Flag(_))
}

/// Whether two addresses are those of the same server: scheme, host and port are what counts.
pub(crate) fn is_same_server(one: &str, other: &str) -> bool {
    origin(one) == origin(other)
}

fn origin(url: &str) -> (String, String) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let scheme = scheme.to_ascii_lowercase();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.to_ascii_lowercase();
    let usual = if scheme == "https" { ":443" } else { ":80" };
    let host = authority.strip_suffix(usual).unwrap_or(&authority);
    (scheme, host.to_owned())
}

/// The server of a profile; of the one in use, where none is named. It is shown the token that the
/// profile names, never the one of the environment: that may be the token of another server.
pub(crate) fn of_profile(name: Option<String>, io: &Io<'_>) -> Result<Meant, Error> {
    let profiles = Profiles::load(&io.env)?;
    let Some(name) = name.or_else(|| profiles.current.clone()) else {
        return Ok(Meant::Nobody);
    };
    let profile = profiles.get(&name)?;
    Ok(Meant::Server {
        url: profile.server.clone(),
        token: profile.token(&name, &io.env)?,
        by: format!("profile {name}"),
        is_profile: true,
    })
}

/// The host at an address.
fn client(url: &str, token: Option<String>, config: &Config) -> Result<Host, Error> {
    Ok(Host::There(client_of(url, token, config)?))
}

/// A client of the server at an address, which trusts whom the configuration says.
pub(crate) fn client_of(
    url: &str,
    token: Option<String>,
    config: &Config,
) -> Result<Client, Error> {
    let settings = ClientSettings {
        token: token.map(BearerToken::new),
        ..roles::client_settings(config)?
    };
    Ok(Client::new(url, settings).map_err(StartError::Client)?)
}

/// Whom to ask where nobody named a server.
fn of_this_machine(
    config: &Config,
    wants: Wants,
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<Host, Error> {
    let place = Place::of(config)?;
    match place.look()? {
        Some(Opened::Held(Some(beacon))) => client(&beacon.url, config.get(&TOKEN)?, config),
        Some(Opened::Store(store)) if wants == Wants::Look => {
            if !quiet {
                let paint = io.err.paint();
                let note = format!("no server runs: reading {}", place.shown());
                io.talk(paint.text(palette::QUIET, note))?;
            }
            Ok(Host::Here(roles::reading_runtime(store, config)?))
        }
        Some(Opened::Store(_) | Opened::Held(None)) | None => {
            client(&config.value(&SERVER_URL)?, config.get(&TOKEN)?, config)
        }
    }
}

/// The address of the server that has the database of this machine, or else where one would listen.
pub(crate) fn beside(config: &Config) -> Result<String, Error> {
    match Place::of(config)?.look()? {
        Some(Opened::Held(Some(beacon))) => Ok(beacon.url),
        Some(Opened::Store(_) | Opened::Held(None)) | None => Ok(config.value(&SERVER_URL)?),
    }
}

/// The client of a server that lives, for who only wants to know whether it does.
pub(crate) fn brisk(url: &str, token: Option<String>, config: &Config) -> Result<Client, Error> {
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
    use crate::io::{Env, Stream};
    use crate::profile::Profile;

    /// What a command line means whose flags are these, with an environment, and two profiles:
    /// `staging`, which names a token, and `bare`, which names none.
    pub(crate) fn resolved<T>(
        flags: &[(&'static str, &'static str, &str)],
        env: &[(&str, &str)],
        in_use: Option<&str>,
        resolve: impl FnOnce(&Config, &Io<'_>) -> Result<T, Error>,
    ) -> T {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().to_string_lossy().into_owned();
        let usual = [
            ("XDG_CONFIG_HOME", place.as_str()),
            ("STAGING_TOKEN", "of-staging"),
        ];
        let env: Env = usual.iter().chain(env).copied().collect();
        let mut profiles = Profiles {
            current: in_use.map(str::to_owned),
            ..Profiles::default()
        };
        for (name, token) in [("staging", Some("STAGING_TOKEN")), ("bare", None)] {
            let profile = Profile {
                server: format!("http://{name}:8082"),
                token_env: token.map(str::to_owned),
                token_file: None,
            };
            profiles.profiles.insert(name.to_owned(), profile);
        }
        profiles.save(&env).unwrap();
        let mut given = Given::default();
        for (name, flag, text) in flags {
            given.flags.insert(name, (flag, (*text).to_owned()));
        }
        let config = Config::load(&given, &env).unwrap();
        let (mut input, mut out, mut err) = (empty(), Vec::new(), Vec::new());
        let io = Io {
            input: &mut input,
            out: Stream::plain(&mut out),
            err: Stream::plain(&mut err),
            env,
        };
        resolve(&config, &io).unwrap()
    }

    const PRODUCTION: (&str, &str) = ("NOETL_TOKEN", "of-production");

    fn shown_to(
        flags: &[(&'static str, &'static str, &str)],
        env: &[(&str, &str)],
        in_use: Option<&str>,
    ) -> (String, Option<String>) {
        match resolved(flags, env, in_use, meant) {
            Meant::Server { url, token, .. } => (url, token),
            Meant::Nobody => panic!("a server is meant"),
        }
    }

    #[test]
    fn a_profile_is_shown_its_own_token_and_never_that_of_the_environment() {
        let staging = ("NOETL_PROFILE", "profile", "staging");
        let bare = ("NOETL_PROFILE", "profile", "bare");
        let of_staging = (
            "http://staging:8082".to_owned(),
            Some("of-staging".to_owned()),
        );
        let of_bare = ("http://bare:8082".to_owned(), None);
        assert_eq!(shown_to(&[staging], &[PRODUCTION], None), of_staging);
        assert_eq!(shown_to(&[], &[PRODUCTION], Some("staging")), of_staging);
        let env = [PRODUCTION, ("NOETL_PROFILE", "staging")];
        assert_eq!(shown_to(&[], &env, None), of_staging);
        assert_eq!(shown_to(&[bare], &[PRODUCTION], None), of_bare);
        assert_eq!(shown_to(&[], &[PRODUCTION], Some("bare")), of_bare);
    }

    #[test]
    fn the_token_of_the_environment_is_for_a_server_that_no_profile_names() {
        let token = Some("of-production".to_owned());
        let server = ("NOETL_SERVER_URL", "server", "http://there:1");
        let of_flag = ("http://there:1".to_owned(), token.clone());
        assert_eq!(shown_to(&[server], &[PRODUCTION], Some("staging")), of_flag);
        let env = [PRODUCTION, ("NOETL_SERVER_URL", "http://env:1")];
        let of_env = ("http://env:1".to_owned(), token);
        assert_eq!(shown_to(&[], &env, Some("staging")), of_env);
    }

    #[test]
    fn a_server_is_known_by_scheme_host_and_port() {
        assert!(is_same_server(
            "https://noetl.example.com",
            "https://NOETL.example.com:443/"
        ));
        assert!(is_same_server("http://h:80/api", "http://h"));
        assert!(!is_same_server("http://h:8082", "http://h:8083"));
        assert!(!is_same_server("http://h:443", "https://h:443"));
        assert!(!is_same_server("http://h", "http://h.example.com"));
    }
}
