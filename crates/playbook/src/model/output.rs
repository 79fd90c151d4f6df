//! How the data of a step or task is kept.

use std::sync::Arc;

use noetl_types::ByteSize;
use noetl_types::time::Millis;
use schemars::JsonSchema;
use serde::Serialize;

use super::value::SizeText;
use super::value::{DurationText, Setting};
use crate::source::Spanned;
use crate::words;

/// How data is kept.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OutputSpec {
    /// Where big data goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<Store>,
    /// Parts that stay readable without fetching the rest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub select: Vec<Select>,
    /// Names that stay readable without fetching the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_select: Option<OutputSelect>,
    /// Gathers the data of several runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accumulate: Option<Accumulate>,
    /// Data up to this size stays in the log; 0 always moves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeText>")]
    pub inline_max_bytes: Option<ByteSize>,
    /// Size of the preview of data that is moved out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeText>")]
    pub preview_max_bytes: Option<ByteSize>,
    /// How long it lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<OutputScope>,
    /// Another name to find it under.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub alias: Option<Spanned<Arc<str>>>,
}

/// Where big data goes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// The kind of store.
    pub kind: StoreKind,
    /// Its bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub bucket: Option<Setting<Arc<str>>>,
    /// Put before the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub prefix: Option<Setting<Arc<str>>>,
    /// How long it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub ttl: Option<Millis>,
    /// How it is compressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<Arc<str>>,
    /// The credential for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<Arc<str>>,
}

words! {
    /// A kind of result store.
    #[derive(Default)]
    pub enum StoreKind {
        /// By size.
        #[default]
        Auto = "auto",
        /// In memory.
        Memory = "memory",
        /// In the key-value table.
        Kv = "kv",
        /// In a folder.
        Disk = "disk",
        /// In the object table.
        Object = "object",
        /// In S3.
        S3 = "s3",
        /// In Google Cloud Storage.
        Gcs = "gcs",
        /// In the database.
        Db = "db",
        /// In a DuckDB file.
        Duckdb = "duckdb",
        /// In the event itself.
        Eventlog = "eventlog",
    }
}

/// A part that stays readable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Select {
    /// Where it is, like `$.a.b`.
    pub path: Arc<str>,
    /// Its name.
    #[serde(rename = "as")]
    pub alias: Arc<str>,
}

/// Which names stay readable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum OutputSelect {
    /// These.
    Names(Vec<Arc<str>>),
    /// Those that fit.
    Threshold {
        /// Always `size_threshold`.
        strategy: Arc<str>,
        /// Bound in KiB.
        #[serde(skip_serializing_if = "Option::is_none")]
        threshold_kb: Option<u64>,
    },
}

/// Gathers the data of several runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Accumulate {
    /// Whether it is on.
    pub enabled: bool,
    /// How parts are put together.
    pub strategy: AccumulateStrategy,
    /// Where in the data the parts are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge_path: Option<Arc<str>>,
    /// The name of the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest_as: Option<Arc<str>>,
    /// Bound on the parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u64>,
}

words! {
    /// How parts are put together.
    #[derive(Default)]
    pub enum AccumulateStrategy {
        /// One after the other.
        #[default]
        Append = "append",
        /// The last one.
        Replace = "replace",
        /// Key by key.
        Merge = "merge",
        /// As one list.
        Concat = "concat",
    }
}

words! {
    /// How long data lives.
    pub enum OutputScope {
        /// With the step.
        Step = "step",
        /// With the execution.
        Execution = "execution",
        /// With the tree of executions.
        Workflow = "workflow",
        /// Until it is deleted.
        Permanent = "permanent",
    }
}
