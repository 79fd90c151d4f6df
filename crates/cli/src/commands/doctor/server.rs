//! Checks of the server that commands use: its health, and whether it accepts the token.

use noetl_api::ApiError;
use noetl_api::health::{HealthStatus, ReadinessResponse};
use noetl_api::system::WhoAmI;
use noetl_types::{ErrorCode, Text};

use super::{CheckFinding, CheckState, failed, note, ok, warning};
use crate::config::Config;
use crate::config::table::{SERVER_URL, TOKEN};
use crate::connection::{self, ServerSelection};
use crate::error::Result;
use crate::io::Io;
use crate::roles::{self, OpenResult, StoreLocation};

/// Checks the configured server, or the one that uses the local database.
pub(super) fn check_server(
    config: &Config,
    location: Option<&StoreLocation>,
    io: &Io<'_>,
) -> Result<Vec<CheckFinding>> {
    let selection = match connection::select_server(config, io) {
        Ok(selection) => selection,
        Err(error) => return Ok(vec![failed("server", error.to_string())]),
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
    let client = match connection::build_probe_client(&url, token, config) {
        Ok(client) => client,
        Err(error) => return Ok(vec![failed("server", error.to_string())]),
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
            let finding = note("server", text);
            Ok(vec![finding.fix("start one with: noetl dev")])
        }
        Err(error) => {
            let finding = failed("server", format!("{url}{suffix}: {error}"));
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
        let finding = warning("server sandbox", text);
        findings.push(
            finding.fix("see docs/security.md for what each layer does and how to enable it"),
        );
    }
    if !ready.overrides.is_empty() {
        let text = format!("unsafe settings are in effect: {}", join_texts(&ready.overrides));
        let finding = warning("server settings", text);
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
            return ok("identity", text);
        }
        Err(error) => error,
    };
    let is_rejected =
        matches!(error.code(), Some(ErrorCode::Unauthenticated | ErrorCode::TokenExpired));
    match (is_rejected, has_token) {
        (true, true) => {
            let text = format!("the server rejects the token: {error}");
            failed("identity", text).fix(
                "set NOETL_TOKEN, or the token source of the profile, to a token of this server",
            )
        }
        (true, false) => warning("identity", "no token is configured")
            .fix("set NOETL_TOKEN, or give the profile a token source"),
        (false, _) => warning("identity", error.to_string()),
    }
}

#[cfg(test)]
mod tests;
