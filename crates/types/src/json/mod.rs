//! The JSON value type, canonical by construction.
//!
//! Owns [`Json`], its conversions and its canonical text. A `Json` cannot hold values that the log
//! rejects (NUL in a string, a number that is not finite, a duplicate key). Every value has one
//! form: an integral float that fits 64 bits is an integer, and maps are sorted. Clones share their
//! contents, so passing on a large value costs a reference count.

mod canonical;
mod de;
mod raw;
mod value;

#[cfg(test)]
pub(crate) mod tests;

pub use canonical::{
    CanonicalObject, CanonicalWriter, WriteCanonical, push_canonical, to_canonical,
};
pub use de::{JsonParseError, parse, parse_str};
pub use raw::{InvalidJson, JsonRef};
pub use value::{Json, JsonMap, JsonValueError};
