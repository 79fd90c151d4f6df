//! Resolution of the references in a replayed state: sizes and digests, never contents.

use std::collections::BTreeMap;
use std::time::Duration;

use noetl_api::replay::{
    PayloadResolution, ReferenceResolution, ResolutionScope, ResolutionSummary,
};
use noetl_types::json::{parse, to_canonical};
use noetl_types::replay::{ReferenceSummary, ReplayedState};
use noetl_types::{Json, Text, sha256};
use tokio::time::{Instant, timeout_at};

use crate::access::CallContext;
use crate::services::Queries;

/// Maximum references that are listed.
const MAX_LISTED_REFS: usize = 1_000;
/// Maximum bytes that are read. The last result may exceed it.
const MAX_READ_BYTES: u64 = 64 << 20;
/// Timeout of the whole resolution.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

impl Queries {
    /// Resolves the references of a replayed state, within limits.
    pub(crate) async fn resolve_payloads(
        &self,
        ctx: &CallContext,
        state: &ReplayedState,
    ) -> (Vec<PayloadResolution>, ResolutionSummary) {
        let total = count_references(state);
        let mut list: Vec<PayloadResolution> =
            list_references(state).take(MAX_LISTED_REFS).collect();
        let mut found: BTreeMap<Text, ReferenceResolution> = list
            .iter()
            .filter_map(|item| item.reference_summary.r#ref.clone())
            .map(|reference| {
                (reference.clone(), unresolved_reference(Some(reference), "timed out"))
            })
            .collect();
        self.read_references(ctx, &mut found, MAX_READ_BYTES, Instant::now() + RESOLVE_TIMEOUT)
            .await;
        for item in &mut list {
            item.resolution = match &item.reference_summary.r#ref {
                Some(reference) => found.get(reference).cloned(),
                None => None,
            }
            .unwrap_or_else(|| unresolved_reference(None, "the reference has no address"));
        }
        let resolved = list.iter().filter(|item| item.resolution.resolved).count();
        let resolved = u64::try_from(resolved).unwrap_or(u64::MAX);
        let summary = ResolutionSummary {
            total,
            resolved,
            unresolved: total.saturating_sub(resolved),
            unique_refs: u64::try_from(found.len()).unwrap_or(u64::MAX),
            all_resolved: resolved == total,
            checksum: sha256(canonical_list(&list)),
        };
        (list, summary)
    }

    /// Reads the results one after the other. The size of a result is known only after it is read,
    /// so concurrent reads could exceed the limit many times.
    async fn read_references(
        &self,
        ctx: &CallContext,
        found: &mut BTreeMap<Text, ReferenceResolution>,
        max_bytes: u64,
        deadline: Instant,
    ) {
        let mut bytes = 0;
        for (address, resolution) in found {
            if Instant::now() >= deadline {
                return;
            }
            if bytes >= max_bytes {
                let reason = "the byte limit is reached";
                *resolution = unresolved_reference(Some(address.clone()), reason);
                continue;
            }
            match timeout_at(deadline, self.read_reference(ctx, address.clone())).await {
                Ok(read) => {
                    bytes += read.size_bytes.unwrap_or(0);
                    *resolution = read;
                }
                Err(_) => return,
            }
        }
    }

    async fn read_reference(&self, ctx: &CallContext, address: Text) -> ReferenceResolution {
        let result = match self.results.read_verified_result(ctx, &address).await {
            Ok(result) => result,
            Err(error) => {
                let code = error.into_problem().code;
                return unresolved_reference(Some(address), &code);
            }
        };
        let (checksum, size_bytes) = (result.sha256, u64::try_from(result.bytes.len()).ok());
        // Parsing a large result would delay other tasks.
        let parsing = tokio::task::spawn_blocking(move || {
            let value = parse(&result.bytes).ok();
            value.map(|value| (count_rows(&value), json_type_name(&value)))
        });
        let parsed = parsing.await.ok().flatten();
        ReferenceResolution {
            reference: Some(address),
            resolved: true,
            checksum: Some(checksum),
            size_bytes,
            row_count: parsed.and_then(|(rows, _)| rows),
            value_type: parsed.map(|(_, kind)| kind.into()),
            error: None,
        }
    }
}

fn unresolved_reference(reference: Option<Text>, reason: &str) -> ReferenceResolution {
    ReferenceResolution {
        reference,
        resolved: false,
        checksum: None,
        size_bytes: None,
        row_count: None,
        value_type: None,
        error: Some(reason.into()),
    }
}

fn count_rows(value: &Json) -> Option<i64> {
    let list = value.as_list().or_else(|| value.get("rows").and_then(Json::as_list))?;
    i64::try_from(list.len()).ok()
}

fn json_type_name(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Int(_) | Json::UInt(_) | Json::Float(_) => "number",
        Json::Str(_) => "string",
        Json::List(_) => "array",
        Json::Map(_) => "object",
    }
}

fn count_references(state: &ReplayedState) -> u64 {
    let objects = state.business_objects.values();
    let count = state.execution.payload_refs.len()
        + state.frames.values().filter(|frame| frame.output_ref.is_some()).count()
        + objects.map(|object| object.payload_refs.len()).sum::<usize>();
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Lists all references of a state: of the execution, then of frames, then of business objects.
fn list_references(state: &ReplayedState) -> impl Iterator<Item = PayloadResolution> {
    let item = |scope, event_id: Text, summary: &ReferenceSummary| PayloadResolution {
        scope,
        event_id,
        frame_id: None,
        object_key: None,
        reference_summary: summary.clone(),
        resolution: unresolved_reference(None, "not read"),
    };
    let from_execution = state.execution.payload_refs.iter().map(move |payload| {
        let id = payload.event_id.clone();
        item(ResolutionScope::Execution, id, &payload.summary)
    });
    let from_frames = state.frames.values().filter_map(move |frame| {
        let id = frame.terminal_event_id.unwrap_or(frame.last_event_id);
        let summary = frame.output_ref_summary.as_ref()?;
        Some(PayloadResolution {
            frame_id: Some(frame.frame_id.clone()),
            ..item(ResolutionScope::Frame, id.0.to_string().into(), summary)
        })
    });
    let from_objects = state.business_objects.values().flat_map(move |object| {
        object.payload_refs.iter().map(move |payload| {
            let id = payload.event_id.clone();
            PayloadResolution {
                object_key: Some(object.object_key.clone()),
                ..item(ResolutionScope::BusinessObject, id, &payload.summary)
            }
        })
    });
    from_execution.chain(from_frames).chain(from_objects)
}

/// Returns the canonical JSON of the list. It contains only texts and numbers, so this cannot fail.
fn canonical_list(list: &[PayloadResolution]) -> Vec<u8> {
    let text = serde_json::to_vec(list).unwrap_or_default();
    parse(&text).map(|json| to_canonical(&json)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
