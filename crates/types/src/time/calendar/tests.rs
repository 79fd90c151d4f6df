use super::*;

/// Walks every day of all years with a naive calendar.
#[test]
fn matches_naive_calendar() {
    let mut epoch_day = -719_162;
    for year in YEARS {
        for month in 1..=12 {
            for day in 1..=days_in_month(year, month) {
                let date = CivilDate { year, month, day };
                assert_eq!(date.epoch_day(), epoch_day);
                assert_eq!(CivilDate::from_epoch_day(epoch_day), date);
                epoch_day += 1;
            }
        }
    }
    assert_eq!(epoch_day, 2_932_897, "the day after 9999-12-31");
}

#[test]
fn rejects_invalid_dates() {
    for (year, month, day) in [
        (2026, 2, 29),
        (1900, 2, 29),
        (2026, 4, 31),
        (2026, 0, 1),
        (2026, 13, 1),
        (2026, 1, 0),
        (2026, 1, 32),
        (0, 1, 1),
        (10_000, 1, 1),
    ] {
        assert_eq!(CivilDate::new(year, month, day), None, "{year}-{month}-{day}");
    }
    assert!(CivilDate::new(2000, 2, 29).is_some());
    assert!(CivilDate::new(2024, 2, 29).is_some());
}

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
