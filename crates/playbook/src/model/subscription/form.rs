//! How values are written where their form is not the one of their type.

use noetl_types::Millis;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::source::Spanned;
use crate::template::Template;

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[expect(clippy::ref_option, reason = "the signature serde asks for")]
pub(super) fn optional_ms<S: Serializer>(
    value: &Option<Millis>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.map(Millis::as_ms).serialize(serializer)
}

#[expect(clippy::ref_option, reason = "the signature serde asks for")]
pub(super) fn optional_hours<S: Serializer>(
    value: &Option<Millis>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value
        .map(|value| value.as_ms() / Millis::from_hours(1).as_ms())
        .serialize(serializer)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
pub(super) fn secs<S: Serializer>(value: &Millis, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(value.as_ms() / Millis::from_secs(1).as_ms())
}

#[expect(clippy::ref_option, reason = "the signature serde asks for")]
pub(super) fn optional_template<S: Serializer>(
    value: &Option<Spanned<Template>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value
        .as_ref()
        .map(|template| template.source())
        .serialize(serializer)
}

/// A list of texts; a single text stands for a list of one.
pub(super) fn texts_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
}
