//! Variables that workers and people keep beside a run.

use noetl_types::{ExecutionId, Json, JsonMap, Text, Timestamp};
use serde::{Deserialize, Serialize};

/// A variable to be set, in the long form of a classic body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NewVar {
    /// Its name.
    #[serde(alias = "name")]
    pub var_name: Text,
    /// Its value.
    #[serde(default, alias = "value")]
    pub var_value: Json,
    /// What it is; `user_defined` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub var_type: Option<Text>,
    /// The step that sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_step: Option<Text>,
}

/// Variables were set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VarsSet {
    /// The run.
    pub execution_id: ExecutionId,
    /// How many.
    pub variables_set: u32,
    /// `ok`.
    pub status: Text,
}

/// The variables of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Vars {
    /// The run.
    pub execution_id: ExecutionId,
    /// Their values, by name.
    pub variables: JsonMap,
    /// How many they are.
    pub count: u32,
}

/// A variable of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VarView {
    /// The run.
    pub execution_id: ExecutionId,
    /// Its name.
    pub var_name: Text,
    /// Its value.
    pub var_value: Json,
    /// What it is.
    pub var_type: Text,
    /// The step that set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_step: Option<Text>,
    /// When it was set last.
    pub set_at: Timestamp,
}

/// Variables were forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VarsDeleted {
    /// The run.
    pub execution_id: ExecutionId,
    /// How many.
    pub deleted: u64,
    /// `ok`.
    pub status: Text,
}
