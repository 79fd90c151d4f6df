//! Data that is kept beside the log.

use noetl_types::{Json, Text, Timestamp};
use serde::{Deserialize, Serialize};

/// Data to be kept. A classic body: what it does not know it passes over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PutResult {
    /// Its name, which becomes part of its address.
    pub name: Text,
    /// The data.
    pub data: Json,
    /// How long it is of use: `step`, `execution`, `workflow` or `permanent`.
    #[serde(default = "execution", skip_serializing_if = "is_execution")]
    pub scope: Text,
    /// The step that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_step: Option<Text>,
    /// Where it is to be kept; the server chooses where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<Text>,
    /// How long it is kept: seconds, or a duration as in playbooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Json>,
    /// What it belongs to, in the caller's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<Json>,
    /// Whether it is packed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compress: Option<bool>,
}

fn execution() -> Text {
    "execution".into()
}

fn is_execution(scope: &Text) -> bool {
    *scope == "execution"
}

impl PutResult {
    /// Data under a name, for as long as the run is of use.
    pub fn new(name: impl Into<Text>, data: Json) -> Self {
        Self {
            name: name.into(),
            data,
            scope: execution(),
            source_step: None,
            store: None,
            ttl: None,
            correlation: None,
            compress: None,
        }
    }
}

/// Data is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptResult {
    /// Its address.
    #[serde(rename = "ref")]
    pub reference: Text,
    /// Where it is kept.
    pub store: Text,
    /// How long it is of use.
    pub scope: Text,
    /// How many bytes it has.
    pub bytes: u64,
    /// What its canonical bytes hash to, in hexadecimal.
    pub sha256: Text,
    /// When it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_body_is_for_the_execution() {
        let short: PutResult = serde_json::from_str(r#"{"name":"n","data":[1]}"#).unwrap();
        let made = PutResult::new("n", Json::from(vec![Json::from(1)]));
        assert_eq!(short, made);
        assert_eq!(
            serde_json::to_string(&made).unwrap(),
            r#"{"name":"n","data":[1]}"#
        );
    }

    #[test]
    fn a_kept_result_is_known_by_its_ref() {
        let kept: KeptResult = serde_json::from_str(
            r#"{"ref":"noetl://execution/7/result/n/8","store":"kv","scope":"execution",
                "bytes":3,"sha256":"ab","expires_at":null}"#,
        )
        .unwrap();
        assert_eq!(kept.reference, "noetl://execution/7/result/n/8");
        assert_eq!(kept.expires_at, None);
    }
}
