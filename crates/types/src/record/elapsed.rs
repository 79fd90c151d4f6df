//! Elapsed time, as recorded in an event.

use std::fmt;

use crate::json::{CanonicalWriter, Json, JsonValueError, WriteCanonical};
use crate::time::Millis;

/// Elapsed milliseconds as a finite number, with the precision that the producer measured.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub struct ElapsedTime(f64);

// Equality is total: the number is never NaN.
impl Eq for ElapsedTime {}

impl ElapsedTime {
    /// Creates a value from milliseconds; an error if the number is not finite.
    pub fn from_ms(ms: f64) -> Result<Self, JsonValueError> {
        if !ms.is_finite() {
            return Err(JsonValueError::NotFinite);
        }
        // Adding zero turns negative zero into positive zero, the only zero of canonical JSON.
        Ok(Self(ms + 0.0))
    }

    /// Returns the milliseconds.
    pub const fn as_ms(self) -> f64 {
        self.0
    }
}

impl From<Millis> for ElapsedTime {
    #[expect(clippy::cast_precision_loss, reason = "approximate value; exact below 285 000 years")]
    fn from(duration: Millis) -> Self {
        Self(duration.as_ms() as f64)
    }
}

impl From<ElapsedTime> for Json {
    fn from(elapsed: ElapsedTime) -> Self {
        // Always finite, so always a number.
        Self::from_f64(elapsed.0).unwrap_or_default()
    }
}

impl WriteCanonical for ElapsedTime {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        Json::from(*self).write_canonical(writer);
    }
}

impl fmt::Debug for ElapsedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

#[cfg(test)]
mod tests;
