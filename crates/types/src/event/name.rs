//! The name under which an event is stored: a known type, or a custom name.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::alias;
use super::kind::EventType;
use crate::limits::MAX_EVENT_NAME_CHARS;
use crate::text::{Text, excerpt};

/// Name of a stored event.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventName {
    /// A known type.
    Known(EventType),
    /// Any other name: of a domain event, or of a projected event.
    Other(CustomEventName),
}

/// A name that is not a known type. Only [`EventName`] creates it, so it never holds a known type.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CustomEventName(Text);

/// Error for a text that cannot name an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventNameError {
    /// The text does not have the shape of an event name.
    #[error(
        "`{0}` is not an event type: up to five segments of a-z, 0-9 and `_`, separated by dots"
    )]
    Shape(String),
    /// The text is empty or too long.
    #[error("an event type has 1 to {MAX_EVENT_NAME_CHARS} characters, not {0}")]
    Length(usize),
    /// The text contains NUL, which databases cannot store.
    #[error("an event type cannot contain a NUL character")]
    Nul,
}

impl EventName {
    /// Parses the name of a new event, which must be well formed.
    pub fn parse(text: &str) -> Result<Self, EventNameError> {
        check_length(text)?;
        if let Ok(kind) = EventType::parse(text) {
            return Ok(Self::Known(kind));
        }
        if !is_well_formed(text) {
            return Err(EventNameError::Shape(excerpt(text)));
        }
        Ok(Self::Other(CustomEventName(Text::from(text))))
    }

    /// Parses the name of a projected event, which is stored as received. A missing name becomes
    /// `unknown`.
    pub fn parse_lenient(text: Option<&str>) -> Result<Self, EventNameError> {
        let Some(text) = text else {
            return Ok(Self::unknown());
        };
        check_length(text)?;
        if let Ok(kind) = EventType::parse(text) {
            return Ok(Self::Known(kind));
        }
        let text = Text::new(text).map_err(|_| EventNameError::Nul)?;
        Ok(Self::Other(CustomEventName(text)))
    }

    /// Returns the name of a projected event that was sent without one.
    pub fn unknown() -> Self {
        Self::Other(CustomEventName(Text::from("unknown")))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(kind) => kind.as_str(),
            Self::Other(CustomEventName(text)) => text,
        }
    }

    /// Returns the type if the name is the canonical name of one.
    pub fn known_type(&self) -> Option<EventType> {
        match self {
            Self::Known(kind) => Some(*kind),
            Self::Other(_) => None,
        }
    }

    /// Returns the type for state folding: the known type, or the type that an alias in a projected
    /// log refers to.
    pub fn resolved_type(&self) -> Option<EventType> {
        match self {
            Self::Known(kind) => Some(*kind),
            Self::Other(CustomEventName(text)) => alias::resolve_event_type(text),
        }
    }

    /// True if the event is allowed after the end of its execution.
    pub fn is_audit(&self) -> bool {
        self.known_type().is_some_and(EventType::is_audit)
    }

    /// True if a worker may send the event. A custom name is allowed only for an event about a
    /// business object.
    pub fn may_be_sent_by_worker(&self, is_about_business_object: bool) -> bool {
        match self {
            Self::Known(kind) => kind.may_be_sent_by_worker(),
            Self::Other(_) => is_about_business_object,
        }
    }

    /// Returns the name as tokens of a NATS subject. Characters that are not allowed in a token
    /// become `_`.
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
    let is_segment = |segment: &str| {
        !segment.is_empty()
            && segment.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    };
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.split('.').count() <= 5
        && text.split('.').all(is_segment)
}

impl From<EventType> for EventName {
    fn from(kind: EventType) -> Self {
        Self::Known(kind)
    }
}

impl PartialEq<EventType> for EventName {
    fn eq(&self, other: &EventType) -> bool {
        self.known_type() == Some(*other)
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

impl fmt::Debug for CustomEventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Serialize for EventName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Accepts the name of a projected event as well.
impl<'de> Deserialize<'de> for EventName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::deserialize(deserializer, "an event type", |text| {
            Self::parse_lenient(Some(text))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn canonical_names_are_well_formed() {
        for kind in EventType::ALL {
            assert!(is_well_formed(kind.as_str()), "{kind}");
            assert_eq!(EventName::parse(kind.as_str()), Ok(EventName::Known(*kind)));
            assert_eq!(EventName::parse_lenient(Some(kind.as_str())), Ok(EventName::Known(*kind)));
        }
    }

    #[test]
    fn parse_checks_shape() {
        for name in ["order", "order.created", "a.b.c.d.e", "a1_.2.__"] {
            assert_eq!(EventName::parse(name).unwrap().as_str(), name);
        }
        for name in ["Order", "1a", "_a", ".a", "a.", "a..b", "a.b.c.d.e.f", "a b", "a-b", "ä"] {
            assert!(matches!(EventName::parse(name), Err(EventNameError::Shape(_))), "{name}");
        }
        assert_eq!(EventName::parse(""), Err(EventNameError::Length(0)));
        assert_eq!(EventName::parse(&"a".repeat(256)), Err(EventNameError::Length(256)));
    }

    #[test]
    fn lenient_parse_accepts_any_text() {
        let longest = "Ü".repeat(255);
        for name in ["Step Done!", "a..b", longest.as_str()] {
            assert_eq!(EventName::parse_lenient(Some(name)).unwrap().as_str(), name);
        }
        assert_eq!(EventName::parse_lenient(None).unwrap().as_str(), "unknown");
        assert_eq!(EventName::parse_lenient(Some("")), Err(EventNameError::Length(0)));
        assert_eq!(EventName::parse_lenient(Some("a\0b")), Err(EventNameError::Nul));
        assert_eq!(
            EventName::parse_lenient(Some(&"Ü".repeat(256))),
            Err(EventNameError::Length(256))
        );
    }

    #[test]
    fn resolved_type_follows_aliases() {
        let projected = EventName::parse_lenient(Some("step_enter")).unwrap();
        assert_eq!(projected.as_str(), "step_enter");
        assert_eq!(projected.known_type(), None);
        assert_eq!(projected.resolved_type(), Some(EventType::StepEnter));
        assert_eq!(EventName::parse("order.created").unwrap().resolved_type(), None);
    }

    #[test]
    fn names_that_workers_may_send() {
        let domain = EventName::parse("order.created").unwrap();
        assert!(domain.may_be_sent_by_worker(true));
        assert!(!domain.may_be_sent_by_worker(false));
        assert!(!EventName::from(EventType::StepExit).may_be_sent_by_worker(true));
        assert!(EventName::from(EventType::CallDone).may_be_sent_by_worker(false));
    }

    #[test]
    fn subject_tokens_replace_illegal_characters() {
        for (name, subject) in [
            ("step.enter", "step.enter"),
            ("Step Done!", "Step_Done_"),
            ("a..b.", "a._.b._"),
            ("a.*.>", "a._._"),
            ("größe", "gr__e"),
        ] {
            let name = EventName::parse_lenient(Some(name)).unwrap();
            assert_eq!(name.subject_tokens(), subject);
        }
    }

    proptest! {
        #[test]
        fn subject_tokens_are_always_legal(name in "\\PC{1,80}|[a-z.*> ]{1,20}") {
            let name = EventName::parse_lenient(Some(&name)).unwrap();
            let subject = name.subject_tokens();
            let is_legal = |token: &str| {
                !token.is_empty()
                    && token.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            };
            prop_assert!(subject.split('.').all(is_legal), "{}", subject);
        }

        #[test]
        fn lenient_parse_accepts_everything_parse_accepts(name in "[a-z_.0-9A-Z]{0,30}") {
            if let Ok(parsed) = EventName::parse(&name) {
                prop_assert_eq!(EventName::parse_lenient(Some(&name)), Ok(parsed));
            }
        }
    }
}
