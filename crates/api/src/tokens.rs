//! API tokens and the audit log.

use noetl_types::{
    AuditId, ExecutionId, Json, OrganizationId, PoolName, Scope, SecretOperation, TenantId, Text,
    Timestamp, TokenId, WorkerId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Creates an API token.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTokenRequest {
    /// Name of the token, recorded as the actor in execution logs.
    pub name: Text,
    /// Scopes of the token.
    pub scopes: Vec<Scope>,
    /// Pools that the token may work for; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pools: Option<Vec<PoolName>>,
    /// Patterns of paths. Restricts the token to matching playbooks and their executions; all if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_globs: Option<Vec<Text>>,
    /// Lifetime in days; unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_days: Option<u32>,
    /// Tenant of the token; the caller's tenant if absent. Only callers of the operator tenant may
    /// name another tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    /// Organization within the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organization_id: Option<OrganizationId>,
}

/// An API token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenView {
    /// Id of the token.
    pub id: TokenId,
    /// Name of the token.
    pub name: Text,
    /// Part of the token after `noetl_` that identifies it.
    pub prefix: Text,
    /// Tenant of the token.
    pub tenant_id: Text,
    /// Organization within the tenant.
    pub organization_id: Text,
    /// Scopes of the token.
    pub scopes: Vec<Scope>,
    /// Pools that the token may work for; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pools: Option<Vec<PoolName>>,
    /// Patterns of paths. Restricts the token to matching playbooks and their executions; all if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_globs: Option<Vec<Text>>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Actor that created the token.
    pub created_by: Text,
    /// Expiry time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Time of the last use, to the minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
    /// Time of the revocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

/// A created token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CreatedToken {
    /// The token itself. It is returned only once.
    pub token: Text,
    /// Properties of the token.
    #[serde(flatten)]
    pub view: TokenView,
}

/// The token is a secret, so it is not printed.
impl std::fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreatedToken").field("view", &self.view).finish_non_exhaustive()
    }
}

/// A page of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenList {
    /// The tokens, oldest first.
    pub tokens: Vec<TokenView>,
    /// Cursor of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Text>,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntryView {
    /// Id of the entry.
    pub id: AuditId,
    /// Sequence number in the audit log, from 1 without gaps.
    pub seq: i64,
    /// Time of the request.
    pub occurred_at: Timestamp,
    /// Actor of the request.
    pub actor: Text,
    /// Audited action: a method and a route, or `access` for a rejected access.
    pub action: Text,
    /// Path of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Text>,
    /// Network address of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Text>,
    /// `ok`, or an error code.
    pub outcome: Text,
    /// The token, or the number and the start of repeated rejections.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub detail: Json,
    /// Operation on a secret, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretOperationView>,
    /// Hash chain link to the previous entry, in hexadecimal.
    pub chain: Text,
}

/// Operation on a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretOperationView {
    /// The operation.
    pub operation: SecretOperation,
    /// Name of the secret; absent if the operation concerns many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Text>,
    /// Worker that the operation was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// Execution that the operation was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    /// Parent of that execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_execution_id: Option<ExecutionId>,
    /// Key that encrypts the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<Text>,
}

/// A page of the audit log, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditPage {
    /// The entries.
    pub entries: Vec<AuditEntryView>,
    /// Cursor of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Text>,
    /// True if every entry of the page has a valid link to the previous entry.
    pub intact: bool,
}
