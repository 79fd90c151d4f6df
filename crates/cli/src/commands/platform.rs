//! Connects operator commands to the internal API of a server.

use noetl_api::{ApiError, Client};
use tokio::runtime::Runtime;

use crate::config::table::{INTERNAL_TOKEN, INTERNAL_URL, SERVER_URL, TOKEN};
use crate::config::{Config, GivenSettings};
use crate::error::Error;
use crate::io::Io;
use crate::roles;
use crate::target::{self, ServerSelection};

/// Runtime threads of an operator command.
const OPERATOR_THREADS: usize = 2;

/// Connection of an operator command to a server.
pub(crate) struct OperatorConnection {
    client: Client,
    runtime: Runtime,
}

/// Address and token for an operator command.
#[derive(Debug, PartialEq, Eq)]
struct OperatorEndpoint {
    url: String,
    token: Option<String>,
}

impl OperatorConnection {
    /// Selects the server: the one named on the command line, else the internal API if it has its
    /// own address, else the server of all other commands.
    pub(crate) fn connect(given: &GivenSettings, io: &mut Io<'_>) -> Result<Self, Error> {
        let config = Config::load(given, &io.env)?;
        io.print_warnings(&config.warnings)?;
        let OperatorEndpoint { url, token } = select_endpoint(&config, io)?;
        Ok(Self {
            client: target::build_client(&url, token, &config)?,
            runtime: roles::build_tokio_runtime(&config, OPERATOR_THREADS)?,
        })
    }

    /// Address of the server. Confirmation questions show it.
    pub(crate) fn url(&self) -> &str {
        self.client.base_url()
    }

    /// Sends a request to the server.
    pub(crate) fn send<T>(
        &self,
        request: impl AsyncFnOnce(&Client) -> Result<T, ApiError>,
    ) -> Result<T, Error> {
        self.runtime.block_on(request(&self.client)).map_err(|error| match error {
            ApiError::Unreachable(reason) => target::unreachable_error(self.url(), &reason),
            other => Error::Platform(other),
        })
    }
}

/// Sends a single request to the server as an operator.
pub(crate) fn send_operator_request<T>(
    given: &GivenSettings,
    io: &mut Io<'_>,
    request: impl AsyncFnOnce(&Client) -> Result<T, ApiError>,
) -> Result<T, Error> {
    OperatorConnection::connect(given, io)?.send(request)
}

/// Selects the address and token. The address from the environment applies only if the command line
/// does not name a server. Otherwise an operation meant for one server would run on another.
fn select_endpoint(config: &Config, io: &Io<'_>) -> Result<OperatorEndpoint, Error> {
    let internal_url = config.get(&INTERNAL_URL)?;
    let own_token = config.get(&INTERNAL_TOKEN)?;
    if let Some(url) = internal_url.clone().filter(|_| !target::is_server_flag_given(config)) {
        let token = own_token.or(config.get(&TOKEN)?);
        return Ok(OperatorEndpoint { url, token });
    }
    Ok(match target::select_server(config, io)? {
        ServerSelection::Unspecified => OperatorEndpoint {
            url: target::local_server_url(config)?,
            token: own_token.or(config.get(&TOKEN)?),
        },
        ServerSelection::Server { url, token, is_profile, .. } => {
            // The platform token grants full access, so it is sent only to the server it belongs
            // to.
            let explicit_url = config.is_given(&SERVER_URL).then_some(&SERVER_URL);
            let explicit_url =
                explicit_url.map(|explicit_url| config.value(explicit_url)).transpose()?;
            let is_own_server = [internal_url, explicit_url]
                .iter()
                .flatten()
                .any(|own_url| target::is_same_server(own_url, &url));
            let own_token = own_token.filter(|_| !is_profile || is_own_server);
            let token = own_token.or(token);
            OperatorEndpoint { url, token }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::tests::resolve_with;

    const PROFILE: (&str, &str, &str) = ("NOETL_PROFILE", "profile", "staging");
    const SERVER: (&str, &str, &str) = ("NOETL_SERVER_URL", "server", "http://named:1");
    const INTERNAL: (&str, &str) = ("NOETL_INTERNAL_URL", "http://production:8083");
    const TOKEN: (&str, &str) = ("NOETL_INTERNAL_API_TOKEN", "of the platform");

    fn selected_endpoint(
        flags: &[(&'static str, &'static str, &str)],
        env: &[(&str, &str)],
        selected_profile: Option<&str>,
    ) -> (String, Option<String>) {
        let OperatorEndpoint { url, token } =
            resolve_with(flags, env, selected_profile, select_endpoint);
        (url, token)
    }

    fn endpoint(url: &str, token: &str) -> (String, Option<String>) {
        (url.to_owned(), Some(token.to_owned()))
    }

    #[test]
    fn server_flag_overrides_internal_url() {
        let env = [INTERNAL, TOKEN];
        let staging = endpoint("http://staging:8082", "of-staging");
        assert_eq!(selected_endpoint(&[PROFILE], &env, None), staging);
        let named = endpoint("http://named:1", "of the platform");
        assert_eq!(selected_endpoint(&[SERVER], &env, Some("staging")), named);
        let production = endpoint("http://production:8083", "of the platform");
        assert_eq!(selected_endpoint(&[], &env, Some("staging")), production);
    }

    #[test]
    fn internal_token_is_not_sent_to_other_servers() {
        let staging = endpoint("http://staging:8082", "of-staging");
        assert_eq!(selected_endpoint(&[PROFILE], &[TOKEN], None), staging);
        assert_eq!(selected_endpoint(&[], &[TOKEN], Some("staging")), staging);
        let same = ("NOETL_INTERNAL_URL", "http://staging:8082/");
        let own_server = endpoint("http://staging:8082", "of the platform");
        assert_eq!(selected_endpoint(&[PROFILE], &[TOKEN, same], None), own_server);
        let same = ("NOETL_SERVER_URL", "http://staging:8082");
        assert_eq!(selected_endpoint(&[PROFILE], &[TOKEN, same], None), own_server);
    }
}
