//! Variables stored with an execution, outside of its log.

use std::collections::BTreeMap;

use noetl_types::{Json, Text, Timestamp, json};

use crate::error::StoreError;

/// Maximum size of a variable name.
pub const MAX_VAR_NAME_BYTES: usize = 255;

/// Maximum size of a variable value in canonical form.
pub const MAX_VAR_BYTES: usize = 1024 * 1024;

/// Maximum number of variables per call.
pub const MAX_VARS: usize = 1_000;

/// Maximum total size of the values per call.
pub const MAX_VARS_BYTES: usize = 16 * 1024 * 1024;

noetl_types::text_enum! {
    /// Kind of a variable.
    pub enum VarKind("a kind of variable") {
        /// Set by a user or a worker.
        UserDefined = "user_defined",
        StepResult = "step_result",
        /// Derived from other variables.
        Computed = "computed",
        /// State of an iterator.
        IteratorState = "iterator_state",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionVar {
    pub name: Text,
    pub kind: VarKind,
    pub value: Json,
    pub source_step: Option<Text>,
    pub set_at: Timestamp,
}

/// Reason why no variable was set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetVarsError {
    /// An empty name, or one longer than [`MAX_VAR_NAME_BYTES`].
    #[error("a name has 1 to {MAX_VAR_NAME_BYTES} bytes")]
    InvalidName,
    #[error("the value of `{name}` has more than {MAX_VAR_BYTES} bytes")]
    TooLarge { name: Text },
    /// More than [`MAX_VARS`] variables or [`MAX_VARS_BYTES`] bytes.
    #[error("a call sets at most {MAX_VARS} variables with {MAX_VARS_BYTES} bytes")]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Validates variables and removes duplicates. The last one of a name wins.
pub(crate) fn check_vars(
    vars: Vec<ExecutionVar>,
) -> Result<BTreeMap<Text, ExecutionVar>, SetVarsError> {
    if vars.len() > MAX_VARS {
        return Err(SetVarsError::TooMany);
    }
    let mut bytes = 0;
    for var in &vars {
        if var.name.is_empty() || var.name.len() > MAX_VAR_NAME_BYTES {
            return Err(SetVarsError::InvalidName);
        }
        let size = json::to_canonical(&var.value).len();
        bytes += size;
        if size > MAX_VAR_BYTES {
            let name = var.name.clone();
            return Err(SetVarsError::TooLarge { name });
        }
    }
    if bytes > MAX_VARS_BYTES {
        return Err(SetVarsError::TooMany);
    }
    let by_name = vars.into_iter().map(|var| (var.name.clone(), var));
    Ok(by_name.collect())
}
