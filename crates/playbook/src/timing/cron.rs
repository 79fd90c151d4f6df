//! Cron expressions.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use super::field::{CronField, CronFieldError, CronUnit};

/// A valid cron expression that fires at least once.
///
/// Five fields, or six with seconds first: lists, ranges, steps, names of months and days, `L`, `W`
/// and `#`; or one of the nicknames. As usual for cron, if both the day of the month and the day of
/// the week are restricted, a day matches if either field matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CronExpression(Arc<str>);

/// A parse error of a cron expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// The expression is empty.
    #[error("the expression is empty")]
    Empty,
    /// The number of fields is neither five nor six.
    #[error("found {} field{}; expected {FIELDS}", .0, if *.0 == 1 { "" } else { "s" })]
    FieldCount(usize),
    /// An unknown nickname after `@`.
    #[error("'{0}' is not one of {list}", list = nickname_list())]
    Nickname(String),
    /// An invalid field.
    #[error("{0}")]
    Field(CronFieldError),
    /// A day that none of the selected months has.
    #[error("it never fires, because none of its months has such a day")]
    Never,
}

const FIELDS: &str =
    "minute, hour, day of the month, month and day of the week, optionally preceded by the second";

/// Nicknames and the expressions that they represent.
const NICKNAMES: [(&str, &str); 6] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

fn nickname_list() -> String {
    NICKNAMES.map(|(name, _)| name).join(", ")
}

impl CronExpression {
    /// Parses an expression. Surrounding whitespace is removed.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let text = text.trim();
        let fields = parse_cron_fields(text)?;
        if !can_fire(&fields) {
            return Err(CronError::Never);
        }
        Ok(Self(text.into()))
    }

    /// Returns the expression as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Parses the six fields of an expression.
fn parse_cron_fields(text: &str) -> Result<[CronField; 6], CronError> {
    if text.is_empty() {
        return Err(CronError::Empty);
    }
    let text = if text.starts_with('@') {
        NICKNAMES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text))
            .map(|(_, expression)| *expression)
            .ok_or_else(|| CronError::Nickname(text.to_owned()))?
    } else {
        text
    };
    let mut parts: Vec<&str> = text.split_whitespace().collect();
    match parts.len() {
        5 => parts.insert(0, "0"),
        6 => {}
        count => return Err(CronError::FieldCount(count)),
    }
    let mut fields = [CronField::default(); 6];
    for ((field, unit), part) in fields.iter_mut().zip(CronUnit::ALL).zip(parts) {
        *field = CronField::parse_field(unit, part).map_err(CronError::Field)?;
    }
    Ok(fields)
}

/// True if at least one day matches. Days that depend on the week occur in every month.
fn can_fire([_, _, _, day, month, weekday]: &[CronField; 6]) -> bool {
    const MAX_MONTH_DAYS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let first_day = (day.values | day.month_dependent).trailing_zeros();
    let selected_months =
        (1..=12).zip(MAX_MONTH_DAYS).filter(|(number, _)| month.values & (1_u64 << number) != 0);
    day.has_last_day
        || !weekday.is_wildcard
        || selected_months.into_iter().any(|(_, days)| first_day <= days)
}

impl fmt::Display for CronExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for CronExpression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl JsonSchema for CronExpression {
    fn schema_name() -> Cow<'static, str> {
        "Cron".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Five fields (minute, hour, day of the month, month, day of the week), six with \
                seconds first, or @hourly, @daily, @weekly, @monthly, @yearly.",
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

    fn parse_error(text: &str) -> String {
        CronExpression::parse(text).unwrap_err().to_string()
    }

    /// Returns the values of each field according to the parser that the scheduler uses.
    fn scheduler_values(text: &str) -> [Vec<u16>; 6] {
        let cron = CronParser::builder().year(Year::Disallowed).build().parse(text).unwrap();
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

    fn parsed_values(text: &str) -> [Vec<u16>; 6] {
        parse_cron_fields(text)
            .unwrap()
            .map(|field| (0..64).filter(|value| field.values & (1 << value) != 0).collect())
    }

    #[test]
    fn accepts_all_forms() {
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
            let cron = CronExpression::parse(text).unwrap();
            assert_eq!(cron.as_str(), text.trim());
            assert_eq!(parsed_values(text.trim()), scheduler_values(text), "{text}");
        }
    }

    #[test]
    fn reports_invalid_expressions() {
        let errors = [
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
        .map(|text| format!("{text:<24} {}", parse_error(text)))
        .join("\n");
        insta::assert_snapshot!(errors);
    }

    /// An item of a field with numbers in a range.
    fn arb_item(min: u16, max: u16) -> impl Strategy<Value = String> {
        let value = min..=max;
        prop_oneof![
            value.clone().prop_map(|value| value.to_string()),
            (value.clone(), value.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
            (1..=max).prop_map(|step| format!("*/{step}")),
            (value.clone(), value, 1..=max).prop_map(|(a, b, step)| format!(
                "{}-{}/{step}",
                a.min(b),
                a.max(b)
            )),
            Just("*".to_owned()),
        ]
    }

    fn arb_field(min: u16, max: u16) -> impl Strategy<Value = String> {
        let list = prop::collection::vec(arb_item(min, max), 1..4);
        list.prop_map(|items| {
            if items.iter().any(|item| item == "*") { "*".to_owned() } else { items.join(",") }
        })
    }

    fn arb_expression() -> impl Strategy<Value = String> {
        let day =
            prop_oneof![4 => arb_field(1, 31), 1 => (1..=31_u16).prop_map(|day| format!("{day}W"))];
        let weekday = prop_oneof![
            4 => arb_field(0, 7),
            1 => (0..=7_u16, 1..=5_u16).prop_map(|(day, nth)| format!("{day}#{nth}")),
            1 => prop::sample::select(vec!["MON-FRI", "sat,SUN", "5L", "?", "TUE-SUN/2"]).prop_map(str::to_owned),
        ];
        let second = prop::option::of(arb_field(0, 59));
        (second, arb_field(0, 59), arb_field(0, 23), day, arb_field(1, 12), weekday).prop_map(
            |(second, minute, hour, day, month, weekday)| {
                let second = second.map(|second| format!("{second} ")).unwrap_or_default();
                format!("{second}{minute} {hour} {day} {month} {weekday}")
            },
        )
    }

    proptest! {
        /// An accepted expression fires at the times that the scheduler computes.
        #[test]
        fn agrees_with_scheduler_parser(text in arb_expression()) {
            prop_assert_eq!(parsed_values(&text), scheduler_values(&text));
        }

        /// The scheduler's parser accepts every accepted expression.
        #[test]
        fn accepts_nothing_the_scheduler_rejects(text in "([0-9*/,LW#?A-Z-]{1,4} ){4,5}[0-9*/,L#?-]{1,4}|\\PC{0,12}") {
            if CronExpression::parse(&text).is_ok() {
                prop_assert_eq!(parsed_values(text.trim()), scheduler_values(&text));
            }
        }
    }
}
