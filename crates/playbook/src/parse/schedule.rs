//! Parses schedules.

use std::ops::RangeInclusive;
use std::sync::Arc;

use noetl_types::limits::Priority;
use noetl_types::{Millis, Timestamp};

use crate::diag::{Code, DiagnosticSink};
use crate::model::{
    ConcurrencyLimit, MisfireHandling, NamedValues, Schedule, ScheduleSpec, ScheduleTiming,
};
use crate::source::Spanned;
use crate::template::TemplatePlace;
use crate::timing::{CronExpression, TimeZone};
use crate::yaml::{NodeValue, YamlEntry, YamlNode};

use super::reader::{
    MapReader, read_bool, read_count, read_integer, read_keyword, read_text, report_wrong_type,
};
use super::resource::{
    parse_resource, read_literal, read_playbook_path, read_whole_seconds, report_conflict,
    report_no_effect,
};
use super::values::{parse_named_value, parse_text_setting};

/// Allowed intervals between firings.
const INTERVAL_RANGE: RangeInclusive<Millis> = Millis::from_secs(1)..=Millis::from_days(366);
/// Allowed delays of a missed firing.
const GRACE_RANGE: RangeInclusive<Millis> = Millis::ZERO..=Millis::from_days(366);
/// Allowed jitter of firings.
const JITTER_RANGE: RangeInclusive<Millis> = Millis::ZERO..=Millis::from_days(1);

/// Parses a schedule.
pub(super) fn parse_schedule(
    sink: &mut DiagnosticSink<'_>,
    root: &YamlNode,
    api_version: Option<Arc<str>>,
) -> Option<Schedule> {
    let (metadata, spec) = parse_resource(sink, root, "schedule", parse_schedule_spec)?;
    Some(Schedule { api_version: api_version?, kind: "Schedule".into(), metadata, spec })
}

fn parse_schedule_spec(sink: &mut DiagnosticSink<'_>, node: &YamlNode) -> Option<ScheduleSpec> {
    let mut reader = MapReader::open(sink, "spec", "spec", node)?;
    let timing = parse_timing(sink, &mut reader, node);
    let timezone = parse_timezone(sink, &mut reader, timing.as_ref());
    let playbook =
        reader.require_entry(sink, "playbook").and_then(|entry| read_playbook_path(sink, entry));
    let version = reader.take_entry("version").and_then(|entry| read_count(sink, entry, 1));
    let payload =
        reader.take_entry("payload").map(|entry| parse_payload(sink, entry)).unwrap_or_default();
    let overlap = reader
        .take_entry("overlap")
        .and_then(|entry| read_keyword(sink, entry))
        .unwrap_or_default();
    let misfire =
        reader.take_entry("misfire").map(|entry| parse_misfire(sink, entry)).unwrap_or_default();
    let enabled =
        reader.take_entry("enabled").and_then(|entry| read_bool(sink, entry)).unwrap_or(true);
    let (start, end) = parse_firing_period(sink, &mut reader);
    let jitter = parse_jitter(sink, &mut reader, timing.as_ref());
    let concurrency =
        reader.take_entry("concurrency").and_then(|entry| parse_schedule_concurrency(sink, entry));
    let priority =
        reader.take_entry("priority").and_then(|entry| read_integer(sink, entry, -100..=100));
    reader.report_unread(sink);
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

/// Parses the firing times, with the position of their value.
fn parse_timing(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
    node: &YamlNode,
) -> Option<Spanned<ScheduleTiming>> {
    let cron = reader.take_entry("cron");
    let every = reader.take_entry("every");
    if let (Some(cron), Some(every)) = (cron, every) {
        let hint = "keep one of them: 'cron' for calendar times or 'every' for a fixed interval";
        report_conflict(
            sink,
            [cron.key_span, every.key_span],
            "cron cannot be combined with every",
            hint,
        );
    }
    let crons = cron.map(|entry| parse_crons(sink, entry));
    let interval = every.map(|entry| read_whole_seconds(sink, entry, INTERVAL_RANGE));
    let (timing, entry) = match (crons, interval) {
        (Some(crons), _) => (ScheduleTiming::Cron(crons?), cron?),
        (None, Some(interval)) => (ScheduleTiming::Every(interval?), every?),
        (None, None) => {
            let hint = "write cron: \"0 2 * * *\" or every: 15m";
            sink.add_with_hint(
                Code::NP005,
                node.head_span(),
                "spec lacks required key 'cron' or 'every'",
                hint,
            );
            return None;
        }
    };
    Some(Spanned::new(timing, entry.value.span))
}

/// Parses one cron expression or a list. Parses all of them, in order to report every invalid one.
fn parse_crons(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<Vec<CronExpression>> {
    const EXPECTED: &str = "a cron expression or a list of them";
    let items = match &entry.value.value {
        NodeValue::List(items) if items.is_empty() => {
            sink.add_finding(
                Code::NP006,
                entry.value.span,
                format!("'cron' must be {EXPECTED}, found an empty list"),
            );
            return None;
        }
        NodeValue::List(items) => items.as_slice(),
        NodeValue::Text(_) | NodeValue::Plain(_) | NodeValue::Map(_) => {
            std::slice::from_ref(&entry.value)
        }
    };
    let crons: Vec<Option<CronExpression>> = items
        .iter()
        .map(|item| {
            let Some(text) = item.as_text() else {
                report_wrong_type(sink, "cron", EXPECTED, item);
                return None;
            };
            let cron = CronExpression::parse(text);
            if let Err(error) = &cron {
                sink.add_finding(Code::NP701, item.span, format!("cron '{text}': {error}"));
            }
            cron.ok()
        })
        .collect();
    crons.into_iter().collect()
}

fn parse_timezone(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
    timing: Option<&Spanned<ScheduleTiming>>,
) -> TimeZone {
    let Some(entry) = reader.take_entry("timezone") else {
        return TimeZone::UTC;
    };
    let Some(name) = read_literal(sink, entry) else {
        return TimeZone::UTC;
    };
    let Some(zone) = TimeZone::from_name(&name) else {
        let message = format!("unknown time zone '{name}'");
        if let Some(suggestion) = TimeZone::suggest_name(&name) {
            sink.add_with_suggestion(Code::NP702, entry.value.span, message, Some(suggestion));
        } else {
            let hint = "use a name from the IANA database, such as Europe/Berlin";
            sink.add_with_hint(Code::NP702, entry.value.span, message, hint);
        }
        return TimeZone::UTC;
    };
    if timing.is_some_and(|timing| matches!(timing.value, ScheduleTiming::Every(_))) {
        report_no_effect(sink, entry, "a fixed interval does not depend on the time zone");
    }
    zone
}

fn parse_payload(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> NamedValues {
    let Some(entries) = entry.value.as_map() else {
        report_wrong_type(sink, "payload", "a map", &entry.value);
        return NamedValues::default();
    };
    NamedValues(
        entries.iter().map(|entry| parse_named_value(sink, entry, TemplatePlace::Start)).collect(),
    )
}

fn parse_misfire(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> MisfireHandling {
    let Some(mut reader) = MapReader::open(sink, "misfire", "misfire", &entry.value) else {
        return MisfireHandling::default();
    };
    let misfire = MisfireHandling {
        policy: reader
            .take_entry("policy")
            .and_then(|entry| read_keyword(sink, entry))
            .unwrap_or_default(),
        grace: reader
            .take_entry("grace")
            .and_then(|entry| read_whole_seconds(sink, entry, GRACE_RANGE)),
    };
    reader.report_unread(sink);
    misfire
}

/// Parses the time range in which the schedule fires.
fn parse_firing_period(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
) -> (Option<Timestamp>, Option<Timestamp>) {
    let start = reader.take_entry("start").and_then(|entry| read_time(sink, entry));
    let end = reader.take_entry("end").and_then(|entry| read_time(sink, entry));
    if let (Some(start), Some(end)) = (&start, &end)
        && start.value >= end.value
    {
        let message = format!("start {} cannot be combined with end {}", start.value, end.value);
        report_conflict(sink, [start.span, end.span], message, "the end must be after the start");
    }
    (start.map(|start| start.value), end.map(|end| end.value))
}

fn read_time(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<Spanned<Timestamp>> {
    let text = read_text(sink, entry)?;
    match Timestamp::parse(&text) {
        Ok(time) => Some(Spanned::new(time, entry.value.span)),
        Err(error) => {
            let message =
                format!("'{}' must be a time with a UTC offset, found '{text}'", entry.key);
            sink.add_with_hint(Code::NP006, entry.value.span, message, error.to_string());
            None
        }
    }
}

fn parse_jitter(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
    timing: Option<&Spanned<ScheduleTiming>>,
) -> Millis {
    let Some(entry) = reader.take_entry("jitter") else {
        return Millis::ZERO;
    };
    let jitter = read_whole_seconds(sink, entry, JITTER_RANGE).unwrap_or_default();
    if let Some(Spanned { value: ScheduleTiming::Every(every), span }) = timing
        && jitter >= *every
    {
        let message = format!("jitter {jitter} cannot be combined with every {every}");
        report_conflict(
            sink,
            [*span, entry.value.span],
            message,
            "the jitter must be shorter than the interval, so that firings stay in order",
        );
    }
    jitter
}

fn parse_schedule_concurrency(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> Option<ConcurrencyLimit> {
    let mut reader = MapReader::open(sink, "concurrency", "concurrency", &entry.value)?;
    let key = reader.require_entry(sink, "key").and_then(|entry| parse_text_setting(sink, entry));
    let limit = reader
        .take_entry("limit")
        .and_then(|entry| Some(Spanned::new(read_count(sink, entry, 1)?, entry.value.span)));
    reader.report_unread(sink);
    Some(ConcurrencyLimit { key: key?, limit: limit.unwrap_or(Spanned::new(1, entry.value.span)) })
}
