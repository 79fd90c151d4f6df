//! Durations in whole milliseconds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json::Json;
use crate::quantity::{Quantity, QuantityError};
use crate::text::excerpt;

const MS_PER_SECOND: u64 = 1000;
const MS_PER_MINUTE: u64 = 60 * MS_PER_SECOND;
const MS_PER_HOUR: u64 = 60 * MS_PER_MINUTE;
const MS_PER_DAY: u64 = 24 * MS_PER_HOUR;

/// A duration in whole milliseconds.
///
/// The text form is the one of playbooks (`500ms`, `30s`, `5m`, `2h`, `1d`, or a number of
/// seconds), and so is the serde form. A wire field whose name ends in `_ms` uses [`as_ms`]
/// instead.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(u64);

/// Error for a value that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationTextError {
    /// Not a number with a known unit.
    #[error(
        "`{0}` is not a duration: write `500ms`, `30s`, `5m`, `2h`, `1d` or a number of seconds"
    )]
    Shape(String),
    /// The milliseconds exceed 64 bits.
    #[error("`{0}` is too long a duration")]
    TooLong(String),
    /// A bool, a list, a map or null.
    #[error("a duration is a text or a number of seconds, not a {0}")]
    Type(&'static str),
}

impl Millis {
    /// The zero duration.
    pub const ZERO: Self = Self(0);

    /// Creates a duration from milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// Formats the duration for people, in two units at most.
    pub fn to_human(self) -> String {
        let Self(ms) = self;
        let (secs, minutes, hours) = (ms / 1_000, ms / 60_000, ms / 3_600_000);
        match ms {
            0..1_000 => format!("{ms} ms"),
            1_000..60_000 => format!("{secs}.{} s", ms % 1_000 / 100),
            60_000..3_600_000 => format!("{minutes} min {} s", secs % 60),
            3_600_000..86_400_000 => format!("{hours} h {} min", minutes % 60),
            86_400_000.. => format!("{} d {} h", hours / 24, hours % 24),
        }
    }

    /// Creates a duration from seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(MS_PER_SECOND))
    }

    /// Creates a duration from minutes.
    pub const fn from_minutes(minutes: u64) -> Self {
        Self(minutes.saturating_mul(MS_PER_MINUTE))
    }

    /// Creates a duration from hours.
    pub const fn from_hours(hours: u64) -> Self {
        Self(hours.saturating_mul(MS_PER_HOUR))
    }

    /// Creates a duration from days.
    pub const fn from_days(days: u64) -> Self {
        Self(days.saturating_mul(MS_PER_DAY))
    }

    /// Returns the number of milliseconds.
    pub const fn as_ms(self) -> u64 {
        self.0
    }

    /// Returns the duration in seconds, for display and metrics.
    pub fn as_secs_f64(self) -> f64 {
        Duration::from(self).as_secs_f64()
    }

    /// True if the duration is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Parses the text form. A number may have a decimal point. The result is rounded to
    /// milliseconds.
    pub fn parse(text: &str) -> Result<Self, DurationTextError> {
        parse_millis(text).map(Self).map_err(|error| match error {
            QuantityError::Shape | QuantityError::Unit => DurationTextError::Shape(excerpt(text)),
            QuantityError::TooBig => DurationTextError::TooLong(excerpt(text)),
        })
    }

    /// Reads a text or a number of seconds.
    pub fn from_json(value: &Json) -> Result<Self, DurationTextError> {
        match value {
            Json::Str(text) => Self::parse(text),
            Json::Int(_) | Json::UInt(_) => Self::parse(&value.to_string()),
            Json::Float(secs) => Self::from_secs_f64(*secs),
            _ => Err(DurationTextError::Type(value.type_name())),
        }
    }

    /// Converts seconds, rounded to the nearest millisecond.
    fn from_secs_f64(secs: f64) -> Result<Self, DurationTextError> {
        let ms = (secs * 1000.0).round();
        if ms < 0.0 || ms.is_nan() {
            return Err(DurationTextError::Shape(secs.to_string()));
        }
        // The bound is 2^64, which a float holds exactly.
        if ms >= 18_446_744_073_709_551_616.0 {
            return Err(DurationTextError::TooLong(secs.to_string()));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "range checked above"
        )]
        Ok(Self(ms as u64))
    }

    /// Returns the sum, or the longest duration on overflow.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference, or zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the product, or the longest duration on overflow.
    #[must_use]
    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

fn parse_millis(text: &str) -> Result<u64, QuantityError> {
    let quantity = Quantity::parse(text)?;
    quantity.scale_to_base_units(match quantity.unit {
        "ms" => 1,
        "" | "s" => MS_PER_SECOND,
        "m" => MS_PER_MINUTE,
        "h" => MS_PER_HOUR,
        "d" => MS_PER_DAY,
        _ => return Err(QuantityError::Unit),
    })
}

/// Formats with the largest unit that divides the duration, so that the text is short and exact.
impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] =
            [(MS_PER_DAY, "d"), (MS_PER_HOUR, "h"), (MS_PER_MINUTE, "m"), (MS_PER_SECOND, "s")];
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let (factor, unit) = UNITS
            .into_iter()
            .find(|(factor, _)| self.0.is_multiple_of(*factor))
            .unwrap_or((1, "ms"));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

impl fmt::Debug for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Millis {
    type Err = DurationTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl From<Millis> for Duration {
    fn from(value: Millis) -> Self {
        Self::from_millis(value.0)
    }
}

/// Truncates to whole milliseconds.
impl From<Duration> for Millis {
    fn from(value: Duration) -> Self {
        Self(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_json(&Json::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Serde form of a field whose name ends in `_ms`: a number of milliseconds.
pub mod as_ms {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Millis;

    /// Serializes the number of milliseconds.
    pub fn serialize<S: Serializer>(value: &Millis, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(value.as_ms())
    }

    /// Deserializes the number of milliseconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Millis, D::Error> {
        u64::deserialize(deserializer).map(Millis::from_ms)
    }
}

#[cfg(test)]
mod tests;
