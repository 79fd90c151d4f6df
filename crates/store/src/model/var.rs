//! Variables that workers and people keep beside an execution.

use std::collections::BTreeMap;

use noetl_types::{Json, Text, Timestamp, json};

use crate::error::StoreError;

/// Bytes of the name of a variable.
pub const MAX_VAR_NAME_BYTES: usize = 255;

/// Bytes of the value of a variable, in canonical form.
pub const MAX_VAR_BYTES: usize = 1024 * 1024;

/// Variables that one call may set.
pub const MAX_VARS: usize = 1_000;

/// Bytes of all values that one call may set.
pub const MAX_VARS_BYTES: usize = 16 * 1024 * 1024;

/// What a variable is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VarKind {
    /// Somebody set it.
    UserDefined,
    /// The result of a step.
    StepResult,
    /// It follows from others.
    Computed,
    /// Where an iterator stands.
    IteratorState,
}

/// A text that names no kind of variable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a kind of variable")]
pub struct UnknownVarKind(pub String);

impl VarKind {
    /// The one spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UserDefined => "user_defined",
            Self::StepResult => "step_result",
            Self::Computed => "computed",
            Self::IteratorState => "iterator_state",
        }
    }

    /// Reads the one spelling.
    pub fn parse(text: &str) -> Result<Self, UnknownVarKind> {
        match text {
            "user_defined" => Ok(Self::UserDefined),
            "step_result" => Ok(Self::StepResult),
            "computed" => Ok(Self::Computed),
            "iterator_state" => Ok(Self::IteratorState),
            other => Err(UnknownVarKind(other.to_owned())),
        }
    }
}

/// A variable of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Var {
    /// Its name.
    pub name: Text,
    /// What it is.
    pub kind: VarKind,
    /// Its value.
    pub value: Json,
    /// The step that set it.
    pub source_step: Option<Text>,
    /// When it was set last.
    pub set_at: Timestamp,
}

/// Why no variable was set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VarsRefused {
    /// A name that is empty, or longer than [`MAX_VAR_NAME_BYTES`].
    #[error("a name has 1 to {MAX_VAR_NAME_BYTES} bytes")]
    Name,
    /// A value of more than [`MAX_VAR_BYTES`].
    #[error("the value of `{name}` has more than {MAX_VAR_BYTES} bytes")]
    TooLarge {
        /// The variable.
        name: Text,
    },
    /// More than [`MAX_VARS`] variables or [`MAX_VARS_BYTES`] bytes.
    #[error("a call sets at most {MAX_VARS} variables with {MAX_VARS_BYTES} bytes")]
    TooMany,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Variables that are to be set, each once: of several of one name the last counts.
pub(crate) fn check_vars(vars: Vec<Var>) -> Result<BTreeMap<Text, Var>, VarsRefused> {
    if vars.len() > MAX_VARS {
        return Err(VarsRefused::TooMany);
    }
    let mut bytes = 0;
    for var in &vars {
        if var.name.is_empty() || var.name.len() > MAX_VAR_NAME_BYTES {
            return Err(VarsRefused::Name);
        }
        let size = json::to_canonical(&var.value).len();
        bytes += size;
        if size > MAX_VAR_BYTES {
            let name = var.name.clone();
            return Err(VarsRefused::TooLarge { name });
        }
    }
    if bytes > MAX_VARS_BYTES {
        return Err(VarsRefused::TooMany);
    }
    let named = vars.into_iter().map(|var| (var.name.clone(), var));
    Ok(named.collect())
}
