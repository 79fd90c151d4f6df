//! What is old, and how the file stands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, Text, Timestamp, Version};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, params_from_iter};

use super::bind::{all, execute, failure, first, micros};
use super::open::MIGRATIONS;
use super::writer::Durability;
use super::{SqliteStore, retention, stream};
use crate::error::StoreError;
use crate::migration;
use crate::model::{
    EnabledOutlets, ExecutionView, LogPart, MissingWall, OldPart, Pinned, StoreFacts,
};
use crate::row::{self, EXECUTION, Reader};
use crate::upkeep::Upkeep;

const OLD_COMMANDS: &str = "SELECT '', count(*) FROM command WHERE completed_at < ?1";

const PURGE_COMMANDS: &str = "DELETE FROM command WHERE command_id IN (
        SELECT command_id FROM command WHERE completed_at < ?1
        ORDER BY completed_at, command_id LIMIT ?2
    )";

const OLD_RUNTIMES: &str = "SELECT '', count(*) FROM runtime
    WHERE kind = 'worker_pool' AND heartbeat < ?1";

const PURGE_RUNTIMES: &str = "DELETE FROM runtime WHERE runtime_id IN (
        SELECT runtime_id FROM runtime WHERE kind = 'worker_pool' AND heartbeat < ?1
        ORDER BY name LIMIT ?2
    )";

const ROWS: &str = "SELECT 'execution', count(*) FROM execution
    UNION ALL SELECT 'event', coalesce(sum(version), 0) FROM execution
    UNION ALL SELECT 'command', count(*) FROM command
    UNION ALL SELECT 'outbox', count(*) FROM outbox
    UNION ALL SELECT 'result_store', count(*) FROM result_store";

const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table'";

/// How long the copy of a file waits for whoever holds it for a moment.
const BACKUP_PATIENCE: Duration = Duration::from_secs(30);

impl SqliteStore {
    async fn number(&self, sql: &'static str, before: Timestamp) -> Result<u64, StoreError> {
        self.readers
            .run(move |connection| {
                let found = first(connection, sql, [micros(before)], row::count_of::<Text>)?;
                Ok(found.map_or(0, |(_, count)| count))
            })
            .await
    }

    async fn purge(
        &self,
        sql: &'static str,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        self.writer
            .run(Durability::Forgettable, move |connection| {
                let params = (micros(before), limit.get());
                let gone = execute(connection, sql, params).map_err(failure)?;
                Ok(u64::try_from(gone).unwrap_or(u64::MAX))
            })
            .await
    }
}

fn facts(connection: &Connection) -> Result<StoreFacts, StoreError> {
    let counts = all(connection, ROWS, [], row::count_of)?;
    let counts: BTreeMap<Text, u64> = counts.into_iter().collect();
    let of = |table: &str| counts.get(table).copied().unwrap_or_default();
    let tables = ["execution", "event", "command", "outbox", "result_store"];
    let number = |sql: &str| {
        let found = first(connection, sql, [], row::count_of::<Text>)?;
        Ok::<_, StoreError>(found.map_or(0, |(_, number)| number))
    };
    let pages = number("SELECT '', page_count FROM pragma_page_count")?;
    let page = number("SELECT '', page_size FROM pragma_page_size")?;
    let version = number("SELECT '', coalesce(max(version), 0) FROM schema_migration")?;
    Ok(StoreFacts {
        backend: "sqlite",
        schema_version: i64::try_from(version).unwrap_or(i64::MAX),
        log_epoch: stream::log_epoch(connection)?,
        bytes: pages.saturating_mul(page),
        rows: tables.into_iter().map(|table| (table, of(table))).collect(),
    })
}

fn tables(connection: &Connection) -> Result<BTreeMap<&'static str, bool>, StoreError> {
    // A question to the connection would be answered by what it knew when it last looked.
    let there = all(connection, TABLES, [], |cells| {
        Reader::new(&EXECUTION, cells).take::<Text>()
    })?;
    let tables = migration::tables(&MIGRATIONS);
    let is_there = |name: &str| there.iter().any(|there| there.as_str() == name);
    Ok(tables.map(|name| (name, is_there(name))).collect())
}

fn integrity(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let found = all(connection, "PRAGMA integrity_check", [], |cells| {
        Reader::new(&EXECUTION, cells).take::<Text>()
    })?;
    let found = found.into_iter().map(|text| text.to_string());
    Ok(found.filter(|text| text != "ok").collect())
}

/// Copies the file as it is at one moment, whoever writes to it meanwhile. All pages go in one step,
/// under one look at the file: a step at a time would begin anew whenever somebody writes, and beside a
/// busy server never end. Nobody waits for it, since readers of the file hold up no writer.
///
/// Whoever opens the copy goes on from another past than the file: in the copy a new life of the log
/// begins.
fn backup(from: &Path, to: &Path) -> Result<(), StoreError> {
    if to.exists() {
        let text = format!("{} is there already", to.display());
        return Err(StoreError::fatal(text));
    }
    let source =
        Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failure)?;
    let mut copy = Connection::open(to).map_err(failure)?;
    source.busy_timeout(BACKUP_PATIENCE).map_err(failure)?;
    let backup = Backup::new(&source, &mut copy).map_err(failure)?;
    match backup.step(-1).map_err(failure)? {
        StepResult::Done => {}
        _ => return Err(StoreError::retry("the file is held; try again")),
    }
    drop(backup);
    let transaction = copy.transaction().map_err(failure)?;
    stream::begin_log_epoch(&transaction)?;
    transaction.commit().map_err(failure)
}

const REWRITE_VIEW: &str = "UPDATE execution
    SET ended = ?3, status = ?4, paused = ?5, last_node_name = ?6, ended_at = ?7, error = ?8
    WHERE execution_id = ?1 AND version = ?2";

#[async_trait]
impl Upkeep for SqliteStore {
    async fn keep_months(&self, _now: Timestamp, _ahead: u32) -> Result<(), StoreError> {
        Ok(())
    }

    async fn months_until(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    async fn clock(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    async fn old_parts(
        &self,
        before: Timestamp,
        outlets: &EnabledOutlets,
    ) -> Result<Vec<OldPart>, StoreError> {
        let outlets = outlets.clone();
        self.readers
            .run(move |connection| retention::old_parts(connection, before, &outlets))
            .await
    }

    /// In steps of some hundred executions, so that nobody waits for the writer for long.
    async fn drop_part(
        &self,
        part: &LogPart,
        outlets: &EnabledOutlets,
        now: Timestamp,
    ) -> Result<Option<Pinned>, StoreError> {
        let whole = (part.clone(), outlets.clone());
        let looked = self
            .readers
            .run(move |connection| retention::whole(connection, &whole.0, &whole.1));
        let mut seen = match looked.await? {
            Ok(seen) => seen,
            Err(pinned) => return Ok(Some(pinned)),
        };
        loop {
            let (part, outlets) = (part.clone(), outlets.clone());
            let step = self
                .writer
                .run(Durability::Synced, move |connection| {
                    retention::drop_some(connection, &part, &outlets, seen, now)
                })
                .await?;
            match step {
                retention::Step::More(now_seen) => seen = now_seen,
                retention::Step::Done => return Ok(None),
                retention::Step::Pinned(pinned) => return Ok(Some(pinned)),
            }
        }
    }

    async fn clean_dropped(&self, now: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        self.writer
            .run(Durability::Forgettable, move |connection| {
                retention::clean(connection, now, limit)
            })
            .await
    }

    async fn old_commands(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.number(OLD_COMMANDS, before).await
    }

    async fn purge_commands(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        self.purge(PURGE_COMMANDS, before, limit).await
    }

    async fn old_runtimes(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.number(OLD_RUNTIMES, before).await
    }

    async fn purge_runtimes(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        self.purge(PURGE_RUNTIMES, before, limit).await
    }

    async fn rewrite_view(
        &self,
        execution_id: ExecutionId,
        version: Version,
        view: ExecutionView,
    ) -> Result<bool, StoreError> {
        self.writer
            .run(Durability::Synced, move |connection| {
                let row = row::view_row(execution_id, version, &view);
                let changed = execute(connection, REWRITE_VIEW, params_from_iter(row.iter()));
                Ok(changed.map_err(failure)? > 0)
            })
            .await
    }

    async fn facts(&self) -> Result<StoreFacts, StoreError> {
        self.readers.run(facts).await
    }

    async fn tables(&self) -> Result<BTreeMap<&'static str, bool>, StoreError> {
        self.readers.run(tables).await
    }

    async fn missing_walls(&self) -> Result<Vec<MissingWall>, StoreError> {
        Ok(Vec::new())
    }

    async fn integrity(&self) -> Result<Vec<String>, StoreError> {
        self.readers.run(integrity).await
    }

    async fn execution_ids(
        &self,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<ExecutionId>, StoreError> {
        self.readers
            .run(move |connection| {
                let sql = "SELECT execution_id FROM execution
                    WHERE ?1 IS NULL OR execution_id > ?1 ORDER BY execution_id LIMIT ?2";
                let params = (after.map(ExecutionId::get), limit.get());
                all(connection, sql, params, |cells| {
                    Reader::new(&EXECUTION, cells).take()
                })
            })
            .await
    }

    async fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let (from, to): (PathBuf, PathBuf) = (self.path.clone(), to.to_owned());
        let copy = tokio::task::spawn_blocking(move || backup(&from, &to));
        copy.await.map_err(StoreError::fatal)?
    }
}
