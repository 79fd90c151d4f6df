//! Step caches: taking an earlier result over instead of running a step.
//!
//! Owns the key under which a result is kept and the form in which it is. It keeps nothing itself: an
//! answer comes in with the input, as payloads do, and a new result goes out with the decision.

use std::collections::BTreeMap;

use noetl_playbook::model::CacheScope;
use noetl_types::json::to_canonical;
use noetl_types::{Digest, ExecutionId, Json, JsonMap, Millis, PlaybookPath, Seq, sha256};
use serde::{Deserialize, Serialize};

use crate::payload::{Data, Reference};

/// The key of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CacheKey {
    /// Who shares it.
    pub scope: CacheScope,
    /// Digest of all that must be equal.
    pub key_sha256: Digest,
}

impl CacheKey {
    /// The key of a step: what its author wrote, how the step is defined, and, where only runs of the
    /// same playbook share it, which playbook that is.
    pub(crate) fn new(
        scope: CacheScope,
        written: &str,
        definition: Digest,
        path: &PlaybookPath,
    ) -> Self {
        let path = match scope {
            CacheScope::Playbook => Json::from(path),
            CacheScope::Tenant => Json::Null,
        };
        let material = Json::object([
            ("definition", Json::from(definition.to_string())),
            ("key", Json::from(written)),
            ("path", path),
        ]);
        Self {
            scope,
            key_sha256: sha256(to_canonical(&material)),
        }
    }
}

/// What is known of keys.
pub trait Caches {
    /// What is kept under a key; `None` where nobody has looked yet.
    fn get(&self, key: &CacheKey) -> Option<CacheAnswer>;
}

/// A cache that keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCaches;

impl Caches for NoCaches {
    fn get(&self, _: &CacheKey) -> Option<CacheAnswer> {
        Some(CacheAnswer::Miss)
    }
}

impl Caches for BTreeMap<CacheKey, CacheAnswer> {
    fn get(&self, key: &CacheKey) -> Option<CacheAnswer> {
        BTreeMap::get(self, key).cloned()
    }
}

/// What a look into a cache gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheAnswer {
    /// Nothing that is still alive.
    Miss,
    /// A result.
    Hit(Box<CacheHit>),
}

/// A result that can be taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheHit {
    /// Where it comes from.
    pub origin: Origin,
    /// The result.
    pub result: CachedResult,
}

/// Where a result comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The run that made it.
    pub execution_id: ExecutionId,
    /// The event of that run which ended the step.
    pub seq: Seq,
}

/// The result of a step, as a cache keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CachedResult {
    /// The data.
    pub data: Data,
    /// The data of each task of a pipeline, where the data hides some of it.
    pub labels: Option<Json>,
}

/// A map that is not a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a cached result is a map with `data` or a `reference`")]
pub struct NotAResult;

impl CachedResult {
    /// The form in which it is stored.
    pub fn to_json(&self) -> Json {
        let mut map = JsonMap::new();
        match &self.data {
            Data::Inline(value) => map.insert("data".into(), value.clone()),
            Data::External(reference) => {
                map.insert("reference".into(), reference.as_json().clone())
            }
        };
        if let Some(labels) = &self.labels {
            map.insert("labels".into(), labels.clone());
        }
        Json::from(map)
    }

    /// Reads that form.
    pub fn from_json(value: &Json) -> Result<Self, NotAResult> {
        let data = match (value.get("data"), value.get("reference")) {
            (Some(data), None) => Data::Inline(data.clone()),
            (None, Some(reference)) => {
                Data::External(Reference::new(reference.clone()).map_err(|_| NotAResult)?)
            }
            (Some(_), Some(_)) | (None, None) => return Err(NotAResult),
        };
        let labels = value.get("labels").cloned();
        Ok(Self { data, labels })
    }
}

/// A result to be kept, once the events that it comes with are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// Its key.
    pub key: CacheKey,
    /// How long it may be taken over; for ever where nobody says.
    pub ttl: Option<Millis>,
    /// The result.
    pub result: CachedResult,
    /// The event that ended the step.
    pub origin_seq: Seq,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(scope: CacheScope, written: &str, path: &str) -> CacheKey {
        let path = PlaybookPath::new(path).unwrap();
        CacheKey::new(scope, written, sha256("step"), &path)
    }

    #[test]
    fn only_runs_of_the_same_playbook_share_unless_told_otherwise() {
        let (own, wide) = (CacheScope::Playbook, CacheScope::Tenant);
        assert_eq!(key(own, "k", "a"), key(own, "k", "a"));
        assert_ne!(key(own, "k", "a"), key(own, "k", "b"));
        assert_ne!(key(own, "k", "a"), key(own, "l", "a"));
        assert_eq!(key(wide, "k", "a"), key(wide, "k", "b"));
    }

    #[test]
    fn a_result_reads_back() {
        let reference = Json::object([("ref", Json::from("noetl://x"))]);
        for result in [
            CachedResult::default(),
            CachedResult {
                data: Data::Inline(Json::from(3)),
                labels: Some(Json::empty_map()),
            },
            CachedResult {
                data: Data::External(Reference::new(reference).unwrap()),
                labels: None,
            },
        ] {
            assert_eq!(CachedResult::from_json(&result.to_json()), Ok(result));
        }
        assert_eq!(CachedResult::from_json(&Json::empty_map()), Err(NotAResult));
    }
}
