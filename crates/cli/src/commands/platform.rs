//! The way of an operator's commands to the internal API of a server.

use noetl_api::{ApiError, Client};
use tokio::runtime::Runtime as Threads;

use crate::config::table::{INTERNAL_TOKEN, INTERNAL_URL, SERVER_URL, TOKEN};
use crate::config::{Config, Given};
use crate::error::Error;
use crate::io::Io;
use crate::reach::{self, Meant};
use crate::roles;

/// Threads of a command that asks a server.
const THREADS: usize = 2;

/// A server, as an operator asks it.
pub(crate) struct Operated {
    client: Client,
    threads: Threads,
}

/// Where an operator's command goes, and what it shows there.
#[derive(Debug, PartialEq, Eq)]
struct Way {
    url: String,
    token: Option<String>,
}

impl Operated {
    /// Finds the server: the one that the command line names; else the internal API where that has an
    /// address of its own; else the one that every command asks.
    pub(crate) fn find(given: &Given, io: &mut Io<'_>) -> Result<Self, Error> {
        let config = Config::load(given, &io.env)?;
        io.warn(&config.warnings)?;
        let Way { url, token } = way(&config, io)?;
        Ok(Self {
            client: reach::client_of(&url, token, &config)?,
            threads: roles::threads(&config, THREADS)?,
        })
    }

    /// Its address, for questions: whoever agrees should know where it happens.
    pub(crate) fn url(&self) -> &str {
        self.client.base_url()
    }

    /// Asks it.
    pub(crate) fn ask<T>(
        &self,
        question: impl AsyncFnOnce(&Client) -> Result<T, ApiError>,
    ) -> Result<T, Error> {
        self.threads
            .block_on(question(&self.client))
            .map_err(|error| match error {
                ApiError::Unreachable(reason) => reach::unreachable(self.url(), &reason),
                refused => Error::Platform(refused),
            })
    }
}

/// Asks a server as an operator does.
pub(crate) fn ask<T>(
    given: &Given,
    io: &mut Io<'_>,
    question: impl AsyncFnOnce(&Client) -> Result<T, ApiError>,
) -> Result<T, Error> {
    Operated::find(given, io)?.ask(question)
}

/// The address of the environment is for who names no server on the command line, or an order for one
/// server would be carried out by another.
fn way(config: &Config, io: &Io<'_>) -> Result<Way, Error> {
    let internal = config.get(&INTERNAL_URL)?;
    let own_token = config.get(&INTERNAL_TOKEN)?;
    if let Some(url) = internal.clone().filter(|_| !reach::is_named(config)) {
        let token = own_token.or(config.get(&TOKEN)?);
        return Ok(Way { url, token });
    }
    Ok(match reach::meant(config, io)? {
        Meant::Nobody => Way {
            url: reach::beside(config)?,
            token: own_token.or(config.get(&TOKEN)?),
        },
        Meant::Server {
            url,
            token,
            is_profile,
            ..
        } => {
            // The token of the platform opens everything, so it is shown to no server but its own.
            let named = config.is_given(&SERVER_URL).then_some(&SERVER_URL);
            let named = named.map(|named| config.value(named)).transpose()?;
            let is_at_home = [internal, named]
                .iter()
                .flatten()
                .any(|home| reach::is_same_server(home, &url));
            let own_token = own_token.filter(|_| !is_profile || is_at_home);
            let token = own_token.or(token);
            Way { url, token }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reach::tests::resolved;

    const PROFILE: (&str, &str, &str) = ("NOETL_PROFILE", "profile", "staging");
    const SERVER: (&str, &str, &str) = ("NOETL_SERVER_URL", "server", "http://named:1");
    const INTERNAL: (&str, &str) = ("NOETL_INTERNAL_URL", "http://production:8083");
    const TOKEN: (&str, &str) = ("NOETL_INTERNAL_API_TOKEN", "of the platform");

    fn goes(
        flags: &[(&'static str, &'static str, &str)],
        env: &[(&str, &str)],
        in_use: Option<&str>,
    ) -> (String, Option<String>) {
        let Way { url, token } = resolved(flags, env, in_use, way);
        (url, token)
    }

    fn to(url: &str, token: &str) -> (String, Option<String>) {
        (url.to_owned(), Some(token.to_owned()))
    }

    #[test]
    fn a_server_of_the_command_line_goes_before_the_internal_address_of_the_environment() {
        let env = [INTERNAL, TOKEN];
        let staging = to("http://staging:8082", "of-staging");
        assert_eq!(goes(&[PROFILE], &env, None), staging);
        let named = to("http://named:1", "of the platform");
        assert_eq!(goes(&[SERVER], &env, Some("staging")), named);
        let production = to("http://production:8083", "of the platform");
        assert_eq!(goes(&[], &env, Some("staging")), production);
    }

    #[test]
    fn the_token_of_the_platform_is_shown_to_no_profile_of_another_server() {
        let staging = to("http://staging:8082", "of-staging");
        assert_eq!(goes(&[PROFILE], &[TOKEN], None), staging);
        assert_eq!(goes(&[], &[TOKEN], Some("staging")), staging);
        let same = ("NOETL_INTERNAL_URL", "http://staging:8082/");
        let at_home = to("http://staging:8082", "of the platform");
        assert_eq!(goes(&[PROFILE], &[TOKEN, same], None), at_home);
        let same = ("NOETL_SERVER_URL", "http://staging:8082");
        assert_eq!(goes(&[PROFILE], &[TOKEN, same], None), at_home);
    }
}
