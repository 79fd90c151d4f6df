//! The catalog of versioned definitions.

use async_trait::async_trait;
use noetl_types::{PlaybookPath, TenantId, Timestamp};

use crate::error::StoreError;
use crate::model::{
    CatalogEntry, CatalogFilter, CatalogKey, CatalogVersionFilter, NewCatalogEntry, RegisterOutcome,
};
use crate::row::{CATALOG, ToRow as _, cells};
use crate::sql::{Database, Durability, PlanMode, Session, Statement};

/// The part of a [`crate::Store`] for definitions.
#[async_trait]
pub trait CatalogStore {
    /// Registers a definition. Returns the newest version if its content is the same, otherwise
    /// creates the next one. An archived path becomes active again.
    async fn register_definition(
        &self,
        entry: NewCatalogEntry,
    ) -> Result<RegisterOutcome, StoreError>;

    /// Returns a definition of a tenant.
    async fn find_catalog_entry(
        &self,
        tenant_id: &TenantId,
        key: CatalogKey,
    ) -> Result<Option<CatalogEntry>, StoreError>;

    /// Returns the newest versions of definitions, ordered by path.
    async fn list_catalog(&self, filter: CatalogFilter) -> Result<Vec<CatalogEntry>, StoreError>;

    /// Returns the versions of a definition, newest first.
    async fn list_catalog_versions(
        &self,
        filter: CatalogVersionFilter,
    ) -> Result<Vec<CatalogEntry>, StoreError>;

    /// Archives the definition at a path as of `since`, or restores it if `since` is `None`.
    /// Returns `false` if nothing changes or if there is no such definition.
    async fn set_definition_archived(
        &self,
        tenant_id: &TenantId,
        path: &PlaybookPath,
        since: Option<Timestamp>,
    ) -> Result<bool, StoreError>;
}

static ENTRY_BY_ID: Statement =
    Statement::select(&CATALOG, "WHERE tenant_id = $1 AND catalog_id = $2").with_auto_plan();

static ENTRY_BY_VERSION: Statement =
    Statement::select(&CATALOG, "WHERE tenant_id = $1 AND path = $2 AND version = $3::bigint")
        .with_auto_plan();

static LATEST_ENTRY: Statement =
    Statement::select(&CATALOG, "WHERE tenant_id = $1 AND path = $2 ORDER BY version DESC LIMIT 1")
        .with_auto_plan();

static LIST_ENTRIES: Statement = Statement::select(
    &CATALOG,
    "AS entry
     WHERE tenant_id = $1 AND ($2::text IS NULL OR kind = $2) AND ($3::text IS NULL OR path > $3)
         AND version = (
             SELECT max(newest.version) FROM catalog AS newest
             WHERE newest.tenant_id = entry.tenant_id AND newest.path = entry.path
         )
         AND ($5::boolean OR archived_at IS NULL)
     ORDER BY path LIMIT $4::bigint",
)
.with_auto_plan();

static LIST_VERSIONS: Statement = Statement::select(
    &CATALOG,
    "WHERE tenant_id = $1 AND path = $2 AND ($3::bigint IS NULL OR version < $3)
     ORDER BY version DESC LIMIT $4::bigint",
)
.with_auto_plan();

static INSERT_ENTRY: Statement = Statement::insert(&CATALOG, "");

/// Archives or restores all versions of a path.
static SET_ARCHIVED: Statement = Statement::new(
    "UPDATE catalog SET archived_at = $3::timestamptz
     WHERE tenant_id = $1 AND path = $2 AND (archived_at IS NULL) <> ($3::timestamptz IS NULL)",
);

/// Changes the archive state of a path. Its versions are numbered and archived under its lock.
async fn set_archived(
    session: &mut dyn Session,
    tenant_id: &TenantId,
    path: &PlaybookPath,
    since: Option<Timestamp>,
) -> Result<bool, StoreError> {
    session.lock_by_name(&format!("catalog {tenant_id} {path}")).await?;
    Ok(session.execute(&SET_ARCHIVED, cells![tenant_id, path, since]).await? > 0)
}

async fn register_definition(
    session: &mut dyn Session,
    new: &NewCatalogEntry,
) -> Result<RegisterOutcome, StoreError> {
    set_archived(session, &new.tenant_id, &new.path, None).await?;
    let newest = session.query_first(&LATEST_ENTRY, cells![new.tenant_id, new.path]).await?;
    let registered = new.clone().register_after(newest);
    if !registered.is_unchanged {
        session.execute(&INSERT_ENTRY, registered.entry.to_row()).await?;
    }
    Ok(registered)
}

#[async_trait]
impl<D: Database> CatalogStore for D {
    async fn register_definition(
        &self,
        entry: NewCatalogEntry,
    ) -> Result<RegisterOutcome, StoreError> {
        self.transaction(Durability::Synced, PlanMode::Auto, entry, |session, entry| {
            Box::pin(register_definition(session, entry))
        })
        .await
    }

    async fn find_catalog_entry(
        &self,
        tenant_id: &TenantId,
        key: CatalogKey,
    ) -> Result<Option<CatalogEntry>, StoreError> {
        let (statement, params) = match key {
            CatalogKey::Id(id) => (&ENTRY_BY_ID, cells![tenant_id, id]),
            CatalogKey::Latest(path) => (&LATEST_ENTRY, cells![tenant_id, path]),
            CatalogKey::Version(path, version) => {
                (&ENTRY_BY_VERSION, cells![tenant_id, path, version])
            }
        };
        self.query_first(statement, params).await
    }

    async fn list_catalog(&self, filter: CatalogFilter) -> Result<Vec<CatalogEntry>, StoreError> {
        let CatalogFilter { tenant_id, kind, include_archived, after, limit } = filter;
        self.query(&LIST_ENTRIES, cells![tenant_id, kind, after, limit, include_archived]).await
    }

    async fn list_catalog_versions(
        &self,
        filter: CatalogVersionFilter,
    ) -> Result<Vec<CatalogEntry>, StoreError> {
        let CatalogVersionFilter { tenant_id, path, before, limit } = filter;
        self.query(&LIST_VERSIONS, cells![tenant_id, path, before, limit]).await
    }

    async fn set_definition_archived(
        &self,
        tenant_id: &TenantId,
        path: &PlaybookPath,
        since: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let args = (tenant_id.clone(), path.clone(), since);
        self.transaction(Durability::Synced, PlanMode::Auto, args, |session, args| {
            Box::pin(set_archived(session, &args.0, &args.1, args.2))
        })
        .await
    }
}
