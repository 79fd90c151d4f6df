//! Parses the spool of a subscription.

use std::sync::Arc;

use noetl_types::{ByteSize, Millis};

use crate::diag::{Code, DiagnosticSink};
use crate::model::{
    CircuitBreaker, DownstreamService, HealthProbe, MessageOrdering, OnRecovery, ProbeType, Spool,
    SpoolBackend, SpoolDrain, SpoolMode, SpoolRetention, SpoolStore,
};
use crate::parse::reader::{
    MapReader, read_count, read_keyword, read_list, read_size, report_unknown_keyword,
    report_wrong_type,
};
use crate::parse::resource::{
    read_literal, read_millis, read_spanned_literal, report_conflict, report_no_effect,
    require_literal,
};
use crate::source::Spanned;
use crate::yaml::{YamlEntry, YamlNode};

/// Allowed pauses in milliseconds, up to one day.
const PAUSE_RANGE_MS: std::ops::RangeInclusive<i64> = 1..=86_400_000;

/// Parses the spool. Returns `None` if it is off.
pub(super) fn parse_spool(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<Spool> {
    let node = &entry.value;
    let mut reader = MapReader::open(sink, "spool", "spool", node)?;
    let mode = reader.require_entry(sink, "mode").and_then(|entry| parse_spool_mode(sink, entry));
    let store = parse_spool_store(sink, &mut reader, mode != Some(SpoolSwitch::Off));
    let credential =
        reader.take_entry("credential").and_then(|entry| read_spanned_literal(sink, entry));
    let circuit =
        reader.take_entry("circuit").map(|entry| parse_circuit(sink, entry)).unwrap_or_default();
    let retention = reader
        .take_entry("retention")
        .map(|entry| parse_retention(sink, entry))
        .unwrap_or_default();
    let (drain, recovery) =
        reader.take_entry("drain").map(|entry| parse_drain(sink, entry)).unwrap_or_default();
    let (ordering, ordering_key) = parse_ordering(sink, &mut reader, recovery);
    let escalation_entry = reader.take_entry("hybrid_escalate_after_ms");
    let escalation = escalation_entry.and_then(|entry| read_millis(sink, entry, PAUSE_RANGE_MS));
    reader.report_unread(sink);
    let SpoolSwitch::On(mode) = mode? else {
        return None;
    };
    if let Some(entry) = escalation_entry
        && mode != SpoolMode::Hybrid
    {
        report_no_effect(sink, entry, "it applies only to 'mode: hybrid'");
    }
    Some(Spool {
        mode,
        store: store?,
        credential,
        circuit,
        ordering,
        ordering_key,
        retention,
        drain,
        hybrid_escalate_after: escalation.unwrap_or(Spool::DEFAULT_ESCALATE_AFTER),
    })
}

/// Parses the ordering guarantee and key. Global ordering conflicts with interleaving new messages.
fn parse_ordering(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
    recovery: Option<Spanned<OnRecovery>>,
) -> (MessageOrdering, Option<Arc<str>>) {
    let entry = reader.take_entry("ordering");
    let ordering = entry.and_then(|entry| read_keyword(sink, entry)).unwrap_or_default();
    let key_entry = reader.take_entry("ordering_key");
    let key = key_entry.and_then(|entry| read_literal(sink, entry));
    if let (Some(entry), MessageOrdering::Global, Some(recovery)) = (entry, ordering, recovery)
        && recovery.value == OnRecovery::Interleave
    {
        let hint = "new messages would overtake old ones: write on_recovery: ordered_then_live";
        let message = "ordering global cannot be combined with on_recovery interleave";
        report_conflict(sink, [entry.value.span, recovery.span], message, hint);
    }
    if let Some(entry) = key_entry
        && ordering != MessageOrdering::PerKey
    {
        report_no_effect(sink, entry, "a key is used only with 'ordering: per_key'");
    }
    (ordering, key)
}

/// State of the spool: off, or on with a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpoolSwitch {
    Off,
    On(SpoolMode),
}

fn parse_spool_mode(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<SpoolSwitch> {
    let Some(text) = entry.value.as_text() else {
        let expected = format!("one of {}", SpoolMode::ALL_WORDS.join(", "));
        report_wrong_type(sink, &entry.key, &expected, &entry.value);
        return None;
    };
    if &**text == SpoolMode::OFF {
        return Some(SpoolSwitch::Off);
    }
    let mode = SpoolMode::parse(text);
    if mode.is_none() {
        report_unknown_keyword(sink, &entry.value, text, &SpoolMode::ALL_WORDS);
    }
    mode.map(SpoolSwitch::On)
}

/// Parses the storage. It is optional if the spool is off.
fn parse_spool_store(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
    is_required: bool,
) -> Option<SpoolStore> {
    reader.mark_known(["bucket", "path"]);
    let entry = if is_required {
        reader.require_entry(sink, "backend")
    } else {
        reader.take_entry("backend")
    };
    let backend: SpoolBackend = read_keyword(sink, entry?)?;
    let (location_key, unused_key) = match backend {
        SpoolBackend::LocalDisk => ("path", "bucket"),
        SpoolBackend::NatsObject | SpoolBackend::Gcs | SpoolBackend::S3 => ("bucket", "path"),
    };
    if let Some(entry) = reader.take_entry(unused_key) {
        report_no_effect(sink, entry, format!("backend {backend} uses '{location_key}'"));
    }
    let location = if is_required {
        require_literal(sink, reader, location_key)?
    } else {
        reader.take_entry(location_key).and_then(|entry| read_literal(sink, entry))?
    };
    Some(match backend {
        SpoolBackend::NatsObject => SpoolStore::NatsObject { bucket: location },
        SpoolBackend::LocalDisk => SpoolStore::LocalDisk { path: location },
        SpoolBackend::Gcs => SpoolStore::Gcs { bucket: location },
        SpoolBackend::S3 => SpoolStore::S3 { bucket: location },
    })
}

fn parse_circuit(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> CircuitBreaker {
    let mut circuit = CircuitBreaker::default();
    let Some(mut reader) = MapReader::open(sink, "circuit", "circuit", &entry.value) else {
        return circuit;
    };
    if let Some(failures) =
        reader.take_entry("trip_after").and_then(|entry| read_count(sink, entry, 1))
    {
        circuit.trip_after = failures;
    }
    if let Some(pause) = reader
        .take_entry("probe_after_ms")
        .and_then(|entry| read_millis(sink, entry, PAUSE_RANGE_MS))
    {
        circuit.probe_after = pause;
    }
    if let Some(pause) = reader
        .take_entry("probe_interval_ms")
        .and_then(|entry| read_millis(sink, entry, PAUSE_RANGE_MS))
    {
        circuit.probe_interval = pause;
    }
    if let Some(items) = reader.take_entry("downstream").and_then(|entry| read_list(sink, entry)) {
        circuit.downstream = items.iter().filter_map(|item| parse_downstream(sink, item)).collect();
    }
    reader.report_unread(sink);
    circuit
}

fn parse_downstream(sink: &mut DiagnosticSink<'_>, node: &YamlNode) -> Option<DownstreamService> {
    let mut reader = MapReader::open(sink, "downstream", "downstream", node)?;
    reader.mark_known(["target"]);
    let name = require_literal(sink, &mut reader, "name");
    let kind =
        reader.require_entry(sink, "type").and_then(|entry| read_keyword::<ProbeType>(sink, entry));
    let probe = kind.and_then(|kind| parse_probe(sink, &mut reader, kind));
    reader.report_unread(sink);
    Some(DownstreamService { name: name?, probe: probe? })
}

fn parse_probe(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
    kind: ProbeType,
) -> Option<HealthProbe> {
    let new = match kind {
        ProbeType::Http => HealthProbe::Http,
        ProbeType::Tcp => HealthProbe::Tcp,
        ProbeType::Nats => HealthProbe::Nats,
        ProbeType::Passive => {
            if let Some(entry) = reader.take_entry("target") {
                report_no_effect(sink, entry, "type passive sends no probe");
            }
            return Some(HealthProbe::Passive);
        }
    };
    require_literal(sink, reader, "target").map(new)
}

fn parse_retention(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> SpoolRetention {
    let mut retention = SpoolRetention::default();
    let Some(mut reader) = MapReader::open(sink, "retention", "retention", &entry.value) else {
        return retention;
    };
    let hours = reader.take_entry("max_age_hours").and_then(|entry| read_count(sink, entry, 1));
    retention.max_age = hours.map(|hours| Millis::from_hours(hours.into()));
    if let Some(bytes) =
        reader.take_entry("max_bytes").and_then(|entry| read_max_bytes(sink, entry))
    {
        retention.max_bytes = bytes;
    }
    retention.on_full = reader
        .take_entry("on_full")
        .and_then(|entry| read_keyword(sink, entry))
        .unwrap_or_default();
    reader.report_unread(sink);
    retention
}

fn read_max_bytes(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<ByteSize> {
    let max_bytes = read_size(sink, &entry.value)?;
    if max_bytes.as_bytes() == 0 {
        let message = format!("max_bytes = 0 is out of range 1..{}", u64::MAX);
        sink.add_finding(Code::NP704, entry.value.span, message);
        return None;
    }
    Some(max_bytes)
}

/// Parses the drain settings. Also returns the position of `on_recovery`.
fn parse_drain(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> (SpoolDrain, Option<Spanned<OnRecovery>>) {
    let mut drain = SpoolDrain::default();
    let Some(mut reader) = MapReader::open(sink, "drain", "drain", &entry.value) else {
        return (drain, None);
    };
    drain.rate_per_sec =
        reader.take_entry("rate_per_sec").and_then(|entry| read_count(sink, entry, 1));
    if let Some(attempts) =
        reader.take_entry("max_replay_attempts").and_then(|entry| read_count(sink, entry, 1))
    {
        drain.max_replay_attempts = attempts;
    }
    let recovery = reader.take_entry("on_recovery");
    let recovery =
        recovery.and_then(|entry| Some(Spanned::new(read_keyword(sink, entry)?, entry.value.span)));
    drain.on_recovery = recovery.map(|recovery| recovery.value).unwrap_or_default();
    reader.report_unread(sink);
    (drain, recovery)
}
