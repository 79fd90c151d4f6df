//! The catalog: definitions in versions.

use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, Digest, Json, PlaybookPath, TenantId, Text, Timestamp};

/// A definition to be registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCatalogEntry {
    /// The id of the version, if there comes to be one.
    pub catalog_id: CatalogId,
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Where it is found.
    pub path: PlaybookPath,
    /// What it is: `playbook`, `subscription` and so on.
    pub kind: Text,
    /// Its text.
    pub content: Text,
    /// The digest of the text.
    pub sha256: Digest,
    /// What else is known about it.
    pub meta: Option<Json>,
    /// The server's clock.
    pub now: Timestamp,
}

/// A version of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// The id.
    pub catalog_id: CatalogId,
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Where it is found.
    pub path: PlaybookPath,
    /// Its version, from 1.
    pub version: u32,
    /// What it is.
    pub kind: Text,
    /// Its text.
    pub content: Text,
    /// The digest of the text.
    pub sha256: Digest,
    /// What else is known about it.
    pub meta: Option<Json>,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When its path was archived. It can still be found, and runs go on; nothing new starts.
    pub archived_at: Option<Timestamp>,
}

/// What a registration gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// The version that holds the content now.
    pub entry: CatalogEntry,
    /// Whether the newest version had the same content and kind, so that nothing was written.
    pub is_unchanged: bool,
}

/// How a definition is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogKey {
    /// By its id.
    Id(CatalogId),
    /// The newest version at a path.
    Latest(PlaybookPath),
    /// A version at a path.
    Version(PlaybookPath, u32),
}

/// Which versions of a definition a history shows: the newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionFilter {
    /// Whose.
    pub tenant_id: TenantId,
    /// The path.
    pub path: PlaybookPath,
    /// Those before a version.
    pub before: Option<u32>,
    /// How many at most.
    pub limit: PageLimit,
}

/// Which definitions a list shows: the newest version of each, in the order of their paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogFilter {
    /// Whose.
    pub tenant_id: TenantId,
    /// Only those of a kind.
    pub kind: Option<Text>,
    /// Whether archived ones are shown too.
    pub archived: bool,
    /// After a path.
    pub after: Option<PlaybookPath>,
    /// How many at most.
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

    pub(crate) fn is_same_as(&self, entry: &CatalogEntry) -> bool {
        self.sha256 == entry.sha256 && self.kind == entry.kind
    }

    /// What a registration beside the newest version comes to: that version, or the next one. Either
    /// way its path is not archived afterwards.
    pub(crate) fn beside(self, newest: Option<CatalogEntry>) -> Registered {
        match newest {
            Some(entry) if self.is_same_as(&entry) => Registered {
                entry: CatalogEntry {
                    archived_at: None,
                    ..entry
                },
                is_unchanged: true,
            },
            newest => {
                let version = newest.map_or(1, |entry| entry.version.saturating_add(1));
                Registered {
                    entry: self.into_entry(version),
                    is_unchanged: false,
                }
            }
        }
    }
}
