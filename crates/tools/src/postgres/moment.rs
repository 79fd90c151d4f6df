//! Dates, times and intervals of the server as ISO texts.
//!
//! The server counts from the first day of the year 2000, and its years reach from 4713 BC to
//! 294276. Years before the first are written as ISO counts them: the year 0 is 1 BC.

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// Days from the first of March of the year 0 to the first of January of the year 2000.
const DAYS_TO_2000: i64 = 730_425;

/// A point in time in microseconds, with what is to stand behind it.
pub(super) fn timestamp(micros: i64, zone: &str) -> String {
    match micros {
        i64::MAX => "infinity".to_owned(),
        i64::MIN => "-infinity".to_owned(),
        _ => {
            let day = calendar(micros.div_euclid(MICROS_PER_DAY));
            let time = time(micros.rem_euclid(MICROS_PER_DAY));
            format!("{day}T{time}{zone}")
        }
    }
}

/// A day.
pub(super) fn date(days: i32) -> String {
    match days {
        i32::MAX => "infinity".to_owned(),
        i32::MIN => "-infinity".to_owned(),
        _ => calendar(days.into()),
    }
}

/// A time of day in microseconds; `24:00:00` is one.
pub(super) fn time(micros: i64) -> String {
    let seconds = micros / MICROS_PER_SECOND;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{rest:02}{}", fraction(micros))
}

/// A time of day with the seconds that its zone is behind UTC.
pub(super) fn time_with_zone(micros: i64, behind: i32) -> String {
    let sign = if behind > 0 { '-' } else { '+' };
    let offset = behind.unsigned_abs();
    let (hours, minutes, seconds) = (offset / 3600, offset / 60 % 60, offset % 60);
    let mut text = format!("{}{sign}{hours:02}:{minutes:02}", time(micros));
    if seconds != 0 {
        text.push_str(&format!(":{seconds:02}"));
    }
    text
}

/// An interval: its three parts do not convert into each other, and each has its own sign.
pub(super) fn interval(months: i32, days: i32, micros: i64) -> String {
    let mut text = String::from("P");
    put(&mut text, (months / 12).into(), 'Y');
    put(&mut text, (months % 12).into(), 'M');
    put(&mut text, days.into(), 'D');
    if micros != 0 {
        let seconds = micros / MICROS_PER_SECOND;
        text.push('T');
        put(&mut text, seconds / 3600, 'H');
        put(&mut text, seconds / 60 % 60, 'M');
        let (rest, fraction) = (seconds % 60, fraction(micros));
        if rest != 0 || !fraction.is_empty() {
            // The sign would get lost where only a fraction is left.
            let sign = if micros < 0 { "-" } else { "" };
            text.push_str(&format!("{sign}{}{fraction}S", rest.abs()));
        }
    }
    if text == "P" { "PT0S".to_owned() } else { text }
}

fn put(text: &mut String, count: i64, unit: char) {
    if count != 0 {
        text.push_str(&format!("{count}{unit}"));
    }
}

/// The part below a second, with its point, or nothing.
fn fraction(micros: i64) -> String {
    match micros.unsigned_abs() % MICROS_PER_SECOND.unsigned_abs() {
        0 => String::new(),
        rest => format!(".{rest:06}"),
    }
}

/// The date so many days after the first of January 2000, in the proleptic Gregorian calendar.
///
/// Years are taken to begin in March, so that a leap day is the last of its year and months have
/// lengths that a line can be laid through.
fn calendar(days: i64) -> String {
    const DAYS_PER_ERA: i64 = 146_097;
    let days = days + DAYS_TO_2000;
    let era = days.div_euclid(DAYS_PER_ERA);
    let of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let sign = if year < 0 { "-" } else { "" };
    format!("{sign}{:04}-{month:02}-{day:02}", year.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar() {
        assert_eq!(date(0), "2000-01-01");
        assert_eq!(date(-1), "1999-12-31");
        assert_eq!(date(59), "2000-02-29");
        assert_eq!(date(60), "2000-03-01");
        assert_eq!(date(8_826), "2024-03-01");
        assert_eq!(date(-730_119), "0001-01-01");
        assert_eq!(date(-730_120), "0000-12-31");
        assert_eq!(date(i32::MAX), "infinity");
    }

    #[test]
    fn times_and_intervals() {
        assert_eq!(timestamp(-1, "+00:00"), "1999-12-31T23:59:59.999999+00:00");
        assert_eq!(timestamp(i64::MIN, ""), "-infinity");
        assert_eq!(time(MICROS_PER_DAY), "24:00:00");
        assert_eq!(time_with_zone(0, -19_800), "00:00:00+05:30");
        assert_eq!(time_with_zone(0, 3600), "00:00:00-01:00");
        assert_eq!(interval(0, 0, 0), "PT0S");
        assert_eq!(interval(14, -3, 3_661_500_000), "P1Y2M-3DT1H1M1.500000S");
        assert_eq!(interval(0, 0, -500_000), "PT-0.500000S");
    }
}
