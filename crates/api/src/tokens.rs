//! Tokens, and the trail of what was done with them.

use noetl_types::{
    AuditId, ExecutionId, Json, OrganizationId, PoolName, Scope, SecretOperation, TenantId, Text,
    Timestamp, TokenId, WorkerId,
};
use serde::{Deserialize, Serialize};

/// A token that is to be made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// What people call it; logs of runs name it as the actor.
    pub name: Text,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// The pools that it may work for; all where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pools: Option<Vec<PoolName>>,
    /// Patterns of the paths whose playbooks and runs there are for it; all where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_globs: Option<Vec<Text>>,
    /// How long it lives; for ever where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_days: Option<u32>,
    /// Whose it is: the caller's tenant where absent. Another one only where the caller's tenant runs
    /// the installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<TenantId>,
    /// The organization inside of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organization_id: Option<OrganizationId>,
}

/// A token, without what it proves itself by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenView {
    /// Its id.
    pub id: TokenId,
    /// What people call it.
    pub name: Text,
    /// What its text has behind `noetl_`.
    pub prefix: Text,
    /// Whose it is.
    pub tenant_id: Text,
    /// The organization inside of the tenant.
    pub organization_id: Text,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// The pools that it may work for; all where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pools: Option<Vec<PoolName>>,
    /// Patterns of the paths whose playbooks and runs there are for it; all where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_globs: Option<Vec<Text>>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Who made it.
    pub created_by: Text,
    /// From when on it opens nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was used last, to the minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
    /// Since when it is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

/// A token that was made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreatedToken {
    /// The token itself. It is shown here, and never again.
    pub token: Text,
    /// What is known of it.
    #[serde(flatten)]
    pub view: TokenView,
}

/// The token is a secret, so it is not shown.
impl std::fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreatedToken")
            .field("view", &self.view)
            .finish_non_exhaustive()
    }
}

/// A page of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenList {
    /// The tokens, oldest first.
    pub tokens: Vec<TokenView>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Text>,
}

/// Something that was done, or tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditView {
    /// Its id.
    pub id: AuditId,
    /// Its number in the trail, from 1 without gaps.
    pub seq: i64,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// Who did it.
    pub actor: Text,
    /// What was done: a method and a route, or `access` for a refusal.
    pub act: Text,
    /// The path of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Text>,
    /// Where the caller was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Text>,
    /// `ok`, or the code of the problem.
    pub outcome: Text,
    /// The token; or how often a refusal was repeated, and since when.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub detail: Json,
    /// What it did to a secret, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretActView>,
    /// Its link to the entry before, in hexadecimal.
    pub chain: Text,
}

/// What an act did to a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SecretActView {
    /// What was done.
    pub operation: SecretOperation,
    /// The name of the secret; absent where it was about many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Text>,
    /// The worker that it was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// The run that it was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    /// The run that started that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_execution_id: Option<ExecutionId>,
    /// The key that the secret is sealed under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<Text>,
}

/// A page of the trail, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditPage {
    /// The entries.
    pub entries: Vec<AuditView>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Text>,
    /// Whether every entry of the page is linked to the one before it, as it was written.
    pub intact: bool,
}
