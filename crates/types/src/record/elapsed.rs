//! How long something took, as an event records it.

use std::fmt;

use crate::json::{CanonicalWriter, Json, JsonRefused, WriteCanonical};
use crate::time::Millis;

/// Milliseconds as a finite number, to whatever precision the producer measured.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub struct Elapsed(f64);

// Equality is total: the number is never NaN.
impl Eq for Elapsed {}

impl Elapsed {
    /// So many milliseconds; refused when not finite.
    pub fn from_ms(ms: f64) -> Result<Self, JsonRefused> {
        if !ms.is_finite() {
            return Err(JsonRefused::NotFinite);
        }
        // A sum with zero turns the negative zero into the one that canonical JSON knows.
        Ok(Self(ms + 0.0))
    }

    /// The number of milliseconds.
    pub const fn as_ms(self) -> f64 {
        self.0
    }
}

impl From<Millis> for Elapsed {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a measure; exact below 285 000 years"
    )]
    fn from(duration: Millis) -> Self {
        Self(duration.as_ms() as f64)
    }
}

impl From<Elapsed> for Json {
    fn from(elapsed: Elapsed) -> Self {
        // Always finite, so always a number.
        Self::from_f64(elapsed.0).unwrap_or_default()
    }
}

impl WriteCanonical for Elapsed {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        Json::from(*self).write_canonical(writer);
    }
}

impl fmt::Debug for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finite_numbers_only() {
        assert_eq!(Elapsed::from_ms(f64::NAN), Err(JsonRefused::NotFinite));
        assert_eq!(Elapsed::from_ms(f64::INFINITY), Err(JsonRefused::NotFinite));
        assert_eq!(Json::from(Elapsed::from_ms(12.0).unwrap()), Json::Int(12));
        assert_eq!(
            Json::from(Elapsed::from_ms(0.25).unwrap()).to_string(),
            "0.25"
        );
        assert!(Elapsed::from_ms(-0.0).unwrap().as_ms().is_sign_positive());
        assert_eq!(
            Ok(Elapsed::from(Millis::from_secs(2))),
            Elapsed::from_ms(2000.0)
        );
    }
}
