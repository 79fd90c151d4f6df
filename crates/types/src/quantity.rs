//! A decimal number with a unit, as in durations and sizes of playbooks.

/// Error for a text that is not a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuantityError {
    /// Not a number followed by a unit.
    Shape,
    /// A number with an unknown unit.
    Unit,
    /// The quantity does not fit 64 bits.
    TooBig,
}

/// A number of units.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantity<'t> {
    whole: &'t str,
    /// Digits after the decimal point, if there is one.
    fraction: Option<&'t str>,
    /// Text after the number; empty if there is no unit.
    pub(crate) unit: &'t str,
}

impl<'t> Quantity<'t> {
    /// Splits `1.5h` into its parts. Ignores surrounding blanks and rejects blanks inside.
    pub(crate) fn parse(text: &'t str) -> Result<Self, QuantityError> {
        let (whole, rest) = split_digits(text.trim());
        let (fraction, unit) = match rest.strip_prefix('.') {
            Some(rest) => {
                let (fraction, unit) = split_digits(rest);
                (Some(fraction), unit)
            }
            None => (None, rest),
        };
        if whole.is_empty() || fraction.is_some_and(str::is_empty) {
            return Err(QuantityError::Shape);
        }
        Ok(Self { whole, fraction, unit })
    }

    /// True if the number has a decimal point.
    pub(crate) fn is_decimal(&self) -> bool {
        self.fraction.is_some()
    }

    /// Converts to base units, where one unit is `factor` base units. Rounds to the nearest whole
    /// number.
    pub(crate) fn scale_to_base_units(&self, factor: u64) -> Result<u64, QuantityError> {
        // More digits cannot change a rounded 64-bit result of any supported unit.
        const MAX_DIGITS: usize = 18;
        let whole: u64 = self.whole.parse().map_err(|_| QuantityError::TooBig)?;
        let mut total = u128::from(whole) * u128::from(factor);
        if let Some(fraction) = self.fraction {
            let digits = &fraction.as_bytes()[..fraction.len().min(MAX_DIGITS)];
            let (numerator, denominator) = digits.iter().fold((0, 1), |(number, scale), digit| {
                (number * 10 + u128::from(digit - b'0'), scale * 10)
            });
            total += (numerator * u128::from(factor) + denominator / 2) / denominator;
        }
        u64::try_from(total).map_err(|_| QuantityError::TooBig)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}
