//! The instant: microseconds since the epoch, bounded to the years 1 to 9999.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::millis::Millis;
use super::rfc3339::{self, TimestampTextError};
use crate::json::{CanonicalWriter, Json, WriteCanonical};

/// An instant in UTC, to the microsecond.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// An instant outside of the years 1 to 9999.
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

    /// The instant some microseconds after the epoch.
    pub const fn from_micros(micros: i64) -> Result<Self, TimestampRangeError> {
        if Self::MIN.0 <= micros && micros <= Self::MAX.0 {
            Ok(Self(micros))
        } else {
            Err(TimestampRangeError)
        }
    }

    /// The instant some milliseconds after the epoch.
    pub const fn from_unix_ms(unix_ms: i64) -> Result<Self, TimestampRangeError> {
        match unix_ms.checked_mul(1000) {
            Some(micros) => Self::from_micros(micros),
            None => Err(TimestampRangeError),
        }
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since the epoch, rounded towards the past.
    pub const fn as_unix_ms(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Reads RFC 3339, with an offset or `Z`. Digits beyond microseconds are cut off.
    pub fn parse(text: &str) -> Result<Self, TimestampTextError> {
        rfc3339::parse(text)
    }

    /// Reads what other systems send: RFC 3339, the same without a zone (which means UTC), the
    /// short offsets `+00` and `+0000`; nothing for a blank text.
    pub fn parse_lenient(text: &str) -> Result<Option<Self>, TimestampTextError> {
        rfc3339::parse_lenient(text)
    }

    /// The instant later by a duration, or the last one there is.
    #[must_use]
    pub fn saturating_add(self, duration: Millis) -> Self {
        self.checked_add(duration).unwrap_or(Self::MAX)
    }

    /// The instant earlier by a duration, or the first one there is.
    #[must_use]
    pub fn saturating_sub(self, duration: Millis) -> Self {
        i64::try_from(duration.as_ms())
            .ok()
            .and_then(|ms| ms.checked_mul(1000))
            .and_then(|micros| self.0.checked_sub(micros))
            .and_then(|micros| Self::from_micros(micros).ok())
            .unwrap_or(Self::MIN)
    }

    /// The instant later by a duration, if it is still in range.
    #[must_use]
    pub fn checked_add(self, duration: Millis) -> Option<Self> {
        let micros = i64::try_from(duration.as_ms()).ok()?.checked_mul(1000)?;
        Self::from_micros(self.0.checked_add(micros)?).ok()
    }

    /// The whole milliseconds since an earlier instant; zero when it is not earlier.
    pub fn since(self, earlier: Self) -> Millis {
        // Both lie within the range of years, so the difference cannot overflow.
        Millis::from_ms(u64::try_from((self.0 - earlier.0) / 1000).unwrap_or(0))
    }
}

/// RFC 3339 with `Z`; a fraction of three or six digits only where there is one.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(rfc3339::Buffer::new().format(*self))
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
        writer.text(rfc3339::Buffer::new().format(*self));
    }
}

impl From<Timestamp> for Json {
    fn from(value: Timestamp) -> Self {
        Self::Str(rfc3339::Buffer::new().format(value).into())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(rfc3339::Buffer::new().format(*self))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::deserialize(deserializer, "an RFC 3339 time", Self::parse)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn bounds() {
        assert_eq!(Timestamp::MIN.to_string(), "0001-01-01T00:00:00Z");
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-31T23:59:59.999999Z");
        assert_eq!(Timestamp::UNIX_EPOCH.to_string(), "1970-01-01T00:00:00Z");
        let above = Timestamp::MAX.as_micros() + 1;
        let below = Timestamp::MIN.as_micros() - 1;
        for wrong in [above, below, i64::MIN, i64::MAX] {
            assert_eq!(Timestamp::from_micros(wrong), Err(TimestampRangeError));
            assert_eq!(Timestamp::from_unix_ms(wrong), Err(TimestampRangeError));
        }
    }

    #[test]
    fn milliseconds_round_towards_the_past() {
        assert_eq!(at("1970-01-01T00:00:00.001999Z").as_unix_ms(), 1);
        assert_eq!(at("1969-12-31T23:59:59.999999Z").as_unix_ms(), -1);
    }

    #[test]
    fn arithmetic_stays_in_range() {
        let noon = at("2026-11-05T12:00:00Z");
        assert_eq!(
            noon.saturating_add(Millis::from_secs(90)),
            at("2026-11-05T12:01:30Z")
        );
        assert_eq!(
            noon.saturating_sub(Millis::from_days(1)),
            at("2026-11-04T12:00:00Z")
        );
        let forever = Millis::from_ms(u64::MAX);
        assert_eq!(noon.saturating_add(forever), Timestamp::MAX);
        assert_eq!(noon.saturating_sub(forever), Timestamp::MIN);
        assert_eq!(noon.checked_add(forever), None);
    }

    #[test]
    fn time_since() {
        let later = at("2026-11-05T12:00:01.5Z");
        let earlier = at("2026-11-05T12:00:00.000001Z");
        assert_eq!(later.since(earlier), Millis::from_ms(1499));
        assert_eq!(earlier.since(later), Millis::ZERO);
        assert_eq!(
            Timestamp::MAX.since(Timestamp::MIN).as_ms(),
            315_537_897_599_999
        );
    }

    proptest! {
        #[test]
        fn text_round_trip(micros in Timestamp::MIN.0..=Timestamp::MAX.0) {
            let time = Timestamp::from_micros(micros).unwrap();
            prop_assert_eq!(time.to_string().parse(), Ok(time));
            let json = serde_json::to_string(&time).unwrap();
            prop_assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), time);
        }

        #[test]
        fn text_order_is_time_order(a in 0..Timestamp::MAX.0, b in 0..Timestamp::MAX.0) {
            // Whole seconds only: a fraction is left out where it is zero.
            let [a, b] = [a, b].map(|micros| {
                Timestamp::from_micros(micros - micros % 1_000_000).unwrap()
            });
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }
    }
}
