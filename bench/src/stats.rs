//! Percentiles and medians of measured values, without interpolation.

use std::time::Duration;

/// Returns the nearest-rank percentile, or `None` if there are no values.
pub(crate) fn percentile(values: &[f64], percent: u32) -> Option<f64> {
    let mut ordered = values.to_vec();
    ordered.sort_by(f64::total_cmp);
    ordered.get(nearest_rank(ordered.len(), percent)?).copied()
}

/// Returns the index of a percentile among `count` sorted values.
fn nearest_rank(count: usize, percent: u32) -> Option<usize> {
    let percent = usize::try_from(percent).ok()?;
    let index = (count * percent).div_ceil(100).max(1) - 1;
    (index < count).then_some(index)
}

/// Returns the item whose value is the median, the lower one of two.
pub(crate) fn median_by<T>(mut items: Vec<T>, value: impl Fn(&T) -> f64) -> Option<T> {
    items.sort_by(|left, right| value(left).total_cmp(&value(right)));
    let index = nearest_rank(items.len(), 50)?;
    items.into_iter().nth(index)
}

/// Converts to milliseconds.
pub(crate) fn to_ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_uses_nearest_rank() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 50), Some(100.0));
        assert_eq!(percentile(&values, 99), Some(198.0));
        assert_eq!(percentile(&values, 100), Some(200.0));
        assert_eq!(percentile(&values, 0), Some(1.0));
        assert_eq!(percentile(&[7.0], 99), Some(7.0));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn median_is_one_of_the_items() {
        let value = |item: &(char, f64)| item.1;
        let three = vec![('a', 3.0), ('b', 1.0), ('c', 2.0)];
        assert_eq!(median_by(three, value), Some(('c', 2.0)));
        let two = vec![('a', 3.0), ('b', 1.0)];
        assert_eq!(median_by(two, value), Some(('b', 1.0)));
        assert_eq!(median_by(Vec::new(), value), None);
    }
}
