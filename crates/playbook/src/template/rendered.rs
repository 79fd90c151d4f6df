//! The result of a render: a value, the parts of it that are secret, and its items if it is looped
//! over.

use std::fmt;
use std::sync::Arc;

use noetl_types::Json;
use noetl_types::json::parse;
use noetl_types::redact::MIN_SECRET_CHARS;
pub use noetl_types::redact::REDACTED;

use super::eval::RenderOutcome;

/// A rendered value.
#[derive(Clone, PartialEq, Eq)]
pub struct RenderedValue {
    /// The value.
    pub value: Json,
    /// The parts that were made from secrets. The empty path is the whole value.
    pub secrets: Vec<ValuePath>,
    /// The secret parts themselves: whole values, and fragments of longer texts.
    pub(super) secret_parts: Vec<Json>,
}

/// A path inside a value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ValuePath(pub Vec<PathSegment>);

/// One segment of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathSegment {
    /// Under a key of a map.
    Key(Arc<str>),
    /// At a position of a list.
    Index(usize),
}

impl RenderedValue {
    /// A value that was made without secrets.
    pub(super) fn without_secrets(value: Json) -> Self {
        Self { value, secrets: Vec::new(), secret_parts: Vec::new() }
    }

    /// Converts the outcome of a template.
    pub(super) fn from_outcome(outcome: RenderOutcome) -> Self {
        let RenderOutcome { value, is_tainted, mut secret_parts } = outcome;
        let is_secret = is_tainted || !secret_parts.is_empty();
        // Text next to a secret is not secret, unless a secret influenced it. A secret too short to
        // be searched for is hidden together with its line.
        if is_tainted || (secret_parts.iter().any(is_short_secret) && is_single_line(&value)) {
            secret_parts.push(value.clone());
        }
        let secrets = if is_secret { vec![ValuePath::default()] } else { Vec::new() };
        Self { value, secrets, secret_parts }
    }

    /// Returns true if any part was made from a secret.
    pub fn is_secret(&self) -> bool {
        !self.secrets.is_empty()
    }

    /// The secret parts of the value, and the secret fragments of its texts. The rest of such a
    /// text is not included.
    pub fn secret_values(&self) -> impl Iterator<Item = &Json> {
        self.secret_parts.iter()
    }

    /// The value with every secret part replaced.
    pub fn to_redacted(&self) -> Json {
        self.secrets.iter().fold(self.value.clone(), |value, path| redact_at(value, &path.0))
    }
}

fn is_short_secret(secret: &Json) -> bool {
    let text = secret.as_str();
    text.is_some_and(|text| text.trim().chars().count() < MIN_SECRET_CHARS)
}

fn is_single_line(value: &Json) -> bool {
    value.as_str().is_some_and(|text| !text.contains('\n'))
}

/// Secret parts are not printed.
impl fmt::Debug for RenderedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RenderedValue")
            .field("value", &self.to_redacted())
            .field("secrets", &self.secrets)
            .finish_non_exhaustive()
    }
}

impl ValuePath {
    /// Returns the part of a value at this path.
    pub fn get<'v>(&self, value: &'v Json) -> Option<&'v Json> {
        self.0.iter().try_fold(value, |value, segment| match segment {
            PathSegment::Key(key) => value.get(key),
            PathSegment::Index(index) => value.as_list()?.get(*index),
        })
    }

    /// Prepends a segment to the path.
    pub(super) fn prepended(mut self, segment: PathSegment) -> Self {
        // Paths are no longer than values are deep.
        self.0.insert(0, segment);
        self
    }
}

fn redact_at(value: Json, path: &[PathSegment]) -> Json {
    let Some((first, rest)) = path.split_first() else {
        return Json::from(REDACTED);
    };
    match (value, first) {
        (Json::Map(map), PathSegment::Key(key)) => {
            let mut map = Arc::unwrap_or_clone(map);
            if let Some(member) = map.remove(key) {
                map.insert(Arc::clone(key), redact_at(member, rest));
            }
            Json::from(map)
        }
        (Json::List(items), PathSegment::Index(index)) => {
            let mut items = Arc::unwrap_or_clone(items);
            if let Some(item) = items.get_mut(*index) {
                *item = redact_at(std::mem::take(item), rest);
            }
            Json::from(items)
        }
        (value, _) => value,
    }
}

/// Formatted like `headers.accept[0]`.
impl fmt::Display for ValuePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.0.iter().enumerate() {
            match segment {
                PathSegment::Key(key) if position == 0 => f.write_str(key)?,
                PathSegment::Key(key) => write!(f, ".{key}")?,
                PathSegment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Maximum number of items of a loop.
pub const MAX_LOOP_ITEMS: usize = 1_000_000;

/// The error of a value that cannot be looped over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoopItemsError {
    /// The value has no items.
    #[error("a {found} has no items to loop over")]
    NotIterable {
        /// Type of the value.
        found: &'static str,
    },
    /// The value has too many items.
    #[error("a loop over {count} items is too long; the maximum is {MAX_LOOP_ITEMS}")]
    TooMany {
        /// Number of items.
        count: u64,
    },
}

/// Returns the items of a loop: the items of a list, the entries of a map as `{key, value}`, the
/// parts of a text, or the integers below a number.
pub fn loop_items(value: &Json) -> Result<Vec<Json>, LoopItemsError> {
    let items = match value {
        Json::List(items) => items.to_vec(),
        Json::Map(map) => map.iter().map(key_value_item).collect(),
        Json::Str(text) => split_text_items(text),
        Json::Int(count) => integers_below(u64::try_from(*count).unwrap_or_default())?,
        Json::UInt(count) => integers_below(*count)?,
        _ => return Err(LoopItemsError::NotIterable { found: value.type_name() }),
    };
    if items.len() > MAX_LOOP_ITEMS {
        return Err(LoopItemsError::TooMany { count: items.len() as u64 });
    }
    Ok(items)
}

fn key_value_item((key, value): (&Arc<str>, &Json)) -> Json {
    Json::object([("key", Json::Str(Arc::clone(key))), ("value", value.clone())])
}

fn integers_below(count: u64) -> Result<Vec<Json>, LoopItemsError> {
    if count > MAX_LOOP_ITEMS as u64 {
        return Err(LoopItemsError::TooMany { count });
    }
    Ok((0..count).map(Json::from).collect())
}

/// Splits a text at commas and line ends, unless it is a JSON list.
fn split_text_items(text: &str) -> Vec<Json> {
    if text.trim_start().starts_with('[')
        && let Ok(Json::List(items)) = parse(text.as_bytes())
    {
        return items.to_vec();
    }
    text.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty()).map(Json::from).collect()
}
