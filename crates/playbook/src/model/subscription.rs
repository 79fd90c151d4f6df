//! Subscriptions: message sources whose messages start playbooks.

mod form;
mod headers;
mod source;
mod spool;

use std::sync::Arc;

use noetl_types::limits::DedupWindowSecs;
use noetl_types::{Millis, PlaybookPath, PoolName};
use schemars::JsonSchema;
use serde::Serialize;

use super::document::DocumentMetadata;
use crate::source::Spanned;
use crate::string_enum;
use crate::template::Template;

use form::is_default;
pub use headers::{DirectiveControl, HeaderDirective, HeaderRules, TraceConfig, TracePropagation};
pub use source::{
    MessageSource, MessageVerifier, PushIngress, SourceConnection, SourceKind, SourceMode,
    VerifierType,
};
pub use spool::{
    CircuitBreaker, DownstreamService, HealthProbe, MessageOrdering, OnFull, OnRecovery, ProbeType,
    Spool, SpoolBackend, SpoolDrain, SpoolMode, SpoolRetention, SpoolStore,
};

/// A message source. Each message starts a playbook.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Subscription {
    /// Language version.
    #[serde(rename = "apiVersion")]
    #[schemars(extend("enum" = ["noetl.io/v1"]))]
    pub api_version: Arc<str>,
    /// Always `Subscription`.
    #[schemars(extend("const" = "Subscription"))]
    pub kind: Arc<str>,
    /// Name, path and description.
    pub metadata: DocumentMetadata,
    /// Message source and the playbook to start.
    pub spec: SubscriptionSpec,
}

impl Subscription {
    /// Returns the path under which the catalog stores the subscription.
    pub fn path(&self) -> &Arc<str> {
        self.metadata.path.as_ref().unwrap_or(&self.metadata.name)
    }

    /// Returns every playbook that a message may start: the default one, and those that a header
    /// may select.
    pub fn playbooks(&self) -> impl Iterator<Item = Spanned<&str>> {
        let directives = self.spec.headers.directives.iter();
        let directives =
            directives.filter(|directive| directive.controls == DirectiveControl::Playbook);
        let allowed = directives.flat_map(|directive| &directive.allowed);
        let default = &self.spec.dispatch.playbook;
        std::iter::once(Spanned::new(default.as_str(), default.span))
            .chain(allowed.map(|path| Spanned::new(&***path, path.span)))
    }
}

/// Message source and the playbook that its messages start.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubscriptionSpec {
    /// Message source.
    #[serde(flatten)]
    #[schemars(schema_with = "source::source_schema")]
    pub source: MessageSource,
    /// Activation of the subscription.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub activation: ActivationMode,
    /// Connection to the source.
    #[serde(flatten)]
    pub connection: SourceConnection,
    /// Workers that fetch messages, and the size and duration of a fetch.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub runtime: FetchConfig,
    /// Playbook that a message starts.
    pub dispatch: DispatchSpec,
    /// Deduplication of redelivered messages.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub dedup: SubscriptionDedup,
    /// Rate limits. They slow down fetching and never drop messages.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub limits: SubscriptionLimits,
    /// Use of message headers.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub headers: HeaderRules,
    /// Buffer for messages while a downstream service is unavailable. Without it, messages stay at
    /// their source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spool: Option<Spool>,
}

impl SubscriptionSpec {
    /// Returns the maximum time that one fetch waits for messages. Pub/Sub works best with long
    /// waits.
    pub fn poll_timeout(&self) -> Millis {
        self.runtime.timeout.unwrap_or(match self.source.kind() {
            SourceKind::Pubsub => Millis::from_secs(5),
            SourceKind::Nats | SourceKind::Kafka | SourceKind::Webhook => Millis::from_secs(1),
        })
    }
}

string_enum! {
    /// Activation of a subscription.
    #[derive(Default)]
    pub enum ActivationMode {
        /// Runs continuously.
        #[default]
        Continuous = "continuous",
        /// Runs when a schedule starts it.
        Scheduled = "scheduled",
    }
}

/// Workers that fetch messages, and the size and duration of a fetch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FetchConfig {
    /// Component that fetches messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Arc<str>>,
    /// Worker pool that fetches messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub pool: Option<PoolName>,
    /// Maximum messages per fetch.
    #[serde(skip_serializing_if = "FetchConfig::is_default_batch")]
    #[schemars(range(min = 1, max = 1000))]
    pub batch: u32,
    /// Maximum time that one fetch waits. The default depends on the source.
    #[serde(
        rename = "timeout_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "form::serialize_optional_ms"
    )]
    #[schemars(with = "Option<u32>", range(min = 1, max = 5000))]
    pub timeout: Option<Millis>,
}

impl FetchConfig {
    const DEFAULT_BATCH_SIZE: u32 = 100;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
    fn is_default_batch(batch: &u32) -> bool {
        *batch == Self::DEFAULT_BATCH_SIZE
    }
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self { target: None, pool: None, batch: Self::DEFAULT_BATCH_SIZE, timeout: None }
    }
}

/// Playbook that a message starts.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DispatchSpec {
    /// Path of the playbook.
    #[schemars(with = "String")]
    pub playbook: Spanned<PlaybookPath>,
    /// Part of the message that becomes the payload.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub payload_from: PayloadFrom,
    /// Worker pool that runs the playbook.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub execution_pool: Option<PoolName>,
    /// Starts several executions in one call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub batch_dispatch: bool,
    /// Maximum number of executions per call. Defaults to the size of a fetch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub batch_max: Option<u32>,
}

string_enum! {
    /// Part of a message that becomes the payload.
    #[derive(Default)]
    pub enum PayloadFrom {
        /// Message body, parsed as JSON.
        #[default]
        Json = "message.json",
        /// Message attributes.
        Attributes = "message.attributes",
        /// Message body, unparsed.
        Body = "message.body",
    }
}

/// Deduplication of redelivered messages.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SubscriptionDedup {
    /// Enables deduplication.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enabled: bool,
    /// Time for which a key is remembered.
    #[serde(rename = "window_secs", skip_serializing_if = "is_default")]
    #[schemars(with = "u32", range(min = 1, max = 2_592_000))]
    pub window: DedupWindowSecs,
    /// Key that identifies a message. Defaults to the header that controls `idempotency_key`, or
    /// else the message ID assigned by the source.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "form::serialize_optional_template"
    )]
    #[schemars(with = "Option<String>")]
    pub key: Option<Spanned<Template>>,
}

/// Rate limits. They slow down fetching and never drop messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SubscriptionLimits {
    /// Maximum number of concurrent executions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_in_flight: Option<u32>,
    /// Maximum number of executions started per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_dispatch_per_sec: Option<u32>,
}
