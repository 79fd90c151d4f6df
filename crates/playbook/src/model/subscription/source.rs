//! Message sources.

use std::sync::Arc;

use noetl_types::Millis;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::form;
use crate::source::Spanned;
use crate::string_enum;

/// Message source: a queue to fetch from, or an address that receives messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageSource {
    /// Fetches from a durable consumer of a `JetStream` stream.
    Nats {
        /// Name of the stream.
        stream: Arc<str>,
        /// Name of the durable consumer.
        consumer: Arc<str>,
    },
    /// Fetches from a Kafka topic.
    Kafka {
        /// Bootstrap brokers. If empty, the credential provides them.
        brokers: Vec<Arc<str>>,
        /// Name of the topic.
        topic: Arc<str>,
        /// Consumer group that shares the partitions.
        group: Arc<str>,
    },
    /// Fetches from a Pub/Sub subscription.
    Pubsub {
        /// Name of the subscription.
        subscription: Arc<str>,
        /// Endpoint of the service, if not the default.
        endpoint: Option<Arc<str>>,
    },
    /// Receives messages pushed by Pub/Sub.
    PubsubPush {
        /// Name of the subscription. Informational only.
        subscription: Option<Arc<str>>,
        /// Endpoint of the service, if not the default.
        endpoint: Option<Arc<str>>,
        /// Address that receives the messages.
        ingress: PushIngress,
    },
    /// Receives authenticated HTTP requests.
    Webhook {
        /// Address that receives the requests.
        ingress: PushIngress,
    },
}

string_enum! {
    /// A kind of message source.
    pub enum SourceKind {
        /// NATS `JetStream`.
        Nats = "nats",
        /// Google Pub/Sub.
        Pubsub = "pubsub",
        /// Kafka.
        Kafka = "kafka",
        /// HTTP.
        Webhook = "webhook",
    }
}

string_enum! {
    /// Direction of delivery.
    pub enum SourceMode {
        /// Messages are fetched from the source.
        Pull = "pull",
        /// The source pushes messages.
        Push = "push",
    }
}

impl MessageSource {
    /// Returns the kind of the source.
    pub fn kind(&self) -> SourceKind {
        match self {
            Self::Nats { .. } => SourceKind::Nats,
            Self::Kafka { .. } => SourceKind::Kafka,
            Self::Pubsub { .. } | Self::PubsubPush { .. } => SourceKind::Pubsub,
            Self::Webhook { .. } => SourceKind::Webhook,
        }
    }

    /// Returns the direction of delivery.
    pub fn mode(&self) -> SourceMode {
        if self.ingress().is_some() { SourceMode::Push } else { SourceMode::Pull }
    }

    /// Returns the address that receives pushed messages.
    pub fn ingress(&self) -> Option<&PushIngress> {
        match self {
            Self::Nats { .. } | Self::Kafka { .. } | Self::Pubsub { .. } => None,
            Self::PubsubPush { ingress, .. } | Self::Webhook { ingress } => Some(ingress),
        }
    }
}

impl Serialize for MessageSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("source", &self.kind())?;
        map.serialize_entry("mode", &self.mode())?;
        match self {
            Self::Nats { stream, consumer } => {
                map.serialize_entry("stream", stream)?;
                map.serialize_entry("consumer", consumer)?;
            }
            Self::Kafka { brokers, topic, group } => {
                if !brokers.is_empty() {
                    map.serialize_entry("brokers", brokers)?;
                }
                map.serialize_entry("topic", topic)?;
                map.serialize_entry("group", group)?;
            }
            Self::Pubsub { subscription, endpoint } => {
                pubsub_entries(&mut map, Some(subscription), endpoint.as_ref())?;
            }
            Self::PubsubPush { subscription, endpoint, ingress } => {
                pubsub_entries(&mut map, subscription.as_ref(), endpoint.as_ref())?;
                map.serialize_entry("ingress", ingress)?;
            }
            Self::Webhook { ingress } => map.serialize_entry("ingress", ingress)?,
        }
        map.end()
    }
}

fn pubsub_entries<M: serde::ser::SerializeMap>(
    map: &mut M,
    subscription: Option<&Arc<str>>,
    endpoint: Option<&Arc<str>>,
) -> Result<(), M::Error> {
    if let Some(subscription) = subscription {
        map.serialize_entry("subscription", subscription)?;
    }
    if let Some(endpoint) = endpoint {
        map.serialize_entry("endpoint", endpoint)?;
    }
    Ok(())
}

/// Returns the schema of the keys that a source adds to its parent map.
pub(super) fn source_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut kind = generator.subschema_for::<SourceKind>();
    kind.insert("description".to_owned(), "Kind of message source.".into());
    let mut mode = generator.subschema_for::<SourceMode>();
    mode.insert(
        "description".to_owned(),
        "Direction of delivery: messages are fetched (`pull`) or received (`push`). A webhook is always `push`.".into(),
    );
    let mut ingress = generator.subschema_for::<PushIngress>();
    ingress
        .insert("description".to_owned(), "Address that receives messages, in mode `push`.".into());
    let mut brokers = form::texts_schema(generator);
    brokers.insert("description".to_owned(), "Bootstrap brokers (kafka).".into());
    json_schema!({
        "type": "object",
        "properties": {
            "source": kind,
            "mode": mode,
            "stream": { "type": "string", "description": "Name of the stream (nats)." },
            "consumer": { "type": "string", "description": "Durable consumer of the stream (nats)." },
            "subscription": { "type": "string", "description": "Name of the subscription (pubsub)." },
            "endpoint": { "type": "string", "description": "Endpoint of the service, if not the default (pubsub)." },
            "brokers": brokers,
            "topic": { "type": "string", "description": "Name of the topic (kafka)." },
            "group": { "type": "string", "description": "Consumer group (kafka)." },
            "ingress": ingress
        },
        "required": ["source"]
    })
}

/// Connection to a message source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default)]
pub struct SourceConnection {
    /// Name of the credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub auth: Option<Spanned<Arc<str>>>,
    /// Address, if the credential does not contain it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<Arc<str>>,
    /// User name, if the credential does not contain it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<str>>,
    /// Password, for development only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Arc<str>>,
    /// Token, for development only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Arc<str>>,
}

/// Address that receives pushed messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PushIngress {
    /// URL path at the gateway.
    #[schemars(regex(pattern = r"^(/[A-Za-z0-9._~-]+)+$"))]
    pub gateway_path: Arc<str>,
    /// Authentication of incoming messages.
    pub verify: MessageVerifier,
}

impl PushIngress {
    /// Returns the last segment of the path. It identifies the listener within the installation.
    pub fn listener_name(&self) -> &str {
        self.gateway_path.rsplit('/').next().unwrap_or_default()
    }
}

/// Authentication of an incoming message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum MessageVerifier {
    /// HMAC signature of the body.
    HmacSha256 {
        /// Header that contains the signature.
        header: Arc<str>,
        /// Credential that contains the key.
        #[schemars(with = "String")]
        secret: Spanned<Arc<str>>,
        /// Header that contains the signed timestamp.
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp_header: Option<Arc<str>>,
        /// Maximum clock difference of the signed timestamp.
        #[serde(
            rename = "tolerance_secs",
            skip_serializing_if = "MessageVerifier::is_default_tolerance",
            serialize_with = "form::serialize_secs"
        )]
        #[schemars(
            default = "MessageVerifier::default_tolerance",
            with = "u32",
            range(min = 1, max = 86_400)
        )]
        tolerance: Millis,
    },
    /// Bearer token.
    Bearer {
        /// Header that contains the token. Defaults to `Authorization`.
        #[serde(skip_serializing_if = "Option::is_none")]
        header: Option<Arc<str>>,
        /// Credential that contains the token.
        #[schemars(with = "String")]
        secret: Spanned<Arc<str>>,
    },
    /// `OpenID` Connect token signed by Google.
    PubsubOidc {
        /// Expected audience of the token.
        audience: Arc<str>,
        /// Expected service account of the token.
        service_account: Arc<str>,
    },
}

string_enum! {
    /// A type of message authentication.
    pub enum VerifierType {
        /// HMAC signature of the body.
        HmacSha256 = "hmac_sha256",
        /// Bearer token.
        Bearer = "bearer",
        /// `OpenID` Connect token signed by Google.
        PubsubOidc = "pubsub_oidc",
    }
}

impl MessageVerifier {
    /// Default clock difference that is accepted for a signed timestamp.
    pub const DEFAULT_TOLERANCE: Millis = Millis::from_secs(300);

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
    fn is_default_tolerance(tolerance: &Millis) -> bool {
        *tolerance == Self::DEFAULT_TOLERANCE
    }

    fn default_tolerance() -> Millis {
        Self::DEFAULT_TOLERANCE
    }
}
