use super::*;

static TEST_MIGRATIONS: [Migration; 2] = [
    Migration { version: 1, name: "first", sql: "a" },
    Migration { version: 2, name: "second", sql: "b" },
];

#[test]
fn migrations_are_numbered_without_gaps() {
    for migrations in [SQLITE_MIGRATIONS, POSTGRES_MIGRATIONS] {
        let versions = migrations.iter().map(|it| it.version);
        assert!(versions.eq(1..=newest_version(migrations)));
    }
}

fn pending_versions(applied: &AppliedMigrations) -> Result<Vec<i64>, MigrationError> {
    pending_migrations(&TEST_MIGRATIONS, applied).map(|it| it.iter().map(|it| it.version).collect())
}

fn pending_versions_after(applied: &[(i64, Digest)]) -> Result<Vec<i64>, MigrationError> {
    pending_versions(&AppliedMigrations { migrations: applied.to_vec(), oldest_program: None })
}

#[test]
fn additive_migrations_are_accepted_by_older_programs() {
    let applied = |oldest_program| AppliedMigrations {
        migrations: vec![(1, sha256("a")), (2, sha256("b")), (3, sha256("c"))],
        oldest_program,
    };
    assert_eq!(pending_versions(&applied(Some(1))), Ok(vec![]));
    assert_eq!(pending_versions(&applied(Some(2))), Ok(vec![]));
    let rejected = Err(MigrationError::Newer(3));
    assert_eq!(pending_versions(&applied(Some(3))), rejected);
    assert_eq!(pending_versions(&applied(None)), rejected);
    let schema = SchemaStatus::from_applied(&TEST_MIGRATIONS, &applied(Some(1))).unwrap();
    assert_eq!((schema.version, schema.newest), (3, 2));
    assert!(!schema.is_outdated());
}

#[test]
fn only_missing_migrations_are_applied() {
    let first = (1, sha256("a"));
    assert_eq!(pending_versions_after(&[]), Ok(vec![1, 2]));
    assert_eq!(pending_versions_after(&[first]), Ok(vec![2]));
    assert_eq!(pending_versions_after(&[first, (2, sha256("b"))]), Ok(vec![]));
    assert_eq!(
        pending_versions_after(&[(1, sha256("edited"))]),
        Err(MigrationError::Changed { version: 1, name: "first" })
    );
    assert_eq!(pending_versions_after(&[first, (3, sha256("c"))]), Err(MigrationError::Newer(3)));
}
