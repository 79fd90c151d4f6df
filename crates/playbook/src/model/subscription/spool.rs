//! Where messages wait while what they need is down.

use std::sync::Arc;

use noetl_types::time::as_ms;
use noetl_types::{ByteSize, Millis};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use super::form::{self, is_default};
use crate::model::value::SizeText;
use crate::source::Spanned;
use crate::words;

/// Where messages wait while what they need is down.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spool {
    /// When messages go there.
    #[schemars(schema_with = "mode_schema")]
    pub mode: SpoolMode,
    /// What keeps them.
    #[serde(flatten)]
    #[schemars(schema_with = "store_schema")]
    pub store: SpoolStore,
    /// The name of the credential for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub credential: Option<Spanned<Arc<str>>>,
    /// When what messages need counts as down, and as up again.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub circuit: Circuit,
    /// Which messages keep their order.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub ordering: Ordering,
    /// The field whose messages keep their order; what the source goes by where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<Arc<str>>,
    /// How much is kept, and for how long.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub retention: SpoolRetention,
    /// How messages leave.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub drain: Drain,
    /// In mode `hybrid`: how long messages are held at their source before they go to the spool.
    #[serde(
        rename = "hybrid_escalate_after_ms",
        skip_serializing_if = "Spool::is_default_escalation",
        serialize_with = "as_ms::serialize"
    )]
    #[schemars(default = "Spool::default_escalation", with = "u32")]
    pub hybrid_escalate_after: Millis,
}

impl Spool {
    /// How long mode `hybrid` holds messages at their source, where nothing else is said.
    pub const ESCALATE_AFTER: Millis = Millis::from_secs(30);

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature serde asks for"
    )]
    fn is_default_escalation(after: &Millis) -> bool {
        *after == Self::ESCALATE_AFTER
    }

    fn default_escalation() -> Millis {
        Self::ESCALATE_AFTER
    }
}

words! {
    /// When messages go to the spool. A spool that is off is none.
    pub enum SpoolMode {
        /// As soon as what they need is down.
        BufferAndAck = "buffer_and_ack",
        /// When it stays down.
        Hybrid = "hybrid",
    }
}

impl SpoolMode {
    /// The word for no spool.
    pub const OFF: &'static str = "off";
    /// Every word that a document may use.
    pub const ALL_WORDS: [&'static str; 3] = [Self::OFF, Self::WORDS[0], Self::WORDS[1]];
}

fn mode_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": SpoolMode::ALL_WORDS })
}

/// What keeps spooled messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "backend", rename_all = "snake_case")]
pub enum SpoolStore {
    /// An object store of NATS.
    NatsObject {
        /// Its bucket.
        bucket: Arc<str>,
    },
    /// A directory of the worker.
    LocalDisk {
        /// Its path.
        path: Arc<str>,
    },
    /// Google Cloud Storage.
    Gcs {
        /// Its bucket.
        bucket: Arc<str>,
    },
    /// S3 or what speaks like it.
    S3 {
        /// Its bucket.
        bucket: Arc<str>,
    },
}

words! {
    /// A kind of store for spooled messages.
    pub enum SpoolBackend {
        /// An object store of NATS.
        NatsObject = "nats_object",
        /// A directory of the worker.
        LocalDisk = "local_disk",
        /// Google Cloud Storage.
        Gcs = "gcs",
        /// S3 or what speaks like it.
        S3 = "s3",
    }
}

fn store_schema(generator: &mut SchemaGenerator) -> Schema {
    let backend = generator.subschema_for::<SpoolBackend>();
    json_schema!({
        "type": "object",
        "properties": {
            "backend": backend,
            "bucket": { "type": "string", "description": "The bucket of nats_object, gcs or s3." },
            "path": { "type": "string", "description": "The directory of local_disk." }
        }
    })
}

/// When what messages need counts as down, and as up again.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Circuit {
    /// Failures in a row after which it counts as down.
    #[serde(skip_serializing_if = "Circuit::is_default_trip")]
    #[schemars(range(min = 1))]
    pub trip_after: u32,
    /// How long it is left alone then.
    #[serde(rename = "probe_after_ms", serialize_with = "as_ms::serialize")]
    #[schemars(with = "u32")]
    pub probe_after: Millis,
    /// How often it is asked after that.
    #[serde(rename = "probe_interval_ms", serialize_with = "as_ms::serialize")]
    #[schemars(with = "u32")]
    pub probe_interval: Millis,
    /// What messages need.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub downstream: Vec<Downstream>,
}

impl Circuit {
    const TRIP_AFTER: u32 = 5;

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature serde asks for"
    )]
    fn is_default_trip(after: &u32) -> bool {
        *after == Self::TRIP_AFTER
    }
}

impl Default for Circuit {
    fn default() -> Self {
        Self {
            trip_after: Self::TRIP_AFTER,
            probe_after: Millis::from_secs(30),
            probe_interval: Millis::from_secs(5),
            downstream: Vec::new(),
        }
    }
}

/// Something that messages need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Downstream {
    /// Its name.
    pub name: Arc<str>,
    /// How it is asked.
    #[serde(flatten)]
    pub probe: Probe,
}

/// How something is asked whether it is up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", content = "target", rename_all = "snake_case")]
pub enum Probe {
    /// A request to this address succeeds.
    Http(Arc<str>),
    /// A connection to this address succeeds.
    Tcp(Arc<str>),
    /// A server of NATS at this address answers.
    Nats(Arc<str>),
    /// Not at all: the executions show.
    Passive,
}

words! {
    /// A way to ask whether something is up.
    pub enum ProbeType {
        /// By a request.
        Http = "http",
        /// By a connection.
        Tcp = "tcp",
        /// By a message to NATS.
        Nats = "nats",
        /// Not at all.
        Passive = "passive",
    }
}

impl JsonSchema for Downstream {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Downstream".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let probe = generator.subschema_for::<ProbeType>();
        json_schema!({
            "description": "Something that messages need, and how it is asked whether it is up.",
            "type": "object",
            "properties": {
                "name": { "type": "string" },
                "type": probe,
                "target": { "type": "string", "description": "Its address; `passive` needs none." }
            },
            "required": ["name", "type"],
            "additionalProperties": false
        })
    }
}

words! {
    /// Which messages keep their order.
    #[derive(Default)]
    pub enum Ordering {
        /// Those with the same key.
        #[default]
        PerKey = "per_key",
        /// All.
        Global = "global",
        /// None.
        None = "none",
    }
}

/// How much a spool keeps, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SpoolRetention {
    /// How long a message may wait.
    #[serde(
        rename = "max_age_hours",
        skip_serializing_if = "Option::is_none",
        serialize_with = "form::optional_hours"
    )]
    #[schemars(with = "Option<u32>", range(min = 1))]
    pub max_age: Option<Millis>,
    /// How much may wait.
    #[schemars(with = "SizeText")]
    pub max_bytes: ByteSize,
    /// What happens to a message for which there is no room.
    #[serde(skip_serializing_if = "is_default")]
    pub on_full: OnFull,
}

impl Default for SpoolRetention {
    fn default() -> Self {
        Self {
            max_age: None,
            max_bytes: ByteSize::from_gib(1),
            on_full: OnFull::default(),
        }
    }
}

words! {
    /// What happens to a message for which the spool has no room.
    #[derive(Default)]
    pub enum OnFull {
        /// It stays at its source.
        #[default]
        StopAcking = "stop_acking",
        /// It becomes a dead letter.
        DropToDlq = "drop_to_dlq",
        /// It is kept all the same, and someone is told.
        AlertOnly = "alert_only",
    }
}

/// How messages leave a spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Drain {
    /// How many leave in a second; as many as the limits allow where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub rate_per_sec: Option<u32>,
    /// How often a message is tried before it becomes a dead letter.
    #[schemars(range(min = 1))]
    pub max_replay_attempts: u32,
    /// What happens to new messages meanwhile.
    #[serde(skip_serializing_if = "is_default")]
    pub on_recovery: OnRecovery,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            rate_per_sec: None,
            max_replay_attempts: 5,
            on_recovery: OnRecovery::default(),
        }
    }
}

words! {
    /// What happens to new messages while a spool empties.
    #[derive(Default)]
    pub enum OnRecovery {
        /// They wait for the old ones.
        #[default]
        OrderedThenLive = "ordered_then_live",
        /// They go between them.
        Interleave = "interleave",
    }
}
