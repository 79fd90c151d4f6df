//! The catalog of versioned definitions.

use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, Digest, Json, PlaybookPath, TenantId, Text, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCatalogEntry {
    /// Id of the version, if one is created.
    pub catalog_id: CatalogId,
    pub tenant_id: TenantId,
    pub path: PlaybookPath,
    /// `playbook`, `subscription` and so on.
    pub kind: Text,
    pub content: Text,
    /// Digest of the content.
    pub sha256: Digest,
    /// Metadata.
    pub meta: Option<Json>,
    pub now: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    pub catalog_id: CatalogId,
    pub tenant_id: TenantId,
    pub path: PlaybookPath,
    /// From 1.
    pub version: u32,
    pub kind: Text,
    pub content: Text,
    /// Digest of the content.
    pub sha256: Digest,
    /// Metadata.
    pub meta: Option<Json>,
    pub created_at: Timestamp,
    /// Time at which its path was archived. It can still be read and running executions continue,
    /// but no new ones start.
    pub archived_at: Option<Timestamp>,
}

/// Result of a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterOutcome {
    /// The version with the registered content.
    pub entry: CatalogEntry,
    /// True if the newest version already had the same content and kind, so that nothing was
    /// written.
    pub is_unchanged: bool,
}

/// Lookup key of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogKey {
    Id(CatalogId),
    Latest(PlaybookPath),
    Version(PlaybookPath, u32),
}

/// Filter and page of the versions of a definition, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogVersionFilter {
    pub tenant_id: TenantId,
    pub path: PlaybookPath,
    /// Only versions before this one.
    pub before: Option<u32>,
    pub limit: PageLimit,
}

/// Filter and page of a list of definitions: the newest version of each, ordered by path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogFilter {
    pub tenant_id: TenantId,
    /// Filter by kind.
    pub kind: Option<Text>,
    /// Includes archived definitions.
    pub include_archived: bool,
    /// Last path of the previous page.
    pub after: Option<PlaybookPath>,
    pub limit: PageLimit,
}

impl NewCatalogEntry {
    pub(crate) fn into_entry(self, version: u32) -> CatalogEntry {
        CatalogEntry {
            catalog_id: self.catalog_id,
            tenant_id: self.tenant_id,
            path: self.path,
            version,
            kind: self.kind,
            content: self.content,
            sha256: self.sha256,
            meta: self.meta,
            created_at: self.now,
            archived_at: None,
        }
    }

    pub(crate) fn has_same_content(&self, entry: &CatalogEntry) -> bool {
        self.sha256 == entry.sha256 && self.kind == entry.kind
    }

    /// Returns the result of a registration: the newest version if it has the same content,
    /// otherwise the next version. In both cases the path is no longer archived.
    pub(crate) fn register_after(self, newest: Option<CatalogEntry>) -> RegisterOutcome {
        match newest {
            Some(entry) if self.has_same_content(&entry) => RegisterOutcome {
                entry: CatalogEntry { archived_at: None, ..entry },
                is_unchanged: true,
            },
            newest => {
                let version = newest.map_or(1, |entry| entry.version.saturating_add(1));
                RegisterOutcome { entry: self.into_entry(version), is_unchanged: false }
            }
        }
    }
}
