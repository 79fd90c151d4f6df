//! Definitions are put into the archive and taken out; their versions.

use noetl_api::catalog::{ArchiveAnswer, CatalogLine, CatalogList};
use noetl_store::{ExecutionFilter, VersionFilter};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, ExecutionStatus, PlaybookPath, Text};

use super::definitions::line;
use crate::runtime::{Runtime, RuntimeError};

impl Runtime {
    /// Puts a definition into the archive, unless executions of it go on.
    pub async fn archive_definition(&self, name: &str) -> Result<ArchiveAnswer, RuntimeError> {
        let path = self.named_definition(name).await?.path;
        self.behalf().check_change(&path)?;
        for status in [
            ExecutionStatus::Pending,
            ExecutionStatus::Running,
            ExecutionStatus::Paused,
        ] {
            let filter = ExecutionFilter {
                tenant_id: self.tenant().clone(),
                status: Some(status),
                path: Some(path.clone()),
                parent_execution_id: None,
                after: None,
                limit: PageLimit::MIN,
            };
            let page = self.store().executions(filter).await?;
            if let Some(live) = page.executions.first() {
                let text = format!("execution {} of `{path}` goes on", live.execution_id);
                return Err(RuntimeError::refused(ErrorCode::InFlight, text));
            }
        }
        let now = Some(self.now());
        let tenant = self.tenant();
        self.store().archive(tenant, &path, now).await?;
        Ok(ArchiveAnswer {
            status: "archived".into(),
            message: format!("`{path}` is archived; nothing new starts there").into(),
            path,
        })
    }

    /// Takes a definition out of the archive.
    pub async fn restore_definition(
        &self,
        path: PlaybookPath,
    ) -> Result<ArchiveAnswer, RuntimeError> {
        self.named_definition(path.as_str()).await?;
        self.behalf().check_change(&path)?;
        let tenant = self.tenant();
        self.store().archive(tenant, &path, None).await?;
        Ok(ArchiveAnswer {
            status: "active".into(),
            message: format!("`{path}` can be run again").into(),
            path,
        })
    }

    /// The versions of a definition, newest first.
    pub async fn definition_versions(
        &self,
        path: PlaybookPath,
        limit: PageLimit,
        cursor: Option<Text>,
    ) -> Result<CatalogList, RuntimeError> {
        let before = cursor.map(|cursor| cursor.parse());
        let before = before.transpose().map_err(|_| {
            let text = "the cursor is not one that this list gave";
            RuntimeError::refused(ErrorCode::BadQuery, text)
        })?;
        self.named_definition(path.as_str()).await?;
        let filter = VersionFilter {
            tenant_id: self.tenant().clone(),
            path,
            before,
            limit,
        };
        let versions = self.store().catalog_versions(filter).await?;
        let is_full = versions.len() >= usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let last = versions.last().filter(|last| is_full && last.version > 1);
        let next_cursor = last.map(|last| last.version.to_string().into());
        let entries: Vec<CatalogLine> = versions
            .into_iter()
            .map(|entry| line(entry, false))
            .collect();
        Ok(CatalogList {
            entries,
            next_cursor,
        })
    }
}
