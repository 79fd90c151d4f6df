//! Integers of request bodies.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Number;

/// Magnitude from which a number counts as out of the range of `i64`.
const MAX_INTEGER: f64 = 9.2e18;

/// Deserializes an integer. One above the range of `i64` becomes its maximum, so that the service
/// reports it as out of range and not as a malformed body.
pub(crate) fn clamp_to_i64<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<i64>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    if let Some(integer) = number.as_i64() {
        return Ok(Some(integer));
    }
    match number.as_f64() {
        Some(large) if large >= MAX_INTEGER => Ok(Some(i64::MAX)),
        _ => Err(D::Error::custom(format_args!("invalid type: number {number}, expected i64"))),
    }
}

#[cfg(test)]
mod tests;
