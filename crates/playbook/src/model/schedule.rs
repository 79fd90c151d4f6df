//! Schedules: clocks that start playbooks.

use std::sync::Arc;

use noetl_types::limits::Priority;
use noetl_types::{Millis, PlaybookPath, Timestamp};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::document::Metadata;
use super::step::Concurrency;
use super::value::{DurationText, Fields};
use crate::source::Spanned;
use crate::timing::{Cron, Zone};
use crate::words;

/// A clock that starts a playbook.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Version of the language.
    #[serde(rename = "apiVersion")]
    #[schemars(extend("enum" = ["noetl.io/v1"]))]
    pub api_version: Arc<str>,
    /// Always `Schedule`.
    #[schemars(extend("const" = "Schedule"))]
    pub kind: Arc<str>,
    /// Name, path and description.
    pub metadata: Metadata,
    /// When it starts what.
    pub spec: ScheduleSpec,
}

impl Schedule {
    /// The path that the catalog stores it under.
    pub fn path(&self) -> &Arc<str> {
        self.metadata.path.as_ref().unwrap_or(&self.metadata.name)
    }
}

/// When a schedule starts what.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    /// When it fires.
    #[serde(flatten)]
    #[schemars(schema_with = "timing_schema")]
    pub timing: Timing,
    /// The zone in which cron expressions are read.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub timezone: Zone,
    /// The playbook that it starts.
    #[schemars(with = "String")]
    pub playbook: Spanned<PlaybookPath>,
    /// The version to start; the newest at the time of firing where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub version: Option<u32>,
    /// The input of each run, rendered when it starts; `schedule` is added to it.
    #[serde(skip_serializing_if = "Fields::is_empty")]
    #[schemars(default)]
    pub payload: Fields,
    /// What a firing does while an earlier run still goes on.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub overlap: Overlap,
    /// What happens to firings for which nobody was there.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub misfire: Misfire,
    /// Whether it fires at all.
    #[serde(skip_serializing_if = "is_on")]
    #[schemars(default = "on")]
    pub enabled: bool,
    /// It fires at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TimeText>")]
    pub start: Option<Timestamp>,
    /// It fires before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TimeText>")]
    pub end: Option<Timestamp>,
    /// Each firing is late by a random part of this.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default, with = "DurationText")]
    pub jitter: Millis,
    /// How many runs with the same key may go on at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    /// From -100 to 100; higher goes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i16>", range(min = -100, max = 100))]
    pub priority: Option<Priority>,
}

/// When a schedule fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Timing {
    /// By the calendar, at the times of all these expressions; there is at least one.
    #[serde(rename = "cron", serialize_with = "one_or_more")]
    Cron(Vec<Cron>),
    /// At a fixed distance, in whole seconds.
    #[serde(rename = "every")]
    Every(Millis),
}

fn one_or_more<S: Serializer>(crons: &[Cron], serializer: S) -> Result<S::Ok, S::Error> {
    match crons {
        [cron] => cron.serialize(serializer),
        crons => crons.serialize(serializer),
    }
}

fn timing_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let cron = generator.subschema_for::<Cron>();
    let mut every = generator.subschema_for::<DurationText>();
    every.insert(
        "description".to_owned(),
        "The distance between firings, in whole seconds.".into(),
    );
    schemars::json_schema!({
        "type": "object",
        "properties": {
            "cron": { "description": "When it fires by the calendar.", "anyOf": [cron, { "type": "array", "items": cron, "minItems": 1 }] },
            "every": every
        },
        "oneOf": [{ "required": ["cron"] }, { "required": ["every"] }]
    })
}

words! {
    /// What a firing does while an earlier run of the schedule still goes on.
    #[derive(Default)]
    pub enum Overlap {
        /// It starts nothing.
        #[default]
        Skip = "skip",
        /// It waits for the earlier run to end.
        Queue = "queue",
        /// It starts beside it.
        Allow = "allow",
        /// It cancels the earlier run and takes its place.
        CancelPrevious = "cancel_previous",
    }
}

/// What happens to firings for which nobody was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Misfire {
    /// Which of them are made up for.
    #[serde(skip_serializing_if = "is_default")]
    pub policy: MisfirePolicy,
    /// How late a firing may be and still be made up for; without it, however late.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub grace: Option<Millis>,
}

words! {
    /// Which missed firings are made up for.
    #[derive(Default)]
    pub enum MisfirePolicy {
        /// One run for all of them.
        #[default]
        RunOnce = "run_once",
        /// A run for each of them, in order.
        RunAll = "run_all",
        /// None.
        Skip = "skip",
    }
}

/// The schema of a time.
struct TimeText;

impl JsonSchema for TimeText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A time with its offset, such as `2026-01-31T08:00:00Z`.",
            "type": "string",
            "format": "date-time"
        })
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn on() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_on(value: &bool) -> bool {
    *value
}
