//! The way of an operator's commands to the internal API of a server.

use noetl_api::{ApiError, Client};

use crate::config::table::{INTERNAL_TOKEN, INTERNAL_URL, TOKEN};
use crate::config::{Config, Given};
use crate::error::Error;
use crate::io::Io;
use crate::reach::{self, Meant};
use crate::roles;

/// Threads of a command that asks a server.
const THREADS: usize = 2;

/// Asks a server as an operator does: at the address of its internal API where that has one of its own,
/// with the token of the platform where there is one.
pub(crate) fn ask<T>(
    given: &Given,
    io: &mut Io<'_>,
    question: impl AsyncFnOnce(&Client) -> Result<T, ApiError>,
) -> Result<T, Error> {
    let config = Config::load(given, &io.env)?;
    io.warn(&config.warnings)?;
    let (url, token) = match (config.get(&INTERNAL_URL)?, reach::meant(&config, io)?) {
        (Some(url), _) => (url, config.get(&TOKEN)?),
        (None, Meant::Server { url, token, .. }) => (url, token),
        (None, Meant::Nobody) => (reach::beside(&config)?, config.get(&TOKEN)?),
    };
    let token = config.get(&INTERNAL_TOKEN)?.or(token);
    let client = reach::client_of(&url, token, &config)?;
    let threads = roles::threads(&config, THREADS)?;
    threads
        .block_on(question(&client))
        .map_err(|error| match error {
            ApiError::Unreachable(reason) => reach::unreachable(&url, &reason),
            refused => Error::Platform(refused),
        })
}
