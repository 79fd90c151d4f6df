//! Login of the published console: it validates its token and asks what the token allows.

use noetl_types::{Text, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Validates a token. A classic body, which contains a secret.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SessionRequest {
    /// The token, unless a header of the request contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_token: Option<Text>,
}

/// A valid token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionResponse {
    /// Always true: an invalid token is an error.
    pub valid: bool,
    /// Owner of the token.
    pub user: SessionUser,
    /// End of the token in the body; absent if it does not expire, or if a header contains the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// Owner of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionUser {
    /// Actor name, as in the logs.
    pub user_id: Text,
    /// Actor name. Tokens have no e-mail address.
    pub email: Text,
    /// Actor name.
    pub display_name: Text,
    /// Scopes of the token.
    pub roles: Vec<Text>,
}

/// Asks if a token allows an action on a playbook. A classic body, which contains a secret.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct AccessRequest {
    /// The token, unless a header of the request contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_token: Option<Text>,
    /// Path of the playbook.
    #[serde(default)]
    pub playbook_path: Text,
    /// `execute`, `view` or `modify`; default `execute`.
    #[serde(default, alias = "action", alias = "permission")]
    pub permission_type: Text,
}

/// Access of a token to a playbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessResponse {
    /// True if the token allows the action.
    pub allowed: bool,
    /// Path of the playbook.
    pub playbook_path: Text,
    /// The action.
    pub permission_type: Text,
    /// Owner of the token.
    pub user: SessionUser,
}
