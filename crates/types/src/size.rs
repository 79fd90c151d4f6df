//! Sizes in bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json::Json;
use crate::quantity::{Quantity, QuantityError};
use crate::text::excerpt;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A size in bytes.
///
/// Parsed from a number of bytes or from `64KiB`, `1MiB`, `1GiB`. A decimal `KB` is rejected
/// because it is ambiguous. The serde form is the number.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

/// Error for a value that is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeTextError {
    /// Not a number with a known unit.
    #[error("`{0}` is not a size: write a number of bytes, or `64KiB`, `1MiB`, `1GiB`")]
    Shape(String),
    /// The size exceeds 64 bits.
    #[error("`{0}` is too large a size")]
    TooLarge(String),
    /// A bool, a list, a map or null.
    #[error("a size is a text or a number of bytes, not a {0}")]
    Type(&'static str),
}

impl ByteSize {
    /// Creates a size from bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Creates a size from KiB.
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib.saturating_mul(KIB))
    }

    /// Creates a size from MiB.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib.saturating_mul(MIB))
    }

    /// Creates a size from GiB.
    pub const fn from_gib(gib: u64) -> Self {
        Self(gib.saturating_mul(GIB))
    }

    /// Returns the number of bytes.
    pub const fn as_bytes(self) -> u64 {
        self.0
    }

    /// True if content of this many bytes is larger than this size.
    pub const fn is_exceeded_by(self, bytes: usize) -> bool {
        bytes as u64 > self.0
    }

    /// Parses the text form. Only a number with a unit may have a decimal point.
    pub fn parse(text: &str) -> Result<Self, SizeTextError> {
        parse_bytes(text).map(Self).map_err(|error| match error {
            QuantityError::Shape | QuantityError::Unit => SizeTextError::Shape(excerpt(text)),
            QuantityError::TooBig => SizeTextError::TooLarge(excerpt(text)),
        })
    }

    /// Reads a text or a number of bytes.
    pub fn from_json(value: &Json) -> Result<Self, SizeTextError> {
        match value {
            Json::Str(text) => Self::parse(text),
            Json::Int(_) | Json::UInt(_) | Json::Float(_) => Self::parse(&value.to_string()),
            _ => Err(SizeTextError::Type(value.type_name())),
        }
    }
}

fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    let quantity = Quantity::parse(text)?;
    quantity.scale_to_base_units(match quantity.unit {
        "" if quantity.is_decimal() => return Err(QuantityError::Shape),
        "" => 1,
        "KiB" => KIB,
        "MiB" => MIB,
        "GiB" => GIB,
        _ => return Err(QuantityError::Unit),
    })
}

/// Formats with the largest unit that divides the size, so that the text is short and exact.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0"),
            bytes if bytes % GIB == 0 => write!(f, "{}GiB", bytes / GIB),
            bytes if bytes % MIB == 0 => write!(f, "{}MiB", bytes / MIB),
            bytes if bytes % KIB == 0 => write!(f, "{}KiB", bytes / KIB),
            bytes => write!(f, "{bytes}"),
        }
    }
}

impl fmt::Debug for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ByteSize {
    type Err = SizeTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_json(&Json::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
