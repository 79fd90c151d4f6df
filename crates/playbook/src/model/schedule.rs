//! Schedules: timers that start playbooks.

use std::sync::Arc;

use noetl_types::limits::Priority;
use noetl_types::{Millis, PlaybookPath, Timestamp};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::document::DocumentMetadata;
use super::step::ConcurrencyLimit;
use super::value::{DurationText, NamedValues};
use crate::source::Spanned;
use crate::string_enum;
use crate::timing::{CronExpression, TimeZone};

/// A timer that starts a playbook.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Language version.
    #[serde(rename = "apiVersion")]
    #[schemars(extend("enum" = ["noetl.io/v1"]))]
    pub api_version: Arc<str>,
    /// Always `Schedule`.
    #[schemars(extend("const" = "Schedule"))]
    pub kind: Arc<str>,
    /// Name, path and description.
    pub metadata: DocumentMetadata,
    /// Firing times and the playbook to start.
    pub spec: ScheduleSpec,
}

impl Schedule {
    /// Returns the path under which the catalog stores the schedule.
    pub fn path(&self) -> &Arc<str> {
        self.metadata.path.as_ref().unwrap_or(&self.metadata.name)
    }
}

/// Firing times of a schedule and the playbook that it starts.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    /// Firing times.
    #[serde(flatten)]
    #[schemars(schema_with = "timing_schema")]
    pub timing: ScheduleTiming,
    /// Time zone of the cron expressions.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub timezone: TimeZone,
    /// Path of the playbook to start.
    #[schemars(with = "String")]
    pub playbook: Spanned<PlaybookPath>,
    /// Playbook version to start. Defaults to the newest version at the time of firing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub version: Option<u32>,
    /// Input of each execution, rendered when it starts. The key `schedule` is added to it.
    #[serde(skip_serializing_if = "NamedValues::is_empty")]
    #[schemars(default)]
    pub payload: NamedValues,
    /// Behavior of a firing while an earlier execution is still running.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub overlap: OverlapPolicy,
    /// Handling of firings that were missed while no server was running.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub misfire: MisfireHandling,
    /// Enables the schedule.
    #[serde(skip_serializing_if = "is_on")]
    #[schemars(default = "default_enabled")]
    pub enabled: bool,
    /// Earliest firing time, inclusive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TimeText>")]
    pub start: Option<Timestamp>,
    /// Latest firing time, exclusive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TimeText>")]
    pub end: Option<Timestamp>,
    /// Delays each firing by a random fraction of this duration.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default, with = "DurationText")]
    pub jitter: Millis,
    /// Limits concurrent executions that have the same key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<ConcurrencyLimit>,
    /// Priority from -100 to 100. Higher values run first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i16>", range(min = -100, max = 100))]
    pub priority: Option<Priority>,
}

/// Firing times of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum ScheduleTiming {
    /// Times that match any of these cron expressions. There is at least one.
    #[serde(rename = "cron", serialize_with = "serialize_crons")]
    Cron(Vec<CronExpression>),
    /// A fixed interval in whole seconds.
    #[serde(rename = "every")]
    Every(Millis),
}

fn serialize_crons<S: Serializer>(
    crons: &[CronExpression],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match crons {
        [cron] => cron.serialize(serializer),
        crons => crons.serialize(serializer),
    }
}

fn timing_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let cron = generator.subschema_for::<CronExpression>();
    let mut every = generator.subschema_for::<DurationText>();
    every.insert("description".to_owned(), "Interval between firings, in whole seconds.".into());
    schemars::json_schema!({
        "type": "object",
        "properties": {
            "cron": { "description": "One or more cron expressions that define the firing times.", "anyOf": [cron, { "type": "array", "items": cron, "minItems": 1 }] },
            "every": every
        },
        "oneOf": [{ "required": ["cron"] }, { "required": ["every"] }]
    })
}

string_enum! {
    /// Behavior of a firing while an earlier execution of the schedule is still running.
    #[derive(Default)]
    pub enum OverlapPolicy {
        /// Does not start an execution.
        #[default]
        Skip = "skip",
        /// Waits for the earlier execution to end.
        Queue = "queue",
        /// Starts a concurrent execution.
        Allow = "allow",
        /// Cancels the earlier execution and starts a new one.
        CancelPrevious = "cancel_previous",
    }
}

/// Handling of firings that were missed while no server was running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MisfireHandling {
    /// Selection of missed firings to run.
    #[serde(skip_serializing_if = "is_default")]
    pub policy: MisfirePolicy,
    /// Maximum delay of a missed firing that is still run. Defaults to no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DurationText>")]
    pub grace: Option<Millis>,
}

string_enum! {
    /// Selection of missed firings to run.
    #[derive(Default)]
    pub enum MisfirePolicy {
        /// Starts one execution for all missed firings.
        #[default]
        RunOnce = "run_once",
        /// Starts one execution per missed firing, in order.
        RunAll = "run_all",
        /// Skips all missed firings.
        Skip = "skip",
    }
}

/// JSON Schema of a time.
struct TimeText;

impl JsonSchema for TimeText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A time with a UTC offset, such as `2026-01-31T08:00:00Z`.",
            "type": "string",
            "format": "date-time"
        })
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn default_enabled() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_on(value: &bool) -> bool {
    *value
}
