//! Serialized forms that differ from the default form of a type.

use noetl_types::Millis;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::source::Spanned;
use crate::template::Template;

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[expect(clippy::ref_option, reason = "signature required by serde")]
pub(super) fn serialize_optional_ms<S: Serializer>(
    value: &Option<Millis>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.map(Millis::as_ms).serialize(serializer)
}

#[expect(clippy::ref_option, reason = "signature required by serde")]
pub(super) fn serialize_optional_hours<S: Serializer>(
    value: &Option<Millis>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.map(|value| value.as_ms() / Millis::from_hours(1).as_ms()).serialize(serializer)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
pub(super) fn serialize_secs<S: Serializer>(
    value: &Millis,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(value.as_ms() / Millis::from_secs(1).as_ms())
}

#[expect(clippy::ref_option, reason = "signature required by serde")]
pub(super) fn serialize_optional_template<S: Serializer>(
    value: &Option<Spanned<Template>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.as_ref().map(|template| template.source()).serialize(serializer)
}

/// Schema of a list of strings. A single string is accepted as a list of one.
pub(super) fn texts_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
}
