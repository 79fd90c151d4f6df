//! Storage of the data of a step or task.

use std::sync::Arc;

use noetl_types::ByteSize;
use noetl_types::time::Millis;
use schemars::JsonSchema;
use serde::Serialize;

use super::value::{DurationText, SizeText, ValueOrTemplate};
use crate::source::Spanned;
use crate::string_enum;

/// Storage of the data of a step or task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OutputSpec {
    /// Store for data that is too large for the event log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<OutputStore>,
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
    /// Maximum size of the preview of data in the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeText>")]
    pub preview_max_bytes: Option<ByteSize>,
    /// Lifetime of the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<OutputScope>,
    /// Alternative name of the data.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub alias: Option<Spanned<Arc<str>>>,
}

/// Store for data that is too large for the event log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OutputStore {
    /// Kind of store.
    pub kind: StoreKind,
    /// Bucket of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub bucket: Option<ValueOrTemplate<Arc<str>>>,
    /// Prefix of the object key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub prefix: Option<ValueOrTemplate<Arc<str>>>,
    /// Retention time of the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub ttl: Option<Millis>,
    /// Compression algorithm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<Arc<str>>,
    /// Credential for the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<Arc<str>>,
}

string_enum! {
    /// A kind of result store.
    #[derive(Default)]
    pub enum StoreKind {
        /// Chosen by size.
        #[default]
        Auto = "auto",
        /// Process memory.
        Memory = "memory",
        /// The key-value table.
        Kv = "kv",
        /// A directory on disk.
        Disk = "disk",
        /// The object table.
        Object = "object",
        /// Amazon S3.
        S3 = "s3",
        /// Google Cloud Storage.
        Gcs = "gcs",
        /// The database.
        Db = "db",
        /// A DuckDB file.
        Duckdb = "duckdb",
        /// The event itself.
        Eventlog = "eventlog",
    }
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

string_enum! {
    /// Lifetime of stored data.
    pub enum OutputScope {
        /// As long as the step.
        Step = "step",
        /// As long as the execution.
        Execution = "execution",
        /// As long as the tree of executions.
        Workflow = "workflow",
        /// Until it is deleted explicitly.
        Permanent = "permanent",
    }
}
