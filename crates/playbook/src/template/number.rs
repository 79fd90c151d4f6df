//! Arithmetic on the numbers of JSON: integers are exact within 64 bits, everything else is a
//! float, and a float that is a whole number is an integer again.

use noetl_types::Json;
use noetl_types::json::JsonRefused;

use super::program::MathOp;

/// Why an operation on numbers has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum MathError {
    #[error("not a number")]
    NotANumber,
    #[error("division by zero")]
    DivisionByZero,
    #[error(transparent)]
    Refused(#[from] JsonRefused),
}

/// The value as a wide integer, if it is one.
pub(super) fn integer(value: &Json) -> Option<i128> {
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

pub(super) fn negative(value: &Json) -> Result<Json, MathError> {
    if let Some(value) = integer(value) {
        return Ok(Json::from_i128(-value)?);
    }
    let value = value.as_f64().ok_or(MathError::NotANumber)?;
    Ok(Json::from_f64(-value)?)
}

pub(super) fn absolute(value: &Json) -> Result<Json, MathError> {
    if let Some(value) = integer(value) {
        return Ok(Json::from_i128(value.abs())?);
    }
    let value = value.as_f64().ok_or(MathError::NotANumber)?;
    Ok(Json::from_f64(value.abs())?)
}

/// Applies an operator to two numbers.
pub(super) fn apply(op: MathOp, left: &Json, right: &Json) -> Result<Json, MathError> {
    if let (Some(left), Some(right)) = (integer(left), integer(right))
        && let Some(result) = of_integers(op, left, right)
    {
        return result;
    }
    let left = left.as_f64().ok_or(MathError::NotANumber)?;
    let right = right.as_f64().ok_or(MathError::NotANumber)?;
    Ok(Json::from_f64(of_floats(op, left, right)?)?)
}

/// The exact result, or nothing where it is a float.
fn of_integers(op: MathOp, left: i128, right: i128) -> Option<Result<Json, MathError>> {
    let result = match op {
        // Operands have 64 bits: sums stay within 128, and what leaves them is refused anyway.
        MathOp::Add => left + right,
        MathOp::Sub => left - right,
        MathOp::Mul => left.checked_mul(right).unwrap_or(i128::MAX),
        MathOp::FloorDiv | MathOp::Rem if right == 0 => {
            return Some(Err(MathError::DivisionByZero));
        }
        MathOp::FloorDiv => floor_div(left, right),
        MathOp::Rem => left - floor_div(left, right) * right,
        MathOp::Pow if right < 0 => return None,
        MathOp::Pow => power(left, right),
        MathOp::Div | MathOp::Concat => return None,
    };
    Some(Json::from_i128(result).map_err(MathError::from))
}

fn floor_div(left: i128, right: i128) -> i128 {
    let quotient = left / right;
    let rounded_up = left % right != 0 && (left < 0) != (right < 0);
    quotient - i128::from(rounded_up)
}

/// `base ** exponent`; whatever leaves 128 bits also leaves 64.
fn power(base: i128, exponent: i128) -> i128 {
    match base {
        0 | 1 if exponent > 0 => base,
        -1 => 1 - 2 * (exponent % 2),
        _ => u32::try_from(exponent)
            .ok()
            .and_then(|exponent| base.checked_pow(exponent))
            .unwrap_or(i128::MAX),
    }
}

fn of_floats(op: MathOp, left: f64, right: f64) -> Result<f64, MathError> {
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
            let rest = left % right;
            // The result has the sign of the divisor.
            if rest != 0.0 && (rest < 0.0) != (right < 0.0) {
                rest + right
            } else {
                rest
            }
        }
        // Not the platform's own: the same expression must give the same bits everywhere.
        MathOp::Pow => libm::pow(left, right),
        MathOp::Concat => return Err(MathError::NotANumber),
    })
}

/// How to round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    /// To the nearest, a tie to the even digit.
    Common,
    Up,
    Down,
}

/// Rounds to so many digits after the point; a negative number of them rounds tens, hundreds …
pub(super) fn round(value: &Json, digits: i32, rounding: Rounding) -> Result<Json, MathError> {
    if digits >= 0 && integer(value).is_some() {
        return Ok(value.clone());
    }
    let number = value.as_f64().ok_or(MathError::NotANumber)?;
    // No float has more digits than this on either side of its point.
    let digits = digits.clamp(-308, 308);
    if rounding == Rounding::Common && digits >= 0 {
        // Printing rounds the exact decimal value, which scaling by a power of ten would not.
        let places = digits.unsigned_abs() as usize;
        let printed = format!("{number:.places$}");
        return Ok(Json::from_f64(printed.parse().unwrap_or(number))?);
    }
    let scale = libm::pow(10.0, f64::from(digits));
    let scaled = number * scale;
    let rounded = match rounding {
        Rounding::Common => scaled.round_ties_even(),
        Rounding::Up => scaled.ceil(),
        Rounding::Down => scaled.floor(),
    };
    let result = rounded / scale;
    Ok(Json::from_f64(if result.is_finite() {
        result
    } else {
        number
    })?)
}

/// Reads a text as a number: an integer exactly, anything else through a float.
pub(super) fn parse(text: &str) -> Option<Json> {
    let text = text.trim();
    if let Ok(value) = text.parse::<i128>() {
        return Json::from_i128(value).ok();
    }
    // `inf`, `nan` and the like are words, not numbers.
    if text
        .bytes()
        .any(|byte| byte.is_ascii_alphabetic() && !matches!(byte, b'e' | b'E'))
    {
        return None;
    }
    Json::from_f64(text.parse().ok()?).ok()
}

/// The whole part of a number, if it fits 64 bits.
pub(super) fn truncated(value: &Json) -> Option<Json> {
    if integer(value).is_some() {
        return Some(value.clone());
    }
    let whole = Json::from_f64(value.as_f64()?.trunc()).ok()?;
    integer(&whole).is_some().then_some(whole)
}
