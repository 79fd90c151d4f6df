//! Schedules.

use std::ops::RangeInclusive;
use std::sync::Arc;

use noetl_types::limits::Priority;
use noetl_types::{Millis, Timestamp};

use crate::diag::{Code, Sink};
use crate::model::{Concurrency, Fields, Misfire, Schedule, ScheduleSpec, Timing};
use crate::source::Spanned;
use crate::template::Place;
use crate::timing::{Cron, Zone};
use crate::yaml::{Entry, Node, NodeValue};

use super::reader::{MapReader, bool, count, integer, text, word, wrong_type};
use super::resource::{conflict, document, literal, no_effect, playbook_path, whole_seconds};
use super::values::{field, text_setting};

/// Distances between firings.
const EVERY: RangeInclusive<Millis> = Millis::from_secs(1)..=Millis::from_days(366);
/// How late a firing may be.
const GRACE: RangeInclusive<Millis> = Millis::ZERO..=Millis::from_days(366);
/// How far firings may be spread.
const JITTER: RangeInclusive<Millis> = Millis::ZERO..=Millis::from_days(1);

/// Reads a schedule.
pub(super) fn schedule(
    sink: &mut Sink<'_>,
    root: &Node,
    api_version: Option<Arc<str>>,
) -> Option<Schedule> {
    let (metadata, spec) = document(sink, (root, "schedule"), spec)?;
    Some(Schedule {
        api_version: api_version?,
        kind: "Schedule".into(),
        metadata,
        spec,
    })
}

fn spec(sink: &mut Sink<'_>, node: &Node) -> Option<ScheduleSpec> {
    let mut reader = MapReader::open(sink, "spec", "spec", node)?;
    let timing = timing(sink, &mut reader, node);
    let timezone = timezone(sink, &mut reader, timing.as_ref());
    let playbook = reader
        .require(sink, "playbook")
        .and_then(|entry| playbook_path(sink, entry));
    let version = reader
        .take("version")
        .and_then(|entry| count(sink, entry, 1));
    let payload = reader
        .take("payload")
        .map(|entry| payload(sink, entry))
        .unwrap_or_default();
    let overlap = reader
        .take("overlap")
        .and_then(|entry| word(sink, entry))
        .unwrap_or_default();
    let misfire = reader
        .take("misfire")
        .map(|entry| misfire(sink, entry))
        .unwrap_or_default();
    let enabled = reader
        .take("enabled")
        .and_then(|entry| bool(sink, entry))
        .unwrap_or(true);
    let (start, end) = life(sink, &mut reader);
    let jitter = jitter(sink, &mut reader, timing.as_ref());
    let concurrency = reader
        .take("concurrency")
        .and_then(|entry| concurrency(sink, entry));
    let priority = reader
        .take("priority")
        .and_then(|entry| integer(sink, entry, -100..=100));
    reader.finish(sink);
    Some(ScheduleSpec {
        timing: timing?.value,
        timezone,
        playbook: playbook?,
        version,
        payload,
        overlap,
        misfire,
        enabled,
        start,
        end,
        jitter,
        concurrency,
        priority: priority.map(Priority::clamped),
    })
}

/// When it fires, with the place of the value that says so.
fn timing(sink: &mut Sink<'_>, reader: &mut MapReader<'_>, node: &Node) -> Option<Spanned<Timing>> {
    let cron = reader.take("cron");
    let every = reader.take("every");
    if let (Some(cron), Some(every)) = (cron, every) {
        let hint = "keep the one that says when to fire: by the calendar or at a fixed distance";
        conflict(
            sink,
            [cron.key_span, every.key_span],
            "cron cannot be combined with every",
            hint,
        );
    }
    let crons = cron.map(|entry| crons(sink, entry));
    let distance = every.map(|entry| whole_seconds(sink, entry, EVERY));
    let (timing, entry) = match (crons, distance) {
        (Some(crons), _) => (Timing::Cron(crons?), cron?),
        (None, Some(distance)) => (Timing::Every(distance?), every?),
        (None, None) => {
            let hint = "write cron: \"0 2 * * *\" or every: 15m";
            sink.hinted(
                Code::NP005,
                node.head(),
                "spec lacks required key 'cron' or 'every'",
                hint,
            );
            return None;
        }
    };
    Some(Spanned::new(timing, entry.value.span))
}

/// One expression or a list of them; all are read, to report all that are wrong.
fn crons(sink: &mut Sink<'_>, entry: &Entry) -> Option<Vec<Cron>> {
    const WANTED: &str = "an expression or a list of them";
    let items = match &entry.value.value {
        NodeValue::List(items) if items.is_empty() => {
            sink.add(
                Code::NP006,
                entry.value.span,
                format!("'cron' must be {WANTED}, found an empty list"),
            );
            return None;
        }
        NodeValue::List(items) => items.as_slice(),
        NodeValue::Text(_) | NodeValue::Plain(_) | NodeValue::Map(_) => {
            std::slice::from_ref(&entry.value)
        }
    };
    let read: Vec<Option<Cron>> = items
        .iter()
        .map(|item| {
            let Some(text) = item.as_text() else {
                wrong_type(sink, "cron", WANTED, item);
                return None;
            };
            let cron = Cron::parse(text);
            if let Err(fault) = &cron {
                sink.add(Code::NP701, item.span, format!("cron '{text}': {fault}"));
            }
            cron.ok()
        })
        .collect();
    read.into_iter().collect()
}

fn timezone(
    sink: &mut Sink<'_>,
    reader: &mut MapReader<'_>,
    timing: Option<&Spanned<Timing>>,
) -> Zone {
    let Some(entry) = reader.take("timezone") else {
        return Zone::UTC;
    };
    let Some(name) = literal(sink, entry) else {
        return Zone::UTC;
    };
    let Some(zone) = Zone::find(&name) else {
        let message = format!("unknown time zone '{name}'");
        if let Some(meant) = Zone::meant_by(&name) {
            sink.misspelt(Code::NP702, entry.value.span, message, Some(meant));
        } else {
            let hint = "write a name of the IANA database, such as Europe/Berlin";
            sink.hinted(Code::NP702, entry.value.span, message, hint);
        }
        return Zone::UTC;
    };
    if timing.is_some_and(|timing| matches!(timing.value, Timing::Every(_))) {
        no_effect(sink, entry, "a fixed distance is the same in every zone");
    }
    zone
}

fn payload(sink: &mut Sink<'_>, entry: &Entry) -> Fields {
    let Some(entries) = entry.value.as_map() else {
        wrong_type(sink, "payload", "a map", &entry.value);
        return Fields::default();
    };
    Fields(
        entries
            .iter()
            .map(|entry| field(sink, entry, Place::Start))
            .collect(),
    )
}

fn misfire(sink: &mut Sink<'_>, entry: &Entry) -> Misfire {
    let Some(mut reader) = MapReader::open(sink, "misfire", "misfire", &entry.value) else {
        return Misfire::default();
    };
    let misfire = Misfire {
        policy: reader
            .take("policy")
            .and_then(|entry| word(sink, entry))
            .unwrap_or_default(),
        grace: reader
            .take("grace")
            .and_then(|entry| whole_seconds(sink, entry, GRACE)),
    };
    reader.finish(sink);
    misfire
}

/// The time from which and the time until which it fires.
fn life(sink: &mut Sink<'_>, reader: &mut MapReader<'_>) -> (Option<Timestamp>, Option<Timestamp>) {
    let start = reader.take("start").and_then(|entry| time(sink, entry));
    let end = reader.take("end").and_then(|entry| time(sink, entry));
    if let (Some(start), Some(end)) = (&start, &end)
        && start.value >= end.value
    {
        let message = format!(
            "start {} cannot be combined with end {}",
            start.value, end.value
        );
        conflict(
            sink,
            [start.span, end.span],
            message,
            "the end comes after the start, or it never fires",
        );
    }
    (start.map(|start| start.value), end.map(|end| end.value))
}

fn time(sink: &mut Sink<'_>, entry: &Entry) -> Option<Spanned<Timestamp>> {
    let written = text(sink, entry)?;
    match Timestamp::parse(&written) {
        Ok(time) => Some(Spanned::new(time, entry.value.span)),
        Err(error) => {
            let message = format!(
                "'{}' must be a time with its offset, found '{written}'",
                entry.key
            );
            sink.hinted(Code::NP006, entry.value.span, message, error.to_string());
            None
        }
    }
}

fn jitter(
    sink: &mut Sink<'_>,
    reader: &mut MapReader<'_>,
    timing: Option<&Spanned<Timing>>,
) -> Millis {
    let Some(entry) = reader.take("jitter") else {
        return Millis::ZERO;
    };
    let jitter = whole_seconds(sink, entry, JITTER).unwrap_or_default();
    if let Some(Spanned {
        value: Timing::Every(every),
        span,
    }) = timing
        && jitter >= *every
    {
        let message = format!("jitter {jitter} cannot be combined with every {every}");
        conflict(
            sink,
            [*span, entry.value.span],
            message,
            "a firing would overtake the one before it",
        );
    }
    jitter
}

fn concurrency(sink: &mut Sink<'_>, entry: &Entry) -> Option<Concurrency> {
    let mut reader = MapReader::open(sink, "concurrency", "concurrency", &entry.value)?;
    let key = reader
        .require(sink, "key")
        .and_then(|entry| text_setting(sink, entry));
    let limit = reader
        .take("limit")
        .and_then(|entry| Some(Spanned::new(count(sink, entry, 1)?, entry.value.span)));
    reader.finish(sink);
    Some(Concurrency {
        key: key?,
        limit: limit.unwrap_or(Spanned::new(1, entry.value.span)),
    })
}
