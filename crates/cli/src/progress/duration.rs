//! Durations for people.

use noetl_types::Millis;

/// A duration in the unit that tells the most in the fewest letters.
pub(crate) fn human(duration: Millis) -> String {
    let ms = duration.as_ms();
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        3_600_000.. => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_fits_the_duration() {
        let told = |ms| human(Millis::from_ms(ms));
        assert_eq!(
            [
                0, 999, 1_000, 12_345, 59_999, 60_000, 3_599_999, 3_600_000, 90_000_000
            ]
            .map(told),
            [
                "0 ms",
                "999 ms",
                "1.0 s",
                "12.3 s",
                "59.9 s",
                "1 min 0 s",
                "59 min 59 s",
                "1 h 0 min",
                "25 h 0 min"
            ]
        );
    }
}
