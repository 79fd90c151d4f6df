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
