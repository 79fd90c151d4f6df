//! Months in UTC: the unit by which the log is partitioned and dropped.

use std::fmt;

use super::civil::CivilDate;
use super::timestamp::Timestamp;

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// A calendar month in UTC, in the years 1 to 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month {
    year: u16,
    month: u8,
}

impl Month {
    const FIRST: Self = Self { year: 1, month: 1 };
    const LAST: Self = Self { year: 9999, month: 12 };

    /// Returns the month; `None` if it does not exist.
    pub fn new(year: u16, month: u8) -> Option<Self> {
        CivilDate::new(year.into(), month.into(), 1).map(|_| Self { year, month })
    }

    /// Returns the month of an instant.
    pub fn from_timestamp(time: Timestamp) -> Self {
        let date = CivilDate::from_epoch_day(time.as_micros().div_euclid(MICROS_PER_DAY));
        // A timestamp never leaves the range of years, so the fallback is never used.
        match (u16::try_from(date.year), u8::try_from(date.month)) {
            (Ok(year), Ok(month)) => Self { year, month },
            _ => Self::FIRST,
        }
    }

    /// Returns the year, 1..=9999.
    pub fn year(self) -> u16 {
        self.year
    }

    /// Returns the month of the year, 1..=12.
    pub fn month(self) -> u8 {
        self.month
    }

    /// Returns the first instant of the month, which is the end of the previous month.
    pub fn first_instant(self) -> Timestamp {
        let date = CivilDate { year: self.year.into(), month: self.month.into(), day: 1 };
        // A month has the year range of a timestamp, so the fallback is never used.
        Timestamp::from_micros(date.epoch_day() * MICROS_PER_DAY).unwrap_or(Timestamp::MAX)
    }

    /// Returns the next month. The last month is its own successor.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::LAST => Self::LAST,
            Self { year, month: 12 } => Self { year: year + 1, month: 1 },
            Self { year, month } => Self { year, month: month + 1 },
        }
    }
}

/// Formats as in `2026-11`.
impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_contiguous() {
        let mut month = Month::FIRST;
        let mut months = 1;
        while month.next() != month {
            let next = month.next();
            assert!(next > month);
            let last = Timestamp::from_micros(next.first_instant().as_micros() - 1).unwrap();
            assert_eq!(Month::from_timestamp(last), month);
            assert_eq!(Month::from_timestamp(next.first_instant()), next);
            month = next;
            months += 1;
        }
        assert_eq!(months, 9999 * 12);
        assert_eq!(Month::from_timestamp(Timestamp::MAX), Month::LAST);
    }

    #[test]
    fn month_text_and_range() {
        let november = Month::new(2026, 11).unwrap();
        assert_eq!(november.to_string(), "2026-11");
        assert_eq!((november.year(), november.month()), (2026, 11));
        assert_eq!(november.first_instant().to_string(), "2026-11-01T00:00:00Z");
        for (year, month) in [(0, 1), (10_000, 1), (2026, 0), (2026, 13)] {
            assert_eq!(Month::new(year, month), None);
        }
    }
}
