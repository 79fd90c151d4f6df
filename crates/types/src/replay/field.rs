//! Serialization of entry fields. One list serves the canonical form and the wire.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::entry::{PayloadRef, ReferenceSummary};
use crate::event::EventName;
use crate::id::{EventId, as_number};
use crate::json::{CanonicalObject, CanonicalWriter, Json, WriteCanonical};
use crate::status::StatusName;
use crate::text::Text;

/// Id of an event that is serialized as a number.
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
        writer.write_int(self.0.get());
    }
}

impl WriteCanonical for StatusName {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.write_text(self.as_str());
    }
}

impl WriteCanonical for EventName {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.write_text(self.as_str());
    }
}

impl WriteCanonical for Vec<PayloadRef> {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        writer.write_list(self, |writer, item| item.write_canonical(writer));
    }
}

/// Types of entry fields.
pub(super) trait EntryField {
    /// True if the field is omitted.
    fn is_absent(&self) -> bool {
        false
    }

    /// Writes the field unless it is omitted.
    fn write_field(&self, name: &str, object: &mut CanonicalObject<'_>);
}

impl<T: EntryField> EntryField for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn write_field(&self, name: &str, object: &mut CanonicalObject<'_>) {
        if let Some(value) = self {
            value.write_field(name, object);
        }
    }
}

macro_rules! fields {
    ($($kind:ty),+ $(,)?) => {
        $(
            impl EntryField for $kind {
                fn write_field(&self, name: &str, object: &mut CanonicalObject<'_>) {
                    object.write_field(name, self);
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

/// Declares an entry. Its fields must be in alphabetical order, which is the order of the canonical
/// form. Absent fields are omitted there and on the wire.
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
                #[serde(skip_serializing_if = "crate::replay::field::EntryField::is_absent")]
                pub $field: $kind,
            )+
        }

        impl crate::json::WriteCanonical for $name {
            fn write_canonical(&self, writer: &mut crate::json::CanonicalWriter) {
                let mut object = writer.begin_object();
                $(
                    // A field named by a Rust keyword has the prefix `r#`.
                    let name = stringify!($field);
                    let name = name.strip_prefix("r#").unwrap_or(name);
                    crate::replay::field::EntryField::write_field(&self.$field, name, &mut object);
                )+
            }
        }
    };
}

pub(super) use entry;
