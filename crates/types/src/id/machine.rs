//! The number of a machine in the ids that it makes.

use std::fmt;
use std::str::FromStr;

use crate::text::excerpt;

/// Number of a machine, 0..=1023; unique among the processes that make ids at the same time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(u16);

/// Not the number of a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a machine id: it is a whole number from 0 to {}",
    MachineId::MAX
)]
pub struct MachineIdError {
    text: String,
}

impl MachineId {
    /// Bits that it takes of an id.
    pub(super) const BITS: u32 = 10;

    /// The first.
    pub const MIN: Self = Self(0);
    /// The last.
    pub const MAX: Self = Self((1 << Self::BITS) - 1);

    /// The machine with a number.
    pub fn new(number: u16) -> Result<Self, MachineIdError> {
        if number > Self::MAX.0 {
            return Err(MachineIdError {
                text: number.to_string(),
            });
        }
        Ok(Self(number))
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The machine that the lowest bits of a number name.
    pub(super) fn from_low_bits(number: i64) -> Self {
        Self(u16::try_from(number & i64::from(Self::MAX.0)).unwrap_or(0))
    }
}

impl FromStr for MachineId {
    type Err = MachineIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || MachineIdError {
            text: excerpt(text),
        };
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refused());
        }
        text.parse().map_err(|_| refused()).and_then(Self::new)
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MachineId({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range() {
        for (text, number) in [("0", 0), ("7", 7), ("1023", 1023)] {
            assert_eq!(text.parse::<MachineId>().unwrap().get(), number);
        }
        for wrong in ["", "1024", "-1", "+1", "70000", "host-7", "1.0", " 1"] {
            assert_eq!(
                wrong.parse::<MachineId>().unwrap_err().to_string(),
                format!("`{wrong}` is not a machine id: it is a whole number from 0 to 1023")
            );
        }
    }
}
