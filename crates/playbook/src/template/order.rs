//! A total order over all values, and the operations based on it: equality, membership and sorting.
//!
//! Values of different types are ordered by type. Every comparison is metered, because two small
//! values can share the same large part many times over.

use std::cmp::Ordering;
use std::sync::Arc;

use noetl_types::Json;

use super::error::{EvalError, EvalResult};
use super::meter::RenderMeter;
use super::number::{as_integer, compare_numbers};

/// Compares two values.
pub(super) fn compare_values(
    left: &Json,
    right: &Json,
    meter: &RenderMeter,
) -> EvalResult<Ordering> {
    meter.charge_fuel(1)?;
    match (left, right) {
        (Json::Bool(left), Json::Bool(right)) => Ok(left.cmp(right)),
        (Json::Str(left), Json::Str(right)) => compare_texts(left, right, meter),
        (Json::List(left), Json::List(right)) => {
            if Arc::ptr_eq(left, right) {
                return Ok(Ordering::Equal);
            }
            compare_pairs(left.iter().zip(right.iter()), left.len().cmp(&right.len()), |(a, b)| {
                compare_values(a, b, meter)
            })
        }
        (Json::Map(left), Json::Map(right)) => {
            if Arc::ptr_eq(left, right) {
                return Ok(Ordering::Equal);
            }
            compare_pairs(left.iter().zip(right.iter()), left.len().cmp(&right.len()), |(a, b)| {
                let keys = compare_texts(a.0, b.0, meter)?;
                if keys.is_ne() { Ok(keys) } else { compare_values(a.1, b.1, meter) }
            })
        }
        _ => {
            Ok(compare_numbers(left, right)
                .unwrap_or_else(|| type_rank(left).cmp(&type_rank(right))))
        }
    }
}

/// Returns true if two values are equal.
pub(super) fn values_equal(left: &Json, right: &Json, meter: &RenderMeter) -> EvalResult<bool> {
    compare_values(left, right, meter).map(Ordering::is_eq)
}

/// The first difference, or the order of the lengths if all pairs are equal.
fn compare_pairs<T>(
    items: impl Iterator<Item = T>,
    lengths: Ordering,
    compare: impl Fn(T) -> EvalResult<Ordering>,
) -> EvalResult<Ordering> {
    for item in items {
        let order = compare(item)?;
        if order.is_ne() {
            return Ok(order);
        }
    }
    Ok(lengths)
}

fn compare_texts(left: &Arc<str>, right: &Arc<str>, meter: &RenderMeter) -> EvalResult<Ordering> {
    if Arc::ptr_eq(left, right) {
        return Ok(Ordering::Equal);
    }
    meter.charge_scan(left.len().min(right.len()))?;
    Ok(left.cmp(right))
}

fn type_rank(value: &Json) -> u8 {
    match value {
        Json::Null => 0,
        Json::Bool(_) => 1,
        Json::Int(_) | Json::UInt(_) | Json::Float(_) => 2,
        Json::Str(_) => 3,
        Json::List(_) => 4,
        Json::Map(_) => 5,
    }
}

/// Returns true if `container` has `item` as a map key, a list item or a part of a text.
pub(super) fn contains_value(
    container: &Json,
    item: &Json,
    meter: &RenderMeter,
) -> EvalResult<bool> {
    match (container, item) {
        (Json::Str(text), Json::Str(part)) => {
            meter.charge_scan(text.len())?;
            Ok(text.contains(&**part))
        }
        (Json::Str(_), _) => {
            Err(EvalError::failed(format!("a text cannot contain a {}", item.type_name())))
        }
        (Json::List(items), _) => {
            for candidate in items.iter() {
                if values_equal(candidate, item, meter)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (Json::Map(map), Json::Str(key)) => Ok(map.contains_key(key)),
        (Json::Map(map), _) if as_integer(item).is_some() => {
            Ok(map.contains_key(item.to_string().as_str()))
        }
        (Json::Null | Json::Map(_), _) => Ok(false),
        _ => Err(EvalError::failed(format!("a {} contains nothing", container.type_name()))),
    }
}

/// Stable sort with a comparison that may fail.
///
/// The standard library's sort cannot be stopped midway, and one comparison may take time
/// proportional to the data.
pub(super) fn merge_sort<T>(
    mut items: Vec<T>,
    compare: &mut impl FnMut(&T, &T) -> EvalResult<Ordering>,
) -> EvalResult<Vec<T>> {
    if items.len() < 2 {
        return Ok(items);
    }
    let upper = items.split_off(items.len() / 2);
    let mut lower = merge_sort(items, compare)?.into_iter().peekable();
    let mut upper = merge_sort(upper, compare)?.into_iter().peekable();
    let mut merged = Vec::with_capacity(lower.len() + upper.len());
    while let (Some(low), Some(high)) = (lower.peek(), upper.peek()) {
        let from_upper = compare(low, high)?.is_gt();
        merged.extend(if from_upper { upper.next() } else { lower.next() });
    }
    merged.extend(lower);
    merged.extend(upper);
    Ok(merged)
}
