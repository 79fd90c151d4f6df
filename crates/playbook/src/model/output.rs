//! Selection, accumulation and storage of the data of a step or task.

use std::sync::Arc;

use noetl_types::ByteSize;
use schemars::JsonSchema;
use serde::Serialize;

use super::value::SizeText;
use crate::string_enum;

/// Selection, accumulation and storage of the data of a step or task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OutputSpec {
    /// Parts of the data that stay readable without fetching the rest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub select: Vec<SelectedPath>,
    /// Names that stay readable without fetching the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_select: Option<OutputSelect>,
    /// Combines the data of several runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accumulate: Option<AccumulateSpec>,
    /// Data up to this size stays in the event log. 0 always moves it to the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeText>")]
    pub inline_max_bytes: Option<ByteSize>,
}

impl OutputSpec {
    pub(crate) const KEYS_WITHOUT_EFFECT: [&str; 4] = ["store", "preview_max_bytes", "scope", "as"];
}

/// A part of the data that stays readable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SelectedPath {
    /// Path of the part, such as `$.a.b`.
    pub path: Arc<str>,
    /// Name under which the part is read.
    #[serde(rename = "as")]
    pub alias: Arc<str>,
}

/// Selection of the names that stay readable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum OutputSelect {
    /// The listed names.
    Names(Vec<Arc<str>>),
    /// All names whose values are small enough.
    Threshold {
        /// Always `size_threshold`.
        strategy: Arc<str>,
        /// Maximum size of a value in KiB.
        #[serde(skip_serializing_if = "Option::is_none")]
        threshold_kb: Option<u64>,
    },
}

/// Combines the data of several runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AccumulateSpec {
    /// Enables accumulation.
    pub enabled: bool,
    /// Method of combining the parts.
    pub strategy: AccumulateStrategy,
    /// Path of the part within the data of each run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge_path: Option<Arc<str>>,
    /// Name of the accumulated value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest_as: Option<Arc<str>>,
    /// Maximum number of accumulated items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u64>,
}

string_enum! {
    /// Method of combining the data of several runs.
    #[derive(Default)]
    pub enum AccumulateStrategy {
        /// Appends each part to a list.
        #[default]
        Append = "append",
        /// Keeps only the last part.
        Replace = "replace",
        /// Merges maps key by key.
        Merge = "merge",
        /// Concatenates lists.
        Concat = "concat",
    }
}
