//! One field of a cron expression.

use std::fmt;
use std::ops::RangeInclusive;

/// What a field counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
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
    /// Days of the week, 0 to 7; Sunday is both.
    Weekday,
}

impl Unit {
    /// All fields in the order in which they are written.
    pub(super) const ALL: [Self; 6] = [
        Self::Second,
        Self::Minute,
        Self::Hour,
        Self::Day,
        Self::Month,
        Self::Weekday,
    ];

    fn range(self) -> RangeInclusive<u16> {
        match self {
            Self::Second | Self::Minute => 0..=59,
            Self::Hour => 0..=23,
            Self::Day => 1..=31,
            Self::Month => 1..=12,
            Self::Weekday => 0..=7,
        }
    }

    /// Names that may stand for numbers; the first of them stands for the least.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Second | Self::Minute | Self::Hour | Self::Day => &[],
            Self::Month => &[
                "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
            ],
            Self::Weekday => &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
        }
    }
}

impl fmt::Display for Unit {
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

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldFault {
    /// Which field.
    pub unit: Unit,
    /// The part of the field that is wrong.
    pub item: String,
    /// What is wrong with it.
    pub kind: FieldFaultKind,
}

/// What is wrong with a part of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldFaultKind {
    /// Neither a number nor a known name.
    NotAValue,
    /// A number that the field cannot have.
    OutOfRange,
    /// A range whose end comes before its start.
    Backwards,
    /// A step that is no number from one to the size of the field.
    Step,
    /// A step after a single value.
    StepAfterValue,
    /// `#` with something other than one to five.
    Nth,
    /// A second `L` in the same field.
    SecondLast,
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unit, item, kind } = self;
        let range = unit.range();
        let (least, most) = (range.start(), range.end());
        match kind {
            FieldFaultKind::NotAValue => {
                write!(
                    f,
                    "'{item}' is no {unit}, which is a number in {least}..{most}"
                )?;
                match (unit.names().first(), unit.names().last()) {
                    (Some(from), Some(to)) => write!(f, " or a name in {from}..{to}"),
                    _ => Ok(()),
                }
            }
            FieldFaultKind::OutOfRange => {
                write!(f, "{unit} {item} is out of range {least}..{most}")
            }
            FieldFaultKind::Backwards => write!(f, "{unit} '{item}' runs backwards"),
            FieldFaultKind::Step => {
                write!(f, "the step of {unit} '{item}' is out of range 1..{most}")
            }
            FieldFaultKind::StepAfterValue => {
                write!(
                    f,
                    "{unit} '{item}' has a step but no range; write '*/n' or '{least}-{most}/n'"
                )
            }
            FieldFaultKind::Nth => write!(
                f,
                "{unit} '{item}' counts within a month, so 1..5 follows the '#'"
            ),
            FieldFaultKind::SecondLast => write!(f, "{unit} '{item}' comes after another 'L'"),
        }
    }
}

/// What a field stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Field {
    /// Values that match as they are, a bit for each.
    pub(super) values: u64,
    /// Values with `W`, `L` or `#` behind them, which match by the shape of the month.
    pub(super) shaped: u64,
    /// Whether the last day of the month matches, or the last working day.
    pub(super) last: bool,
    /// Whether it is a bare `*` or `?`, which restricts nothing.
    pub(super) is_open: bool,
}

impl Field {
    pub(super) fn read(unit: Unit, text: &str) -> Result<Self, FieldFault> {
        let mut field = Self {
            is_open: text == "*" || text == "?" && matches!(unit, Unit::Day | Unit::Weekday),
            ..Self::default()
        };
        if field.is_open {
            field.values = bits(unit, unit.range(), 1);
            return Ok(field);
        }
        for item in text.split(',') {
            field.add(unit, item).map_err(|kind| FieldFault {
                unit,
                item: item.to_owned(),
                kind,
            })?;
        }
        Ok(field)
    }

    fn add(&mut self, unit: Unit, item: &str) -> Result<(), FieldFaultKind> {
        if let Some((range, step)) = item.split_once('/') {
            let step = step_of(unit, step)?;
            let range = match range.split_once('-') {
                Some(ends) => range_of(unit, ends)?,
                None if range == "*" => unit.range(),
                None => return Err(FieldFaultKind::StepAfterValue),
            };
            self.values |= bits(unit, range, step);
        } else if let Some(ends) = item.split_once('-') {
            self.values |= bits(unit, range_of(unit, ends)?, 1);
        } else if !self.add_shaped(unit, item)? {
            let value = value_of(unit, item)?;
            self.values |= bits(unit, value..=value, 1);
        }
        Ok(())
    }

    /// The forms whose days depend on the month; `false` if it is none of them.
    fn add_shaped(&mut self, unit: Unit, item: &str) -> Result<bool, FieldFaultKind> {
        let upper = item.to_ascii_uppercase();
        let value = match unit {
            Unit::Day if matches!(&*upper, "L" | "LW") => {
                if std::mem::replace(&mut self.last, true) {
                    return Err(FieldFaultKind::SecondLast);
                }
                return Ok(true);
            }
            Unit::Day => upper.strip_suffix('W'),
            Unit::Weekday => match upper.split_once('#') {
                Some((value, "1" | "2" | "3" | "4" | "5")) => Some(value),
                Some(_) => return Err(FieldFaultKind::Nth),
                None => upper.strip_suffix('L'),
            },
            Unit::Second | Unit::Minute | Unit::Hour | Unit::Month => None,
        };
        let Some(value) = value else { return Ok(false) };
        let value = value_of(unit, value)?;
        self.shaped |= bits(unit, value..=value, 1);
        Ok(true)
    }
}

fn bits(unit: Unit, range: RangeInclusive<u16>, step: usize) -> u64 {
    let week = |value| {
        if unit == Unit::Weekday {
            value % 7
        } else {
            value
        }
    };
    range
        .step_by(step)
        .fold(0, |bits, value| bits | 1 << week(value))
}

fn step_of(unit: Unit, text: &str) -> Result<usize, FieldFaultKind> {
    let step = digits(text).ok_or(FieldFaultKind::Step)?;
    // A longer step than the field would fire once and look as if it fired more often.
    if (1..=*unit.range().end()).contains(&step) {
        Ok(step.into())
    } else {
        Err(FieldFaultKind::Step)
    }
}

fn range_of(unit: Unit, (from, to): (&str, &str)) -> Result<RangeInclusive<u16>, FieldFaultKind> {
    let start = value_of(unit, from)?;
    let mut end = value_of(unit, to)?;
    // A week that ends on Sunday is written `MON-SUN`.
    if unit == Unit::Weekday && to.eq_ignore_ascii_case("SUN") {
        end = 7;
    }
    if start > end {
        return Err(FieldFaultKind::Backwards);
    }
    Ok(start..=end)
}

fn value_of(unit: Unit, text: &str) -> Result<u16, FieldFaultKind> {
    let named = unit
        .range()
        .zip(unit.names())
        .find(|(_, name)| name.eq_ignore_ascii_case(text));
    if let Some((value, _)) = named {
        return Ok(value);
    }
    let value = digits(text).ok_or(FieldFaultKind::NotAValue)?;
    if unit.range().contains(&value) {
        Ok(value)
    } else {
        Err(FieldFaultKind::OutOfRange)
    }
}

/// A number without sign; one that is too long for any field is the largest there is.
fn digits(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u16::MAX))
}
