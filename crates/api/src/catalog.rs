//! Definitions on the wire.

use noetl_types::{CatalogId, Json, PlaybookPath, Text, Timestamp};
use serde::{Deserialize, Serialize};

use crate::execute::Version;

/// A wish to register a definition. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterRequest {
    /// The document, or its base64.
    pub content: String,
    /// What kind of document the sender takes it for; the document itself decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_type: Option<Text>,
    /// Whether it is only to be checked.
    #[serde(default)]
    pub dry_run: bool,
}

/// A definition is registered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisterAnswer {
    /// `success`.
    pub status: Text,
    /// The same in words.
    pub message: Text,
    /// Its path.
    pub path: PlaybookPath,
    /// Its version; absent after a dry run of a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Its id; absent after a dry run of a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_id: Option<CatalogId>,
    /// The kind of the document, in lower case.
    pub kind: Text,
    /// Whether the same content was there already.
    pub unchanged: bool,
    /// What the checker warns of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Json>,
}

/// A wish to see a definition. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResourceRequest {
    /// By id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_id: Option<CatalogId>,
    /// By path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PlaybookPath>,
    /// The version; the newest where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
}

/// A definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CatalogItem {
    /// Its id.
    pub catalog_id: CatalogId,
    /// Its path.
    pub path: PlaybookPath,
    /// The kind of the document, in lower case.
    pub kind: Text,
    /// Its version.
    pub version: u32,
    /// The document.
    pub content: Text,
    /// The digest of the document, in hexadecimal.
    pub sha256: Text,
    /// When it was registered.
    pub created_at: Timestamp,
}
