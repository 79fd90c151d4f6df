//! Spool: a buffer for messages while a downstream service is unavailable.

use std::sync::Arc;

use noetl_types::time::as_ms;
use noetl_types::{ByteSize, Millis};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use super::form::{self, is_default};
use crate::model::value::SizeText;
use crate::source::Spanned;
use crate::string_enum;

/// A buffer for messages while a downstream service is unavailable.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spool {
    /// Condition under which messages are spooled.
    #[schemars(schema_with = "mode_schema")]
    pub mode: SpoolMode,
    /// Storage of spooled messages.
    #[serde(flatten)]
    #[schemars(schema_with = "store_schema")]
    pub store: SpoolStore,
    /// Name of the credential for the storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub credential: Option<Spanned<Arc<str>>>,
    /// Circuit breaker that detects unavailable downstream services.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub circuit: CircuitBreaker,
    /// Ordering guarantee.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub ordering: MessageOrdering,
    /// Field by which messages are ordered. Defaults to the ordering key of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<Arc<str>>,
    /// Size and age limits of spooled messages.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub retention: SpoolRetention,
    /// Delivery of spooled messages after recovery.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub drain: SpoolDrain,
    /// In mode `hybrid`: time that messages are held at their source before they are spooled.
    #[serde(
        rename = "hybrid_escalate_after_ms",
        skip_serializing_if = "Spool::is_default_escalation",
        serialize_with = "as_ms::serialize"
    )]
    #[schemars(default = "Spool::default_escalation", with = "u32")]
    pub hybrid_escalate_after: Millis,
}

impl Spool {
    /// Default time that mode `hybrid` holds messages at their source.
    pub const DEFAULT_ESCALATE_AFTER: Millis = Millis::from_secs(30);

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
    fn is_default_escalation(after: &Millis) -> bool {
        *after == Self::DEFAULT_ESCALATE_AFTER
    }

    fn default_escalation() -> Millis {
        Self::DEFAULT_ESCALATE_AFTER
    }
}

string_enum! {
    /// Condition under which messages are spooled. A spool that is `off` is not part of the model.
    pub enum SpoolMode {
        /// As soon as a downstream service is unavailable.
        BufferAndAck = "buffer_and_ack",
        /// If a downstream service stays unavailable.
        Hybrid = "hybrid",
    }
}

impl SpoolMode {
    /// Keyword that disables the spool.
    pub const OFF: &'static str = "off";
    /// All keywords that a document may use.
    pub const ALL_WORDS: [&'static str; 3] = [Self::OFF, Self::WORDS[0], Self::WORDS[1]];
}

fn mode_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": SpoolMode::ALL_WORDS })
}

/// Storage of spooled messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "backend", rename_all = "snake_case")]
pub enum SpoolStore {
    /// A NATS object store.
    NatsObject {
        /// Name of the bucket.
        bucket: Arc<str>,
    },
    /// A directory on the worker.
    LocalDisk {
        /// Path of the directory.
        path: Arc<str>,
    },
    /// Google Cloud Storage.
    Gcs {
        /// Name of the bucket.
        bucket: Arc<str>,
    },
    /// Amazon S3 or a compatible store.
    S3 {
        /// Name of the bucket.
        bucket: Arc<str>,
    },
}

string_enum! {
    /// A kind of storage for spooled messages.
    pub enum SpoolBackend {
        /// A NATS object store.
        NatsObject = "nats_object",
        /// A directory on the worker.
        LocalDisk = "local_disk",
        /// Google Cloud Storage.
        Gcs = "gcs",
        /// Amazon S3 or a compatible store.
        S3 = "s3",
    }
}

fn store_schema(generator: &mut SchemaGenerator) -> Schema {
    let backend = generator.subschema_for::<SpoolBackend>();
    json_schema!({
        "type": "object",
        "properties": {
            "backend": backend,
            "bucket": { "type": "string", "description": "Bucket of nats_object, gcs or s3." },
            "path": { "type": "string", "description": "Directory of local_disk." }
        }
    })
}

/// Circuit breaker that detects unavailable downstream services.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CircuitBreaker {
    /// Consecutive failures that open the circuit.
    #[serde(skip_serializing_if = "CircuitBreaker::is_default_trip")]
    #[schemars(range(min = 1))]
    pub trip_after: u32,
    /// Time after opening before the first probe.
    #[serde(rename = "probe_after_ms", serialize_with = "as_ms::serialize")]
    #[schemars(with = "u32")]
    pub probe_after: Millis,
    /// Interval between probes.
    #[serde(rename = "probe_interval_ms", serialize_with = "as_ms::serialize")]
    #[schemars(with = "u32")]
    pub probe_interval: Millis,
    /// Downstream services that messages depend on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub downstream: Vec<DownstreamService>,
}

impl CircuitBreaker {
    const DEFAULT_TRIP_AFTER: u32 = 5;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
    fn is_default_trip(after: &u32) -> bool {
        *after == Self::DEFAULT_TRIP_AFTER
    }
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self {
            trip_after: Self::DEFAULT_TRIP_AFTER,
            probe_after: Millis::from_secs(30),
            probe_interval: Millis::from_secs(5),
            downstream: Vec::new(),
        }
    }
}

/// A downstream service that messages depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DownstreamService {
    /// Name of the service.
    pub name: Arc<str>,
    /// Probe of the service.
    #[serde(flatten)]
    pub probe: HealthProbe,
}

/// Availability probe of a downstream service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", content = "target", rename_all = "snake_case")]
pub enum HealthProbe {
    /// Succeeds if an HTTP request to this address succeeds.
    Http(Arc<str>),
    /// Succeeds if a TCP connection to this address succeeds.
    Tcp(Arc<str>),
    /// Succeeds if the NATS server at this address responds.
    Nats(Arc<str>),
    /// Sends no probe. Availability is derived from the results of executions.
    Passive,
}

string_enum! {
    /// A type of availability probe.
    pub enum ProbeType {
        /// HTTP request.
        Http = "http",
        /// TCP connection.
        Tcp = "tcp",
        /// NATS message.
        Nats = "nats",
        /// No probe. Availability is derived from the results of executions.
        Passive = "passive",
    }
}

impl JsonSchema for DownstreamService {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Downstream".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let probe = generator.subschema_for::<ProbeType>();
        json_schema!({
            "description": "A downstream service that messages depend on, and its availability probe.",
            "type": "object",
            "properties": {
                "name": { "type": "string" },
                "type": probe,
                "target": { "type": "string", "description": "Address of the service. Not used by `passive`." }
            },
            "required": ["name", "type"],
            "additionalProperties": false
        })
    }
}

string_enum! {
    /// Ordering guarantee of a spool.
    #[derive(Default)]
    pub enum MessageOrdering {
        /// Messages with the same key keep their order.
        #[default]
        PerKey = "per_key",
        /// All messages keep their order.
        Global = "global",
        /// No ordering guarantee.
        None = "none",
    }
}

/// Size and age limits of a spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SpoolRetention {
    /// Maximum age of a message.
    #[serde(
        rename = "max_age_hours",
        skip_serializing_if = "Option::is_none",
        serialize_with = "form::serialize_optional_hours"
    )]
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub max_age: Option<Millis>,
    /// Maximum total size of messages.
    #[schemars(with = "SizeText")]
    pub max_bytes: ByteSize,
    /// Behavior if the spool is full.
    #[serde(skip_serializing_if = "is_default")]
    pub on_full: OnFull,
}

impl Default for SpoolRetention {
    fn default() -> Self {
        Self { max_age: None, max_bytes: ByteSize::from_gib(1), on_full: OnFull::default() }
    }
}

string_enum! {
    /// Behavior if a spool is full.
    #[derive(Default)]
    pub enum OnFull {
        /// Leaves new messages at their source.
        #[default]
        StopAcking = "stop_acking",
        /// Moves new messages to the dead-letter queue.
        DropToDlq = "drop_to_dlq",
        /// Stores new messages anyway and raises an alert.
        AlertOnly = "alert_only",
    }
}

/// Delivery of spooled messages after recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SpoolDrain {
    /// Maximum messages per second. Defaults to the limits of the subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub rate_per_sec: Option<u32>,
    /// Maximum delivery attempts before a message becomes a dead letter.
    #[schemars(range(min = 1))]
    pub max_replay_attempts: u32,
    /// Handling of new messages while the spool drains.
    #[serde(skip_serializing_if = "is_default")]
    pub on_recovery: OnRecovery,
}

impl Default for SpoolDrain {
    fn default() -> Self {
        Self { rate_per_sec: None, max_replay_attempts: 5, on_recovery: OnRecovery::default() }
    }
}

string_enum! {
    /// Handling of new messages while a spool drains.
    #[derive(Default)]
    pub enum OnRecovery {
        /// New messages wait for the spooled ones.
        #[default]
        OrderedThenLive = "ordered_then_live",
        /// New messages are interleaved with the spooled ones.
        Interleave = "interleave",
    }
}
