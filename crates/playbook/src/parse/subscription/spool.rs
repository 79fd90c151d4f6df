//! Where messages wait while what they need is down.

use std::sync::Arc;

use noetl_types::{ByteSize, Millis};

use crate::diag::{Code, Sink};
use crate::model::{
    Circuit, Downstream, Drain, OnRecovery, Ordering, Probe, ProbeType, Spool, SpoolBackend,
    SpoolMode, SpoolRetention, SpoolStore,
};
use crate::parse::reader::{MapReader, count, list, not_a_word, size, word, wrong_type};
use crate::parse::resource::{
    conflict, literal, millis, no_effect, required_literal, spanned_literal,
};
use crate::source::Spanned;
use crate::yaml::{Entry, Node};

/// Bounds of a pause, in milliseconds: at most a day.
const PAUSE_MS: std::ops::RangeInclusive<i64> = 1..=86_400_000;

/// A spool; none if it is switched off.
pub(super) fn spool(sink: &mut Sink<'_>, entry: &Entry) -> Option<Spool> {
    let node = &entry.value;
    let mut reader = MapReader::open(sink, "spool", "spool", node)?;
    let mode = reader
        .require(sink, "mode")
        .and_then(|entry| mode(sink, entry));
    let store = store(sink, &mut reader, mode != Some(Switch::Off));
    let credential = reader
        .take("credential")
        .and_then(|entry| spanned_literal(sink, entry));
    let circuit = reader
        .take("circuit")
        .map(|entry| circuit(sink, entry))
        .unwrap_or_default();
    let retention = reader
        .take("retention")
        .map(|entry| retention(sink, entry))
        .unwrap_or_default();
    let (drain, recovery) = reader
        .take("drain")
        .map(|entry| drain(sink, entry))
        .unwrap_or_default();
    let (ordering, ordering_key) = order(sink, &mut reader, recovery);
    let escalation_entry = reader.take("hybrid_escalate_after_ms");
    let escalation = escalation_entry.and_then(|entry| millis(sink, entry, PAUSE_MS));
    reader.finish(sink);
    let Switch::On(mode) = mode? else { return None };
    if let Some(entry) = escalation_entry
        && mode != SpoolMode::Hybrid
    {
        no_effect(
            sink,
            entry,
            "only 'mode: hybrid' waits before it uses the spool",
        );
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
        hybrid_escalate_after: escalation.unwrap_or(Spool::ESCALATE_AFTER),
    })
}

/// Which messages keep their order, and by what; new messages must not break it.
fn order(
    sink: &mut Sink<'_>,
    reader: &mut MapReader<'_>,
    recovery: Option<Spanned<OnRecovery>>,
) -> (Ordering, Option<Arc<str>>) {
    let entry = reader.take("ordering");
    let ordering = entry
        .and_then(|entry| word(sink, entry))
        .unwrap_or_default();
    let key_entry = reader.take("ordering_key");
    let key = key_entry.and_then(|entry| literal(sink, entry));
    if let (Some(entry), Ordering::Global, Some(recovery)) = (entry, ordering, recovery)
        && recovery.value == OnRecovery::Interleave
    {
        let hint = "new messages would overtake old ones: write on_recovery: ordered_then_live";
        let message = "ordering global cannot be combined with on_recovery interleave";
        conflict(sink, [entry.value.span, recovery.span], message, hint);
    }
    if let Some(entry) = key_entry
        && ordering != Ordering::PerKey
    {
        no_effect(sink, entry, "a key counts with 'ordering: per_key'");
    }
    (ordering, key)
}

/// Whether there is a spool at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Switch {
    Off,
    On(SpoolMode),
}

fn mode(sink: &mut Sink<'_>, entry: &Entry) -> Option<Switch> {
    let Some(text) = entry.value.as_text() else {
        let wanted = format!("one of {}", SpoolMode::ALL_WORDS.join(", "));
        wrong_type(sink, &entry.key, &wanted, &entry.value);
        return None;
    };
    if &**text == SpoolMode::OFF {
        return Some(Switch::Off);
    }
    let mode = SpoolMode::parse(text);
    if mode.is_none() {
        not_a_word(sink, &entry.value, text, &SpoolMode::ALL_WORDS);
    }
    mode.map(Switch::On)
}

/// What keeps the messages; a spool that is off may leave it open.
fn store(sink: &mut Sink<'_>, reader: &mut MapReader<'_>, needed: bool) -> Option<SpoolStore> {
    reader.know(["bucket", "path"]);
    let entry = if needed {
        reader.require(sink, "backend")
    } else {
        reader.take("backend")
    };
    let backend: SpoolBackend = word(sink, entry?)?;
    let (own, foreign) = match backend {
        SpoolBackend::LocalDisk => ("path", "bucket"),
        SpoolBackend::NatsObject | SpoolBackend::Gcs | SpoolBackend::S3 => ("bucket", "path"),
    };
    if let Some(entry) = reader.take(foreign) {
        no_effect(sink, entry, format!("backend {backend} goes by '{own}'"));
    }
    let place = if needed {
        required_literal(sink, reader, own)?
    } else {
        reader.take(own).and_then(|entry| literal(sink, entry))?
    };
    Some(match backend {
        SpoolBackend::NatsObject => SpoolStore::NatsObject { bucket: place },
        SpoolBackend::LocalDisk => SpoolStore::LocalDisk { path: place },
        SpoolBackend::Gcs => SpoolStore::Gcs { bucket: place },
        SpoolBackend::S3 => SpoolStore::S3 { bucket: place },
    })
}

fn circuit(sink: &mut Sink<'_>, entry: &Entry) -> Circuit {
    let mut circuit = Circuit::default();
    let Some(mut reader) = MapReader::open(sink, "circuit", "circuit", &entry.value) else {
        return circuit;
    };
    if let Some(failures) = reader
        .take("trip_after")
        .and_then(|entry| count(sink, entry, 1))
    {
        circuit.trip_after = failures;
    }
    if let Some(pause) = reader
        .take("probe_after_ms")
        .and_then(|entry| millis(sink, entry, PAUSE_MS))
    {
        circuit.probe_after = pause;
    }
    if let Some(pause) = reader
        .take("probe_interval_ms")
        .and_then(|entry| millis(sink, entry, PAUSE_MS))
    {
        circuit.probe_interval = pause;
    }
    if let Some(items) = reader
        .take("downstream")
        .and_then(|entry| list(sink, entry))
    {
        circuit.downstream = items
            .iter()
            .filter_map(|item| downstream(sink, item))
            .collect();
    }
    reader.finish(sink);
    circuit
}

fn downstream(sink: &mut Sink<'_>, node: &Node) -> Option<Downstream> {
    let mut reader = MapReader::open(sink, "downstream", "downstream", node)?;
    reader.know(["target"]);
    let name = required_literal(sink, &mut reader, "name");
    let kind = reader
        .require(sink, "type")
        .and_then(|entry| word::<ProbeType>(sink, entry));
    let probe = kind.and_then(|kind| probe(sink, &mut reader, kind));
    reader.finish(sink);
    Some(Downstream {
        name: name?,
        probe: probe?,
    })
}

fn probe(sink: &mut Sink<'_>, reader: &mut MapReader<'_>, kind: ProbeType) -> Option<Probe> {
    let new = match kind {
        ProbeType::Http => Probe::Http,
        ProbeType::Tcp => Probe::Tcp,
        ProbeType::Nats => Probe::Nats,
        ProbeType::Passive => {
            if let Some(entry) = reader.take("target") {
                no_effect(sink, entry, "type passive asks nobody");
            }
            return Some(Probe::Passive);
        }
    };
    required_literal(sink, reader, "target").map(new)
}

fn retention(sink: &mut Sink<'_>, entry: &Entry) -> SpoolRetention {
    let mut retention = SpoolRetention::default();
    let Some(mut reader) = MapReader::open(sink, "retention", "retention", &entry.value) else {
        return retention;
    };
    let hours = reader
        .take("max_age_hours")
        .and_then(|entry| count(sink, entry, 1));
    retention.max_age = hours.map(|hours| Millis::from_hours(hours.into()));
    if let Some(bytes) = reader
        .take("max_bytes")
        .and_then(|entry| max_bytes(sink, entry))
    {
        retention.max_bytes = bytes;
    }
    retention.on_full = reader
        .take("on_full")
        .and_then(|entry| word(sink, entry))
        .unwrap_or_default();
    reader.finish(sink);
    retention
}

fn max_bytes(sink: &mut Sink<'_>, entry: &Entry) -> Option<ByteSize> {
    let read = size(sink, &entry.value)?;
    if read.as_bytes() == 0 {
        let message = format!("max_bytes = 0 is out of range 1..{}", u64::MAX);
        sink.add(Code::NP704, entry.value.span, message);
        return None;
    }
    Some(read)
}

/// How messages leave, and the place where it says what happens to new ones.
fn drain(sink: &mut Sink<'_>, entry: &Entry) -> (Drain, Option<Spanned<OnRecovery>>) {
    let mut drain = Drain::default();
    let Some(mut reader) = MapReader::open(sink, "drain", "drain", &entry.value) else {
        return (drain, None);
    };
    drain.rate_per_sec = reader
        .take("rate_per_sec")
        .and_then(|entry| count(sink, entry, 1));
    if let Some(attempts) = reader
        .take("max_replay_attempts")
        .and_then(|entry| count(sink, entry, 1))
    {
        drain.max_replay_attempts = attempts;
    }
    let recovery = reader.take("on_recovery");
    let recovery =
        recovery.and_then(|entry| Some(Spanned::new(word(sink, entry)?, entry.value.span)));
    drain.on_recovery = recovery.map(|recovery| recovery.value).unwrap_or_default();
    reader.finish(sink);
    (drain, recovery)
}
