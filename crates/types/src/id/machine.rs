//! The machine number in generated ids.

use std::str::FromStr;

use crate::text::{display_inner, excerpt};

/// Number of a machine, 0..=1023. Must be unique among the processes that generate ids at the same
/// time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(u16);

/// Error for a text that is not a machine id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a machine id: expected a whole number from 0 to {}", MachineId::MAX)]
pub struct MachineIdError {
    text: String,
}

impl MachineId {
    /// Number of bits that a machine id takes in a generated id.
    pub(super) const BITS: u32 = 10;

    /// The smallest machine id.
    pub const MIN: Self = Self(0);
    /// The largest machine id.
    pub const MAX: Self = Self((1 << Self::BITS) - 1);

    /// Creates a machine id from its number.
    pub fn new(number: u16) -> Result<Self, MachineIdError> {
        if number > Self::MAX.0 {
            return Err(MachineIdError { text: number.to_string() });
        }
        Ok(Self(number))
    }

    /// Returns the number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Returns the machine id in the lowest bits of a number.
    pub(super) fn from_low_bits(number: i64) -> Self {
        Self(u16::try_from(number & i64::from(Self::MAX.0)).unwrap_or(0))
    }
}

impl FromStr for MachineId {
    type Err = MachineIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || MachineIdError { text: excerpt(text) };
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(error());
        }
        text.parse().map_err(|_| error()).and_then(Self::new)
    }
}

display_inner!(MachineId);

#[cfg(test)]
mod tests;
