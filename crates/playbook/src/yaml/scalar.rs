//! Plain scalars according to the core schema of YAML 1.2: `yes`, `on` and `1_000` are strings.

use noetl_types::Json;

/// Converts a plain scalar to its value. `None` means a string.
pub(super) fn resolve_plain_scalar(text: &str) -> Result<Option<Json>, &'static str> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Some(Json::Null),
        "true" | "True" | "TRUE" => Some(Json::Bool(true)),
        "false" | "False" | "FALSE" => Some(Json::Bool(false)),
        _ => return resolve_number(text),
    })
}

fn resolve_number(text: &str) -> Result<Option<Json>, &'static str> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Err("a number must be finite");
    }
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        if let Some(digits) = text.strip_prefix(prefix)
            && !digits.is_empty()
            && digits.chars().all(|c| c.is_digit(radix))
        {
            return u64::from_str_radix(digits, radix)
                .map(|value| Some(Json::from(value)))
                .map_err(|_| "the integer does not fit in 64 bits");
        }
    }
    if !looks_like_decimal(unsigned) {
        return Ok(None);
    }
    if let Ok(value) = text.parse::<i128>()
        && let Ok(json) = Json::from_i128(value)
    {
        return Ok(Some(json));
    }
    let value: f64 = text.parse().map_err(|_| "invalid number")?;
    Json::from_f64(value).map(Some).map_err(|_| "a number must be finite")
}

/// Matches `[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?` or `\.[0-9]+([eE]…)?`, without a sign.
fn looks_like_decimal(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some((whole, fraction)) => {
            digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty())
        }
        None => !mantissa.is_empty() && digits(mantissa),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    mantissa_fits && exponent_fits
}

#[cfg(test)]
mod tests;
