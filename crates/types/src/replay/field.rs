//! How the fields of an entry are written: one list serves the canonical form and the wire.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::entry::{PayloadRef, ReferenceSummary};
use crate::event::EventName;
use crate::id::{EventId, as_number};
use crate::json::{CanonicalObject, CanonicalWriter, Json, WriteCanonical};
use crate::status::StatusName;
use crate::text::Text;

/// The id of an event where an answer gives it as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventNumber(pub EventId);

impl Serialize for EventNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        as_number::serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for EventNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        as_number::deserialize(deserializer).map(Self)
    }
}

impl WriteCanonical for EventNumber {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.int(self.0.get());
    }
}

impl WriteCanonical for StatusName {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.text(self.as_str());
    }
}

impl WriteCanonical for EventName {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.text(self.as_str());
    }
}

impl WriteCanonical for Vec<PayloadRef> {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.list(self, |writer, item| item.write_canonical(writer));
    }
}

/// A type that entries have fields of.
pub(super) trait Field {
    /// Whether the field is left out.
    fn is_absent(&self) -> bool {
        false
    }

    /// Writes the field unless it is left out.
    fn put(&self, name: &str, object: &mut CanonicalObject<'_>);
}

impl<T: Field> Field for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn put(&self, name: &str, object: &mut CanonicalObject<'_>) {
        if let Some(value) = self {
            value.put(name, object);
        }
    }
}

macro_rules! fields {
    ($($kind:ty),+ $(,)?) => {
        $(
            impl Field for $kind {
                fn put(&self, name: &str, object: &mut CanonicalObject<'_>) {
                    object.field(name, self);
                }
            }
        )+
    };
}

fields!(
    bool,
    i64,
    Text,
    Json,
    StatusName,
    EventName,
    EventNumber,
    PayloadRef,
    ReferenceSummary,
    Vec<PayloadRef>,
);

/// Declares an entry. Its fields stand in the order of their names, which is that of the canonical
/// form; what is absent is left out of it and of the wire.
macro_rules! entry {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$field_meta:meta])* pub $field:ident: $kind:ty, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[serde(skip_serializing_if = "crate::replay::field::Field::is_absent")]
                pub $field: $kind,
            )+
        }

        impl crate::json::WriteCanonical for $name {
            fn write_canonical(&self, writer: &mut crate::json::CanonicalWriter) {
                let mut object = writer.object();
                $(
                    // A field whose name is a word of Rust is written with a mark in front of it.
                    let name = stringify!($field);
                    let name = name.strip_prefix("r#").unwrap_or(name);
                    crate::replay::field::Field::put(&self.$field, name, &mut object);
                )+
            }
        }
    };
}

pub(super) use entry;
