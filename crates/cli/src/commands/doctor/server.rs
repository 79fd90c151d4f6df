//! Checks of the server that commands use: its health, and whether it accepts the token.

use noetl_api::ApiError;
use noetl_api::health::{HealthStatus, ReadinessResponse};
use noetl_api::system::WhoAmI;
use noetl_types::{ErrorCode, Text};

use super::{CheckFinding, CheckState};
use crate::config::Config;
use crate::config::table::{SERVER_URL, TOKEN};
use crate::error::Error;
use crate::io::Io;
use crate::roles::{self, OpenResult, StoreLocation};
use crate::target::{self, ServerSelection};

/// Checks the configured server, or the one that uses the local database.
pub(super) fn check_server(
    config: &Config,
    location: Option<&StoreLocation>,
    io: &Io<'_>,
) -> Result<Vec<CheckFinding>, Error> {
    let failed = |text: String| Ok(vec![CheckFinding::new("server", CheckState::Failed, text)]);
    let selection = match target::select_server(config, io) {
        Ok(selection) => selection,
        Err(error) => return failed(error.to_string()),
    };
    let (url, token, selected_by) = match selection {
        ServerSelection::Server { url, token, selected_by, .. } => (url, token, Some(selected_by)),
        ServerSelection::Unspecified => {
            match location.and_then(|location| location.find_server_or_open().ok().flatten()) {
                Some(OpenResult::InUse(Some(lock_file))) => {
                    (lock_file.url, config.get(&TOKEN)?, None)
                }
                _ => (config.value(&SERVER_URL)?, config.get(&TOKEN)?, None),
            }
        }
    };
    let has_token = token.is_some();
    let client = match target::build_probe_client(&url, token, config) {
        Ok(client) => client,
        Err(error) => return failed(error.to_string()),
    };
    let runtime = roles::build_tokio_runtime(config, 1)?;
    let suffix = selected_by.map_or_else(String::new, |selected_by| format!(" ({selected_by})"));
    match runtime.block_on(client.check_readiness()) {
        Ok(ready) => {
            let mut findings = readiness_findings(&ready, &format!("{url}{suffix}"));
            let identity = runtime.block_on(client.whoami());
            findings.push(check_identity(identity, has_token));
            Ok(findings)
        }
        Err(_) if suffix.is_empty() => {
            let text = "no server is running on this machine; 'noetl run' does not need one";
            let finding = CheckFinding::new("server", CheckState::Note, text);
            Ok(vec![finding.fix("start one with: noetl dev")])
        }
        Err(error) => {
            let finding =
                CheckFinding::new("server", CheckState::Failed, format!("{url}{suffix}: {error}"));
            Ok(vec![finding.fix("check the address, and that the server is running")])
        }
    }
}

/// Findings from the readiness report of a server: its health, inactive sandbox layers and unsafe
/// settings.
fn readiness_findings(ready: &ReadinessResponse, name: &str) -> Vec<CheckFinding> {
    let unhealthy: Vec<String> = ready
        .checks
        .iter()
        .filter(|(_, health)| **health != HealthStatus::Ok)
        .map(|(check, _)| match ready.reasons.get(check) {
            Some(reason) => format!("{check} ({reason})"),
            None => check.to_string(),
        })
        .collect();
    let unhealthy = unhealthy.join(", ");
    let (state, text) = match ready.status {
        HealthStatus::Ok => (CheckState::Ok, format!("{name} is ready")),
        HealthStatus::Degraded => (CheckState::Warning, format!("{name} is degraded: {unhealthy}")),
        HealthStatus::Failed => (CheckState::Failed, format!("{name} is not ready: {unhealthy}")),
    };
    let mut findings = vec![CheckFinding::new("server", state, text)];
    if !ready.missing_protections.is_empty() {
        let text = format!("not active: {}", join_texts(&ready.missing_protections));
        let finding = CheckFinding::new("server sandbox", CheckState::Warning, text);
        findings.push(
            finding.fix("see docs/security.md for what each layer does and how to enable it"),
        );
    }
    if !ready.overrides.is_empty() {
        let text = format!("unsafe settings are in effect: {}", join_texts(&ready.overrides));
        let finding = CheckFinding::new("server settings", CheckState::Warning, text);
        findings.push(finding.fix("unset them if anyone else can reach the server"));
    }
    findings
}

fn join_texts(texts: &[Text]) -> String {
    let texts: Vec<&str> = texts.iter().map(Text::as_str).collect();
    texts.join(", ")
}

/// Checks that the server accepts the token.
fn check_identity(identity: Result<WhoAmI, ApiError>, has_token: bool) -> CheckFinding {
    let error = match identity {
        Ok(who) => {
            let scopes = join_texts(&who.scopes);
            let text = format!("{} of tenant {}, with scopes: {scopes}", who.actor, who.tenant_id);
            return CheckFinding::new("identity", CheckState::Ok, text);
        }
        Err(error) => error,
    };
    let is_rejected =
        matches!(error.code(), Some(ErrorCode::Unauthenticated | ErrorCode::TokenExpired));
    match (is_rejected, has_token) {
        (true, true) => {
            let text = format!("the server rejects the token: {error}");
            CheckFinding::new("identity", CheckState::Failed, text).fix(
                "set NOETL_TOKEN, or the token source of the profile, to a token of this server",
            )
        }
        (true, false) => {
            CheckFinding::new("identity", CheckState::Warning, "no token is configured")
                .fix("set NOETL_TOKEN, or give the profile a token source")
        }
        (false, _) => CheckFinding::new("identity", CheckState::Warning, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready_response() -> ReadinessResponse {
        ReadinessResponse::from_checks([("store", Ok(()))])
    }

    #[test]
    fn degraded_server_is_a_warning_with_reason() {
        let findings = readiness_findings(&ready_response(), "URL");
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!((findings[0].state, &*findings[0].detail), (CheckState::Ok, "URL is ready"));
        let degraded = ready_response().with_check(
            "nats",
            HealthStatus::Degraded,
            Err("not connected".into()),
        );
        let findings = readiness_findings(&degraded, "URL");
        assert_eq!(findings[0].state, CheckState::Warning);
        let text = "URL is degraded: nats (not connected)";
        assert_eq!(findings[0].detail, text);
        let down = ReadinessResponse::from_checks([("store", Err("locked".into()))]);
        let findings = readiness_findings(&down.without_reasons(), "URL");
        assert_eq!(findings[0].state, CheckState::Failed);
        assert_eq!(findings[0].detail, "URL is not ready: store");
    }

    #[test]
    fn missing_layers_and_unsafe_settings_warn() {
        let bare = ready_response()
            .with_inactive_layers(vec!["seccomp".into(), "network".into()])
            .with_overrides(&["NOETL_UNSAFE_PLAINTEXT"]);
        let findings = readiness_findings(&bare, "URL");
        let summaries: Vec<_> = findings
            .iter()
            .map(|finding| (finding.check, finding.state, &*finding.detail))
            .collect();
        assert_eq!(
            summaries,
            [
                ("server", CheckState::Ok, "URL is ready"),
                ("server sandbox", CheckState::Warning, "not active: seccomp, network"),
                (
                    "server settings",
                    CheckState::Warning,
                    "unsafe settings are in effect: NOETL_UNSAFE_PLAINTEXT"
                ),
            ]
        );
    }

    #[test]
    fn rejected_token_is_reported() {
        let unknown = || Err(ApiError::refused(ErrorCode::Unauthenticated, "unknown"));
        assert_eq!(check_identity(unknown(), true).state, CheckState::Failed);
        assert_eq!(check_identity(unknown(), false).state, CheckState::Warning);
        let identity = WhoAmI {
            actor: "ci".into(),
            tenant_id: "default".into(),
            organization_id: "default".into(),
            scopes: vec!["exec:read".into()],
        };
        let finding = check_identity(Ok(identity), true);
        assert_eq!(finding.state, CheckState::Ok);
        assert_eq!(finding.detail, "ci of tenant default, with scopes: exec:read");
    }
}
