//! Checks of a database server: reachability, schema, and protection of the event log.

use noetl_store::{FailedPrivilegeCheck, PrivilegeCheck};

use super::{CheckFinding, CheckState};
use crate::config::Config;
use crate::error::Error;
use crate::roles::{self, StartError, StoreLocation};

/// Connects to the database read-only and checks it.
pub(super) fn check_database(
    location: &StoreLocation,
    config: &Config,
) -> Result<Vec<CheckFinding>, Error> {
    let runtime = roles::build_tokio_runtime(config, 1)?;
    let findings = runtime.block_on(inspect_database_server(location));
    Ok(findings.unwrap_or_else(|error| {
        let finding = CheckFinding::new("store", CheckState::Failed, error.to_string());
        vec![match error.help_text() {
            Some(help) => finding.fix(help),
            None => finding,
        }]
    }))
}

async fn inspect_database_server(
    location: &StoreLocation,
) -> Result<Vec<CheckFinding>, StartError> {
    let name = location.display_name();
    if let Some(schema) = location.schema_version().await?.filter(|schema| schema.is_outdated()) {
        let text = format!(
            "{name} is reachable; its tables are at schema {} of {}",
            schema.version, schema.newest
        );
        let fix = "the next server start migrates them, or run: noetl db migrate";
        return Ok(vec![CheckFinding::new("store", CheckState::Note, text).fix(fix)]);
    }
    let store = location.open_read_only().await?;
    let text = format!("{name} is reachable; its schema is up to date");
    let log_finding = match store.list_failed_privilege_checks().await {
        Ok(missing) => check_log_privileges(&missing, location.has_separate_owner()),
        Err(error) => {
            let text = format!(
                "cannot determine who can change the event log: {}",
                roles::error_chain(&error)
            );
            CheckFinding::new("log", CheckState::Warning, text)
        }
    };
    Ok(vec![CheckFinding::new("store", CheckState::Ok, text), log_finding])
}

/// Reports missing protections of the event log. A missing protection is a warning if a separate
/// owner role is configured.
fn check_log_privileges(missing: &[FailedPrivilegeCheck], has_owner: bool) -> CheckFinding {
    let is_modifiable = missing.iter().any(|failed| failed.check == PrivilegeCheck::AppendOnly);
    let descriptions: Vec<String> = missing.iter().map(FailedPrivilegeCheck::to_string).collect();
    let not_enforced = format!("not enforced: {}", descriptions.join(", "));
    match (is_modifiable, has_owner) {
        (true, true) => CheckFinding::new("log", CheckState::Warning, not_enforced).fix(
            "transfer the tables to the role of NOETL_OWNER_DSN (REASSIGN OWNED), or revoke these \
             privileges from the server's role",
        ),
        (true, false) => CheckFinding::new("log", CheckState::Note, not_enforced)
            .fix("set NOETL_OWNER_DSN so that another role owns the tables"),
        (false, _) => {
            let text = format!("the server can only append to it; {not_enforced}");
            CheckFinding::new("log", CheckState::Note, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_log_privilege_check_warns() {
        let missing = [FailedPrivilegeCheck {
            check: PrivilegeCheck::AppendOnly,
            reason: "the role noetl owns it".into(),
        }];
        let finding = check_log_privileges(&missing, true);
        assert_eq!(finding.state, CheckState::Warning);
        assert!(finding.fix.is_some());
        let finding = check_log_privileges(&missing, false);
        assert_eq!(finding.state, CheckState::Note);
        assert_eq!(finding.detail, "not enforced: append-only log (the role noetl owns it)");
        let finding = check_log_privileges(&[], true);
        assert!(finding.detail.starts_with("the server can only append to it"), "{finding:?}");
    }
}
