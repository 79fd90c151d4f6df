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
}

impl KeychainEntry {
    pub(crate) const KEYS_WITHOUT_EFFECT: [&str; 7] = [
        "scope", "token_type", "auto_renew", "region", "residency", "allowed_regions",
        "no_broker_fallback",
    ];
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
        /// A bearer token.
        Bearer = "bearer",
        /// Values written in the playbook.
        Static = "static",
    }
}
