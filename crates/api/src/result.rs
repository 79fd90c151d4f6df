//! Stored results: data kept outside the log.

use noetl_types::{Json, Text, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stores data. A classic body: unknown fields are ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResultPutRequest {
    /// Name, used as part of the address.
    pub name: Text,
    /// The data.
    pub data: Json,
    /// Lifetime: `step`, `execution`, `workflow` or `permanent`.
    #[serde(default = "default_result_scope", skip_serializing_if = "is_default_result_scope")]
    pub scope: Text,
    /// Step that produced the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_step: Option<Text>,
    /// Storage backend; chosen by the server if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<Text>,
    /// Retention: seconds, or a duration as in playbooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Json>,
    /// Correlation data of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<Json>,
    /// True if the data is compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compress: Option<bool>,
}

fn default_result_scope() -> Text {
    "execution".into()
}

fn is_default_result_scope(scope: &Text) -> bool {
    *scope == "execution"
}

impl ResultPutRequest {
    /// Creates a request for data with the lifetime of its execution.
    pub fn new(name: impl Into<Text>, data: Json) -> Self {
        Self {
            name: name.into(),
            data,
            scope: default_result_scope(),
            source_step: None,
            store: None,
            ttl: None,
            correlation: None,
            compress: None,
        }
    }
}

/// Stored data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResultPutResponse {
    /// Address of the data.
    #[serde(rename = "ref")]
    pub reference: Text,
    /// Storage backend.
    pub store: Text,
    /// Lifetime.
    pub scope: Text,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 digest of the canonical bytes, in hexadecimal.
    pub sha256: Text,
    /// Expiry time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests;
