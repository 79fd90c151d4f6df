//! What is at the other end of the references of a log: sizes and digests, never bodies.

use std::collections::BTreeMap;
use std::time::Duration;

use noetl_api::replay::{PayloadResolution, Resolution, ResolutionScope, ResolutionSummary};
use noetl_types::json::{parse, to_canonical};
use noetl_types::replay::{ReferenceSummary, Replayed};
use noetl_types::{Json, Text, sha256};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::runtime::Runtime;

/// References that are told of one by one.
const MAX_REFS: usize = 1_000;
/// Bytes that are looked at.
const MAX_BYTES: u64 = 64 << 20;
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many are looked at at once.
const AT_ONCE: usize = 8;

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
        let addresses: Vec<Text> = found.keys().cloned().collect();
        self.look(&addresses, &mut found).await;
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

    async fn look(&self, addresses: &[Text], found: &mut BTreeMap<Text, Resolution>) {
        let deadline = Instant::now() + PATIENCE;
        let mut bytes = 0;
        for some in addresses.chunks(AT_ONCE) {
            if bytes >= MAX_BYTES {
                let rest = some.iter().cloned();
                found.extend(rest.map(|it| {
                    (
                        it.clone(),
                        not_looked_at(Some(it), "more bytes than are looked at"),
                    )
                }));
                continue;
            }
            let mut looks = JoinSet::new();
            for address in some {
                let (runtime, address) = (self.clone(), address.clone());
                looks.spawn(async move { (address.clone(), runtime.look_at(address).await) });
            }
            loop {
                match timeout_at(deadline, looks.join_next()).await {
                    Ok(Some(Ok((address, resolution)))) => {
                        bytes += resolution.size_bytes.unwrap_or(0);
                        found.insert(address, resolution);
                    }
                    Ok(Some(Err(_))) => {}
                    Ok(None) => break,
                    // What is still looked for is given up with the set.
                    Err(_) => return,
                }
            }
        }
    }

    async fn look_at(&self, address: Text) -> Resolution {
        match self.stored_result(&address).await {
            Err(error) => {
                let code = error.into_problem().code;
                not_looked_at(Some(address), &code)
            }
            Ok(result) => {
                let value = parse(&result.bytes).ok();
                Resolution {
                    reference: Some(address),
                    resolved: true,
                    checksum: Some(result.sha256),
                    size_bytes: u64::try_from(result.bytes.len()).ok(),
                    row_count: value.as_ref().and_then(rows),
                    value_type: value.as_ref().map(|value| kind(value).into()),
                    error: None,
                }
            }
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
