//! Subscriptions: sources of messages that start playbooks.

mod form;
mod headers;
mod source;
mod spool;

use std::sync::Arc;

use noetl_types::limits::DedupWindowSecs;
use noetl_types::{Millis, PlaybookPath, PoolName};
use schemars::JsonSchema;
use serde::Serialize;

use super::document::Metadata;
use crate::source::Spanned;
use crate::template::Template;
use crate::words;

use form::is_default;
pub use headers::{Directive, DirectiveControl, Headers, Propagate, Trace};
pub use source::{Connection, Ingress, Source, SourceKind, SourceMode, Verify, VerifyType};
pub use spool::{
    Circuit, Downstream, Drain, OnFull, OnRecovery, Ordering, Probe, ProbeType, Spool,
    SpoolBackend, SpoolMode, SpoolRetention, SpoolStore,
};

/// A source of messages, each of which starts a playbook.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Subscription {
    /// Version of the language.
    #[serde(rename = "apiVersion")]
    #[schemars(extend("enum" = ["noetl.io/v1"]))]
    pub api_version: Arc<str>,
    /// Always `Subscription`.
    #[schemars(extend("const" = "Subscription"))]
    pub kind: Arc<str>,
    /// Name, path and description.
    pub metadata: Metadata,
    /// Where messages come from and what they start.
    pub spec: SubscriptionSpec,
}

impl Subscription {
    /// The path that the catalog stores it under.
    pub fn path(&self) -> &Arc<str> {
        self.metadata.path.as_ref().unwrap_or(&self.metadata.name)
    }

    /// Every playbook that a message may start: the one it starts by default, and those that a header
    /// may choose.
    pub fn playbooks(&self) -> impl Iterator<Item = Spanned<&str>> {
        let chosen = self.spec.headers.directives.iter();
        let chosen = chosen.filter(|directive| directive.controls == DirectiveControl::Playbook);
        let allowed = chosen.flat_map(|directive| &directive.allowed);
        let default = &self.spec.dispatch.playbook;
        std::iter::once(Spanned::new(default.as_str(), default.span))
            .chain(allowed.map(|path| Spanned::new(&***path, path.span)))
    }
}

/// Where messages come from and what they start.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubscriptionSpec {
    /// Where messages come from.
    #[serde(flatten)]
    #[schemars(schema_with = "source::schema")]
    pub source: Source,
    /// Whether it runs all the time.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub activation: Activation,
    /// How the source is reached.
    #[serde(flatten)]
    pub connection: Connection,
    /// Where and how messages are fetched.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub runtime: Runtime,
    /// What a message starts.
    pub dispatch: Dispatch,
    /// Whether a message that comes again starts nothing.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub dedup: SubscriptionDedup,
    /// Bounds; they slow fetching down and drop nothing.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub limits: SubscriptionLimits,
    /// What the headers of a message do.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub headers: Headers,
    /// Where messages wait while what they need is down; without it they stay at their source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spool: Option<Spool>,
}

impl SubscriptionSpec {
    /// How long one fetch waits for messages; Pub/Sub answers best to long waits.
    pub fn poll_timeout(&self) -> Millis {
        self.runtime.timeout.unwrap_or(match self.source.kind() {
            SourceKind::Pubsub => Millis::from_secs(5),
            SourceKind::Nats | SourceKind::Kafka | SourceKind::Webhook => Millis::from_secs(1),
        })
    }
}

words! {
    /// Whether a subscription runs all the time.
    #[derive(Default)]
    pub enum Activation {
        /// All the time.
        #[default]
        Continuous = "continuous",
        /// When a schedule wakes it.
        Scheduled = "scheduled",
    }
}

/// Where and how messages are fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Runtime {
    /// What fetches them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Arc<str>>,
    /// The pool of workers that fetches them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub pool: Option<PoolName>,
    /// Messages of one fetch.
    #[serde(skip_serializing_if = "Runtime::is_default_batch")]
    #[schemars(range(min = 1, max = 1000))]
    pub batch: u32,
    /// How long one fetch waits; what the source does best where absent.
    #[serde(
        rename = "timeout_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "form::optional_ms"
    )]
    #[schemars(with = "Option<u32>", range(min = 1, max = 5000))]
    pub timeout: Option<Millis>,
}

impl Runtime {
    const BATCH: u32 = 100;

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature serde asks for"
    )]
    fn is_default_batch(batch: &u32) -> bool {
        *batch == Self::BATCH
    }
}

impl Default for Runtime {
    fn default() -> Self {
        Self {
            target: None,
            pool: None,
            batch: Self::BATCH,
            timeout: None,
        }
    }
}

/// What a message starts.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dispatch {
    /// The playbook.
    #[schemars(with = "String")]
    pub playbook: Spanned<PlaybookPath>,
    /// The part of a message that becomes the payload.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub payload_from: PayloadFrom,
    /// The pool of workers that runs the playbook.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub execution_pool: Option<PoolName>,
    /// Whether several executions are started in one call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub batch_dispatch: bool,
    /// How many executions one call starts at most; as many as one fetch brings where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub batch_max: Option<u32>,
}

words! {
    /// The part of a message that becomes the payload.
    #[derive(Default)]
    pub enum PayloadFrom {
        /// Its body, read as JSON.
        #[default]
        Json = "message.json",
        /// Its attributes.
        Attributes = "message.attributes",
        /// Its body as it is.
        Body = "message.body",
    }
}

/// Whether a message that comes again starts nothing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SubscriptionDedup {
    /// Whether it does.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enabled: bool,
    /// How long a key is remembered.
    #[serde(rename = "window_secs", skip_serializing_if = "is_default")]
    #[schemars(with = "u32", range(min = 1, max = 2_592_000))]
    pub window: DedupWindowSecs,
    /// What tells messages apart; else a header that controls `idempotency_key`, else the id that the
    /// source gave.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "form::optional_template"
    )]
    #[schemars(with = "Option<String>")]
    pub key: Option<Spanned<Template>>,
}

/// Bounds; they slow fetching down and drop nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SubscriptionLimits {
    /// Executions that go on at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_in_flight: Option<u32>,
    /// Executions started in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_dispatch_per_sec: Option<u32>,
}
