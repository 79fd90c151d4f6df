//! What a render yields: a value, and which parts of it must not leave.

use std::fmt;
use std::sync::Arc;

use noetl_types::Json;

pub use noetl_types::redact::REDACTED;

/// A rendered value.
#[derive(Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The value.
    pub value: Json,
    /// The parts that were made from secrets; the empty path is the whole value.
    pub secrets: Vec<ValuePath>,
    /// What was made from secrets and stands inside of longer texts.
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
    /// A value without parts.
    pub(super) fn leaf(value: Json, secret: bool) -> Self {
        let secrets = if secret {
            vec![ValuePath::default()]
        } else {
            Vec::new()
        };
        Self {
            value,
            secrets,
            told: Vec::new(),
        }
    }

    /// Whether any part was made from a secret.
    pub fn is_secret(&self) -> bool {
        !self.secrets.is_empty()
    }

    /// What was made from secrets: the parts of the value, and what stands inside of its texts.
    pub fn secret_values(&self) -> impl Iterator<Item = &Json> {
        let parts = self.secrets.iter().filter_map(|path| path.get(&self.value));
        parts.chain(&self.told)
    }

    /// The value with every secret part replaced.
    pub fn redacted(&self) -> Json {
        self.secrets
            .iter()
            .fold(self.value.clone(), |value, path| replace(value, &path.0))
    }
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
