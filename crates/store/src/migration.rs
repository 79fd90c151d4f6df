//! Migrations: numbered, checksummed, inside of the binary.

use noetl_types::{Digest, sha256};

/// One step from an older form of the tables to a newer one.
#[derive(Debug)]
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// Why the tables of a database are not for this binary.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MigrationError {
    #[error("migration {version} ({name}) is not the one that was applied to this database")]
    Changed { version: i64, name: &'static str },
    #[error(
        "the database has migration {0}, which is newer than this program and not for it: start the \
         program of a newer release"
    )]
    Newer(i64),
}

/// The oldest program that works with the tables as this one makes them, by the newest migration that it
/// knows. A migration that only adds leaves it as it is; one that changes what older programs use is it
/// from then on. Each database says it, so that a program may come back that its successor has worked
/// after. A number is of the same migration in both databases, where one may have nothing to do.
pub(crate) const OLDEST_PROGRAM: i64 = 8;

/// What a database says about its migrations.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    /// Those that were applied, by number.
    pub(crate) migrations: Vec<(i64, Digest)>,
    /// The oldest program that works with the tables, as far as it is said.
    pub(crate) oldest_program: Option<i64>,
}

/// How far the tables of a database are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    /// The newest migration that was applied; 0 where there are no tables.
    pub version: i64,
    /// The newest that this program knows.
    pub newest: i64,
}

impl Schema {
    /// How far a database is to which these were applied; one of another program is refused.
    pub(crate) fn of(
        known: &'static [Migration],
        applied: &Applied,
    ) -> Result<Self, MigrationError> {
        pending(known, applied)?;
        let newest = newest(known);
        let version = applied.migrations.iter().map(|it| it.0).max().unwrap_or(0);
        Ok(Self { version, newest })
    }

    /// Whether a migration is missing.
    pub fn is_old(self) -> bool {
        self.version < self.newest
    }
}

impl Migration {
    pub(crate) fn checksum(&self) -> Digest {
        sha256(self.sql)
    }
}

/// The tables that migrations make.
pub(crate) fn tables(known: &'static [Migration]) -> impl Iterator<Item = &'static str> {
    let lines = known.iter().flat_map(|migration| migration.sql.lines());
    lines.filter_map(|line| line.strip_prefix("CREATE TABLE ")?.split(' ').next())
}

fn newest(known: &[Migration]) -> i64 {
    known.last().map_or(0, |migration| migration.version)
}

/// Which migrations are still to be applied, in order. Those that are newer than this program are none of
/// its business as long as they left what it uses.
pub(crate) fn pending(
    known: &'static [Migration],
    applied: &Applied,
) -> Result<Vec<&'static Migration>, MigrationError> {
    let newest = newest(known);
    let is_new_enough = applied
        .oldest_program
        .is_some_and(|oldest| oldest <= newest);
    let applied = &applied.migrations;
    for (version, checksum) in applied {
        let Some(migration) = known.iter().find(|it| it.version == *version) else {
            if is_new_enough && *version > newest {
                continue;
            }
            return Err(MigrationError::Newer(*version));
        };
        if migration.checksum() != *checksum {
            return Err(MigrationError::Changed {
                version: *version,
                name: migration.name,
            });
        }
    }
    let is_applied = |migration: &Migration| applied.iter().any(|it| it.0 == migration.version);
    Ok(known.iter().filter(|it| !is_applied(it)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    static KNOWN: [Migration; 2] = [
        Migration {
            version: 1,
            name: "first",
            sql: "a",
        },
        Migration {
            version: 2,
            name: "second",
            sql: "b",
        },
    ];

    #[cfg(all(feature = "sqlite", feature = "postgres"))]
    #[test]
    fn a_number_is_of_the_same_migration_in_both_databases() {
        let names = |known: &[Migration]| -> Vec<_> {
            known.iter().map(|it| (it.version, it.name)).collect()
        };
        let known = names(&crate::postgres::MIGRATIONS);
        assert_eq!(known, names(&crate::sqlite::MIGRATIONS));
        let versions = known.iter().map(|(version, _)| *version);
        assert!(versions.eq(1..=newest(&crate::sqlite::MIGRATIONS)));
    }

    fn versions_of(applied: &Applied) -> Result<Vec<i64>, MigrationError> {
        pending(&KNOWN, applied).map(|it| it.iter().map(|it| it.version).collect())
    }

    fn versions(applied: &[(i64, Digest)]) -> Result<Vec<i64>, MigrationError> {
        versions_of(&Applied {
            migrations: applied.to_vec(),
            oldest_program: None,
        })
    }

    #[test]
    fn what_only_adds_is_for_older_programs_too() {
        let applied = |oldest_program| Applied {
            migrations: vec![(1, sha256("a")), (2, sha256("b")), (3, sha256("c"))],
            oldest_program,
        };
        assert_eq!(versions_of(&applied(Some(1))), Ok(vec![]));
        assert_eq!(versions_of(&applied(Some(2))), Ok(vec![]));
        let refused = Err(MigrationError::Newer(3));
        assert_eq!(versions_of(&applied(Some(3))), refused);
        assert_eq!(versions_of(&applied(None)), refused);
        let schema = Schema::of(&KNOWN, &applied(Some(1))).unwrap();
        assert_eq!((schema.version, schema.newest), (3, 2));
        assert!(!schema.is_old());
    }

    #[test]
    fn what_is_missing_is_applied_and_nothing_else() {
        let first = (1, sha256("a"));
        assert_eq!(versions(&[]), Ok(vec![1, 2]));
        assert_eq!(versions(&[first]), Ok(vec![2]));
        assert_eq!(versions(&[first, (2, sha256("b"))]), Ok(vec![]));
        assert_eq!(
            versions(&[(1, sha256("edited"))]),
            Err(MigrationError::Changed {
                version: 1,
                name: "first"
            })
        );
        assert_eq!(
            versions(&[first, (3, sha256("c"))]),
            Err(MigrationError::Newer(3))
        );
    }
}
