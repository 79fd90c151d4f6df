//! An instant: microseconds since the epoch, limited to the years 1 to 9999.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::millis::Millis;
use super::rfc3339::{self, TimestampTextError};
use crate::json::{CanonicalWriter, Json, WriteCanonical};

/// An instant in UTC, with microsecond precision.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Error for an instant outside the years 1 to 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the time is outside of the years 1 to 9999")]
pub struct TimestampRangeError;

impl Timestamp {
    /// 0001-01-01T00:00:00Z
    pub const MIN: Self = Self(-62_135_596_800_000_000);
    /// 9999-12-31T23:59:59.999999Z
    pub const MAX: Self = Self(253_402_300_799_999_999);
    /// 1970-01-01T00:00:00Z
    pub const UNIX_EPOCH: Self = Self(0);

    /// Creates an instant from microseconds since the epoch.
    pub const fn from_micros(micros: i64) -> Result<Self, TimestampRangeError> {
        if Self::MIN.0 <= micros && micros <= Self::MAX.0 {
            Ok(Self(micros))
        } else {
            Err(TimestampRangeError)
        }
    }

    /// Creates an instant from milliseconds since the epoch.
    pub const fn from_unix_ms(unix_ms: i64) -> Result<Self, TimestampRangeError> {
        match unix_ms.checked_mul(1000) {
            Some(micros) => Self::from_micros(micros),
            None => Err(TimestampRangeError),
        }
    }

    /// Returns the microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns the whole milliseconds since the epoch, rounded towards the past.
    pub const fn as_unix_ms(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Parses RFC 3339 with an offset or `Z`. Digits beyond microseconds are truncated.
    pub fn parse(text: &str) -> Result<Self, TimestampTextError> {
        rfc3339::parse(text)
    }

    /// Parses the forms that other systems send: RFC 3339, also without a zone (UTC) or with the
    /// short offsets `+00` and `+0000`. Returns `None` for a blank text.
    pub fn parse_lenient(text: &str) -> Result<Option<Self>, TimestampTextError> {
        rfc3339::parse_lenient(text)
    }

    /// Returns the instant later by a duration, limited to [`Timestamp::MAX`].
    #[must_use]
    pub fn saturating_add(self, duration: Millis) -> Self {
        self.checked_add(duration).unwrap_or(Self::MAX)
    }

    /// Returns the instant earlier by a duration, limited to [`Timestamp::MIN`].
    #[must_use]
    pub fn saturating_sub(self, duration: Millis) -> Self {
        let micros = i64::try_from(duration.as_ms()).unwrap_or(i64::MAX).saturating_mul(1000);
        Self::from_micros(self.0.saturating_sub(micros)).unwrap_or(Self::MIN)
    }

    /// Returns the instant later by a duration; `None` if it is out of range.
    #[must_use]
    pub fn checked_add(self, duration: Millis) -> Option<Self> {
        let micros = i64::try_from(duration.as_ms()).ok()?.checked_mul(1000)?;
        Self::from_micros(self.0.checked_add(micros)?).ok()
    }

    /// Returns the whole milliseconds since an earlier instant; zero if it is not earlier.
    pub fn duration_since(self, earlier: Self) -> Millis {
        // Both are within the range of years, so the difference cannot overflow.
        Millis::from_ms(u64::try_from((self.0 - earlier.0) / 1000).unwrap_or(0))
    }
}

/// Formats as RFC 3339 with `Z`, with a fraction of three or six digits only if needed.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(rfc3339::TimestampBuffer::new().format(*self))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = TimestampTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl WriteCanonical for Timestamp {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.write_text(rfc3339::TimestampBuffer::new().format(*self));
    }
}

impl From<Timestamp> for Json {
    fn from(value: Timestamp) -> Self {
        Self::Str(rfc3339::TimestampBuffer::new().format(value).into())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(rfc3339::TimestampBuffer::new().format(*self))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::deserialize(deserializer, "an RFC 3339 time", Self::parse)
    }
}

#[cfg(test)]
mod tests;
