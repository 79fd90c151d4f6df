//! How commands find the server that they ask, or the file where none runs.
//!
//! A flag goes before a profile of the command line, that before the environment and the file, those
//! before the profile in use. Where nobody names a server, it is the one that has the database of
//! this machine; where none has it, the file itself is read.

use noetl_api::client::BearerToken;
use noetl_api::{ApiError, Client, ClientSettings};
use noetl_types::Millis;
use tokio::runtime::Runtime as Threads;

use crate::config::table::{PROFILE, SERVER_URL, TOKEN};
use crate::config::{Config, Given, Origin};
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
    let (_, profile_from) = config.shown(&PROFILE.facts);
    let is_flag = |origin: &Origin| matches!(origin, Origin::Flag(_));
    let by_url = config.is_given(&SERVER_URL) && (is_flag(&server_from) || !is_flag(&profile_from));
    if by_url {
        return Ok(Meant::Server {
            url: config.value(&SERVER_URL)?,
            token: config.get(&TOKEN)?,
            by: server_from.to_string(),
        });
    }
    of_profile(config.get(&PROFILE)?, config, io)
}

/// The server of a profile; of the one in use, where none is named.
pub(crate) fn of_profile(
    name: Option<String>,
    config: &Config,
    io: &Io<'_>,
) -> Result<Meant, Error> {
    let profiles = Profiles::load(&io.env)?;
    let Some(name) = name.or_else(|| profiles.current.clone()) else {
        return Ok(Meant::Nobody);
    };
    let profile = profiles.get(&name)?;
    let token = match config.get(&TOKEN)? {
        Some(token) => Some(token),
        None => profile.token(&name, &io.env)?,
    };
    Ok(Meant::Server {
        url: profile.server.clone(),
        token,
        by: format!("profile {name}"),
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
