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
mod tests;
