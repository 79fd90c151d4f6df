//! What a render yields: a value, and which parts of it must not leave.

use std::fmt;
use std::sync::Arc;

use noetl_types::Json;
pub use noetl_types::redact::REDACTED;
use noetl_types::redact::SHORTEST_SECRET;

use super::eval::Done;

/// A rendered value.
#[derive(Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The value.
    pub value: Json,
    /// The parts that were made from secrets; the empty path is the whole value.
    pub secrets: Vec<ValuePath>,
    /// What was made from secrets: values, and what stands inside of longer texts.
    pub(super) told: Vec<Json>,
}

/// A place inside of a value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ValuePath(pub Vec<Segment>);

/// One step into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Under a key of a map.
    Key(Arc<str>),
    /// At a position of a list.
    Index(usize),
}

impl Rendered {
    /// A value that was made from no secret.
    pub(super) fn open(value: Json) -> Self {
        Self {
            value,
            secrets: Vec::new(),
            told: Vec::new(),
        }
    }

    /// What came of a template.
    pub(super) fn of(done: Done) -> Self {
        let Done {
            value,
            is_steered,
            mut told,
        } = done;
        let is_secret = is_steered || !told.is_empty();
        // What stands beside a secret in a text is none, unless a secret had a say in it. What is too
        // short to be looked for is hidden together with its line.
        if is_steered || (told.iter().any(is_short) && is_line(&value)) {
            told.push(value.clone());
        }
        Self {
            value,
            secrets: is_secret.then(ValuePath::default).into_iter().collect(),
            told,
        }
    }

    /// Whether any part was made from a secret.
    pub fn is_secret(&self) -> bool {
        !self.secrets.is_empty()
    }

    /// What was made from secrets: parts of the value, and what stands inside of its texts. The rest
    /// of such a text is not among them.
    pub fn secret_values(&self) -> impl Iterator<Item = &Json> {
        self.told.iter()
    }

    /// The value with every secret part replaced.
    pub fn redacted(&self) -> Json {
        self.secrets
            .iter()
            .fold(self.value.clone(), |value, path| replace(value, &path.0))
    }
}

fn is_short(told: &Json) -> bool {
    let text = told.as_str();
    text.is_some_and(|text| text.trim().chars().count() < SHORTEST_SECRET)
}

fn is_line(value: &Json) -> bool {
    value.as_str().is_some_and(|text| !text.contains('\n'))
}

/// Secret parts do not print.
impl fmt::Debug for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rendered")
            .field("value", &self.redacted())
            .field("secrets", &self.secrets)
            .finish_non_exhaustive()
    }
}

impl ValuePath {
    /// What a value has there.
    pub fn get<'v>(&self, value: &'v Json) -> Option<&'v Json> {
        self.0
            .iter()
            .try_fold(value, |value, segment| match segment {
                Segment::Key(key) => value.get(key),
                Segment::Index(index) => value.as_list()?.get(*index),
            })
    }

    /// The same place seen from one step further out.
    pub(super) fn under(mut self, segment: Segment) -> Self {
        // Paths are as short as values are deep.
        self.0.insert(0, segment);
        self
    }
}

fn replace(value: Json, path: &[Segment]) -> Json {
    let Some((first, rest)) = path.split_first() else {
        return Json::from(REDACTED);
    };
    match (value, first) {
        (Json::Map(map), Segment::Key(key)) => {
            let mut map = Arc::unwrap_or_clone(map);
            if let Some(member) = map.remove(key) {
                map.insert(Arc::clone(key), replace(member, rest));
            }
            Json::from(map)
        }
        (Json::List(items), Segment::Index(index)) => {
            let mut items = Arc::unwrap_or_clone(items);
            if let Some(item) = items.get_mut(*index) {
                *item = replace(std::mem::take(item), rest);
            }
            Json::from(items)
        }
        (value, _) => value,
    }
}

/// Written like `headers.accept[0]`.
impl fmt::Display for ValuePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Key(key) if at == 0 => f.write_str(key)?,
                Segment::Key(key) => write!(f, ".{key}")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
