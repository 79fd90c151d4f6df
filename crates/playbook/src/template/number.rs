//! Arithmetic on JSON numbers. Integers are exact within 64 bits. All other numbers are floats, and
//! a float with an integral value becomes an integer again.

use std::cmp::Ordering;

use noetl_types::Json;
use noetl_types::json::JsonValueError;

use super::error::{EvalError, EvalResult};
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
        _ => None,
    }
}

fn as_float(value: &Json) -> Result<f64, MathError> {
    value.as_f64().ok_or(MathError::NotANumber)
}

pub(super) fn negate_number(value: &Json) -> Result<Json, MathError> {
    match as_integer(value) {
        Some(value) => Ok(Json::from_i128(-value)?),
        None => Ok(Json::from_f64(-as_float(value)?)?),
    }
}

pub(super) fn absolute_value(value: &Json) -> Result<Json, MathError> {
    match as_integer(value) {
        Some(value) => Ok(Json::from_i128(value.abs())?),
        None => Ok(Json::from_f64(as_float(value)?.abs())?),
    }
}

/// Applies an operator to two numbers.
pub(super) fn apply_operator(op: MathOp, left: &Json, right: &Json) -> EvalResult<Json> {
    let result = match (as_integer(left), as_integer(right)) {
        (Some(left), Some(right)) => apply_to_integers(op, left, right),
        _ => None,
    };
    let result = result.unwrap_or_else(|| {
        let result = apply_to_floats(op, as_float(left)?, as_float(right)?)?;
        Ok(Json::from_f64(result)?)
    });
    result.map_err(|error| match error {
        MathError::NotANumber => operand_type_error(op, left, right),
        MathError::DivisionByZero | MathError::InvalidResult(_) => {
            EvalError::failed(error.to_string())
        }
    })
}

/// The error of an operator that is not defined for the types of its operands.
pub(super) fn operand_type_error(op: MathOp, left: &Json, right: &Json) -> EvalError {
    let (left, right) = (left.type_name(), right.type_name());
    EvalError::failed(match op {
        MathOp::Add => format!("cannot add {right} to {left}"),
        MathOp::Sub => format!("cannot subtract {right} from {left}"),
        MathOp::Mul => format!("cannot multiply {left} by {right}"),
        MathOp::Div | MathOp::FloorDiv | MathOp::Rem => format!("cannot divide {left} by {right}"),
        MathOp::Pow => format!("cannot raise {left} to {right}"),
        MathOp::Concat => format!("cannot join {left} and {right}"),
    })
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
    Ok(match op {
        MathOp::Div | MathOp::FloorDiv | MathOp::Rem if right == 0.0 => {
            return Err(MathError::DivisionByZero);
        }
        MathOp::Add => left + right,
        MathOp::Sub => left - right,
        MathOp::Mul => left * right,
        MathOp::Div => left / right,
        MathOp::FloorDiv => (left / right).floor(),
        MathOp::Rem => {
            let remainder = left % right;
            // The result has the sign of the divisor.
            let differs = remainder != 0.0 && (remainder < 0.0) != (right < 0.0);
            if differs { remainder + right } else { remainder }
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
    let number = as_float(value)?;
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

/// Parses an integer in another base, with or without the prefix of that base.
pub(super) fn parse_in_base(text: &str, base: usize) -> Option<Json> {
    let radix = u32::try_from(base).ok().filter(|radix| (2..=36).contains(radix))?;
    // More digits than this exceed 64 bits in any base.
    let text = text.trim();
    if text.len() > 80 {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let (sign, digits) = lower.strip_prefix('-').map_or((1, lower.as_str()), |digits| (-1, digits));
    let prefix = match radix {
        2 => "0b",
        8 => "0o",
        16 => "0x",
        _ => "",
    };
    let digits = digits.strip_prefix(prefix).unwrap_or(digits);
    Json::from_i128(sign * i128::from_str_radix(digits, radix).ok()?).ok()
}

/// The integral part of a number, if it fits 64 bits.
pub(super) fn truncate_number(value: &Json) -> Option<Json> {
    if as_integer(value).is_some() {
        return Some(value.clone());
    }
    let truncated = Json::from_f64(value.as_f64()?.trunc()).ok()?;
    as_integer(&truncated).is_some().then_some(truncated)
}

/// The order of two numbers, exact for any mix of integers and floats.
pub(super) fn compare_numbers(left: &Json, right: &Json) -> Option<Ordering> {
    match (as_integer(left), as_integer(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        (Some(left), None) => Some(compare_integer_to_float(left, right.as_f64()?)),
        (None, Some(right)) => Some(compare_integer_to_float(right, left.as_f64()?).reverse()),
        (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

/// A float is never a whole number of 64 bits, so it is never equal to an integer.
fn compare_integer_to_float(integer: i128, float: f64) -> Ordering {
    #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
    let floor = float.floor() as i128;
    if integer <= floor { Ordering::Less } else { Ordering::Greater }
}
