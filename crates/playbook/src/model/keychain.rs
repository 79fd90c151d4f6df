//! Keychain entries: secrets that tasks can read on the worker.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::value::NamedValues;
use crate::source::Spanned;
use crate::string_enum;
use crate::template::DynamicValue;

/// A named secret.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeychainEntry {
    /// Name by which templates refer to the secret.
    pub name: Spanned<Arc<str>>,
    /// Origin of the secret.
    pub kind: KeychainKind,
    /// Visibility of the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<KeychainScope>,
    /// Secret manager that stores the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["gcp", "aws", "azure", "vault", "k8s", null]))]
    pub provider: Option<Arc<str>>,
    /// Credential used to authenticate to the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub auth: Option<DynamicValue>,
    /// Field names, mapped to the location of their values.
    #[serde(skip_serializing_if = "NamedValues::is_empty")]
    #[schemars(default)]
    pub map: NamedValues,
    /// Literal token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub token: Option<DynamicValue>,
    /// Type of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_type: Option<Arc<str>>,
    /// URL of the token endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub endpoint: Option<DynamicValue>,
    /// HTTP method of the token request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Arc<str>>,
    /// Headers of the token request.
    #[serde(skip_serializing_if = "NamedValues::is_empty")]
    #[schemars(default)]
    pub headers: NamedValues,
    /// Form fields of the token request.
    #[serde(skip_serializing_if = "NamedValues::is_empty")]
    #[schemars(default)]
    pub data: NamedValues,
    /// Renews the secret before it expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_renew: Option<bool>,
    /// Region in which the secret is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<Arc<str>>,
    /// Restriction on use outside the secret's region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub residency: Option<ResidencyPolicy>,
    /// Regions that may read the secret.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub allowed_regions: Vec<Arc<str>>,
    /// Disables requests to the broker of another region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_broker_fallback: Option<bool>,
}

string_enum! {
    /// Origin of a secret.
    pub enum KeychainKind {
        /// A secret manager.
        SecretManager = "secret_manager",
        /// A credential registered in this control plane.
        Credential = "credential",
        /// Credentials of a PostgreSQL database.
        PostgresCredential = "postgres_credential",
        /// An OAuth 2.0 token endpoint.
        Oauth2 = "oauth2",
        /// A Google identity token.
        GoogleIdToken = "google_id_token",
        /// A bearer token.
        Bearer = "bearer",
        /// Values written in the playbook.
        Static = "static",
    }
}

string_enum! {
    /// Visibility of a secret.
    pub enum KeychainScope {
        /// The current execution.
        Local = "local",
        /// All executions.
        Global = "global",
        /// The playbook and its child executions.
        Shared = "shared",
    }
}

string_enum! {
    /// Restriction on use of a secret outside its region.
    pub enum ResidencyPolicy {
        /// No restriction.
        None = "none",
        /// Use outside the region is discouraged.
        Advisory = "advisory",
        /// Use outside the region is forbidden.
        Strict = "strict",
    }
}
