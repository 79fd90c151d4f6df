//! The typed ids. Each kind is a separate type, so that ids of different kinds cannot be confused.

use std::fmt;

use super::machine::MachineId;
use super::snowflake::{IdError, Snowflake};
use crate::json::Json;
use crate::text::display_inner;
use crate::time::Timestamp;

/// Common interface of all typed ids.
pub trait TypedId: Copy + Eq + Ord + fmt::Debug + fmt::Display {
    /// Human-readable name of the kind, such as `execution id`.
    const KIND: &'static str;

    /// Wraps a number.
    fn from_snowflake(number: Snowflake) -> Self;

    /// Returns the number.
    fn snowflake(self) -> Snowflake;
}

/// Declares a typed id.
macro_rules! id {
    ($(#[$meta:meta])* pub struct $name:ident($kind:literal)) => {
        $(#[$meta])*
        ///
        /// As text and in JSON, an id is its decimal digits. [`crate::id::IdNumber`] is a JSON
        /// number instead. Both forms are accepted on input.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Snowflake);

        impl $name {
            /// Wraps a number.
            pub fn new(number: i64) -> Result<Self, IdError> {
                Snowflake::new(number).map(Self)
            }

            /// Returns the number.
            pub const fn get(self) -> i64 {
                self.0.get()
            }

            /// Reads a number or a string of digits.
            pub fn from_json(value: &Json) -> Result<Self, IdError> {
                Snowflake::from_json(value).map(Self)
            }
        }

        impl TypedId for $name {
            const KIND: &'static str = $kind;

            fn from_snowflake(number: Snowflake) -> Self {
                Self(number)
            }

            fn snowflake(self) -> Snowflake {
                self.0
            }
        }

        display_inner!($name);

        impl std::str::FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Snowflake::parse(text).map(Self)
            }
        }

        impl TryFrom<i64> for $name {
            type Error = IdError;

            fn try_from(number: i64) -> Result<Self, Self::Error> {
                Self::new(number)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                super::as_number::deserialize(deserializer)
            }
        }

        #[cfg(feature = "schema")]
        crate::schema::inline_schema!($name, |generator| crate::schema::id_schema(generator));
    };
}

/// Declares typed ids that the generator produces.
macro_rules! snowflake_ids {
    ($( $(#[$meta:meta])* pub struct $name:ident($kind:literal); )+) => {$(
        id! {
            $(#[$meta])*
            pub struct $name($kind)
        }

        impl $name {
            /// Returns the creation time in milliseconds since the Unix epoch.
            pub const fn unix_ms(self) -> i64 {
                self.0.unix_ms()
            }

            /// Returns the creation time, to the millisecond.
            pub fn time(self) -> Timestamp {
                self.0.time()
            }

            /// Returns the machine that generated the id.
            pub fn machine(self) -> MachineId {
                self.0.machine()
            }
        }
    )+};
}

snowflake_ids! {
    /// Id of an execution.
    pub struct ExecutionId("execution id");
    /// Id of an event. Unique together with its execution.
    pub struct EventId("event id");
    /// Id of a command: the id of the event that issued it.
    pub struct CommandId("command id");
    /// Id of one version of a document in the catalog.
    pub struct CatalogId("catalog id");
    /// Id of a credential.
    pub struct CredentialId("credential id");
    /// Id of an entry of the keychain cache.
    pub struct KeychainId("keychain id");
    /// Id of a registered server, worker pool or broker.
    pub struct RuntimeId("runtime id");
    /// Id of a stored result.
    pub struct ResultId("result id");
    /// Id of an API token.
    pub struct TokenId("token id");
    /// Id of an audit log entry.
    pub struct AuditId("audit id");
    /// Id of a signal.
    pub struct SignalId("signal id");
    /// Id of a rejected row in quarantine.
    pub struct QuarantineId("quarantine id");
}

id! {
    /// Id of an outbox row. The store assigns these from a counter, so they carry no time.
    pub struct OutboxId("outbox id")
}

impl From<EventId> for CommandId {
    fn from(id: EventId) -> Self {
        Self(id.0)
    }
}

impl From<CommandId> for EventId {
    fn from(id: CommandId) -> Self {
        Self(id.0)
    }
}

#[cfg(test)]
mod tests;
