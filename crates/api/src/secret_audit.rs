//! What was done to secrets: who, which one, for which run, and what came of it.

use noetl_types::id::as_number;
use noetl_types::{
    AuditId, ExecutionId, Json, SecretOperation, TenantId, Text, Timestamp, WorkerId,
};
use serde::{Deserialize, Serialize};

/// Which acts on secrets are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SecretAuditQuery {
    /// Only those on the secret of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<Text>,
    /// Only those for this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    /// Only those since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Only those until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// How many at most.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))]
    pub limit: u32,
}

impl SecretAuditQuery {
    /// Rows in one answer, at most.
    pub const MAX: u32 = 10_000;
}

impl Default for SecretAuditQuery {
    fn default() -> Self {
        Self {
            credential: None,
            execution_id: None,
            from: None,
            to: None,
            limit: 100,
        }
    }
}

/// What was done to secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SecretAuditRows {
    /// The acts, newest first.
    pub rows: Vec<SecretAuditRow>,
}

/// Something that was done to a secret, or tried: an entry of the trail of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SecretAuditRow {
    /// The entry.
    #[serde(with = "as_number")]
    #[cfg_attr(feature = "schema", schemars(with = "noetl_types::schema::IdNumber"))]
    pub audit_id: AuditId,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// Whose secret it is.
    pub tenant_id: TenantId,
    /// Who did it.
    pub actor: Text,
    /// The name of the secret; absent where it was about many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Text>,
    /// What was done.
    pub operation: SecretOperation,
    /// `ok`, or the code of the problem.
    pub outcome: Text,
    /// The worker that it was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// The run that it was for.
    #[serde(
        default,
        with = "as_number::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<noetl_types::schema::IdNumber>")
    )]
    pub execution_id: Option<ExecutionId>,
    /// The run that started that one.
    #[serde(
        default,
        with = "as_number::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<noetl_types::schema::IdNumber>")
    )]
    pub parent_execution_id: Option<ExecutionId>,
    /// The key that the secret is sealed under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kek_version: Option<Text>,
    /// Where the caller was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Text>,
    /// The token that was shown.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub notes: Json,
    /// Its number in the trail of its tenant, from 1 without gaps.
    pub seq: i64,
    /// Its link to the entry before, in hexadecimal.
    pub chain: Text,
}
