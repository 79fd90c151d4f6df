//! Cron expressions.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use super::field::{Field, FieldFault, Unit};

/// A cron expression that can be read and that fires at some time.
///
/// Five fields, or six with the second in front: lists, ranges, steps, names of months and days,
/// `L`, `W` and `#`; or one of the nicknames. As everywhere, a day matches when either its field
/// for the month or the one for the week does, if both are restricted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cron(Arc<str>);

/// Why a text is not a cron expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronFault {
    /// Nothing is there.
    #[error("it is empty")]
    Empty,
    /// Neither five fields nor six.
    #[error("it has {} field{}; write {FIELDS}", .0, if *.0 == 1 { "" } else { "s" })]
    FieldCount(usize),
    /// An unknown word after `@`.
    #[error("'{0}' is not one of {list}", list = names())]
    Nickname(String),
    /// A field that cannot be read.
    #[error("{0}")]
    Field(FieldFault),
    /// Days that none of the months has.
    #[error("it never fires, since none of its months has such a day")]
    Never,
}

const FIELDS: &str = "minute, hour, day of the month, month and day of the week, with the second in front if need be";

/// Short names and what they stand for.
const NICKNAMES: [(&str, &str); 6] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

fn names() -> String {
    NICKNAMES.map(|(name, _)| name).join(", ")
}

impl Cron {
    /// Reads an expression; blanks around it are dropped.
    pub fn parse(text: &str) -> Result<Self, CronFault> {
        let text = text.trim();
        let fields = read(text)?;
        if !can_fire(&fields) {
            return Err(CronFault::Never);
        }
        Ok(Self(text.into()))
    }

    /// The expression as its author wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The six fields of an expression.
fn read(text: &str) -> Result<[Field; 6], CronFault> {
    if text.is_empty() {
        return Err(CronFault::Empty);
    }
    let text = if text.starts_with('@') {
        NICKNAMES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text))
            .map(|(_, meaning)| *meaning)
            .ok_or_else(|| CronFault::Nickname(text.to_owned()))?
    } else {
        text
    };
    let mut parts: Vec<&str> = text.split_whitespace().collect();
    match parts.len() {
        5 => parts.insert(0, "0"),
        6 => {}
        count => return Err(CronFault::FieldCount(count)),
    }
    let mut fields = [Field::default(); 6];
    for ((field, unit), part) in fields.iter_mut().zip(Unit::ALL).zip(parts) {
        *field = Field::read(unit, part).map_err(CronFault::Field)?;
    }
    Ok(fields)
}

/// Whether there is a day at all; what depends on the week comes round in every month.
fn can_fire([_, _, _, day, month, weekday]: &[Field; 6]) -> bool {
    const LONGEST: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let first_day = (day.values | day.shaped).trailing_zeros();
    let longest = (1..=12)
        .zip(LONGEST)
        .filter(|(number, _)| month.values & (1_u64 << number) != 0);
    day.last || !weekday.is_open || longest.into_iter().any(|(_, days)| first_day <= days)
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Cron {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl JsonSchema for Cron {
    fn schema_name() -> Cow<'static, str> {
        "Cron".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Five fields (minute, hour, day of the month, month, day of the week), six with the \
                second in front, or @hourly, @daily, @weekly, @monthly, @yearly.",
            "type": "string",
            "examples": ["0 2 * * *", "*/15 8-17 * * MON-FRI", "0 6 L * *"]
        })
    }
}

#[cfg(test)]
mod tests {
    use croner::parser::{CronParser, Year};
    use proptest::prelude::*;

    use super::*;

    fn fault(text: &str) -> String {
        Cron::parse(text).unwrap_err().to_string()
    }

    /// What the scheduler's own reader makes of an expression: the values of each field.
    fn fired(text: &str) -> [Vec<u16>; 6] {
        let cron = CronParser::builder()
            .year(Year::Disallowed)
            .build()
            .parse(text)
            .unwrap();
        let pattern = cron.pattern;
        [
            pattern.seconds.values(),
            pattern.minutes.values(),
            pattern.hours.values(),
            pattern.days.values(),
            pattern.months.values(),
            pattern.days_of_week.values(),
        ]
    }

    fn values(text: &str) -> [Vec<u16>; 6] {
        read(text).unwrap().map(|field| {
            (0..64)
                .filter(|value| field.values & (1 << value) != 0)
                .collect()
        })
    }

    #[test]
    fn the_forms_of_the_language() {
        for text in [
            "* * * * *",
            "0 2 * * *",
            "*/15 8-17 * * 1-5",
            "30 0 7 * * 0",
            "0 0 1,15 JAN-mar,Dec *",
            "0 0 * * MON-SUN",
            "0 0 * * fri-7",
            "5-55/10 0 ? * 7",
            "0 0 L * *",
            "0 0 LW * ?",
            "0 0 1W,15W * *",
            "0 0 * * 5L",
            "0 0 * * MON#1,3#5",
            "  0   2\t* * *  ",
            "0 0 29 2 *",
            "0 0 31 2 MON",
            "@daily",
            "@Weekly",
            "@annually",
        ] {
            let cron = Cron::parse(text).unwrap();
            assert_eq!(cron.as_str(), text.trim());
            assert_eq!(values(text.trim()), fired(text), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let faults = [
            "",
            "* * * *",
            "0 * * * * * 2026",
            "noon",
            "@reboot",
            "61 * * * *",
            "60 0 0 * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "99999999999 * * * *",
            "-5 * * * *",
            "+5 * * * *",
            "1,,2 * * * *",
            ", * * * *",
            "30-10 * * * *",
            "* * * * FRI-MON",
            "*/0 * * * *",
            "*/60 * * * *",
            "*/x * * * *",
            "0/10 * * * *",
            "/10 * * * *",
            "* * * JANUARY *",
            "JAN * * * *",
            "* * * * MONDAY",
            "? * * * *",
            "L * * * *",
            "* * * * L",
            "* * 5L * *",
            "* * L,LW * *",
            "* * * * 1#6",
            "* * * * 1-5#2",
            "* * * * +1",
            "0 0 30 2 *",
            "0 0 31 2,4,6,9,11 *",
            "0 0 31W APR ?",
        ]
        .map(|text| format!("{text:<24} {}", fault(text)))
        .join("\n");
        insta::assert_snapshot!(faults);
    }

    /// An item of a field whose numbers lie in a range.
    fn item(least: u16, most: u16) -> impl Strategy<Value = String> {
        let value = least..=most;
        prop_oneof![
            value.clone().prop_map(|value| value.to_string()),
            (value.clone(), value.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
            (1..=most).prop_map(|step| format!("*/{step}")),
            (value.clone(), value, 1..=most).prop_map(|(a, b, step)| format!(
                "{}-{}/{step}",
                a.min(b),
                a.max(b)
            )),
            Just("*".to_owned()),
        ]
    }

    fn field(least: u16, most: u16) -> impl Strategy<Value = String> {
        let list = prop::collection::vec(item(least, most), 1..4);
        list.prop_map(|items| {
            if items.iter().any(|item| item == "*") {
                "*".to_owned()
            } else {
                items.join(",")
            }
        })
    }

    fn expression() -> impl Strategy<Value = String> {
        let day =
            prop_oneof![4 => field(1, 31), 1 => (1..=31_u16).prop_map(|day| format!("{day}W"))];
        let weekday = prop_oneof![
            4 => field(0, 7),
            1 => (0..=7_u16, 1..=5_u16).prop_map(|(day, nth)| format!("{day}#{nth}")),
            1 => prop::sample::select(vec!["MON-FRI", "sat,SUN", "5L", "?", "TUE-SUN/2"]).prop_map(str::to_owned),
        ];
        let second = prop::option::of(field(0, 59));
        (
            second,
            field(0, 59),
            field(0, 23),
            day,
            field(1, 12),
            weekday,
        )
            .prop_map(|(second, minute, hour, day, month, weekday)| {
                let second = second
                    .map(|second| format!("{second} "))
                    .unwrap_or_default();
                format!("{second}{minute} {hour} {day} {month} {weekday}")
            })
    }

    proptest! {
        /// What passes here is what will fire, at the same times.
        #[test]
        fn agrees_with_the_reader_that_fires(text in expression()) {
            prop_assert_eq!(values(&text), fired(&text));
        }

        /// Whatever else passes is at least understood by it.
        #[test]
        fn never_more_lenient(text in "([0-9*/,LW#?A-Z-]{1,4} ){4,5}[0-9*/,L#?-]{1,4}|\\PC{0,12}") {
            if Cron::parse(&text).is_ok() {
                prop_assert_eq!(values(text.trim()), fired(&text));
            }
        }
    }
}
