//! The layout of ids: 41 bits of milliseconds since 2024, 10 bits of machine, 12 bits of sequence.

use std::num::NonZeroI64;
use std::str::FromStr;

use super::machine::MachineId;
use crate::json::Json;
use crate::text::{display_inner, excerpt};
use crate::time::Timestamp;

/// Start of ids in milliseconds since the Unix epoch: 2024-01-01T00:00:00Z.
pub(super) const EPOCH_UNIX_MS: i64 = 1_704_067_200_000;
pub(super) const SEQUENCE_BITS: u32 = 12;
pub(super) const TICK_SHIFT: u32 = MachineId::BITS + SEQUENCE_BITS;
/// The last millisecond that fits, in the year 2093.
pub(super) const LAST_TICK: i64 = i64::MAX >> TICK_SHIFT;

/// The number in every id. It is positive, and fits a JSON integer and a database column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Snowflake(NonZeroI64);

/// Error for a value that is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Not decimal digits, or too many of them.
    #[error("`{0}` is not an id: an id is a positive whole number of at most 19 digits")]
    Text(String),
    /// Zero or negative.
    #[error("{0} is not an id: ids are positive")]
    NotPositive(i64),
    /// A value of another type.
    #[error("an id is a number or a string of digits, not a {0}")]
    Type(&'static str),
}

impl Snowflake {
    /// Wraps a number.
    pub const fn new(value: i64) -> Result<Self, IdError> {
        match NonZeroI64::new(value) {
            Some(number) if number.is_positive() => Ok(Self(number)),
            Some(_) | None => Err(IdError::NotPositive(value)),
        }
    }

    /// Builds an id from its parts, which must be in range.
    pub(super) fn from_parts(
        tick: i64,
        machine: MachineId,
        sequence: i64,
    ) -> Result<Self, IdError> {
        Self::new(tick << TICK_SHIFT | i64::from(machine.get()) << SEQUENCE_BITS | sequence)
    }

    /// Returns the number.
    pub const fn get(self) -> i64 {
        self.0.get()
    }

    /// Returns the creation time in milliseconds since the Unix epoch.
    pub const fn unix_ms(self) -> i64 {
        (self.get() >> TICK_SHIFT) + EPOCH_UNIX_MS
    }

    /// Returns the creation time, to the millisecond.
    pub fn time(self) -> Timestamp {
        // The layout ends in the year 2093, so the fallback is never used.
        Timestamp::from_unix_ms(self.unix_ms()).unwrap_or(Timestamp::MAX)
    }

    /// Returns the machine that generated the id.
    pub fn machine(self) -> MachineId {
        MachineId::from_low_bits(self.get() >> SEQUENCE_BITS)
    }

    /// Returns the sequence number within the machine and the millisecond.
    pub const fn sequence(self) -> i64 {
        self.get() & ((1 << SEQUENCE_BITS) - 1)
    }

    /// Parses decimal digits, without sign, leading zero or blanks.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit())
            && (text == "0" || !text.starts_with('0'));
        text.parse()
            .ok()
            .filter(|_| is_plain)
            .ok_or_else(|| IdError::Text(excerpt(text)))
            .and_then(Self::new)
    }

    /// Reads a number or a string of digits.
    pub fn from_json(value: &Json) -> Result<Self, IdError> {
        match value {
            Json::Int(number) => Self::new(*number),
            Json::Str(text) => Self::parse(text),
            Json::UInt(_) | Json::Float(_) => Err(IdError::Text(value.to_string())),
            _ => Err(IdError::Type(value.type_name())),
        }
    }
}

display_inner!(Snowflake);

impl FromStr for Snowflake {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// Returns the smallest number that an id generated at a time can have. All ids generated earlier
/// are below it.
///
/// This is a bound for ranges of ids, not an id: it is 0 before the epoch of ids and `i64::MAX`
/// after the end of the layout.
pub const fn first_id_at(unix_ms: i64) -> i64 {
    let tick = unix_ms.saturating_sub(EPOCH_UNIX_MS);
    if tick <= 0 {
        0
    } else if tick > LAST_TICK {
        i64::MAX
    } else {
        tick << TICK_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::Month;

    /// Computed by hand: 2026-11-05T14:30:00.123Z is 89821800123 ms after the epoch of ids, so the
    /// id is 89821800123 * 2^22 + 5 * 2^12 + 7.
    #[test]
    fn decodes_known_id() {
        let id = Snowflake::new(376_739_935_543_099_392 + 20_480 + 7).unwrap();
        assert_eq!(id.time().to_string(), "2026-11-05T14:30:00.123Z");
        assert_eq!(id.machine().get(), 5);
        assert_eq!(id.sequence(), 7);
    }

    #[test]
    fn decodes_smallest_and_largest_id() {
        let first = Snowflake::new(1).unwrap();
        assert_eq!(first.time().to_string(), "2024-01-01T00:00:00Z");
        assert_eq!((first.machine().get(), first.sequence()), (0, 1));
        let last = Snowflake::new(i64::MAX).unwrap();
        assert_eq!(last.time().to_string(), "2093-09-06T15:47:35.551Z");
        assert_eq!((last.machine().get(), last.sequence()), (1023, 4095));
    }

    #[test]
    fn parses_texts() {
        assert_eq!(Snowflake::parse("123").unwrap().get(), 123);
        assert_eq!(Snowflake::parse("9223372036854775807").unwrap().get(), i64::MAX);
        for wrong in
            ["", " 1", "1 ", "+1", "-1", "01", "1.0", "0x1", "1e3", "9223372036854775808", "١"]
        {
            assert_eq!(Snowflake::parse(wrong), Err(IdError::Text(wrong.to_owned())), "{wrong}");
        }
        assert_eq!(Snowflake::parse("0"), Err(IdError::NotPositive(0)));
        assert_eq!(
            Snowflake::new(-5).unwrap_err().to_string(),
            "-5 is not an id: ids are positive"
        );
    }

    #[test]
    fn reads_json_values() {
        let read = |text: &str| Snowflake::from_json(&crate::json::parse(text.as_bytes()).unwrap());
        assert_eq!(read("123").unwrap().get(), 123);
        assert_eq!(read("\"123\"").unwrap().get(), 123);
        assert_eq!(read("123.0").unwrap().get(), 123);
        assert_eq!(read("1.5"), Err(IdError::Text("1.5".to_owned())));
        assert_eq!(
            read("18446744073709551615"),
            Err(IdError::Text("18446744073709551615".to_owned()))
        );
        assert_eq!(read("-1"), Err(IdError::NotPositive(-1)));
        assert_eq!(read("[1]"), Err(IdError::Type("list")));
        assert_eq!(read("null"), Err(IdError::Type("null")));
    }

    #[test]
    fn first_id_at_month_boundaries() {
        let november = Month::new(2026, 11).unwrap();
        let bound = first_id_at(november.first_instant().as_unix_ms());
        assert_eq!(Snowflake::new(bound).unwrap().time(), november.first_instant());
        assert!(Snowflake::new(bound - 1).unwrap().time() < november.first_instant());
        assert_eq!(first_id_at(EPOCH_UNIX_MS), 0);
        assert_eq!(first_id_at(i64::MIN), 0);
        assert_eq!(first_id_at(i64::MAX), i64::MAX);
    }

    proptest! {
        #[test]
        fn id_is_in_range_of_its_time(number in 1..=i64::MAX) {
            let id = Snowflake::new(number).unwrap();
            prop_assert!(first_id_at(id.unix_ms()) <= number);
            prop_assert!(number <= first_id_at(id.unix_ms() + 1));
            prop_assert_eq!(Snowflake::parse(&id.to_string()), Ok(id));
            let rebuilt = Snowflake::from_parts(id.unix_ms() - EPOCH_UNIX_MS, id.machine(), id.sequence());
            prop_assert_eq!(rebuilt, Ok(id));
        }
    }
}
