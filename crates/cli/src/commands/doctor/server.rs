//! The server that commands would ask: how it says it is, and whether it knows who asks.

use noetl_api::ApiError;
use noetl_api::health::{Health, Ready};
use noetl_api::system::WhoAmI;
use noetl_types::{ErrorCode, Text};

use super::{Finding, State};
use crate::config::Config;
use crate::config::table::{SERVER_URL, TOKEN};
use crate::error::Error;
use crate::io::Io;
use crate::reach::{self, Meant};
use crate::roles::{self, Opened, Place};

/// Looks at it, if there is one.
pub(super) fn server(
    config: &Config,
    place: Option<&Place>,
    io: &Io<'_>,
) -> Result<Vec<Finding>, Error> {
    let failed = |text: String| Ok(vec![Finding::new("server", State::Failed, text)]);
    let meant = match reach::meant(config, io) {
        Ok(meant) => meant,
        Err(error) => return failed(error.to_string()),
    };
    let (url, token, by) = match meant {
        Meant::Server { url, token, by, .. } => (url, token, Some(by)),
        Meant::Nobody => match place.and_then(|place| place.look().ok().flatten()) {
            Some(Opened::Held(Some(beacon))) => (beacon.url, config.get(&TOKEN)?, None),
            _ => (config.value(&SERVER_URL)?, config.get(&TOKEN)?, None),
        },
    };
    let has_token = token.is_some();
    let client = match reach::brisk(&url, token, config) {
        Ok(client) => client,
        Err(error) => return failed(error.to_string()),
    };
    let threads = roles::threads(config, 1)?;
    let named = by.map_or_else(String::new, |by| format!(" ({by})"));
    match threads.block_on(client.readyz()) {
        Ok(ready) => {
            let mut findings = told(&ready, &format!("{url}{named}"));
            let known = threads.block_on(client.whoami());
            findings.push(identity(known, has_token));
            Ok(findings)
        }
        Err(_) if named.is_empty() => {
            let text = "none runs on this machine; 'noetl run' needs none";
            let found = Finding::new("server", State::Note, text);
            Ok(vec![found.fix("start one with: noetl dev")])
        }
        Err(error) => {
            let found = Finding::new("server", State::Failed, format!("{url}{named}: {error}"));
            Ok(vec![
                found.fix("check the address, and that the server runs"),
            ])
        }
    }
}

/// What a server says of itself: that it is well or what is not, and what is less safe than it might be.
fn told(ready: &Ready, name: &str) -> Vec<Finding> {
    let ill: Vec<String> = ready
        .checks
        .iter()
        .filter(|(_, health)| **health != Health::Ok)
        .map(|(check, _)| match ready.reasons.get(check) {
            Some(reason) => format!("{check} ({reason})"),
            None => check.to_string(),
        })
        .collect();
    let ill = ill.join(", ");
    let (state, text) = match ready.status {
        Health::Ok => (State::Ok, format!("{name} is ready")),
        Health::Degraded => (
            State::Warning,
            format!("{name} works, but not all of it: {ill}"),
        ),
        Health::Failed => (State::Failed, format!("{name} is not well: {ill}")),
    };
    let mut findings = vec![Finding::new("server", state, text)];
    if !ready.walls.is_empty() {
        let text = format!("do not stand: {}", joined(&ready.walls));
        let found = Finding::new("server's walls", State::Warning, text);
        findings
            .push(found.fix("docs/security.md says what each of them is for and what raises it"));
    }
    if !ready.overrides.is_empty() {
        let text = format!(
            "less safe than it should be by {}",
            joined(&ready.overrides)
        );
        let found = Finding::new("server's settings", State::Warning, text);
        findings.push(found.fix("leave them out where others than you reach the server"));
    }
    findings
}

fn joined(words: &[Text]) -> String {
    let words: Vec<&str> = words.iter().map(Text::as_str).collect();
    words.join(", ")
}

/// Whether the server knows who asks.
fn identity(known: Result<WhoAmI, ApiError>, has_token: bool) -> Finding {
    let error = match known {
        Ok(who) => {
            let scopes = joined(&who.scopes);
            let text = format!(
                "{} of tenant {}, who may: {scopes}",
                who.actor, who.tenant_id
            );
            return Finding::new("identity", State::Ok, text);
        }
        Err(error) => error,
    };
    let is_unknown = matches!(
        error.code(),
        Some(ErrorCode::Unauthenticated | ErrorCode::TokenExpired)
    );
    match (is_unknown, has_token) {
        (true, true) => {
            let text = format!("the server does not take the token: {error}");
            Finding::new("identity", State::Failed, text)
                .fix("set NOETL_TOKEN, or what the profile names, to a token of this server")
        }
        (true, false) => Finding::new(
            "identity",
            State::Warning,
            "no token is shown to the server",
        )
        .fix("set NOETL_TOKEN, or let the profile say where its token is"),
        (false, _) => Finding::new("identity", State::Warning, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> Ready {
        Ready::of([("store", Ok(()))])
    }

    #[test]
    fn a_degraded_server_is_a_warning_and_says_why() {
        let found = told(&ready(), "URL");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (found[0].state, &*found[0].detail),
            (State::Ok, "URL is ready")
        );
        let ill = ready().and("nats", Health::Degraded, Err("not connected".into()));
        let found = told(&ill, "URL");
        assert_eq!(found[0].state, State::Warning);
        let text = "URL works, but not all of it: nats (not connected)";
        assert_eq!(found[0].detail, text);
        let down = Ready::of([("store", Err("locked".into()))]);
        let found = told(&down.without_reasons(), "URL");
        assert_eq!(found[0].state, State::Failed);
        assert_eq!(found[0].detail, "URL is not well: store");
    }

    #[test]
    fn walls_and_unsafe_settings_of_a_server_are_told() {
        let bare = ready()
            .with_walls(vec!["seccomp".into(), "network".into()])
            .with_overrides(&["NOETL_UNSAFE_PLAINTEXT"]);
        let found = told(&bare, "URL");
        let told: Vec<_> = found
            .iter()
            .map(|found| (found.check, found.state, &*found.detail))
            .collect();
        assert_eq!(
            told,
            [
                ("server", State::Ok, "URL is ready"),
                (
                    "server's walls",
                    State::Warning,
                    "do not stand: seccomp, network"
                ),
                (
                    "server's settings",
                    State::Warning,
                    "less safe than it should be by NOETL_UNSAFE_PLAINTEXT"
                ),
            ]
        );
    }

    #[test]
    fn a_token_that_the_server_does_not_take_is_noticed() {
        let unknown = || Err(ApiError::refused(ErrorCode::Unauthenticated, "unknown"));
        assert_eq!(identity(unknown(), true).state, State::Failed);
        assert_eq!(identity(unknown(), false).state, State::Warning);
        let known = WhoAmI {
            actor: "ci".into(),
            tenant_id: "default".into(),
            organization_id: "default".into(),
            scopes: vec!["exec:read".into()],
        };
        let found = identity(Ok(known), true);
        assert_eq!(found.state, State::Ok);
        assert_eq!(found.detail, "ci of tenant default, who may: exec:read");
    }
}
