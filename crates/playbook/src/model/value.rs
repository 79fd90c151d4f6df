//! Building blocks: settings that may be templates, conditions, named values.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::source::{Span, Spanned};
use crate::template::{Dynamic, Key, Template};

/// A setting that is known, or known only when it is rendered.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting<T> {
    /// Written out.
    Fixed(T),
    /// To be rendered.
    Template(Spanned<Template>),
}

impl<T> Setting<T> {
    /// The value, where it is written out.
    pub fn fixed(&self) -> Option<&T> {
        match self {
            Self::Fixed(value) => Some(value),
            Self::Template(_) => None,
        }
    }

    /// The template, where it is one.
    pub fn template(&self) -> Option<&Spanned<Template>> {
        match self {
            Self::Fixed(_) => None,
            Self::Template(template) => Some(template),
        }
    }
}

impl<T: Serialize> Serialize for Setting<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(value) => value.serialize(serializer),
            Self::Template(template) => serializer.serialize_str(template.source()),
        }
    }
}

impl<T: JsonSchema> JsonSchema for Setting<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}OrTemplate", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [value, { "type": "string", "pattern": "\\{[{%]" }] })
    }
}

/// A condition: decided already, or to be tested.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// A YAML bool.
    Fixed(bool),
    /// A template or a bare expression.
    Test(Template),
}

impl Condition {
    /// The template, where there is one.
    pub fn template(&self) -> Option<&Template> {
        match self {
            Self::Fixed(_) => None,
            Self::Test(template) => Some(template),
        }
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(value) => serializer.serialize_bool(*value),
            Self::Test(template) => serializer.serialize_str(template.source()),
        }
    }
}

impl JsonSchema for Condition {
    fn schema_name() -> Cow<'static, str> {
        "Condition".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A template, a bare expression such as `n > 3`, or a bool.",
            "type": ["string", "boolean"]
        })
    }
}

/// A name with the value written under it.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The name.
    pub name: Spanned<Arc<str>>,
    /// The value, with templates inside.
    pub value: Dynamic,
    /// Where the value stands.
    pub value_span: Spanned<()>,
}

impl Field {
    /// Where the value stands.
    pub fn span(&self) -> Span {
        self.value_span.span
    }
}

/// Named values in document order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fields(pub Vec<Field>);

impl Fields {
    /// The value under a name.
    pub fn get(&self, name: &str) -> Option<&Field> {
        self.0.iter().find(|field| &**field.name == name)
    }

    /// Lays other values under these: what is here already stays.
    pub fn lay_under(&mut self, others: Self) {
        for field in others.0 {
            if self.get(&field.name).is_none() {
                self.0.push(field);
            }
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Field> {
        self.0.iter()
    }
}

impl<'f> IntoIterator for &'f Fields {
    type Item = &'f Field;
    type IntoIter = std::slice::Iter<'f, Field>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for field in &self.0 {
            map.serialize_entry(&**field.name, &field.value)?;
        }
        map.end()
    }
}

impl JsonSchema for Fields {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Fields".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

/// As written, in document order.
impl Serialize for Dynamic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Const(value) => value.serialize(serializer),
            Self::Text(leaf) => serializer.serialize_str(leaf.template.source()),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    match key {
                        Key::Name(name) => map.serialize_entry(&**name, value)?,
                        Key::Template(leaf) => {
                            map.serialize_entry(leaf.template.source(), value)?;
                        }
                    }
                }
                map.end()
            }
        }
    }
}

impl<T: Serialize> Serialize for Spanned<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<T: JsonSchema> JsonSchema for Spanned<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// The default of a limit.
pub(super) fn one() -> Spanned<u32> {
    Spanned::new(1, Span::default())
}

/// The schema of a duration.
pub(super) struct DurationText;

impl JsonSchema for DurationText {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration such as `500ms`, `30s`, `5m`, `2h`, `1d`, or a number of seconds.",
            "anyOf": [
                { "type": "number", "minimum": 0 },
                { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(ms|s|m|h|d)?$" }
            ]
        })
    }
}

/// The schema of a size.
pub(super) struct SizeText;

impl JsonSchema for SizeText {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A size in bytes, or a text such as `64KiB`, `1MiB`, `2GiB`.",
            "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": "^[0-9]+(B|KiB|MiB|GiB)?$" }
            ]
        })
    }
}
