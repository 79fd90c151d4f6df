//! Months of UTC: the unit in which the log is partitioned and dropped.

use std::fmt;

use super::civil::Date;
use super::timestamp::Timestamp;

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// A month of the calendar in UTC, of the years 1 to 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month {
    year: u16,
    month: u8,
}

impl Month {
    const FIRST: Self = Self { year: 1, month: 1 };
    const LAST: Self = Self {
        year: 9999,
        month: 12,
    };

    /// The month, unless there is none such.
    pub fn new(year: u16, month: u8) -> Option<Self> {
        Date::new(year.into(), month.into(), 1).map(|_| Self { year, month })
    }

    /// The month that an instant lies in.
    pub fn of(time: Timestamp) -> Self {
        let date = Date::from_epoch_day(time.as_micros().div_euclid(MICROS_PER_DAY));
        // A timestamp never leaves the range of years, so neither bound is ever taken.
        match (u16::try_from(date.year), u8::try_from(date.month)) {
            (Ok(year), Ok(month)) => Self { year, month },
            _ => Self::FIRST,
        }
    }

    /// The year, 1..=9999.
    pub fn year(self) -> u16 {
        self.year
    }

    /// The month of the year, 1..=12.
    pub fn month(self) -> u8 {
        self.month
    }

    /// The first instant of the month, which is the end of the one before.
    pub fn first_instant(self) -> Timestamp {
        let date = Date {
            year: self.year.into(),
            month: self.month.into(),
            day: 1,
        };
        // The years of a month are those of a timestamp, so the bound is never taken.
        Timestamp::from_micros(date.epoch_day() * MICROS_PER_DAY).unwrap_or(Timestamp::MAX)
    }

    /// The following month; the last one there is follows itself.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::LAST => Self::LAST,
            Self { year, month: 12 } => Self {
                year: year + 1,
                month: 1,
            },
            Self { year, month } => Self {
                year,
                month: month + 1,
            },
        }
    }
}

/// As in `2026-11`.
impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_follow_each_other_without_a_gap() {
        let mut month = Month::FIRST;
        let mut months = 1;
        while month.next() != month {
            let next = month.next();
            assert!(next > month);
            let last = Timestamp::from_micros(next.first_instant().as_micros() - 1).unwrap();
            assert_eq!(Month::of(last), month);
            assert_eq!(Month::of(next.first_instant()), next);
            month = next;
            months += 1;
        }
        assert_eq!(months, 9999 * 12);
        assert_eq!(Month::of(Timestamp::MAX), Month::LAST);
    }

    #[test]
    fn text_and_bounds() {
        let november = Month::new(2026, 11).unwrap();
        assert_eq!(november.to_string(), "2026-11");
        assert_eq!((november.year(), november.month()), (2026, 11));
        assert_eq!(november.first_instant().to_string(), "2026-11-01T00:00:00Z");
        for (year, month) in [(0, 1), (10_000, 1), (2026, 0), (2026, 13)] {
            assert_eq!(Month::new(year, month), None);
        }
    }
}
