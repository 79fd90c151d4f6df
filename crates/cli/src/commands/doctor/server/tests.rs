use super::*;

fn ready_response() -> ReadinessResponse {
    ReadinessResponse::from_checks([("store", Ok(()))])
}

#[test]
fn degraded_server_is_a_warning_with_reason() {
    let findings = readiness_findings(&ready_response(), "URL");
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!((findings[0].state, &*findings[0].detail), (CheckState::Ok, "URL is ready"));
    let degraded =
        ready_response().with_check("nats", HealthStatus::Degraded, Err("not connected".into()));
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
    let summaries: Vec<_> =
        findings.iter().map(|finding| (finding.check, finding.state, &*finding.detail)).collect();
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
