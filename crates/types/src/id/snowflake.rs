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
mod tests;
