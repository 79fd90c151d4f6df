//! The JSON value: construction, access, comparison.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The fields of a JSON object, sorted by code point of the key.
pub type JsonMap = BTreeMap<Arc<str>, Json>;

/// Maximum number of keys for which a linear scan is faster than a tree lookup.
const MAX_LINEAR_SCAN_KEYS: usize = 12;

/// A canonical JSON value.
///
/// Numbers use the first variant that fits: `Int`, then `UInt` (only values above `i64::MAX`), then
/// `Float` (never an integral value that fits the other two). [`Json::from_f64`] and the `From`
/// impls preserve this rule, so create floats through them.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Json {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An integer that fits `i64`.
    Int(i64),
    /// An integer above `i64::MAX` that fits `u64`.
    UInt(u64),
    /// Any other finite number.
    Float(f64),
    /// A string without NUL.
    Str(Arc<str>),
    /// A list.
    List(Arc<Vec<Json>>),
    /// An object.
    Map(Arc<JsonMap>),
}

/// Error for a value that the log cannot store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JsonValueError {
    /// A string contains NUL, which not every database can store.
    #[error("text contains a NUL character")]
    Nul,
    /// NaN or an infinity.
    #[error("number is not finite")]
    NotFinite,
    /// An integer does not fit 64 bits.
    #[error("integer does not fit 64 bits")]
    TooBig,
    /// A key occurs twice in one object.
    #[error("duplicate key")]
    DuplicateKey,
    /// More than [`crate::limits::MAX_JSON_DEPTH`] levels.
    #[error("value is nested too deeply")]
    TooDeep,
}

// Equality is total: a `Float` is never NaN.
impl Eq for Json {}

impl Json {
    /// Creates a number from a float. Integral values that fit become integers.
    pub fn from_f64(value: f64) -> Result<Self, JsonValueError> {
        if !value.is_finite() {
            return Err(JsonValueError::NotFinite);
        }
        if value.fract() == 0.0 {
            // Both bounds are exact powers of two, so the comparisons are exact.
            if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
                #[expect(clippy::cast_possible_truncation, reason = "range checked above")]
                return Ok(Self::Int(value as i64));
            }
            if (0.0..18_446_744_073_709_551_616.0).contains(&value) {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "range checked above"
                )]
                return Ok(Self::UInt(value as u64));
            }
        }
        Ok(Self::Float(value))
    }

    /// Creates a number from a wide integer; an error if it does not fit 64 bits.
    pub fn from_i128(value: i128) -> Result<Self, JsonValueError> {
        if let Ok(value) = i64::try_from(value) {
            Ok(Self::Int(value))
        } else if let Ok(value) = u64::try_from(value) {
            Ok(Self::UInt(value))
        } else {
            Err(JsonValueError::TooBig)
        }
    }

    /// Creates a string; an error if it contains NUL.
    pub fn text(value: impl Into<Arc<str>>) -> Result<Self, JsonValueError> {
        let value = value.into();
        if value.contains('\0') {
            return Err(JsonValueError::Nul);
        }
        Ok(Self::Str(value))
    }

    /// Creates a list.
    pub fn list(values: impl IntoIterator<Item = Self>) -> Self {
        Self::List(Arc::new(values.into_iter().collect()))
    }

    /// Creates an object. For duplicate keys the last value wins. NUL in a key becomes U+FFFD.
    pub fn object<K: Into<Arc<str>>>(entries: impl IntoIterator<Item = (K, Self)>) -> Self {
        let map: JsonMap = entries.into_iter().map(|(k, v)| (k.into(), v)).collect();
        Self::from(map)
    }

    /// Creates an empty object.
    pub fn empty_map() -> Self {
        Self::Map(Arc::default())
    }

    /// Returns the name of the type: `null`, `bool`, `number`, `text`, `list`, `map`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::UInt(_) | Self::Float(_) => "number",
            Self::Str(_) => "text",
            Self::List(_) => "list",
            Self::Map(_) => "map",
        }
    }

    /// True if this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the string, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Str(text) = self { Some(text) } else { None }
    }

    /// Returns the bool, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    /// Returns the integer, if this is one that fits `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        if let Self::Int(value) = self { Some(*value) } else { None }
    }

    /// Returns the integer, if this is one that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Int(value) => u64::try_from(*value).ok(),
            Self::UInt(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the number as a float, if this is a number. Integers above 2^53 lose precision.
    #[expect(clippy::cast_precision_loss, reason = "documented; callers need an approximate value")]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::UInt(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the items, if this is a list.
    pub fn as_list(&self) -> Option<&[Self]> {
        if let Self::List(items) = self { Some(items) } else { None }
    }

    /// Returns the fields, if this is an object.
    pub fn as_map(&self) -> Option<&JsonMap> {
        if let Self::Map(map) = self { Some(map) } else { None }
    }

    /// Returns the value of a key, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let map = self.as_map()?;
        if map.len() > MAX_LINEAR_SCAN_KEYS {
            return map.get(key);
        }
        // Most keys already differ in length, which is stored next to the pointer to the text.
        let mut entries = map.iter();
        let found = entries.find(|(name, _)| name.len() == key.len() && &***name == key);
        found.map(|(_, value)| value)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

macro_rules! from_integers {
    ($($kind:ty),+) => {$(
        impl From<$kind> for Json {
            fn from(value: $kind) -> Self {
                Self::Int(value.into())
            }
        }
    )+};
}

from_integers!(i32, u32, i64);

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Self::UInt(value), Self::Int)
    }
}

impl From<usize> for Json {
    fn from(value: usize) -> Self {
        Self::from(value as u64)
    }
}

/// Replaces NUL, which a `Json` cannot hold, with U+FFFD. Use [`Json::text`] to get an error
/// instead.
impl From<&str> for Json {
    fn from(value: &str) -> Self {
        if value.contains('\0') {
            Self::Str(value.replace('\0', "\u{FFFD}").into())
        } else {
            Self::Str(value.into())
        }
    }
}

impl From<String> for Json {
    fn from(value: String) -> Self {
        Self::from(value.as_str())
    }
}

/// Replaces NUL in a key, which a `Json` cannot hold, with U+FFFD.
impl From<JsonMap> for Json {
    fn from(value: JsonMap) -> Self {
        if value.keys().any(|key| key.contains('\0')) {
            let clean =
                |(key, value): (Arc<str>, Self)| (key.replace('\0', "\u{FFFD}").into(), value);
            return Self::Map(Arc::new(value.into_iter().map(clean).collect()));
        }
        Self::Map(Arc::new(value))
    }
}

impl From<Vec<Json>> for Json {
    fn from(value: Vec<Json>) -> Self {
        Self::List(Arc::new(value))
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
