//! Formats dates, times and intervals of the server as ISO 8601 texts.
//!
//! The server counts from 2000-01-01, and its years range from 4713 BC to 294276. Years before year
//! 1 are written in ISO numbering: year 0 is 1 BC.

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// Days from 0000-03-01 to 2000-01-01.
const DAYS_TO_2000: i64 = 730_425;

/// Formats a timestamp in microseconds, followed by `zone`.
pub(super) fn format_timestamp(micros: i64, zone: &str) -> String {
    match micros {
        i64::MAX => "infinity".to_owned(),
        i64::MIN => "-infinity".to_owned(),
        _ => {
            let day = format_calendar_date(micros.div_euclid(MICROS_PER_DAY));
            let time = format_time_of_day(micros.rem_euclid(MICROS_PER_DAY));
            format!("{day}T{time}{zone}")
        }
    }
}

/// Formats a date.
pub(super) fn format_date(days: i32) -> String {
    match days {
        i32::MAX => "infinity".to_owned(),
        i32::MIN => "-infinity".to_owned(),
        _ => format_calendar_date(days.into()),
    }
}

/// Formats a time of day in microseconds, including `24:00:00`.
pub(super) fn format_time_of_day(micros: i64) -> String {
    let seconds = micros / MICROS_PER_SECOND;
    let (hours, minutes, rest_seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{rest_seconds:02}{}", format_fraction(micros))
}

/// Formats a time of day with the number of seconds that its zone is behind UTC.
pub(super) fn format_time_with_zone(micros: i64, seconds_west: i32) -> String {
    let sign = if seconds_west > 0 { '-' } else { '+' };
    let offset = seconds_west.unsigned_abs();
    let (hours, minutes, seconds) = (offset / 3600, offset / 60 % 60, offset % 60);
    let mut text = format!("{}{sign}{hours:02}:{minutes:02}", format_time_of_day(micros));
    if seconds != 0 {
        text.push_str(&format!(":{seconds:02}"));
    }
    text
}

/// Formats an interval. Its three parts do not convert into each other, and each has its own sign.
pub(super) fn format_interval(months: i32, days: i32, micros: i64) -> String {
    let mut text = String::from("P");
    push_unit(&mut text, (months / 12).into(), 'Y');
    push_unit(&mut text, (months % 12).into(), 'M');
    push_unit(&mut text, days.into(), 'D');
    if micros != 0 {
        let seconds = micros / MICROS_PER_SECOND;
        text.push('T');
        push_unit(&mut text, seconds / 3600, 'H');
        push_unit(&mut text, seconds / 60 % 60, 'M');
        let (rest, fraction) = (seconds % 60, format_fraction(micros));
        if rest != 0 || !fraction.is_empty() {
            // The sign would be lost if only a fraction is left.
            let sign = if micros < 0 { "-" } else { "" };
            text.push_str(&format!("{sign}{}{fraction}S", rest.abs()));
        }
    }
    if text == "P" { "PT0S".to_owned() } else { text }
}

fn push_unit(text: &mut String, count: i64, unit: char) {
    if count != 0 {
        text.push_str(&format!("{count}{unit}"));
    }
}

/// Fraction of a second with its decimal point, or an empty text.
fn format_fraction(micros: i64) -> String {
    match micros.unsigned_abs() % MICROS_PER_SECOND.unsigned_abs() {
        0 => String::new(),
        rest => format!(".{rest:06}"),
    }
}

/// Formats the date that is `days` after 2000-01-01, in the proleptic Gregorian calendar.
///
/// Years are counted from March, so that a leap day is the last day of its year and the lengths of
/// months follow a linear formula.
fn format_calendar_date(days: i64) -> String {
    const DAYS_PER_ERA: i64 = 146_097;
    let days = days + DAYS_TO_2000;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_from_march + 2) / 5 + 1;
    let month = if months_from_march < 10 { months_from_march + 3 } else { months_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let sign = if year < 0 { "-" } else { "" };
    format!("{sign}{:04}-{month:02}-{day:02}", year.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_calendar_dates() {
        assert_eq!(format_date(0), "2000-01-01");
        assert_eq!(format_date(-1), "1999-12-31");
        assert_eq!(format_date(59), "2000-02-29");
        assert_eq!(format_date(60), "2000-03-01");
        assert_eq!(format_date(8_826), "2024-03-01");
        assert_eq!(format_date(-730_119), "0001-01-01");
        assert_eq!(format_date(-730_120), "0000-12-31");
        assert_eq!(format_date(i32::MAX), "infinity");
    }

    #[test]
    fn formats_times_and_intervals() {
        assert_eq!(format_timestamp(-1, "+00:00"), "1999-12-31T23:59:59.999999+00:00");
        assert_eq!(format_timestamp(i64::MIN, ""), "-infinity");
        assert_eq!(format_time_of_day(MICROS_PER_DAY), "24:00:00");
        assert_eq!(format_time_with_zone(0, -19_800), "00:00:00+05:30");
        assert_eq!(format_time_with_zone(0, 3600), "00:00:00-01:00");
        assert_eq!(format_interval(0, 0, 0), "PT0S");
        assert_eq!(format_interval(14, -3, 3_661_500_000), "P1Y2M-3DT1H1M1.500000S");
        assert_eq!(format_interval(0, 0, -500_000), "PT-0.500000S");
    }
}
