//! The audit log of operations on secrets.

use noetl_types::id::IdNumber;
use noetl_types::{
    AuditId, ExecutionId, Json, SecretOperation, TenantId, Text, Timestamp, WorkerId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Filters of the secret audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SecretAuditQuery {
    /// Filter by name of the secret.
    pub credential: Option<Text>,
    /// Filter by execution.
    pub execution_id: Option<ExecutionId>,
    /// Inclusive lower bound of the time.
    pub from: Option<Timestamp>,
    /// Inclusive upper bound of the time.
    pub to: Option<Timestamp>,
    /// Maximum number of rows.
    #[schemars(range(min = 1, max = 10_000))]
    pub limit: u32,
}

impl SecretAuditQuery {
    /// Maximum number of rows per response.
    pub const MAX_ROWS: u32 = 10_000;
}

impl Default for SecretAuditQuery {
    fn default() -> Self {
        Self { credential: None, execution_id: None, from: None, to: None, limit: 100 }
    }
}

/// Rows of the secret audit log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SecretAuditResponse {
    /// Operations, newest first.
    pub rows: Vec<SecretAuditRow>,
}

/// An operation on a secret, or an attempt: an entry of the audit log of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretAuditRow {
    /// Id of the entry.
    pub audit_id: IdNumber<AuditId>,
    /// Time of the operation.
    pub occurred_at: Timestamp,
    /// Tenant of the secret.
    pub tenant_id: TenantId,
    /// Actor of the operation.
    pub actor: Text,
    /// Name of the secret; absent if the operation concerns many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Text>,
    /// Operation.
    pub operation: SecretOperation,
    /// `ok`, or an error code.
    pub outcome: Text,
    /// Worker that the operation was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// Execution that the operation was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<IdNumber<ExecutionId>>,
    /// Parent of that execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_execution_id: Option<IdNumber<ExecutionId>>,
    /// Key that encrypts the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kek_version: Option<Text>,
    /// Network address of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Text>,
    /// Token that was used.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub notes: Json,
    /// Sequence number in the audit log of the tenant, from 1 without gaps.
    pub seq: i64,
    /// Hash chain link to the previous entry, in hexadecimal.
    pub chain: Text,
}
