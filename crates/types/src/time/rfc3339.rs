//! RFC 3339: strict and lenient parsing, and formatting.

use super::calendar::CivilDate;
use super::timestamp::Timestamp;

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// Error for a text that is not a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimestampTextError {
    /// The text does not have the expected shape.
    #[error("a time is written like 2026-11-05T14:30:00Z")]
    Shape,
    /// The text has no time zone where one is required.
    #[error("the time has no zone: add `Z` or an offset such as `+02:00`")]
    NoZone,
    /// No such day or time of day.
    #[error("there is no such day or time of day")]
    NoSuchTime,
    /// The instant in UTC is outside the years 1 to 9999.
    #[error("the time is outside of the years 1 to 9999")]
    OutOfRange,
}

/// Accepted time zones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ZonePolicy {
    /// `Z` or `+hh:mm`.
    Required,
    /// Also no zone (UTC), `+hh` and `+hhmm`.
    Lenient,
}

pub(super) fn parse(text: &str) -> Result<Timestamp, TimestampTextError> {
    TimestampParser::new(text).parse_timestamp(ZonePolicy::Required)
}

pub(super) fn parse_lenient(text: &str) -> Result<Option<Timestamp>, TimestampTextError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    TimestampParser::new(text).parse_timestamp(ZonePolicy::Lenient).map(Some)
}

/// Parser over the rest of the text.
struct TimestampParser<'t> {
    rest: &'t [u8],
}

impl<'t> TimestampParser<'t> {
    fn new(text: &'t str) -> Self {
        Self { rest: text.as_bytes() }
    }

    fn parse_timestamp(mut self, zone: ZonePolicy) -> Result<Timestamp, TimestampTextError> {
        use TimestampTextError::{NoSuchTime, OutOfRange, Shape};

        let (year, month, day) =
            (self.parse_number(4)?, self.parse_after(b"-", 2)?, self.parse_after(b"-", 2)?);
        let (hour, minute, second) =
            (self.parse_after(b"Tt ", 2)?, self.parse_after(b":", 2)?, self.parse_after(b":", 2)?);
        let micros = self.parse_fraction()?;
        let offset_seconds = self.parse_zone(zone)?;
        if !self.rest.is_empty() {
            return Err(Shape);
        }
        // RFC 3339 allows a leap second. It is read as the second before.
        if hour > 23 || minute > 59 || second > 60 {
            return Err(NoSuchTime);
        }
        let date = CivilDate::new(year, month, day).ok_or(NoSuchTime)?;
        let seconds =
            date.epoch_day() * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second.min(59);
        Timestamp::from_micros((seconds - offset_seconds) * MICROS_PER_SECOND + micros)
            .map_err(|_| OutOfRange)
    }

    /// Consumes the next byte if it is one of `any_of`.
    fn consume(&mut self, any_of: &[u8]) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        any_of.contains(&first).then(|| {
            self.rest = rest;
            first
        })
    }

    /// Parses a number with exactly this many digits.
    fn parse_number(&mut self, digits: usize) -> Result<i64, TimestampTextError> {
        let (head, rest) = self
            .rest
            .split_at_checked(digits)
            .filter(|(head, _)| head.iter().all(u8::is_ascii_digit))
            .ok_or(TimestampTextError::Shape)?;
        self.rest = rest;
        Ok(head.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    }

    /// Parses a separator, then a number.
    fn parse_after(&mut self, separator: &[u8], digits: usize) -> Result<i64, TimestampTextError> {
        self.consume(separator).ok_or(TimestampTextError::Shape)?;
        self.parse_number(digits)
    }

    /// Parses microseconds after a decimal point. Further digits are dropped.
    fn parse_fraction(&mut self) -> Result<i64, TimestampTextError> {
        if self.consume(b".").is_none() {
            return Ok(0);
        }
        let mut micros = 0;
        let mut unit = MICROS_PER_SECOND;
        while let Some(digit) = self.consume(b"0123456789") {
            unit /= 10;
            micros += unit * i64::from(digit - b'0');
        }
        if unit == MICROS_PER_SECOND {
            return Err(TimestampTextError::Shape);
        }
        Ok(micros)
    }

    /// Parses the offset from UTC in seconds.
    fn parse_zone(&mut self, zone: ZonePolicy) -> Result<i64, TimestampTextError> {
        if self.rest.is_empty() {
            return match zone {
                ZonePolicy::Required => Err(TimestampTextError::NoZone),
                ZonePolicy::Lenient => Ok(0),
            };
        }
        if self.consume(b"Zz").is_some() {
            return Ok(0);
        }
        let sign = match self.consume(b"+-") {
            Some(b'-') => -1,
            Some(_) => 1,
            None => return Err(TimestampTextError::Shape),
        };
        let hours = self.parse_number(2)?;
        let minutes = match zone {
            ZonePolicy::Lenient if self.rest.is_empty() => 0,
            ZonePolicy::Lenient if self.rest.first() != Some(&b':') => self.parse_number(2)?,
            ZonePolicy::Lenient | ZonePolicy::Required => self.parse_after(b":", 2)?,
        };
        if hours > 23 || minutes > 59 {
            return Err(TimestampTextError::NoSuchTime);
        }
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

/// Buffer for the longest text, so that formatting does not allocate.
pub(super) struct TimestampBuffer([u8; Self::LEN]);

impl TimestampBuffer {
    const LEN: usize = "9999-12-31T23:59:59.999999Z".len();

    pub(super) fn new() -> Self {
        Self(*b"0000-00-00T00:00:00.000000Z")
    }

    /// Formats an instant.
    pub(super) fn format(&mut self, time: Timestamp) -> &str {
        let seconds = time.as_micros().div_euclid(MICROS_PER_SECOND);
        let micros = time.as_micros().rem_euclid(MICROS_PER_SECOND);
        let second_of_day = seconds.rem_euclid(SECONDS_PER_DAY);
        let date = CivilDate::from_epoch_day(seconds.div_euclid(SECONDS_PER_DAY));
        self.write_digits(0..4, date.year);
        self.write_digits(5..7, date.month);
        self.write_digits(8..10, date.day);
        self.write_digits(11..13, second_of_day / 3600);
        self.write_digits(14..16, second_of_day / 60 % 60);
        self.write_digits(17..19, second_of_day % 60);
        let end = if micros == 0 {
            19
        } else if micros % 1000 == 0 {
            self.write_digits(20..23, micros / 1000);
            23
        } else {
            self.write_digits(20..26, micros);
            26
        };
        self.0[end] = b'Z';
        // Only ASCII was written.
        str::from_utf8(&self.0[..=end]).unwrap_or_default()
    }

    fn write_digits(&mut self, range: std::ops::Range<usize>, mut number: i64) {
        for digit in self.0[range].iter_mut().rev() {
            *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
        }
    }
}

#[cfg(test)]
mod tests;
