//! What keeps a store in order: months ahead, what is old, how it stands.

use std::collections::BTreeMap;
use std::path::Path;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, Timestamp, Version};

use crate::error::StoreError;
use crate::model::{
    EnabledOutlets, ExecutionView, LogPart, MissingWall, OldPart, Pinned, StoreFacts,
};

/// The part of a [`crate::Store`] that operators and their schedules use.
#[async_trait]
pub trait Upkeep {
    /// Makes sure that the log has room for the present month and so many behind it.
    async fn keep_months(&self, now: Timestamp, ahead: u32) -> Result<(), StoreError>;

    /// Until when the log has room; `None` where it always has.
    async fn months_until(&self) -> Result<Option<Timestamp>, StoreError>;

    /// The store's own clock; `None` where it has none but the server's.
    async fn clock(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Parts of the log whose executions were all started before a time, oldest first, with what
    /// keeps each.
    async fn old_parts(
        &self,
        before: Timestamp,
        outlets: &EnabledOutlets,
    ) -> Result<Vec<OldPart>, StoreError>;

    /// Drops a part of the log if nothing keeps it, and says what does. From then on its executions
    /// are gone: nobody appends to them.
    ///
    /// Whoever appends elsewhere waits half a second at most.
    async fn drop_part(
        &self,
        part: &LogPart,
        outlets: &EnabledOutlets,
        now: Timestamp,
    ) -> Result<Option<Pinned>, StoreError>;

    /// Forgets what is left of executions that were dropped, wherever it is; says how many rows, up
    /// to the limit for each kind. None means that nothing is left.
    async fn clean_dropped(&self, now: Timestamp, limit: PageLimit) -> Result<u64, StoreError>;

    /// How many commands ended before a time.
    async fn old_commands(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Forgets commands that ended before a time, the longest ended first; says how many there were,
    /// up to the limit.
    async fn purge_commands(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError>;

    /// How many pools of workers were last heard of before a time.
    async fn old_runtimes(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Forgets pools of workers that were last heard of before a time, up to the limit.
    async fn purge_runtimes(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError>;

    /// Writes what lists show of an execution, as its log up to a version says; `false` where the log
    /// has grown since, or there is no such execution.
    async fn rewrite_view(
        &self,
        execution_id: ExecutionId,
        version: Version,
        view: ExecutionView,
    ) -> Result<bool, StoreError>;

    /// How the store stands.
    async fn facts(&self) -> Result<StoreFacts, StoreError>;

    /// The tables that it works with, each with whether it is there; none where there are no tables.
    async fn tables(&self) -> Result<BTreeMap<&'static str, bool>, StoreError>;

    /// Walls around the log that do not stand; none where the database knows no roles that walls could
    /// stand between.
    async fn missing_walls(&self) -> Result<Vec<MissingWall>, StoreError>;

    /// Looks for damage that the database itself can tell, and says what it found.
    async fn integrity(&self) -> Result<Vec<String>, StoreError>;

    /// Executions of all tenants by id, behind one.
    async fn execution_ids(
        &self,
        after: Option<ExecutionId>,
        limit: PageLimit,
    ) -> Result<Vec<ExecutionId>, StoreError>;

    /// Copies the store to a file that is not there yet, while it is in use.
    async fn backup(&self, to: &Path) -> Result<(), StoreError>;
}
