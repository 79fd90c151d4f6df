//! What is at the other end of the references of a log: sizes and digests, never bodies.

use std::collections::BTreeMap;
use std::time::Duration;

use noetl_api::replay::{PayloadResolution, Resolution, ResolutionScope, ResolutionSummary};
use noetl_types::json::{parse, to_canonical};
use noetl_types::replay::{ReferenceSummary, Replayed};
use noetl_types::{Json, Text, sha256};
use tokio::time::{Instant, timeout_at};

use crate::runtime::Runtime;

/// References that are told of one by one.
const MAX_REFS: usize = 1_000;
/// Bytes that are looked at; the last result that is may go beyond.
const MAX_BYTES: u64 = 64 << 20;
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(10);

impl Runtime {
    /// Looks at what a replayed state refers to, within bounds.
    pub(super) async fn resolve_payloads(
        &self,
        state: &Replayed,
    ) -> (Vec<PayloadResolution>, ResolutionSummary) {
        let total = count(state);
        let mut list: Vec<PayloadResolution> = references(state).take(MAX_REFS).collect();
        let mut found: BTreeMap<Text, Resolution> = list
            .iter()
            .filter_map(|item| item.reference_summary.r#ref.clone())
            .map(|reference| {
                (
                    reference.clone(),
                    not_looked_at(Some(reference), "out of time"),
                )
            })
            .collect();
        self.look(&mut found, MAX_BYTES, Instant::now() + PATIENCE)
            .await;
        for item in &mut list {
            item.resolution = match &item.reference_summary.r#ref {
                Some(reference) => found.get(reference).cloned(),
                None => None,
            }
            .unwrap_or_else(|| not_looked_at(None, "the reference has no address"));
        }
        let resolved = list.iter().filter(|item| item.resolution.resolved).count();
        let resolved = u64::try_from(resolved).unwrap_or(u64::MAX);
        let summary = ResolutionSummary {
            total,
            resolved,
            unresolved: total.saturating_sub(resolved),
            unique_refs: u64::try_from(found.len()).unwrap_or(u64::MAX),
            all_resolved: resolved == total,
            checksum: sha256(canonical(&list)),
        };
        (list, summary)
    }

    /// Looks one after the other: how large a result is shows when it is there, and several at once
    /// might be many times what is allowed.
    async fn look(&self, found: &mut BTreeMap<Text, Resolution>, most: u64, deadline: Instant) {
        let mut bytes = 0;
        for (address, resolution) in found {
            if Instant::now() >= deadline {
                return;
            }
            if bytes >= most {
                let why = "more bytes than are looked at";
                *resolution = not_looked_at(Some(address.clone()), why);
                continue;
            }
            match timeout_at(deadline, self.look_at(address.clone())).await {
                Ok(looked) => {
                    bytes += looked.size_bytes.unwrap_or(0);
                    *resolution = looked;
                }
                Err(_) => return,
            }
        }
    }

    async fn look_at(&self, address: Text) -> Resolution {
        let result = match self.stored_result(&address).await {
            Ok(result) => result,
            Err(error) => {
                let code = error.into_problem().code;
                return not_looked_at(Some(address), &code);
            }
        };
        let (checksum, size_bytes) = (result.sha256, u64::try_from(result.bytes.len()).ok());
        // Reading a large one takes longer than others may wait for their turn.
        let reading = tokio::task::spawn_blocking(move || {
            let value = parse(&result.bytes).ok();
            value.map(|value| (rows(&value), kind(&value)))
        });
        let read = reading.await.ok().flatten();
        Resolution {
            reference: Some(address),
            resolved: true,
            checksum: Some(checksum),
            size_bytes,
            row_count: read.and_then(|(rows, _)| rows),
            value_type: read.map(|(_, kind)| kind.into()),
            error: None,
        }
    }
}

fn not_looked_at(reference: Option<Text>, why: &str) -> Resolution {
    Resolution {
        reference,
        resolved: false,
        checksum: None,
        size_bytes: None,
        row_count: None,
        value_type: None,
        error: Some(why.into()),
    }
}

fn rows(value: &Json) -> Option<i64> {
    let list = value
        .as_list()
        .or_else(|| value.get("rows").and_then(Json::as_list))?;
    i64::try_from(list.len()).ok()
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Int(_) | Json::UInt(_) | Json::Float(_) => "number",
        Json::Str(_) => "string",
        Json::List(_) => "array",
        Json::Map(_) => "object",
    }
}

fn count(state: &Replayed) -> u64 {
    let of_objects = state.business_objects.values();
    let count = state.execution.payload_refs.len()
        + state
            .frames
            .values()
            .filter(|it| it.output_ref.is_some())
            .count()
        + of_objects.map(|it| it.payload_refs.len()).sum::<usize>();
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// All that a state refers to: of the execution, then of frames, then of objects.
fn references(state: &Replayed) -> impl Iterator<Item = PayloadResolution> {
    let item = |scope, event_id: Text, summary: &ReferenceSummary| PayloadResolution {
        scope,
        event_id,
        frame_id: None,
        object_key: None,
        reference_summary: summary.clone(),
        resolution: not_looked_at(None, "not looked at"),
    };
    let of_execution = state.execution.payload_refs.iter().map(move |found| {
        let id = found.event_id.clone();
        item(ResolutionScope::Execution, id, &found.summary)
    });
    let of_frames = state.frames.values().filter_map(move |frame| {
        let id = frame.terminal_event_id.unwrap_or(frame.last_event_id);
        let summary = frame.output_ref_summary.as_ref()?;
        Some(PayloadResolution {
            frame_id: Some(frame.frame_id.clone()),
            ..item(ResolutionScope::Frame, id.0.to_string().into(), summary)
        })
    });
    let of_objects = state.business_objects.values().flat_map(move |object| {
        object.payload_refs.iter().map(move |found| {
            let id = found.event_id.clone();
            PayloadResolution {
                object_key: Some(object.object_key.clone()),
                ..item(ResolutionScope::BusinessObject, id, &found.summary)
            }
        })
    });
    of_execution.chain(of_frames).chain(of_objects)
}

/// The canonical form of the list: it holds nothing but texts and numbers, so it can always be
/// written and read.
fn canonical(list: &[PayloadResolution]) -> Vec<u8> {
    let text = serde_json::to_vec(list).unwrap_or_default();
    parse(&text)
        .map(|json| to_canonical(&json))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noetl_api::internal::ProjectRequest;
    use noetl_api::result::PutResult;
    use noetl_engine::replay::summary_of;
    use noetl_store::{CopyScope, MemoryStore};
    use noetl_types::replay::PayloadRef;
    use noetl_types::{ExecutionId, OrganizationId, TenantId};

    use super::*;
    use crate::clock::SystemClock;
    use crate::runtime::Settings;

    #[tokio::test]
    async fn no_more_bytes_are_looked_at_than_allowed() {
        let (store, settings) = (Arc::new(MemoryStore::new()), Settings::default());
        let runtime = Runtime::open(store, Arc::new(SystemClock), settings);
        let runtime = runtime.await.unwrap();
        let event = Json::object([
            ("execution_id", Json::from(7)),
            ("event_id", Json::from(8)),
            ("event_type", Json::from("step.enter")),
        ]);
        let events = vec![event];
        runtime
            .project(ProjectRequest { events }, CopyScope::OfExecution)
            .await
            .unwrap();
        let mut found = BTreeMap::new();
        for number in 0..5 {
            let put = PutResult {
                name: format!("part{number}").into(),
                data: Json::list((0..100).map(Json::from)),
                scope: "execution".into(),
                source_step: None,
                store: None,
                ttl: None,
                correlation: None,
                compress: None,
            };
            let kept = runtime.put_result(ExecutionId::new(7).unwrap(), put, None);
            let reference = kept.await.unwrap().reference;
            found.insert(reference, not_looked_at(None, "not yet"));
        }
        // Each has nearly 300 bytes.
        let soon = Instant::now() + PATIENCE;
        let mut in_vain = found.clone();
        runtime.look(&mut found, 400, soon).await;
        let resolved: Vec<_> = found.values().map(|it| it.resolved).collect();
        assert_eq!(resolved, [true, true, false, false, false]);
        let first = found.values().next().unwrap();
        assert_eq!(first.row_count, Some(100));
        assert_eq!(first.value_type.as_deref(), Some("array"));
        // Whoever has no time left looks at nothing.
        let before = in_vain.clone();
        runtime.look(&mut in_vain, MAX_BYTES, Instant::now()).await;
        assert_eq!(in_vain, before);
    }

    #[tokio::test]
    async fn no_more_references_are_told_of_than_allowed() {
        let (store, settings) = (Arc::new(MemoryStore::new()), Settings::default());
        let runtime = Runtime::open(store, Arc::new(SystemClock), settings);
        let runtime = runtime.await.unwrap();
        let id = ExecutionId::new(7).unwrap();
        let mut state = Replayed::new(TenantId::default(), OrganizationId::default(), id);
        for number in 0..=MAX_REFS {
            let address = format!("noetl://execution/7/result/part/{number}");
            let reference = Json::object([("ref", Json::from(address))]);
            state.execution.payload_refs.push(PayloadRef {
                event_id: number.to_string().into(),
                summary: summary_of(&reference),
                reference,
            });
        }
        let (list, summary) = runtime.resolve_payloads(&state).await;
        assert_eq!(list.len(), MAX_REFS);
        let all = u64::try_from(MAX_REFS).unwrap();
        assert_eq!((summary.unique_refs, summary.total), (all, all + 1));
        assert!(!summary.all_resolved);
    }
}
