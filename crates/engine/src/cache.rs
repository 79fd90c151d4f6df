//! Step caches: reusing an earlier result instead of running a step.
//!
//! Owns the cache key and the stored form of a result. It stores nothing itself: lookup results are
//! passed in with the input, like payloads, and new entries are returned with the decision.

use std::collections::BTreeMap;

use noetl_playbook::model::CacheScope;
use noetl_types::json::to_canonical;
use noetl_types::{Digest, ExecutionId, Json, JsonMap, Millis, PlaybookPath, Seq, sha256};
use serde::{Deserialize, Serialize};

use crate::payload::{EventData, Reference};

/// Cache key of a step result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CacheKey {
    /// Sharing scope of the entry.
    pub scope: CacheScope,
    /// Digest of everything that must be equal for a hit.
    pub key_sha256: Digest,
}

impl CacheKey {
    /// Builds the key from the author's key text, the definition of the step, and, if only
    /// executions of the same playbook share the entry, the playbook path.
    pub(crate) fn new(
        scope: CacheScope,
        key_text: &str,
        definition: Digest,
        path: &PlaybookPath,
    ) -> Self {
        let path = match scope {
            CacheScope::Playbook => Json::from(path),
            CacheScope::Tenant => Json::Null,
        };
        let material = Json::object([
            ("definition", Json::from(definition.to_string())),
            ("key", Json::from(key_text)),
            ("path", path),
        ]);
        Self { scope, key_sha256: sha256(to_canonical(&material)) }
    }
}

/// Source of cache lookup results.
pub trait CacheLookup {
    /// Returns the lookup result for a key, or `None` if the cache has not been queried yet.
    fn get(&self, key: &CacheKey) -> Option<CacheLookupResult>;
}

/// An empty cache: every lookup is a miss.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmptyCache;

impl CacheLookup for EmptyCache {
    fn get(&self, _: &CacheKey) -> Option<CacheLookupResult> {
        Some(CacheLookupResult::Miss)
    }
}

impl CacheLookup for BTreeMap<CacheKey, CacheLookupResult> {
    fn get(&self, key: &CacheKey) -> Option<CacheLookupResult> {
        BTreeMap::get(self, key).cloned()
    }
}

/// Result of a cache lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheLookupResult {
    /// No entry, or only an expired one.
    Miss,
    /// A usable result.
    Hit(Box<CacheHit>),
}

/// A result that a step can reuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheHit {
    /// The origin of the result.
    pub origin: ResultOrigin,
    /// The result.
    pub result: CachedResult,
}

/// The event that produced a cached result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultOrigin {
    /// The execution that produced it.
    pub execution_id: ExecutionId,
    /// Seq of the event that ended the step in that execution.
    pub seq: Seq,
}

/// The result of a step as stored in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CachedResult {
    /// The data.
    pub data: EventData,
    /// Data of each task of a pipeline by label, if `data` does not contain all of it.
    pub labels: Option<Json>,
}

/// The value is not a stored result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid cached result: expected a map with either `data` or `reference`")]
pub struct InvalidCachedResult;

impl CachedResult {
    /// Converts the result to its stored form.
    pub fn to_json(&self) -> Json {
        let mut map = JsonMap::new();
        match &self.data {
            EventData::Inline(value) => map.insert("data".into(), value.clone()),
            EventData::External(reference) => {
                map.insert("reference".into(), reference.as_json().clone())
            }
        };
        if let Some(labels) = &self.labels {
            map.insert("labels".into(), labels.clone());
        }
        Json::from(map)
    }

    /// Parses the stored form.
    pub fn from_json(value: &Json) -> Result<Self, InvalidCachedResult> {
        let data = match (value.get("data"), value.get("reference")) {
            (Some(data), None) => EventData::Inline(data.clone()),
            (None, Some(reference)) => EventData::External(
                Reference::new(reference.clone()).map_err(|_| InvalidCachedResult)?,
            ),
            (Some(_), Some(_)) | (None, None) => return Err(InvalidCachedResult),
        };
        let labels = value.get("labels").cloned();
        Ok(Self { data, labels })
    }
}

/// A cache entry to store once the events of its decision are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// Cache key.
    pub key: CacheKey,
    /// Time to live. `None` means no expiry.
    pub ttl: Option<Millis>,
    /// The result.
    pub result: CachedResult,
    /// Seq of the event that ended the step.
    pub origin_seq: Seq,
}

#[cfg(test)]
mod tests;
