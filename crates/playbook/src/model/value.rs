//! Building blocks: values that may be templates, conditions, named values.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::schema::impl_schema;
use crate::source::{Span, Spanned};
use crate::template::{DynamicKey, DynamicValue, Template};

/// A setting that is either a literal or a template to render.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueOrTemplate<T> {
    /// A literal value.
    Fixed(T),
    /// A template.
    Template(Spanned<Template>),
}

impl<T> ValueOrTemplate<T> {
    /// Returns the template, if it is one.
    pub fn as_template(&self) -> Option<&Spanned<Template>> {
        match self {
            Self::Fixed(_) => None,
            Self::Template(template) => Some(template),
        }
    }
}

impl<T: Serialize> Serialize for ValueOrTemplate<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(value) => value.serialize(serializer),
            Self::Template(template) => serializer.serialize_str(template.source()),
        }
    }
}

impl<T: JsonSchema> JsonSchema for ValueOrTemplate<T> {
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

/// A condition: a literal bool or a test to evaluate.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// A YAML bool.
    Fixed(bool),
    /// A template or a bare expression.
    Test(Template),
}

impl Condition {
    /// Returns the template, if it is one.
    pub fn as_template(&self) -> Option<&Template> {
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

impl_schema!(Condition, "Condition", |_| json_schema!({
    "description": "A template, a bare expression such as `n > 3`, or a bool.",
    "type": ["string", "boolean"]
}));

/// A name and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedValue {
    /// Name of the value.
    pub name: Spanned<Arc<str>>,
    /// Value, which may contain templates.
    pub value: DynamicValue,
    /// Source location of the value.
    pub value_span: Spanned<()>,
}

impl NamedValue {
    /// Returns the source location of the value.
    pub fn span(&self) -> Span {
        self.value_span.span
    }
}

/// Named values in document order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NamedValues(pub Vec<NamedValue>);

impl NamedValues {
    /// Finds a value by name.
    pub fn get(&self, name: &str) -> Option<&NamedValue> {
        self.0.iter().find(|field| &**field.name == name)
    }

    /// Adds the values whose names are not present yet.
    pub fn add_missing(&mut self, others: Self) {
        for field in others.0 {
            if self.get(&field.name).is_none() {
                self.0.push(field);
            }
        }
    }

    /// True if there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the values.
    pub fn iter(&self) -> std::slice::Iter<'_, NamedValue> {
        self.0.iter()
    }
}

impl<'f> IntoIterator for &'f NamedValues {
    type Item = &'f NamedValue;
    type IntoIter = std::slice::Iter<'f, NamedValue>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl Serialize for NamedValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for field in &self.0 {
            map.serialize_entry(&**field.name, &field.value)?;
        }
        map.end()
    }
}

impl JsonSchema for NamedValues {
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

/// Serializes the value as written, in document order.
impl Serialize for DynamicValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Const(value) => value.serialize(serializer),
            Self::Text(leaf) => serializer.serialize_str(leaf.template.source()),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    match key {
                        DynamicKey::Name(name) => map.serialize_entry(&**name, value)?,
                        DynamicKey::Template(leaf) => {
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

/// True if a value is the default of its type, and need not be written.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Default of a concurrency limit.
pub(super) fn default_limit() -> Spanned<u32> {
    Spanned::new(1, Span::default())
}

/// JSON Schema of a duration.
pub(super) struct DurationText;

impl_schema!(DurationText, "Duration", |_| json_schema!({
    "description": "A duration such as `500ms`, `30s`, `5m`, `2h`, `1d`, or a number of seconds.",
    "anyOf": [
        { "type": "number", "minimum": 0 },
        { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(ms|s|m|h|d)?$" }
    ]
}));

/// JSON Schema of a size in bytes.
pub(super) struct SizeText;

impl_schema!(SizeText, "Size", |_| json_schema!({
    "description": "A size in bytes, or a string such as `64KiB`, `1MiB`, `2GiB`.",
    "anyOf": [
        { "type": "integer", "minimum": 0 },
        { "type": "string", "pattern": "^[0-9]+(B|KiB|MiB|GiB)?$" }
    ]
}));
