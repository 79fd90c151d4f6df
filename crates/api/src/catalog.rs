//! Definitions on the wire.

use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, Json, PlaybookPath, Text, Timestamp};
use serde::{Deserialize, Serialize};

use crate::execute::Version;

/// A wish to register a definition. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// Many definitions to be registered, each by itself. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegisterBatch {
    /// At most [`noetl_types::limits::MAX_REGISTER_BATCH`].
    pub items: Vec<RegisterRequest>,
}

/// What became of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegisterBatchAnswer {
    /// How many are registered.
    pub registered: u32,
    /// How many are not.
    pub failed: u32,
    /// One for each, in order.
    pub results: Vec<RegisterVerdict>,
}

/// What became of one of many definitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegisterVerdict {
    /// Its place in the request, from 0.
    pub index: u32,
    /// `registered` or `error`.
    pub status: Text,
    /// Its path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PlaybookPath>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_id: Option<CatalogId>,
    /// Why it is not registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
}

/// A wish to see definitions. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListRequest {
    /// Only those of a kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_type: Option<Text>,
    /// Whether only the newest version of each is shown, as it is where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_only: Option<bool>,
    /// Whether their texts are shown, as they are where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_content: Option<bool>,
    /// Only those whose path holds this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q: Option<Text>,
    /// How many at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<PageLimit>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Text>,
}

/// A wish to see agents. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentsRequest {
    /// Only those that can do all of this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<Text>>,
}

/// Definitions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CatalogList {
    /// In the order of their paths.
    pub entries: Vec<CatalogLine>,
    /// Where the next page begins; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Text>,
}

/// A definition as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CatalogLine {
    /// Its id.
    pub catalog_id: CatalogId,
    /// Its path.
    pub path: PlaybookPath,
    /// The kind of the document, in lower case.
    pub kind: Text,
    /// Its version.
    pub version: u32,
    /// The document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Text>,
    /// How a console has drawn it.
    pub layout: Option<Json>,
    /// Kept for classic clients; never there.
    pub payload: Option<Json>,
    /// What else is known of it.
    pub meta: Option<Json>,
    /// When it was registered.
    pub created_at: Timestamp,
    /// `active`, or `archived`.
    pub status: Text,
}

/// The text of a playbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Content {
    /// The text.
    pub content: Text,
    /// Its path.
    pub path: PlaybookPath,
    /// Its version.
    pub version: u32,
}

/// A text to be registered or checked. A classic body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContentRequest {
    /// The document, or its base64.
    pub content: String,
}

/// Whether a document is well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Validation {
    /// Whether it is.
    pub valid: bool,
    /// What is wrong with it, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Text>,
    /// All that was found, with places.
    pub diagnostics: Vec<Json>,
}

/// What a form for the input of a playbook needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UiSchema {
    /// The path of the definition.
    pub path: PlaybookPath,
    /// Its version.
    pub version: u32,
    /// The kind of the document, in lower case.
    pub kind: Text,
    /// What it is called.
    pub title: Text,
    /// What it is for.
    pub description_markdown: Option<Text>,
    /// Whether people are meant to start it.
    pub exposed_in_ui: bool,
    /// Its input.
    pub fields: Vec<UiField>,
    /// When this was worked out.
    pub generated_at: Timestamp,
}

/// One value of an input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UiField {
    /// Its name.
    pub name: Text,
    /// `string`, `number`, `boolean`, `object`, `array`, or `any`.
    pub kind: Text,
    /// Its value where nobody gives one.
    pub default: Json,
    /// What it is for.
    pub description: Option<Text>,
    /// Whether it is not to be shown.
    pub secret: bool,
    /// The credentials that it may name.
    pub credential_glob: Option<Text>,
    /// The values that it may have.
    pub options: Option<Vec<Json>>,
    /// The values inside of it.
    pub children: Vec<UiField>,
}

/// A wish to take a definition out of the archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RestoreRequest {
    /// Its path.
    pub path: PlaybookPath,
}

/// What became of a definition that was put into the archive, or taken out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArchiveAnswer {
    /// `archived` or `active`.
    pub status: Text,
    /// The same in words.
    pub message: Text,
    /// Its path.
    pub path: PlaybookPath,
}

/// A definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
