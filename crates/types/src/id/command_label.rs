//! The text that identifies a command to classic workers: `<execution>:<step>:<event>[:i<index>]`.

use std::fmt;
use std::str::FromStr;

use super::kinds::{CommandId, ExecutionId};
use crate::name::StepName;
use crate::text::excerpt;

/// Identifier of a command for classic workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLabel {
    /// Execution of the command.
    pub execution_id: ExecutionId,
    /// Step that issued the command.
    pub step: StepName,
    /// Id of the command.
    pub command_id: CommandId,
    /// Iteration, in a loop.
    pub index: Option<u64>,
}

/// Error for a text that is not a command label.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a command label")]
pub struct CommandLabelError(String);

impl fmt::Display for CommandLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.execution_id, self.step, self.command_id)?;
        match self.index {
            Some(index) => write!(f, ":i{index}"),
            None => Ok(()),
        }
    }
}

impl FromStr for CommandLabel {
    type Err = CommandLabelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_label(text).ok_or_else(|| CommandLabelError(excerpt(text)))
    }
}

fn parse_label(text: &str) -> Option<CommandLabel> {
    let mut parts = text.split(':');
    let label = CommandLabel {
        execution_id: parts.next()?.parse().ok()?,
        step: parts.next()?.parse().ok()?,
        command_id: parts.next()?.parse().ok()?,
        index: match parts.next() {
            Some(index) => Some(index.strip_prefix('i')?.parse().ok()?),
            None => None,
        },
    };
    parts.next().is_none().then_some(label)
}

impl CommandId {
    /// Parses the digits or the label of a command, since `meta.command_id` may hold either.
    pub fn from_digits_or_label(text: &str) -> Result<Self, CommandLabelError> {
        match text.parse() {
            Ok(id) => Ok(id),
            Err(_) => text.parse().map(|label: CommandLabel| label.command_id),
        }
    }
}

#[cfg(test)]
mod tests;
