use super::*;

#[test]
fn every_sqlstate_class_has_kind() {
    for (code, expected) in [
        ("08006", TaskErrorKind::DbConnection),
        ("23505", TaskErrorKind::DbConstraint),
        ("40001", TaskErrorKind::DbDeadlock),
        ("40P01", TaskErrorKind::DbDeadlock),
        ("40002", TaskErrorKind::DbError),
        ("57014", TaskErrorKind::DbTimeout),
        ("55P03", TaskErrorKind::DbTimeout),
        ("57P01", TaskErrorKind::DbConnection),
        ("53300", TaskErrorKind::DbConnection),
        ("28P01", TaskErrorKind::Auth),
        ("42601", TaskErrorKind::DbError),
        ("", TaskErrorKind::DbError),
    ] {
        assert_eq!(sqlstate_kind(code), expected, "{code}");
    }
}
