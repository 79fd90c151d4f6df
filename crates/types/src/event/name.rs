//! The name under which an event is stored: a type that the house knows, or another word.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::alias;
use super::kind::EventType;
use crate::limits::MAX_EVENT_NAME_CHARS;
use crate::text::{Text, excerpt};

/// The name of a stored event.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventName {
    /// A type of the vocabulary.
    Known(EventType),
    /// Any other word: of a domain event, or of an event copied from elsewhere.
    Other(OtherName),
}

/// A name outside of the vocabulary; made by [`EventName`] alone, so that no known type can hide in
/// it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OtherName(Text);

/// Why a text cannot name an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventNameError {
    /// Not shaped like the name of an event.
    #[error(
        "`{0}` is not an event type: up to five words of a-z, 0-9 and `_` with dots between them"
    )]
    Shape(String),
    /// Empty, or too long.
    #[error("an event type has 1 to {MAX_EVENT_NAME_CHARS} characters, not {0}")]
    Length(usize),
    /// A name that no database can hold.
    #[error("an event type cannot contain a NUL character")]
    Nul,
}

impl EventName {
    /// Reads a name on the ordinary path, where it must be well formed.
    pub fn read(text: &str) -> Result<Self, EventNameError> {
        check_length(text)?;
        if let Ok(kind) = EventType::parse(text) {
            return Ok(Self::Known(kind));
        }
        if !is_well_formed(text) {
            return Err(EventNameError::Shape(excerpt(text)));
        }
        Ok(Self::Other(OtherName(Text::from(text))))
    }

    /// Reads the name of a copied event, which is stored as it came; without one it is `unknown`.
    pub fn read_copied(text: Option<&str>) -> Result<Self, EventNameError> {
        let Some(text) = text else {
            return Ok(Self::unknown());
        };
        check_length(text)?;
        if let Ok(kind) = EventType::parse(text) {
            return Ok(Self::Known(kind));
        }
        let text = Text::new(text).map_err(|_| EventNameError::Nul)?;
        Ok(Self::Other(OtherName(text)))
    }

    /// The name of a copied event that came without one.
    pub fn unknown() -> Self {
        Self::Other(OtherName(Text::from("unknown")))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(kind) => kind.as_str(),
            Self::Other(OtherName(text)) => text,
        }
    }

    /// The type, if the name is the canonical word of one.
    pub fn known(&self) -> Option<EventType> {
        match self {
            Self::Known(kind) => Some(*kind),
            Self::Other(_) => None,
        }
    }

    /// The type that a fold sees: the known one, or the one that an alias in a copied log means.
    pub fn meaning(&self) -> Option<EventType> {
        match self {
            Self::Known(kind) => Some(*kind),
            Self::Other(OtherName(text)) => alias::meaning(text),
        }
    }

    /// Whether it may follow the end of its execution.
    pub fn is_audit(&self) -> bool {
        self.known().is_some_and(EventType::is_audit)
    }

    /// Whether a worker may send it; a word of its own only for an event about a business object.
    pub fn may_be_sent_by_worker(&self, is_about_business_object: bool) -> bool {
        match self {
            Self::Known(kind) => kind.may_be_sent_by_worker(),
            Self::Other(_) => is_about_business_object,
        }
    }

    /// The name as tokens of a NATS subject: what such a token cannot hold becomes `_`.
    pub fn subject_tokens(&self) -> Cow<'_, str> {
        let name = self.as_str();
        if is_well_formed(name) {
            return Cow::Borrowed(name);
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let tokens: Vec<String> = name
            .split('.')
            .map(|token| match token {
                "" => "_".to_owned(),
                token => token.replace(|c| !legal(c), "_"),
            })
            .collect();
        Cow::Owned(tokens.join("."))
    }
}

fn check_length(text: &str) -> Result<(), EventNameError> {
    let length = text.chars().count();
    if (1..=MAX_EVENT_NAME_CHARS).contains(&length) {
        Ok(())
    } else {
        Err(EventNameError::Length(length))
    }
}

/// `^[a-z][a-z0-9_]*(\.[a-z0-9_]+){0,4}$`
fn is_well_formed(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    };
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.split('.').count() <= 5
        && text.split('.').all(is_word)
}

impl From<EventType> for EventName {
    fn from(kind: EventType) -> Self {
        Self::Known(kind)
    }
}

impl PartialEq<EventType> for EventName {
    fn eq(&self, other: &EventType) -> bool {
        self.known() == Some(*other)
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventName({:?})", self.as_str())
    }
}

impl fmt::Debug for OtherName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Serialize for EventName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Reads what is stored, which may be a copied name.
impl<'de> Deserialize<'de> for EventName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::deserialize(deserializer, "an event type", |text| {
            Self::read_copied(Some(text))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_canonical_word_is_well_formed() {
        for kind in EventType::ALL {
            assert!(is_well_formed(kind.as_str()), "{kind}");
            assert_eq!(EventName::read(kind.as_str()), Ok(EventName::Known(*kind)));
            assert_eq!(
                EventName::read_copied(Some(kind.as_str())),
                Ok(EventName::Known(*kind))
            );
        }
    }

    #[test]
    fn the_ordinary_path_checks_the_shape() {
        for name in ["order", "order.created", "a.b.c.d.e", "a1_.2.__"] {
            assert_eq!(EventName::read(name).unwrap().as_str(), name);
        }
        for name in [
            "Order",
            "1a",
            "_a",
            ".a",
            "a.",
            "a..b",
            "a.b.c.d.e.f",
            "a b",
            "a-b",
            "ä",
        ] {
            assert!(
                matches!(EventName::read(name), Err(EventNameError::Shape(_))),
                "{name}"
            );
        }
        assert_eq!(EventName::read(""), Err(EventNameError::Length(0)));
        assert_eq!(
            EventName::read(&"a".repeat(256)),
            Err(EventNameError::Length(256))
        );
    }

    #[test]
    fn the_copy_path_takes_any_text() {
        let longest = "Ü".repeat(255);
        for name in ["Step Done!", "a..b", longest.as_str()] {
            assert_eq!(EventName::read_copied(Some(name)).unwrap().as_str(), name);
        }
        assert_eq!(EventName::read_copied(None).unwrap().as_str(), "unknown");
        assert_eq!(
            EventName::read_copied(Some("")),
            Err(EventNameError::Length(0))
        );
        assert_eq!(
            EventName::read_copied(Some("a\0b")),
            Err(EventNameError::Nul)
        );
        assert_eq!(
            EventName::read_copied(Some(&"Ü".repeat(256))),
            Err(EventNameError::Length(256))
        );
    }

    #[test]
    fn folds_see_through_aliases() {
        let copied = EventName::read_copied(Some("step_enter")).unwrap();
        assert_eq!(copied.as_str(), "step_enter");
        assert_eq!(copied.known(), None);
        assert_eq!(copied.meaning(), Some(EventType::StepEnter));
        assert_eq!(EventName::read("order.created").unwrap().meaning(), None);
    }

    #[test]
    fn words_of_a_worker() {
        let domain = EventName::read("order.created").unwrap();
        assert!(domain.may_be_sent_by_worker(true));
        assert!(!domain.may_be_sent_by_worker(false));
        assert!(!EventName::from(EventType::StepExit).may_be_sent_by_worker(true));
        assert!(EventName::from(EventType::CallDone).may_be_sent_by_worker(false));
    }

    #[test]
    fn subjects() {
        for (name, subject) in [
            ("step.enter", "step.enter"),
            ("Step Done!", "Step_Done_"),
            ("a..b.", "a._.b._"),
            ("a.*.>", "a._._"),
            ("größe", "gr__e"),
        ] {
            let name = EventName::read_copied(Some(name)).unwrap();
            assert_eq!(name.subject_tokens(), subject);
        }
    }

    proptest! {
        #[test]
        fn subjects_are_always_legal(name in "\\PC{1,80}|[a-z.*> ]{1,20}") {
            let name = EventName::read_copied(Some(&name)).unwrap();
            let subject = name.subject_tokens();
            let is_legal = |token: &str| {
                !token.is_empty()
                    && token.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            };
            prop_assert!(subject.split('.').all(is_legal), "{}", subject);
        }

        #[test]
        fn the_ordinary_path_is_within_the_copy_path(name in "[a-z_.0-9A-Z]{0,30}") {
            if let Ok(read) = EventName::read(&name) {
                prop_assert_eq!(EventName::read_copied(Some(&name)), Ok(read));
            }
        }
    }
}
