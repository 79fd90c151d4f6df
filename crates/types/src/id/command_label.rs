//! The text by which classic workers know a command: `<execution>:<step>:<event>[:i<index>]`.

use std::fmt;
use std::str::FromStr;

use super::kinds::{CommandId, ExecutionId};
use crate::name::StepName;
use crate::text::excerpt;

/// A command as classic workers name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLabel {
    /// The execution that it belongs to.
    pub execution_id: ExecutionId,
    /// The step that issued it.
    pub step: StepName,
    /// The command itself.
    pub command_id: CommandId,
    /// The iteration, in a loop.
    pub index: Option<u64>,
}

/// Not the label of a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` does not name a command")]
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
        read(text).ok_or_else(|| CommandLabelError(excerpt(text)))
    }
}

fn read(text: &str) -> Option<CommandLabel> {
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
    /// Reads the digits or the label of a command, as `meta.command_id` may hold either.
    pub fn from_digits_or_label(text: &str) -> Result<Self, CommandLabelError> {
        match text.parse() {
            Ok(id) => Ok(id),
            Err(_) => text.parse().map(|label: CommandLabel| label.command_id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        for text in [
            "12:load:34",
            "12:load-2:34:i0",
            "1:_:1:i18446744073709551615",
        ] {
            assert_eq!(text.parse::<CommandLabel>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_names_no_command() {
        for text in [
            "",
            "12",
            "12:load",
            "12::34",
            "x:load:34",
            "12:load:34:0",
            "12:load:34:i0:x",
            "12:load:34:i",
        ] {
            assert!(text.parse::<CommandLabel>().is_err(), "{text}");
        }
    }

    #[test]
    fn either_form_gives_the_id() {
        let id = CommandId::new(34).unwrap();
        assert_eq!(CommandId::from_digits_or_label("34"), Ok(id));
        assert_eq!(CommandId::from_digits_or_label("12:load:34:i5"), Ok(id));
        assert!(CommandId::from_digits_or_label("load").is_err());
    }
}
