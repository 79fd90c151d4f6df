//! One field of a cron expression.

use std::fmt;
use std::ops::RangeInclusive;

/// Unit of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CronUnit {
    /// Seconds, 0 to 59.
    Second,
    /// Minutes, 0 to 59.
    Minute,
    /// Hours, 0 to 23.
    Hour,
    /// Days of the month, 1 to 31.
    Day,
    /// Months, 1 to 12.
    Month,
    /// Days of the week, 0 to 7. Both 0 and 7 are Sunday.
    Weekday,
}

impl CronUnit {
    /// All fields, in the order in which they are written.
    pub(super) const ALL: [Self; 6] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Month, Self::Weekday];

    fn value_range(self) -> RangeInclusive<u16> {
        match self {
            Self::Second | Self::Minute => 0..=59,
            Self::Hour => 0..=23,
            Self::Day => 1..=31,
            Self::Month => 1..=12,
            Self::Weekday => 0..=7,
        }
    }

    /// Names of the values, starting with the smallest.
    fn value_names(self) -> &'static [&'static str] {
        match self {
            Self::Second | Self::Minute | Self::Hour | Self::Day => &[],
            Self::Month => &[
                "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
            ],
            Self::Weekday => &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
        }
    }
}

impl fmt::Display for CronUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day of the month",
            Self::Month => "month",
            Self::Weekday => "day of the week",
        })
    }
}

/// An invalid field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronFieldError {
    /// Unit of the field.
    pub unit: CronUnit,
    /// Invalid part of the field.
    pub item: String,
    /// Reason why the part is invalid.
    pub kind: CronFieldErrorKind,
}

/// Reason why a part of a field is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CronFieldErrorKind {
    /// Neither a number nor a known name.
    NotAValue,
    /// A number out of range.
    OutOfRange,
    /// A range whose end precedes its start.
    ReversedRange,
    /// A step that is not a number from 1 to the size of the field.
    InvalidStep,
    /// A step after a single value.
    StepAfterValue,
    /// `#` followed by anything but 1 to 5.
    InvalidOccurrence,
    /// A second `L` in the same field.
    SecondLast,
}

impl fmt::Display for CronFieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unit, item, kind } = self;
        let range = unit.value_range();
        let (min, max) = (range.start(), range.end());
        match kind {
            CronFieldErrorKind::NotAValue => {
                write!(f, "'{item}' is not a valid {unit}; expected a number in {min}..{max}")?;
                match (unit.value_names().first(), unit.value_names().last()) {
                    (Some(from), Some(to)) => write!(f, " or a name in {from}..{to}"),
                    _ => Ok(()),
                }
            }
            CronFieldErrorKind::OutOfRange => {
                write!(f, "{unit} {item} is out of range {min}..{max}")
            }
            CronFieldErrorKind::ReversedRange => write!(f, "{unit} '{item}' ends before it starts"),
            CronFieldErrorKind::InvalidStep => {
                write!(f, "the step of {unit} '{item}' is out of range 1..{max}")
            }
            CronFieldErrorKind::StepAfterValue => {
                write!(f, "{unit} '{item}' has a step but no range; write '*/n' or '{min}-{max}/n'")
            }
            CronFieldErrorKind::InvalidOccurrence => {
                write!(f, "{unit} '{item}' must have a number in 1..5 after the '#'")
            }
            CronFieldErrorKind::SecondLast => write!(f, "{unit} '{item}' is a second 'L'"),
        }
    }
}

/// The values that a field matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CronField {
    /// Values that match directly, one bit per value.
    pub(super) values: u64,
    /// Values with `W`, `L` or `#`, whose matching days depend on the month.
    pub(super) month_dependent: u64,
    /// True if the last day or last working day of the month matches.
    pub(super) has_last_day: bool,
    /// True if the field is a bare `*` or `?`, which matches every value.
    pub(super) is_wildcard: bool,
}

impl CronField {
    pub(super) fn parse_field(unit: CronUnit, text: &str) -> Result<Self, CronFieldError> {
        let mut field = Self {
            is_wildcard: text == "*"
                || text == "?" && matches!(unit, CronUnit::Day | CronUnit::Weekday),
            ..Self::default()
        };
        if field.is_wildcard {
            field.values = value_bits(unit, unit.value_range(), 1);
            return Ok(field);
        }
        for item in text.split(',') {
            field.add_item(unit, item).map_err(|kind| CronFieldError {
                unit,
                item: item.to_owned(),
                kind,
            })?;
        }
        Ok(field)
    }

    fn add_item(&mut self, unit: CronUnit, item: &str) -> Result<(), CronFieldErrorKind> {
        if let Some((range, step)) = item.split_once('/') {
            let step = parse_increment(unit, step)?;
            let range = match range.split_once('-') {
                Some((from, to)) => parse_value_range(unit, from, to)?,
                None if range == "*" => unit.value_range(),
                None => return Err(CronFieldErrorKind::StepAfterValue),
            };
            self.values |= value_bits(unit, range, step);
        } else if let Some((from, to)) = item.split_once('-') {
            self.values |= value_bits(unit, parse_value_range(unit, from, to)?, 1);
        } else if !self.add_month_dependent(unit, item)? {
            let value = parse_unit_value(unit, item)?;
            self.values |= value_bits(unit, value..=value, 1);
        }
        Ok(())
    }

    /// Adds a form whose days depend on the month. Returns `false` if the item is not such a form.
    fn add_month_dependent(
        &mut self,
        unit: CronUnit,
        item: &str,
    ) -> Result<bool, CronFieldErrorKind> {
        let upper = item.to_ascii_uppercase();
        let value = match unit {
            CronUnit::Day if matches!(&*upper, "L" | "LW") => {
                if std::mem::replace(&mut self.has_last_day, true) {
                    return Err(CronFieldErrorKind::SecondLast);
                }
                return Ok(true);
            }
            CronUnit::Day => upper.strip_suffix('W'),
            CronUnit::Weekday => match upper.split_once('#') {
                Some((value, "1" | "2" | "3" | "4" | "5")) => Some(value),
                Some(_) => return Err(CronFieldErrorKind::InvalidOccurrence),
                None => upper.strip_suffix('L'),
            },
            CronUnit::Second | CronUnit::Minute | CronUnit::Hour | CronUnit::Month => None,
        };
        let Some(value) = value else { return Ok(false) };
        let value = parse_unit_value(unit, value)?;
        self.month_dependent |= value_bits(unit, value..=value, 1);
        Ok(true)
    }
}

fn value_bits(unit: CronUnit, range: RangeInclusive<u16>, step: usize) -> u64 {
    let normalize = |value| {
        if unit == CronUnit::Weekday { value % 7 } else { value }
    };
    range.step_by(step).fold(0, |bits, value| bits | 1 << normalize(value))
}

fn parse_increment(unit: CronUnit, text: &str) -> Result<usize, CronFieldErrorKind> {
    let step = parse_digits(text).ok_or(CronFieldErrorKind::InvalidStep)?;
    // A step larger than the field would fire only once, although it appears to fire repeatedly.
    if (1..=*unit.value_range().end()).contains(&step) {
        Ok(step.into())
    } else {
        Err(CronFieldErrorKind::InvalidStep)
    }
}

fn parse_value_range(
    unit: CronUnit,
    from: &str,
    to: &str,
) -> Result<RangeInclusive<u16>, CronFieldErrorKind> {
    let start = parse_unit_value(unit, from)?;
    let mut end = parse_unit_value(unit, to)?;
    // A week that ends on Sunday is written `MON-SUN`.
    if unit == CronUnit::Weekday && to.eq_ignore_ascii_case("SUN") {
        end = 7;
    }
    if start > end {
        return Err(CronFieldErrorKind::ReversedRange);
    }
    Ok(start..=end)
}

fn parse_unit_value(unit: CronUnit, text: &str) -> Result<u16, CronFieldErrorKind> {
    let named = unit
        .value_range()
        .zip(unit.value_names())
        .find(|(_, name)| name.eq_ignore_ascii_case(text));
    if let Some((value, _)) = named {
        return Ok(value);
    }
    let value = parse_digits(text).ok_or(CronFieldErrorKind::NotAValue)?;
    if unit.value_range().contains(&value) {
        Ok(value)
    } else {
        Err(CronFieldErrorKind::OutOfRange)
    }
}

/// Parses an unsigned number. A number that is too large for any field becomes the maximum.
fn parse_digits(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u16::MAX))
}
