use super::super::CheckState;
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
