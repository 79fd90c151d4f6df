//! Arithmetic on JSON numbers. Integers are exact within 64 bits. All other numbers are floats, and
//! a float with an integral value becomes an integer again.

use noetl_types::Json;
use noetl_types::json::JsonValueError;

use super::program::MathOp;

/// Errors of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum MathError {
    #[error("not a number")]
    NotANumber,
    #[error("division by zero")]
    DivisionByZero,
    #[error(transparent)]
    InvalidResult(#[from] JsonValueError),
}

/// The value as a wide integer, if it is an integer.
pub(super) fn as_integer(value: &Json) -> Option<i128> {
    match value {
        Json::Int(value) => Some((*value).into()),
        Json::UInt(value) => Some((*value).into()),
        Json::Null
        | Json::Bool(_)
        | Json::Float(_)
        | Json::Str(_)
        | Json::List(_)
        | Json::Map(_) => None,
    }
}

pub(super) fn negate_number(value: &Json) -> Result<Json, MathError> {
    if let Some(value) = as_integer(value) {
        return Ok(Json::from_i128(-value)?);
    }
    let value = value.as_f64().ok_or(MathError::NotANumber)?;
    Ok(Json::from_f64(-value)?)
}

pub(super) fn absolute_value(value: &Json) -> Result<Json, MathError> {
    if let Some(value) = as_integer(value) {
        return Ok(Json::from_i128(value.abs())?);
    }
    let value = value.as_f64().ok_or(MathError::NotANumber)?;
    Ok(Json::from_f64(value.abs())?)
}

/// Applies an operator to two numbers.
pub(super) fn apply_operator(op: MathOp, left: &Json, right: &Json) -> Result<Json, MathError> {
    if let (Some(left), Some(right)) = (as_integer(left), as_integer(right))
        && let Some(result) = apply_to_integers(op, left, right)
    {
        return result;
    }
    let left = left.as_f64().ok_or(MathError::NotANumber)?;
    let right = right.as_f64().ok_or(MathError::NotANumber)?;
    Ok(Json::from_f64(apply_to_floats(op, left, right)?)?)
}

/// The exact result, or `None` if the result is a float.
fn apply_to_integers(op: MathOp, left: i128, right: i128) -> Option<Result<Json, MathError>> {
    let result = match op {
        // Operands have 64 bits, so sums fit 128 bits. Results that do not fit 64 bits are rejected
        // below.
        MathOp::Add => left + right,
        MathOp::Sub => left - right,
        MathOp::Mul => left.checked_mul(right).unwrap_or(i128::MAX),
        MathOp::FloorDiv | MathOp::Rem if right == 0 => {
            return Some(Err(MathError::DivisionByZero));
        }
        MathOp::FloorDiv => floor_div(left, right),
        MathOp::Rem => left - floor_div(left, right) * right,
        MathOp::Pow if right < 0 => return None,
        MathOp::Pow => integer_power(left, right),
        MathOp::Div | MathOp::Concat => return None,
    };
    Some(Json::from_i128(result).map_err(MathError::from))
}

fn floor_div(left: i128, right: i128) -> i128 {
    let quotient = left / right;
    let rounded_up = left % right != 0 && (left < 0) != (right < 0);
    quotient - i128::from(rounded_up)
}

/// `base ** exponent`. Saturates at 128 bits, which does not fit 64 bits either.
fn integer_power(base: i128, exponent: i128) -> i128 {
    match base {
        0 | 1 if exponent > 0 => base,
        -1 => 1 - 2 * (exponent % 2),
        _ => u32::try_from(exponent)
            .ok()
            .and_then(|exponent| base.checked_pow(exponent))
            .unwrap_or(i128::MAX),
    }
}

fn apply_to_floats(op: MathOp, left: f64, right: f64) -> Result<f64, MathError> {
    let divides = matches!(op, MathOp::Div | MathOp::FloorDiv | MathOp::Rem);
    if divides && right == 0.0 {
        return Err(MathError::DivisionByZero);
    }
    Ok(match op {
        MathOp::Add => left + right,
        MathOp::Sub => left - right,
        MathOp::Mul => left * right,
        MathOp::Div => left / right,
        MathOp::FloorDiv => (left / right).floor(),
        MathOp::Rem => {
            let remainder = left % right;
            // The result has the sign of the divisor.
            if remainder != 0.0 && (remainder < 0.0) != (right < 0.0) {
                remainder + right
            } else {
                remainder
            }
        }
        // libm instead of the platform's `pow`: the same expression must give the same bits
        // everywhere.
        MathOp::Pow => libm::pow(left, right),
        MathOp::Concat => return Err(MathError::NotANumber),
    })
}

/// Rounding modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoundingMode {
    /// To the nearest, ties to even.
    Common,
    Up,
    Down,
}

/// Rounds to a number of digits after the decimal point. A negative number rounds to tens, hundreds
/// and so on.
pub(super) fn round_number(
    value: &Json,
    digits: i32,
    rounding: RoundingMode,
) -> Result<Json, MathError> {
    if digits >= 0 && as_integer(value).is_some() {
        return Ok(value.clone());
    }
    let number = value.as_f64().ok_or(MathError::NotANumber)?;
    // No float has more digits than this on either side of the decimal point.
    let digits = digits.clamp(-308, 308);
    if rounding == RoundingMode::Common && digits >= 0 {
        // Formatting rounds the exact decimal value. Scaling by a power of ten would not.
        let places = digits.unsigned_abs() as usize;
        let printed = format!("{number:.places$}");
        return Ok(Json::from_f64(printed.parse().unwrap_or(number))?);
    }
    let scale = libm::pow(10.0, f64::from(digits));
    let scaled = number * scale;
    let rounded = match rounding {
        RoundingMode::Common => scaled.round_ties_even(),
        RoundingMode::Up => scaled.ceil(),
        RoundingMode::Down => scaled.floor(),
    };
    let result = rounded / scale;
    Ok(Json::from_f64(if result.is_finite() { result } else { number })?)
}

/// Parses a text as a number. Integers are exact, everything else is a float.
pub(super) fn parse_number(text: &str) -> Option<Json> {
    let text = text.trim();
    if let Ok(value) = text.parse::<i128>() {
        return Json::from_i128(value).ok();
    }
    // `inf`, `nan` and the like are words, not numbers.
    if text.bytes().any(|byte| byte.is_ascii_alphabetic() && !matches!(byte, b'e' | b'E')) {
        return None;
    }
    Json::from_f64(text.parse().ok()?).ok()
}

/// The integral part of a number, if it fits 64 bits.
pub(super) fn truncate_number(value: &Json) -> Option<Json> {
    if as_integer(value).is_some() {
        return Some(value.clone());
    }
    let truncated = Json::from_f64(value.as_f64()?.trunc()).ok()?;
    as_integer(&truncated).is_some().then_some(truncated)
}
