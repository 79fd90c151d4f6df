//! Variables that workers and users store with an execution.

use noetl_types::{ExecutionId, Json, JsonMap, Text, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sets a variable, in the long form of a classic body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SetVariableRequest {
    /// Name of the variable.
    #[serde(alias = "name")]
    pub var_name: Text,
    /// Value of the variable.
    #[serde(default, alias = "value")]
    pub var_value: Json,
    /// Type of the variable; default `user_defined`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub var_type: Option<Text>,
    /// Step that sets the variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_step: Option<Text>,
}

/// Result of setting variables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetVariablesResponse {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Number of variables.
    pub variables_set: u32,
    /// `ok`.
    pub status: Text,
}

/// Variables of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariableList {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Values by name.
    pub variables: JsonMap,
    /// Number of variables.
    pub count: u32,
}

/// A variable of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariableView {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Name of the variable.
    pub var_name: Text,
    /// Value of the variable.
    pub var_value: Json,
    /// Type of the variable.
    pub var_type: Text,
    /// Step that set the variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_step: Option<Text>,
    /// Time of the last change.
    pub set_at: Timestamp,
}

/// Result of deleting variables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeleteVariablesResponse {
    /// Id of the execution.
    pub execution_id: ExecutionId,
    /// Number of variables.
    pub deleted: u64,
    /// `ok`.
    pub status: Text,
}
