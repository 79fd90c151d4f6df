//! Secrets that a playbook's tasks may read on the worker.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::value::Fields;
use crate::source::Spanned;
use crate::template::Dynamic;
use crate::words;

/// A secret by its name.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeychainEntry {
    /// Its name.
    pub name: Spanned<Arc<str>>,
    /// Where it comes from.
    pub kind: KeychainKind,
    /// Who shares it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<KeychainScope>,
    /// The service that keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["gcp", "aws", "azure", "vault", "k8s", null]))]
    pub provider: Option<Arc<str>>,
    /// The credential to ask with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub auth: Option<Dynamic>,
    /// Fields and where their values are.
    #[serde(skip_serializing_if = "Fields::is_empty")]
    #[schemars(default)]
    pub map: Fields,
    /// A token as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub token: Option<Dynamic>,
    /// Its type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_type: Option<Arc<str>>,
    /// Where to ask for a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub endpoint: Option<Dynamic>,
    /// How to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Arc<str>>,
    /// Headers of the request.
    #[serde(skip_serializing_if = "Fields::is_empty")]
    #[schemars(default)]
    pub headers: Fields,
    /// Form of the request.
    #[serde(skip_serializing_if = "Fields::is_empty")]
    #[schemars(default)]
    pub data: Fields,
    /// Whether it is renewed before it expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_renew: Option<bool>,
    /// Where it lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<Arc<str>>,
    /// Whether it may leave its region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub residency: Option<Residency>,
    /// Regions that may read it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub allowed_regions: Vec<Arc<str>>,
    /// Whether asking another region's broker is ruled out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_broker_fallback: Option<bool>,
}

words! {
    /// Where a secret comes from.
    pub enum KeychainKind {
        /// A secret manager.
        SecretManager = "secret_manager",
        /// A credential of this control plane.
        Credential = "credential",
        /// A credential of a PostgreSQL database.
        PostgresCredential = "postgres_credential",
        /// A token endpoint.
        Oauth2 = "oauth2",
        /// A Google identity token.
        GoogleIdToken = "google_id_token",
        /// A bearer token.
        Bearer = "bearer",
        /// Values written in the playbook.
        Static = "static",
    }
}

words! {
    /// Who shares a secret.
    pub enum KeychainScope {
        /// This run.
        Local = "local",
        /// Everyone.
        Global = "global",
        /// The playbook and its children.
        Shared = "shared",
    }
}

words! {
    /// Whether a secret may leave its region.
    pub enum Residency {
        /// It may.
        None = "none",
        /// It should not.
        Advisory = "advisory",
        /// It must not.
        Strict = "strict",
    }
}
