//! Archiving, restoring and versions of definitions.

use noetl_api::catalog::{ArchiveResponse, CatalogList, CatalogListEntry};
use noetl_store::{CatalogVersionFilter, ExecutionFilter};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionStatus, PlaybookPath, Text};

use super::definitions::to_list_entry;
use crate::runtime::{Runtime, RuntimeError};

impl Runtime {
    /// Archives a definition, unless it has live executions.
    pub async fn archive_definition(&self, name: &str) -> Result<ArchiveResponse, RuntimeError> {
        let path = self.find_definition(name).await?.path;
        self.auth_context().check_path_change(&path)?;
        for status in [ExecutionStatus::Pending, ExecutionStatus::Running, ExecutionStatus::Paused]
        {
            let filter = ExecutionFilter {
                tenant_id: self.tenant().clone(),
                status: Some(status),
                path: Some(path.clone()),
                parent_execution_id: None,
                after: None,
                limit: PageLimit::MIN,
            };
            let page = self.store().list_executions(filter).await?;
            if let Some(execution) = page.executions.first() {
                let text =
                    format!("execution {} of `{path}` is still running", execution.execution_id);
                return Err(RuntimeError::refused(ErrorCode::InFlight, text));
            }
        }
        let now = Some(self.now());
        let tenant = self.tenant();
        self.store().set_definition_archived(tenant, &path, now).await?;
        Ok(ArchiveResponse {
            status: "archived".into(),
            message: format!("`{path}` is archived; no new execution can start").into(),
            path,
        })
    }

    /// Restores an archived definition.
    pub async fn restore_definition(
        &self,
        path: PlaybookPath,
    ) -> Result<ArchiveResponse, RuntimeError> {
        self.find_definition(path.as_str()).await?;
        self.auth_context().check_path_change(&path)?;
        let tenant = self.tenant();
        self.store().set_definition_archived(tenant, &path, None).await?;
        Ok(ArchiveResponse {
            status: "active".into(),
            message: format!("`{path}` can be run again").into(),
            path,
        })
    }

    /// Lists the versions of a definition, newest first.
    pub async fn definition_versions(
        &self,
        path: PlaybookPath,
        limit: PageLimit,
        cursor: Option<Text>,
    ) -> Result<CatalogList, RuntimeError> {
        let before = cursor.map(|cursor| cursor.parse());
        let before = before.transpose().map_err(|_| {
            let text = "the cursor is not valid for this list";
            RuntimeError::refused(ErrorCode::BadQuery, text)
        })?;
        self.find_definition(path.as_str()).await?;
        let filter = CatalogVersionFilter { tenant_id: self.tenant().clone(), path, before, limit };
        let versions = self.store().list_catalog_versions(filter).await?;
        let is_full = versions.len() >= usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let last = versions.last().filter(|last| is_full && last.version > 1);
        let next_cursor = last.map(|last| last.version.to_string().into());
        let entries: Vec<CatalogListEntry> =
            versions.into_iter().map(|entry| to_list_entry(entry, false)).collect();
        Ok(CatalogList { entries, next_cursor })
    }
}
