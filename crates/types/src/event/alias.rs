//! The one table of aliases: other words for the same event, replaced where they enter.

use super::kind::EventType;
use super::name::{EventName, EventNameError};
use crate::text::Text;

/// Who sends an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The server itself, or a log that one wrote.
    Server,
    /// A worker.
    Worker,
}

/// The canonical name of an event that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Normalised {
    /// The name under which the event is stored.
    pub name: EventName,
    /// The word as it was sent, where it was another one.
    pub as_sent: Option<Text>,
}

/// Gives an event that was sent its canonical name; a word that the log does not take is refused.
pub fn normalise(sent: &str, sender: Sender) -> Result<Normalised, EventNameError> {
    let name = match meaning(sent) {
        // Only the server knows when a step is over: a worker that says so has finished its call.
        Some(EventType::StepExit) if sender == Sender::Worker => EventType::CallDone.into(),
        Some(kind) => kind.into(),
        None => EventName::read(sent)?,
    };
    let as_sent = (name.as_str() != sent).then(|| Text::from(sent));
    Ok(Normalised { name, as_sent })
}

/// The type that a word means, be it the canonical one or an alias.
pub(super) fn meaning(word: &str) -> Option<EventType> {
    EventType::parse(word).ok().or_else(|| of_alias(word))
}

fn of_alias(word: &str) -> Option<EventType> {
    ALIASES
        .iter()
        .find(|(alias, _)| *alias == word)
        .map(|(_, kind)| *kind)
}

const ALIASES: &[(&str, EventType)] = &[
    ("playbook_started", EventType::PlaybookStarted),
    ("playbook.initialized", EventType::PlaybookStarted),
    ("workflow.initialized", EventType::PlaybookStarted),
    ("execution.started", EventType::PlaybookStarted),
    ("step_enter", EventType::StepEnter),
    ("step_started", EventType::StepEnter),
    ("step.started", EventType::StepEnter),
    ("step_exit", EventType::StepExit),
    ("step_completed", EventType::StepExit),
    ("step.completed", EventType::StepExit),
    ("command_issued", EventType::CommandIssued),
    ("command_claimed", EventType::CommandClaimed),
    ("command_started", EventType::CommandStarted),
    ("command_completed", EventType::CommandCompleted),
    ("command_failed", EventType::CommandFailed),
    ("playbook_completed", EventType::PlaybookCompleted),
    ("playbook_failed", EventType::PlaybookFailed),
    ("playbook_cancelled", EventType::PlaybookCancelled),
    ("execution.cancelled", EventType::PlaybookCancelled),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_whole_table() {
        let rows: Vec<String> = ALIASES
            .iter()
            .map(|(alias, _)| {
                let by = |sender| normalise(alias, sender).unwrap().name;
                let (server, worker) = (by(Sender::Server), by(Sender::Worker));
                if server == worker {
                    format!("{alias:<22} {server}")
                } else {
                    format!("{alias:<22} {server}; of a worker {worker}")
                }
            })
            .collect();
        insta::assert_snapshot!(rows.join("\n"));
    }

    #[test]
    fn an_alias_is_no_canonical_word_and_stands_once() {
        let aliases: BTreeSet<&str> = ALIASES.iter().map(|(alias, _)| *alias).collect();
        assert_eq!(aliases.len(), ALIASES.len());
        for alias in aliases {
            assert!(EventType::parse(alias).is_err(), "{alias}");
        }
    }

    #[test]
    fn canonical_words_stay() {
        for kind in EventType::ALL {
            let normalised = normalise(kind.as_str(), Sender::Server).unwrap();
            assert_eq!(normalised.name, EventName::Known(*kind));
            assert_eq!(normalised.as_sent, None);
        }
    }

    #[test]
    fn the_word_as_sent_is_kept() {
        let exit = normalise("step.exit", Sender::Worker).unwrap();
        assert_eq!(exit.name, EventName::Known(EventType::CallDone));
        assert_eq!(exit.as_sent.as_deref(), Some("step.exit"));

        let claimed = normalise("command_claimed", Sender::Server).unwrap();
        assert_eq!(claimed.as_sent.as_deref(), Some("command_claimed"));
    }

    #[test]
    fn other_words_pass_if_well_formed() {
        let domain = normalise("order.created", Sender::Worker).unwrap();
        assert_eq!(domain.name.as_str(), "order.created");
        assert_eq!(domain.as_sent, None);
        assert!(normalise("Order Created", Sender::Worker).is_err());
    }
}
