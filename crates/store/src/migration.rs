//! Numbered and checksummed migrations, embedded in the binary.

use noetl_types::{Digest, sha256};

/// One step from an older schema to a newer one.
#[derive(Debug)]
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// Lists the migrations of a database, whose files are in the folder of its backend.
macro_rules! migrations {
    ($folder:literal) => {
        migrations! { $folder:
            1 "0001" "tables",
            2 "0002" "results",
            3 "0003" "commons",
            4 "0004" "outlets",
            5 "0005" "vault",
            6 "0006" "credentials",
            7 "0007" "outbox_bytes",
            8 "0008" "keychain",
            9 "0009" "secret_acts",
            10 "0010" "outbox_unpublished",
            11 "0011" "purge",
            12 "0012" "descendants",
            13 "0013" "tamper",
            14 "0014" "task_output",
            15 "0015" "outbox_payloads",
        }
    };
    ($folder:literal: $($version:literal $number:literal $name:literal,)+) => {
        &[$(Migration {
            version: $version,
            name: $name,
            sql: include_str!(concat!($folder, "/migrations/", $number, "_", $name, ".sql")),
        }),+]
    };
}

pub(crate) static SQLITE_MIGRATIONS: &[Migration] = migrations!("sqlite");
pub(crate) static POSTGRES_MIGRATIONS: &[Migration] = migrations!("postgres");

/// Reason why a database is incompatible with this binary.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MigrationError {
    #[error("migration {version} ({name}) differs from the one that was applied to this database")]
    Changed { version: i64, name: &'static str },
    #[error(
        "the database has migration {0}, which is newer than this program and incompatible with \
         it; use a newer release"
    )]
    Newer(i64),
}

/// The oldest compatible program, identified by the newest migration that it includes. A migration
/// that only adds to the schema leaves this constant unchanged. A migration that changes what older
/// programs use sets it to its own number. Each database stores it, so that an operator can roll
/// back to a program whose successor has already migrated the database. A number denotes the same
/// migration in both databases, even if one of them has nothing to do.
pub(crate) const OLDEST_COMPATIBLE_VERSION: i64 = 8;

/// Migration state recorded in a database.
#[derive(Debug, Default)]
pub(crate) struct AppliedMigrations {
    /// Applied migrations, by number.
    pub(crate) migrations: Vec<(i64, Digest)>,
    /// The oldest compatible program, if recorded.
    pub(crate) oldest_program: Option<i64>,
}

/// Schema version of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaStatus {
    /// Newest applied migration. 0 if there are no tables.
    pub version: i64,
    /// Newest migration of this program.
    pub newest: i64,
}

impl SchemaStatus {
    /// Determines the status from the applied migrations. An incompatible database is an error.
    pub(crate) fn from_applied(
        migrations: &'static [Migration],
        applied: &AppliedMigrations,
    ) -> Result<Self, MigrationError> {
        pending_migrations(migrations, applied)?;
        let newest = newest_version(migrations);
        let version = applied.migrations.iter().map(|it| it.0).max().unwrap_or(0);
        Ok(Self { version, newest })
    }

    /// True if a migration is not applied.
    pub fn is_outdated(self) -> bool {
        self.version < self.newest
    }
}

impl Migration {
    pub(crate) fn checksum(&self) -> Digest {
        sha256(self.sql)
    }
}

/// Returns the tables that the migrations create.
pub(crate) fn created_tables(
    migrations: &'static [Migration],
) -> impl Iterator<Item = &'static str> {
    let lines = migrations.iter().flat_map(|migration| migration.sql.lines());
    lines.filter_map(|line| line.strip_prefix("CREATE TABLE ")?.split(' ').next())
}

fn newest_version(migrations: &[Migration]) -> i64 {
    migrations.last().map_or(0, |migration| migration.version)
}

/// Returns the migrations to be applied, in order. Migrations that are newer than this program are
/// accepted if they are compatible with it.
pub(crate) fn pending_migrations(
    migrations: &'static [Migration],
    applied: &AppliedMigrations,
) -> Result<Vec<&'static Migration>, MigrationError> {
    let newest = newest_version(migrations);
    let is_compatible = applied.oldest_program.is_some_and(|oldest| oldest <= newest);
    let applied = &applied.migrations;
    for (version, checksum) in applied {
        let Some(migration) = migrations.iter().find(|it| it.version == *version) else {
            if is_compatible && *version > newest {
                continue;
            }
            return Err(MigrationError::Newer(*version));
        };
        if migration.checksum() != *checksum {
            return Err(MigrationError::Changed { version: *version, name: migration.name });
        }
    }
    let is_applied = |migration: &Migration| applied.iter().any(|it| it.0 == migration.version);
    Ok(migrations.iter().filter(|it| !is_applied(it)).collect())
}

#[cfg(test)]
mod tests;
