//! A decimal number with a unit behind it, as playbooks write durations and sizes.

/// Why a text is not a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuantityError {
    /// Not a number followed by a unit.
    Shape,
    /// A number followed by something that is not a unit.
    Unit,
    /// The quantity does not fit 64 bits.
    TooBig,
}

/// A number of units.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantity<'t> {
    whole: &'t str,
    /// The digits behind the point, if there is one.
    fraction: Option<&'t str>,
    /// What stands behind the number; empty when nothing does.
    pub(crate) unit: &'t str,
}

impl<'t> Quantity<'t> {
    /// Splits `1.5h` into its parts. Blanks around it are ignored, blanks inside are refused.
    pub(crate) fn split(text: &'t str) -> Result<Self, QuantityError> {
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
        Ok(Self {
            whole,
            fraction,
            unit,
        })
    }

    /// Whether the number has a point.
    pub(crate) fn is_decimal(&self) -> bool {
        self.fraction.is_some()
    }

    /// The quantity in a base of which one unit holds `factor`, rounded to the nearest whole one.
    pub(crate) fn times(&self, factor: u64) -> Result<u64, QuantityError> {
        // More digits than this cannot change a rounded 64-bit result of any unit in use.
        const MOST_DIGITS: usize = 18;
        let whole: u64 = self.whole.parse().map_err(|_| QuantityError::TooBig)?;
        let mut total = u128::from(whole) * u128::from(factor);
        if let Some(fraction) = self.fraction {
            let digits = &fraction.as_bytes()[..fraction.len().min(MOST_DIGITS)];
            let (numerator, denominator) = digits.iter().fold((0, 1), |(number, scale), digit| {
                (number * 10 + u128::from(digit - b'0'), scale * 10)
            });
            total += (numerator * u128::from(factor) + denominator / 2) / denominator;
        }
        u64::try_from(total).map_err(|_| QuantityError::TooBig)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text
        .bytes()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}
