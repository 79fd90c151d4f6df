//! The calendar: days counted from 1970-01-01, and the months by which the log is partitioned and
//! dropped.
//!
//! Days are of the proleptic Gregorian calendar. Both conversions count in eras of 400 years, which
//! all have the same number of days. The year starts in March so that the leap day is its last day.

use std::fmt;
use std::ops::RangeInclusive;

use super::timestamp::Timestamp;

const MICROS_PER_DAY: i64 = 86_400_000_000;
/// Years that a [`super::Timestamp`] can represent.
const YEARS: RangeInclusive<i64> = 1..=9999;

const DAYS_PER_ERA: i64 = 146_097;
/// Days from 0000-03-01, where the first era starts, to 1970-01-01.
const EPOCH_DAY: i64 = 719_468;

/// A day of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CivilDate {
    pub(super) year: i64,
    /// 1..=12
    pub(super) month: i64,
    /// 1..=31
    pub(super) day: i64,
}

impl CivilDate {
    /// Returns the date; `None` if no such day exists or its year is out of range.
    pub(super) fn new(year: i64, month: i64, day: i64) -> Option<Self> {
        let exists = YEARS.contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day);
        exists.then_some(Self { year, month, day })
    }

    /// Returns the date of a day counted from 1970-01-01.
    pub(super) fn from_epoch_day(epoch_day: i64) -> Self {
        let day = epoch_day + EPOCH_DAY;
        let era = day.div_euclid(DAYS_PER_ERA);
        let day_of_era = day.rem_euclid(DAYS_PER_ERA);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Self {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
        }
    }

    /// Returns the number of days since 1970-01-01.
    pub(super) fn epoch_day(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month_from_march = (self.month + 9) % 12;
        let day_of_year = (153 * month_from_march + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * DAYS_PER_ERA + day_of_era - EPOCH_DAY
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

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
mod tests;
