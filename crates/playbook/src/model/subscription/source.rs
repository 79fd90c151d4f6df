//! Where messages come from.

use std::sync::Arc;

use noetl_types::Millis;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::form;
use crate::source::Spanned;
use crate::words;

/// Where messages come from: what fetches them, or the address that they are sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Fetched from a durable consumer of a `JetStream` stream.
    Nats {
        /// The stream.
        stream: Arc<str>,
        /// Its consumer.
        consumer: Arc<str>,
    },
    /// Fetched from a topic of Kafka.
    Kafka {
        /// Where to begin; the credential tells where this is empty.
        brokers: Vec<Arc<str>>,
        /// The topic.
        topic: Arc<str>,
        /// The group that shares its partitions.
        group: Arc<str>,
    },
    /// Fetched from a subscription of Pub/Sub.
    Pubsub {
        /// The subscription.
        subscription: Arc<str>,
        /// Where the service is, if not at its usual address.
        endpoint: Option<Arc<str>>,
    },
    /// Sent by Pub/Sub.
    PubsubPush {
        /// The subscription, for those who read the document.
        subscription: Option<Arc<str>>,
        /// Where the service is, if not at its usual address.
        endpoint: Option<Arc<str>>,
        /// The address.
        ingress: Ingress,
    },
    /// Sent by anyone who can prove that they may.
    Webhook {
        /// The address.
        ingress: Ingress,
    },
}

words! {
    /// A kind of source.
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

words! {
    /// Who begins.
    pub enum SourceMode {
        /// Messages are fetched.
        Pull = "pull",
        /// Messages are sent.
        Push = "push",
    }
}

impl Source {
    /// Its kind.
    pub fn kind(&self) -> SourceKind {
        match self {
            Self::Nats { .. } => SourceKind::Nats,
            Self::Kafka { .. } => SourceKind::Kafka,
            Self::Pubsub { .. } | Self::PubsubPush { .. } => SourceKind::Pubsub,
            Self::Webhook { .. } => SourceKind::Webhook,
        }
    }

    /// Who begins.
    pub fn mode(&self) -> SourceMode {
        if self.ingress().is_some() {
            SourceMode::Push
        } else {
            SourceMode::Pull
        }
    }

    /// The address that messages are sent to.
    pub fn ingress(&self) -> Option<&Ingress> {
        match self {
            Self::Nats { .. } | Self::Kafka { .. } | Self::Pubsub { .. } => None,
            Self::PubsubPush { ingress, .. } | Self::Webhook { ingress } => Some(ingress),
        }
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("source", &self.kind())?;
        map.serialize_entry("mode", &self.mode())?;
        match self {
            Self::Nats { stream, consumer } => {
                map.serialize_entry("stream", stream)?;
                map.serialize_entry("consumer", consumer)?;
            }
            Self::Kafka {
                brokers,
                topic,
                group,
            } => {
                if !brokers.is_empty() {
                    map.serialize_entry("brokers", brokers)?;
                }
                map.serialize_entry("topic", topic)?;
                map.serialize_entry("group", group)?;
            }
            Self::Pubsub {
                subscription,
                endpoint,
            } => {
                pubsub_entries(&mut map, Some(subscription), endpoint.as_ref())?;
            }
            Self::PubsubPush {
                subscription,
                endpoint,
                ingress,
            } => {
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

/// The schema of what a source adds to the map that it stands in.
pub(super) fn schema(generator: &mut SchemaGenerator) -> Schema {
    let mut kind = generator.subschema_for::<SourceKind>();
    kind.insert("description".to_owned(), "Where messages come from.".into());
    let mut mode = generator.subschema_for::<SourceMode>();
    mode.insert(
        "description".to_owned(),
        "Whether messages are fetched or sent; a webhook is sent to.".into(),
    );
    let mut ingress = generator.subschema_for::<Ingress>();
    ingress.insert(
        "description".to_owned(),
        "The address that messages are sent to, in mode push.".into(),
    );
    let mut brokers = form::texts_schema(generator);
    brokers.insert("description".to_owned(), "Where to begin (kafka).".into());
    json_schema!({
        "type": "object",
        "properties": {
            "source": kind,
            "mode": mode,
            "stream": { "type": "string", "description": "The stream (nats)." },
            "consumer": { "type": "string", "description": "The durable consumer of the stream (nats)." },
            "subscription": { "type": "string", "description": "The subscription (pubsub)." },
            "endpoint": { "type": "string", "description": "Where the service is, if not at its usual address (pubsub)." },
            "brokers": brokers,
            "topic": { "type": "string", "description": "The topic (kafka)." },
            "group": { "type": "string", "description": "The group that shares the partitions (kafka)." },
            "ingress": ingress
        },
        "required": ["source"]
    })
}

/// How a source is reached.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(default)]
pub struct Connection {
    /// The name of a credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub auth: Option<Spanned<Arc<str>>>,
    /// The address, if the credential does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<Arc<str>>,
    /// The user, if the credential does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<str>>,
    /// A password, for development only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Arc<str>>,
    /// A token, for development only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Arc<str>>,
}

/// An address that messages are sent to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ingress {
    /// The path of the address at the gateway.
    #[schemars(regex(pattern = r"^(/[A-Za-z0-9._~-]+)+$"))]
    pub gateway_path: Arc<str>,
    /// How a message proves where it comes from.
    pub verify: Verify,
}

impl Ingress {
    /// The last segment of the path, which is its name within the installation.
    pub fn listener(&self) -> &str {
        self.gateway_path.rsplit('/').next().unwrap_or_default()
    }
}

/// How a message proves where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Verify {
    /// A signature over its body.
    HmacSha256 {
        /// The header with the signature.
        header: Arc<str>,
        /// The credential with the key.
        #[schemars(with = "String")]
        secret: Spanned<Arc<str>>,
        /// The header with the time that is signed along.
        #[serde(skip_serializing_if = "Option::is_none")]
        timestamp_header: Option<Arc<str>>,
        /// How far that time may be off.
        #[serde(
            rename = "tolerance_secs",
            skip_serializing_if = "Verify::is_default_tolerance",
            serialize_with = "form::secs"
        )]
        #[schemars(
            default = "Verify::default_tolerance",
            with = "u32",
            range(min = 1, max = 86_400)
        )]
        tolerance: Millis,
    },
    /// A token.
    Bearer {
        /// The header with the token; `Authorization` where absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        header: Option<Arc<str>>,
        /// The credential with the token.
        #[schemars(with = "String")]
        secret: Spanned<Arc<str>>,
    },
    /// An identity that Google signs.
    PubsubOidc {
        /// Whom the identity is meant for.
        audience: Arc<str>,
        /// Whose identity it is.
        service_account: Arc<str>,
    },
}

words! {
    /// A way to prove where a message comes from.
    pub enum VerifyType {
        /// A signature over its body.
        HmacSha256 = "hmac_sha256",
        /// A token.
        Bearer = "bearer",
        /// An identity that Google signs.
        PubsubOidc = "pubsub_oidc",
    }
}

impl Verify {
    /// How far the time of a signed message may be off, where nothing else is said.
    pub const TOLERANCE: Millis = Millis::from_secs(300);

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature serde asks for"
    )]
    fn is_default_tolerance(tolerance: &Millis) -> bool {
        *tolerance == Self::TOLERANCE
    }

    fn default_tolerance() -> Millis {
        Self::TOLERANCE
    }
}
