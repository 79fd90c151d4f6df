//! The one JSON value of the house, canonical by construction.
//!
//! Owns [`Json`], its conversions and its canonical text. A `Json` cannot hold what the log refuses
//! (NUL in a text, a number that is not finite, a duplicate key), and one value has one form: an
//! integral float that fits 64 bits is an integer, maps are sorted. Clones share their contents, so
//! passing a big value on costs a reference count.

mod canonical;
mod de;
mod lying;
mod value;

#[cfg(test)]
pub(crate) mod tests;

pub use canonical::{CanonicalObject, CanonicalWriter, WriteCanonical, to_canonical};
pub use de::{JsonTextError, parse, parse_text};
pub use lying::{JsonRef, NoJson};
pub use value::{Json, JsonMap, JsonRefused};
