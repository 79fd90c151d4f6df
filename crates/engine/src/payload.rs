//! Data that is small enough for the log, and references to data that is not.
//!
//! Owns the form of a reference and the rules by which the engine moves large values out of events.
//! It stores and fetches nothing: new payloads are returned with the decision, and payloads that
//! templates need are passed in with the next call.

use std::sync::Arc;

use noetl_types::json::to_canonical;
use noetl_types::{ByteSize, ExecutionId, Json, JsonMap, ResultId, StepName, sha256};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use noetl_playbook::bounds::size_within;
use noetl_playbook::model::{OutputSelect, OutputSpec};

/// Default size limit of data stored inline in events.
pub const MAX_INLINE_SIZE: ByteSize = ByteSize::from_kib(64);
/// Maximum size of the extracted parts of a reference.
const MAX_EXTRACTED_BYTES: usize = 4 << 10;
/// Maximum size of one extracted part.
const MAX_EXTRACTED_PART_BYTES: usize = 512;
/// Size from which payloads go to disk or to the configured object store. Smaller ones go to the
/// key-value tier.
const KV_TIER_LIMIT_BYTES: usize = 1 << 20;

/// Data of an event, inline or by reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventData {
    /// Inline data.
    Inline(Json),
    /// Reference to data in the result store.
    External(Reference),
}

impl Default for EventData {
    fn default() -> Self {
        Self::Inline(Json::Null)
    }
}

impl From<Json> for EventData {
    fn from(value: Json) -> Self {
        Self::Inline(value)
    }
}

/// Reference to external data. A map with `ref`, `store`, `bytes`, `sha256`, `media_type` and
/// `extracted` parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference(Json);

/// The value is not a map with a string under `ref`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid reference: expected a map with a string under `ref`")]
pub struct InvalidReference;

impl Reference {
    /// Validates a reference.
    pub fn new(value: Json) -> Result<Self, InvalidReference> {
        match value.get("ref") {
            Some(Json::Str(_)) => Ok(Self(value)),
            Some(_) | None => Err(InvalidReference),
        }
    }

    /// URI of the data.
    pub fn uri(&self) -> &str {
        self.0.get("ref").and_then(Json::as_str).unwrap_or_default()
    }

    /// The reference as stored in events.
    pub fn as_json(&self) -> &Json {
        &self.0
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Json::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// A value that was moved out of an event. It must be stored before the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPayload {
    /// Reference that the event contains in its place.
    pub reference: Reference,
    /// Id of the stored result.
    pub result_id: ResultId,
    /// Name of the step that it belongs to, or `workload`.
    pub name: StepName,
    /// The value.
    pub content: Json,
    /// The stored bytes: canonical JSON.
    pub bytes: Arc<[u8]>,
}

impl NewPayload {
    /// Creates a payload of an execution.
    pub(crate) fn new(
        execution_id: ExecutionId,
        name: StepName,
        result_id: ResultId,
        content: Json,
        rules: &ExtractionRules,
    ) -> Self {
        let bytes = to_canonical(&content);
        let tier = if bytes.len() < KV_TIER_LIMIT_BYTES { "kv" } else { "disk" };
        let uri = format!("noetl://execution/{execution_id}/result/{name}/{result_id}");
        let reference = Json::object([
            ("ref", Json::from(uri)),
            ("store", Json::from(tier)),
            ("bytes", Json::from(bytes.len())),
            ("sha256", Json::from(sha256(&bytes).to_string())),
            ("media_type", Json::from("application/json")),
            ("extracted", rules.extract_parts(&content)),
        ]);
        Self { reference: Reference(reference), result_id, name, content, bytes: bytes.into() }
    }
}

/// Selects the parts of data that a reference contains, so that templates can read them without
/// fetching the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractionRules {
    /// Names of parts to extract first, up to [`MAX_EXTRACTED_BYTES`].
    preferred: Vec<Arc<str>>,
    /// Size limit of all other parts.
    max_part_bytes: usize,
}

impl Default for ExtractionRules {
    fn default() -> Self {
        Self { preferred: Vec::new(), max_part_bytes: MAX_EXTRACTED_PART_BYTES }
    }
}

impl ExtractionRules {
    /// Builds the rules from the `output` sections of a step.
    pub(crate) fn from_outputs<'o>(outputs: impl Iterator<Item = &'o OutputSpec>) -> Self {
        let mut rules = Self::default();
        for output in outputs {
            match &output.output_select {
                None => {}
                Some(OutputSelect::Names(names)) => {
                    rules.preferred.extend(names.iter().cloned());
                }
                Some(OutputSelect::Threshold { threshold_kb, .. }) => {
                    let bytes = threshold_kb.map(|kib| kib.saturating_mul(1024));
                    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
                    rules.max_part_bytes =
                        bytes.unwrap_or(MAX_EXTRACTED_BYTES).min(MAX_EXTRACTED_BYTES);
                }
            }
            let aliases = output.select.iter().map(|select| &select.alias);
            rules.preferred.extend(aliases.cloned());
        }
        rules
    }

    /// Extracts parts of a map unchanged: a template reads the same values there as in the data.
    fn extract_parts(&self, content: &Json) -> Json {
        let mut remaining = MAX_EXTRACTED_BYTES;
        let mut parts = JsonMap::new();
        let Some(map) = content.as_map() else {
            return Json::from(parts);
        };
        let first = self.preferred.iter().filter_map(|name| map.get_key_value(name));
        let first = first.map(|part| (part, MAX_EXTRACTED_BYTES));
        let others = map.iter().map(|part| (part, self.max_part_bytes));
        for ((key, part), limit) in first.chain(others) {
            let is_text = matches!(part, Json::Str(_));
            let limit = if is_text { limit.min(MAX_EXTRACTED_PART_BYTES) } else { limit };
            let Some(bytes) = size_within(part, limit) else {
                continue;
            };
            if !parts.contains_key(key)
                && let Some(rest) = remaining.checked_sub(key.len() + bytes + 4)
            {
                remaining = rest;
                parts.insert(Arc::clone(key), part.clone());
            }
        }
        Json::from(parts)
    }
}

#[cfg(test)]
mod tests;
