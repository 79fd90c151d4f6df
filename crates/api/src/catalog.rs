//! Catalog requests and responses.

use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, Json, PlaybookPath, Text, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::execute::VersionSelector;

/// Registers a definition. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegisterRequest {
    /// The document, as text or base64.
    pub content: String,
    /// Kind of document according to the sender. The document itself decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_type: Option<Text>,
    /// Only validate the document, without registering it.
    #[serde(default)]
    pub dry_run: bool,
}

/// A registered definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegisterResponse {
    /// `success`.
    pub status: Text,
    /// Human-readable message.
    pub message: Text,
    /// Path of the definition.
    pub path: PlaybookPath,
    /// Version of the definition; absent after a dry run of a new definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Id of the version; absent after a dry run of a new definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_id: Option<CatalogId>,
    /// Kind of the document, in lower case.
    pub kind: Text,
    /// True if the same content was already registered.
    pub unchanged: bool,
    /// Warnings of the validation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Json>,
}

/// Selects a definition. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CatalogResourceRequest {
    /// Id of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_id: Option<CatalogId>,
    /// Path of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PlaybookPath>,
    /// Version; the newest if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionSelector>,
}

/// Registers many definitions independently. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegisterBatchRequest {
    /// At most 200 definitions.
    pub items: Vec<RegisterRequest>,
}

/// Results of a batch registration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegisterBatchResponse {
    /// Number of registered definitions.
    pub registered: u32,
    /// Number of rejected definitions.
    pub failed: u32,
    /// One result per definition, in request order.
    pub results: Vec<RegisterBatchResult>,
}

/// Result for one definition of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegisterBatchResult {
    /// Position in the request, from 0.
    pub index: u32,
    /// `registered` or `error`.
    pub status: Text,
    /// Path of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PlaybookPath>,
    /// Version of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Id of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_id: Option<CatalogId>,
    /// Error message if the definition was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}

/// Lists definitions. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CatalogListRequest {
    /// Filter by kind of document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_type: Option<Text>,
    /// List only the newest version of each definition; default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_only: Option<bool>,
    /// Include the content of the documents; default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_content: Option<bool>,
    /// Filter by text in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q: Option<Text>,
    /// Maximum number of entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<PageLimit>,
    /// Cursor of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Text>,
}

/// Lists agents. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct AgentListRequest {
    /// Filter by capabilities. An agent must have all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<Text>>,
}

/// A page of definitions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CatalogList {
    /// Definitions in the order of their paths.
    pub entries: Vec<CatalogListEntry>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Text>,
}

/// A definition in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogListEntry {
    /// Id of the version.
    pub catalog_id: CatalogId,
    /// Path of the definition.
    pub path: PlaybookPath,
    /// Kind of the document, in lower case.
    pub kind: Text,
    /// Version of the definition.
    pub version: u32,
    /// Content of the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Text>,
    /// Layout of the graph in a console.
    pub layout: Option<Json>,
    /// For classic clients; always absent.
    pub payload: Option<Json>,
    /// Metadata of the document.
    pub meta: Option<Json>,
    /// Registration time.
    pub created_at: Timestamp,
    /// `active` or `archived`.
    pub status: Text,
}

/// Content of a playbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlaybookContent {
    /// The text.
    pub content: Text,
    /// Path of the playbook.
    pub path: PlaybookPath,
    /// Version of the playbook.
    pub version: u32,
}

/// A document to register or validate. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContentRequest {
    /// The document, as text or base64.
    pub content: String,
}

/// Result of a validation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValidationReport {
    /// True if the document is valid.
    pub valid: bool,
    /// Error messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Text>,
    /// All diagnostics, with positions.
    pub diagnostics: Vec<Json>,
}

/// Description of an input form for a playbook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UiSchema {
    /// Path of the definition.
    pub path: PlaybookPath,
    /// Version of the definition.
    pub version: u32,
    /// Kind of the document, in lower case.
    pub kind: Text,
    /// Title of the playbook.
    pub title: Text,
    /// Description in Markdown.
    pub description_markdown: Option<Text>,
    /// True if users may start the playbook from the UI.
    pub exposed_in_ui: bool,
    /// Input fields.
    pub fields: Vec<UiField>,
    /// Time at which the schema was generated.
    pub generated_at: Timestamp,
}

/// One input field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UiField {
    /// Name of the field.
    pub name: Text,
    /// `string`, `number`, `boolean`, `object`, `array`, or `any`.
    pub kind: Text,
    /// Default value.
    pub default: Json,
    /// Description of the field.
    pub description: Option<Text>,
    /// True if the value must not be displayed.
    pub secret: bool,
    /// Pattern of the credentials that the field may name.
    pub credential_glob: Option<Text>,
    /// Allowed values.
    pub options: Option<Vec<Json>>,
    /// Nested fields.
    pub children: Vec<UiField>,
}

/// Restores an archived definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreRequest {
    /// Path of the definition.
    pub path: PlaybookPath,
}

/// Result of archiving or restoring a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArchiveResponse {
    /// `archived` or `active`.
    pub status: Text,
    /// Human-readable message.
    pub message: Text,
    /// Path of the definition.
    pub path: PlaybookPath,
}

/// A definition with its content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogResource {
    /// Id of the version.
    pub catalog_id: CatalogId,
    /// Path of the definition.
    pub path: PlaybookPath,
    /// Kind of the document, in lower case.
    pub kind: Text,
    /// Version of the definition.
    pub version: u32,
    /// Content of the document.
    pub content: Text,
    /// SHA-256 digest of the document, in hexadecimal.
    pub sha256: Text,
    /// Registration time.
    pub created_at: Timestamp,
}
