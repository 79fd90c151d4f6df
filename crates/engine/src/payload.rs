//! Data that is small enough for the log, and references to data that is not.
//!
//! Owns what a reference looks like and how the engine itself moves a big value out of an event. It
//! stores and fetches nothing: a decision hands new payloads to its caller, and a payload that a
//! template needs comes in with the next call.

use std::sync::Arc;

use noetl_types::json::to_canonical;
use noetl_types::{ByteSize, ExecutionId, Json, JsonMap, ResultId, StepName, sha256};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use noetl_playbook::bounds::size_within;
use noetl_playbook::model::{OutputSelect, OutputSpec};

/// Bytes of data that stay in the log unless a playbook says otherwise.
pub const INLINE_MAX: ByteSize = ByteSize::from_kib(64);
/// Bytes of what a reference tells about its data.
const EXTRACTED_MAX: usize = 4 << 10;
/// Bytes of any one part of it.
const EXTRACTED_PART_MAX: usize = 512;
/// Smaller payloads go to the key-value tier, others to disk or to the configured object store.
const KV_TIER_MAX: usize = 1 << 20;

/// Data of a task or step: in the event itself, or known by reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Data {
    /// The data itself.
    Inline(Json),
    /// Where it is kept.
    External(Reference),
}

impl Default for Data {
    fn default() -> Self {
        Self::Inline(Json::Null)
    }
}

impl From<Json> for Data {
    fn from(value: Json) -> Self {
        Self::Inline(value)
    }
}

/// What events carry in place of data: a map with `ref`, `store`, `bytes`, `sha256`, `media_type`
/// and what was extracted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference(Json);

/// Not a reference: a map with a text under `ref` is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a reference is a map with a text under `ref`")]
pub struct NotAReference;

impl Reference {
    /// Reads a reference.
    pub fn new(value: Json) -> Result<Self, NotAReference> {
        match value.get("ref") {
            Some(Json::Str(_)) => Ok(Self(value)),
            Some(_) | None => Err(NotAReference),
        }
    }

    /// The address of the data.
    pub fn uri(&self) -> &str {
        self.0.get("ref").and_then(Json::as_str).unwrap_or_default()
    }

    /// The map that events carry.
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

/// A value that the engine moved out of an event; to be stored before the event is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPayload {
    /// What the event carries in its place.
    pub reference: Reference,
    /// The id under which it is kept.
    pub result_id: ResultId,
    /// What it is called: the step that it belongs to, or `workload`.
    pub name: StepName,
    /// The value.
    pub content: Json,
    /// The value as it is stored: canonical JSON.
    pub bytes: Arc<[u8]>,
}

impl NewPayload {
    /// A payload of an execution.
    pub(crate) fn new(
        execution_id: ExecutionId,
        name: StepName,
        result_id: ResultId,
        content: Json,
        readable: &Readable,
    ) -> Self {
        let bytes = to_canonical(&content);
        let tier = if bytes.len() < KV_TIER_MAX {
            "kv"
        } else {
            "disk"
        };
        let uri = format!("noetl://execution/{execution_id}/result/{name}/{result_id}");
        let reference = Json::object([
            ("ref", Json::from(uri)),
            ("store", Json::from(tier)),
            ("bytes", Json::from(bytes.len())),
            ("sha256", Json::from(sha256(&bytes).to_string())),
            ("media_type", Json::from("application/json")),
            ("extracted", readable.extracted(&content)),
        ]);
        Self {
            reference: Reference(reference),
            result_id,
            name,
            content,
            bytes: bytes.into(),
        }
    }
}

/// Which parts of data a reference tells, so that they are read without fetching the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readable {
    /// These before all others, whatever their size.
    first: Vec<Arc<str>>,
    /// Others up to this size.
    part_max: usize,
}

impl Default for Readable {
    fn default() -> Self {
        Self {
            first: Vec::new(),
            part_max: EXTRACTED_PART_MAX,
        }
    }
}

impl Readable {
    /// What a playbook says of the data of a step.
    pub(crate) fn of<'o>(outputs: impl Iterator<Item = &'o OutputSpec>) -> Self {
        let mut readable = Self::default();
        for output in outputs {
            match &output.output_select {
                None => {}
                Some(OutputSelect::Names(names)) => readable.first.extend(names.iter().cloned()),
                Some(OutputSelect::Threshold { threshold_kb, .. }) => {
                    let bytes = threshold_kb.map(|kib| kib.saturating_mul(1024));
                    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
                    readable.part_max = bytes.unwrap_or(EXTRACTED_MAX).min(EXTRACTED_MAX);
                }
            }
            let aliases = output.select.iter().map(|select| &select.alias);
            readable.first.extend(aliases.cloned());
        }
        readable
    }

    /// Parts of a map, as they are: what a template finds there it would find in the data.
    fn extracted(&self, content: &Json) -> Json {
        let mut left = EXTRACTED_MAX;
        let mut parts = JsonMap::new();
        let Some(map) = content.as_map() else {
            return Json::from(parts);
        };
        let first = self.first.iter().filter_map(|name| map.get_key_value(name));
        let first = first.map(|part| (part, EXTRACTED_MAX));
        let others = map.iter().map(|part| (part, self.part_max));
        for ((key, part), most) in first.chain(others) {
            let is_text = matches!(part, Json::Str(_));
            let most = if is_text {
                most.min(EXTRACTED_PART_MAX)
            } else {
                most
            };
            let Some(bytes) = size_within(part, most) else {
                continue;
            };
            if !parts.contains_key(key)
                && let Some(rest) = left.checked_sub(key.len() + bytes + 4)
            {
                left = rest;
                parts.insert(Arc::clone(key), part.clone());
            }
        }
        Json::from(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(content: Json) -> NewPayload {
        let execution_id = ExecutionId::new(7).unwrap();
        let name = StepName::new("load").unwrap();
        let result_id = ResultId::new(9).unwrap();
        NewPayload::new(execution_id, name, result_id, content, &Readable::default())
    }

    #[test]
    fn a_reference_tells_address_size_digest_and_small_parts() {
        let payload = payload(Json::object([
            ("rows", Json::list((0..1000).map(Json::from))),
            ("count", Json::from(1000)),
        ]));
        let reference = payload.reference.as_json();
        assert_eq!(payload.reference.uri(), "noetl://execution/7/result/load/9");
        assert_eq!(
            reference.get("bytes"),
            Some(&Json::from(payload.bytes.len()))
        );
        assert_eq!(reference.get("store").and_then(Json::as_str), Some("kv"));
        assert_eq!(
            reference.get("extracted"),
            Some(&Json::object([("count", Json::from(1000))]))
        );
    }

    #[test]
    fn what_is_extracted_stays_small() {
        let keys = (0..100).map(|key| (format!("key{key:03}"), Json::from("x".repeat(200))));
        let payload = payload(Json::object(
            keys.map(|(key, value)| (Arc::from(key), value)),
        ));
        let extracted = payload.reference.as_json().get("extracted").unwrap();
        assert!(to_canonical(extracted).len() <= EXTRACTED_MAX);
        assert!(extracted.as_map().unwrap().len() > 10);
    }

    #[test]
    fn what_a_playbook_names_is_extracted_first() {
        let many = |size: usize| Json::list((0..size).map(Json::from));
        let keys = (0..100).map(|key| (format!("a{key:03}"), Json::from("x".repeat(200))));
        let keys = keys.chain([
            ("z_rows".to_owned(), many(300)),
            ("z_all".to_owned(), many(5000)),
        ]);
        let content = Json::object(keys.map(|(key, value)| (Arc::from(key), value)));
        let names = |content: &Json, readable: &Readable| -> Vec<Arc<str>> {
            let extracted = readable.extracted(content);
            assert!(to_canonical(&extracted).len() <= EXTRACTED_MAX);
            extracted.as_map().unwrap().keys().cloned().collect()
        };
        let plain = names(&content, &Readable::default());
        assert!(!plain.contains(&"z_rows".into()), "{plain:?}");
        let spec = |select| OutputSpec {
            output_select: Some(select),
            ..OutputSpec::default()
        };
        let named = OutputSelect::Names(vec!["z_rows".into(), "z_all".into(), "gone".into()]);
        let named = names(&content, &Readable::of([spec(named)].iter()));
        assert!(named.contains(&"z_rows".into()), "{named:?}");
        assert!(!named.contains(&"z_all".into()), "it is too large");
        let content = Json::object([("rows", many(300)), ("all", many(5000))]);
        let threshold = OutputSelect::Threshold {
            strategy: "size_threshold".into(),
            threshold_kb: Some(2),
        };
        let fitting = names(&content, &Readable::of([spec(threshold)].iter()));
        assert_eq!(fitting, [Arc::from("rows")]);
    }

    #[test]
    fn only_a_map_with_an_address_is_a_reference() {
        assert!(Reference::new(Json::object([("ref", Json::from("x"))])).is_ok());
        assert_eq!(Reference::new(Json::Null), Err(NotAReference));
        assert_eq!(
            Reference::new(Json::object([("ref", Json::from(1))])),
            Err(NotAReference)
        );
    }
}
