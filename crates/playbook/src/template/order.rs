//! One total order over all values, and what is built on it: equality, membership, sorting.
//!
//! Values of different types are ordered by type. Every comparison is metered, since two small
//! values can hold the same large part many times over.

use std::cmp::Ordering;
use std::sync::Arc;

use noetl_types::Json;

use super::error::{Outcome, Stop};
use super::meter::Meter;
use super::number::integer;

/// Compares two values.
pub(super) fn compare(left: &Json, right: &Json, meter: &Meter) -> Outcome<Ordering> {
    meter.work(1)?;
    match (left, right) {
        (Json::Bool(left), Json::Bool(right)) => Ok(left.cmp(right)),
        (Json::Str(left), Json::Str(right)) => texts(left, right, meter),
        (Json::List(left), Json::List(right)) => {
            if Arc::ptr_eq(left, right) {
                return Ok(Ordering::Equal);
            }
            pairs(
                left.iter().zip(right.iter()),
                left.len().cmp(&right.len()),
                |(a, b)| compare(a, b, meter),
            )
        }
        (Json::Map(left), Json::Map(right)) => {
            if Arc::ptr_eq(left, right) {
                return Ok(Ordering::Equal);
            }
            pairs(
                left.iter().zip(right.iter()),
                left.len().cmp(&right.len()),
                |(a, b)| {
                    let keys = texts(a.0, b.0, meter)?;
                    if keys.is_ne() {
                        Ok(keys)
                    } else {
                        compare(a.1, b.1, meter)
                    }
                },
            )
        }
        _ => match numbers(left, right) {
            Some(order) => Ok(order),
            None => Ok(rank(left).cmp(&rank(right))),
        },
    }
}

/// Whether two values are the same.
pub(super) fn equal(left: &Json, right: &Json, meter: &Meter) -> Outcome<bool> {
    compare(left, right, meter).map(Ordering::is_eq)
}

/// The first difference, else what the lengths say.
fn pairs<T>(
    items: impl Iterator<Item = T>,
    lengths: Ordering,
    compare: impl Fn(T) -> Outcome<Ordering>,
) -> Outcome<Ordering> {
    for item in items {
        let order = compare(item)?;
        if order.is_ne() {
            return Ok(order);
        }
    }
    Ok(lengths)
}

fn texts(left: &Arc<str>, right: &Arc<str>, meter: &Meter) -> Outcome<Ordering> {
    if Arc::ptr_eq(left, right) {
        return Ok(Ordering::Equal);
    }
    meter.scan(left.len().min(right.len()))?;
    Ok(left.cmp(right))
}

/// The order of two numbers, exact for any mix of integers and floats.
fn numbers(left: &Json, right: &Json) -> Option<Ordering> {
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        (Some(left), None) => Some(integer_to_float(left, right.as_f64()?)),
        (None, Some(right)) => Some(integer_to_float(right, left.as_f64()?).reverse()),
        (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

/// A float is never a whole number of 64 bits, so it is never equal to an integer.
fn integer_to_float(integer: i128, float: f64) -> Ordering {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a cast of a float saturates"
    )]
    let floor = float.floor() as i128;
    if integer <= floor {
        Ordering::Less
    } else {
        Ordering::Greater
    }
}

fn rank(value: &Json) -> u8 {
    match value {
        Json::Null => 0,
        Json::Bool(_) => 1,
        Json::Int(_) | Json::UInt(_) | Json::Float(_) => 2,
        Json::Str(_) => 3,
        Json::List(_) => 4,
        Json::Map(_) => 5,
    }
}

/// Whether `container` holds `item`: a key of a map, an item of a list, a part of a text.
pub(super) fn contains(container: &Json, item: &Json, meter: &Meter) -> Outcome<bool> {
    match (container, item) {
        (Json::Str(text), Json::Str(part)) => {
            meter.scan(text.len())?;
            Ok(text.contains(&**part))
        }
        (Json::Str(_), _) => Err(Stop::failed(format!(
            "a text cannot contain a {}",
            item.type_name()
        ))),
        (Json::List(items), _) => {
            for candidate in items.iter() {
                if equal(candidate, item, meter)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (Json::Map(map), Json::Str(key)) => Ok(map.contains_key(key)),
        (Json::Map(map), _) if integer(item).is_some() => {
            Ok(map.contains_key(item.to_string().as_str()))
        }
        (Json::Null | Json::Map(_), _) => Ok(false),
        (Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_), _) => Err(Stop::failed(
            format!("a {} contains nothing", container.type_name()),
        )),
    }
}

/// Sorts by a comparison that may fail; equals keep their order.
///
/// The sort of the standard library cannot be stopped midway, and a comparison may be as long as
/// the data is large.
pub(super) fn sort<T>(
    mut items: Vec<T>,
    compare: &mut impl FnMut(&T, &T) -> Outcome<Ordering>,
) -> Outcome<Vec<T>> {
    if items.len() < 2 {
        return Ok(items);
    }
    let upper = items.split_off(items.len() / 2);
    let mut lower = sort(items, compare)?.into_iter().peekable();
    let mut upper = sort(upper, compare)?.into_iter().peekable();
    let mut merged = Vec::with_capacity(lower.len() + upper.len());
    while let (Some(low), Some(high)) = (lower.peek(), upper.peek()) {
        let from_upper = compare(low, high)?.is_gt();
        merged.extend(if from_upper {
            upper.next()
        } else {
            lower.next()
        });
    }
    merged.extend(lower);
    merged.extend(upper);
    Ok(merged)
}
