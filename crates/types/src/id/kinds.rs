//! The kinds of ids, each a type of its own, so that none can stand in for another.

use std::fmt;

use super::machine::MachineId;
use super::snowflake::{IdError, Snowflake};
use crate::json::Json;
use crate::time::Timestamp;

/// What all kinds of ids have in common.
pub trait Id: Copy + Eq + Ord + fmt::Debug + fmt::Display {
    /// What a person calls it, such as `execution id`.
    const KIND: &'static str;

    /// The id with a number.
    fn from_snowflake(number: Snowflake) -> Self;

    /// The number.
    fn snowflake(self) -> Snowflake;
}

/// Declares a kind of id.
macro_rules! id {
    ($(#[$meta:meta])* pub struct $name:ident($kind:literal)) => {
        $(#[$meta])*
        ///
        /// As text, and in JSON, it is its decimal digits; [`crate::id::as_number`] writes it as a
        /// JSON number instead. Both are read.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Snowflake);

        impl $name {
            /// The id with a number.
            pub fn new(number: i64) -> Result<Self, IdError> {
                Snowflake::new(number).map(Self)
            }

            /// The number.
            pub const fn get(self) -> i64 {
                self.0.get()
            }

            /// Reads a number or a text of digits.
            pub fn from_json(value: &Json) -> Result<Self, IdError> {
                Snowflake::from_json(value).map(Self)
            }
        }

        impl Id for $name {
            const KIND: &'static str = $kind;

            fn from_snowflake(number: Snowflake) -> Self {
                Self(number)
            }

            fn snowflake(self) -> Snowflake {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

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
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                crate::schema::id(generator)
            }
        }
    };
}

/// Declares a kind of id that the generator makes.
macro_rules! snowflake_id {
    ($(#[$meta:meta])* pub struct $name:ident($kind:literal)) => {
        id! {
            $(#[$meta])*
            pub struct $name($kind)
        }

        impl $name {
            /// When it was made, in milliseconds of the Unix epoch.
            pub const fn unix_ms(self) -> i64 {
                self.0.unix_ms()
            }

            /// When it was made, to the millisecond.
            pub fn time(self) -> Timestamp {
                self.0.time()
            }

            /// Who made it.
            pub fn machine(self) -> MachineId {
                self.0.machine()
            }
        }
    };
}

snowflake_id! {
    /// Id of an execution.
    pub struct ExecutionId("execution id")
}

snowflake_id! {
    /// Id of an event; unique together with its execution.
    pub struct EventId("event id")
}

snowflake_id! {
    /// Id of a command: that of the event that issued it.
    pub struct CommandId("command id")
}

snowflake_id! {
    /// Id of one version of a document in the catalog.
    pub struct CatalogId("catalog id")
}

snowflake_id! {
    /// Id of a credential.
    pub struct CredentialId("credential id")
}

snowflake_id! {
    /// Id of an entry of the cache of the keychain.
    pub struct KeychainId("keychain id")
}

snowflake_id! {
    /// Id of a schedule.
    pub struct ScheduleId("schedule id")
}

snowflake_id! {
    /// Id of a subscription; its first log is the execution with the same number.
    pub struct SubscriptionId("subscription id")
}

snowflake_id! {
    /// Id of a registered server, pool of workers or broker.
    pub struct RuntimeId("runtime id")
}

snowflake_id! {
    /// Id of a stored result.
    pub struct ResultId("result id")
}

snowflake_id! {
    /// Id of an API token.
    pub struct TokenId("token id")
}

snowflake_id! {
    /// Id of an entry of an audit trail.
    pub struct AuditId("audit id")
}

snowflake_id! {
    /// Id of a signal that was sent to whoever waits for it.
    pub struct SignalId("signal id")
}

snowflake_id! {
    /// Id of a refused row that is kept for an operator.
    pub struct QuarantineId("quarantine id")
}

id! {
    /// Id of an outbox row. The store counts these itself, so it says nothing about time.
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

/// The execution that holds the log of the subscription's first month.
impl From<SubscriptionId> for ExecutionId {
    fn from(id: SubscriptionId) -> Self {
        Self(id.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn readable_forms() {
        let id = ExecutionId::new(123).unwrap();
        assert_eq!(id.to_string(), "123");
        assert_eq!(format!("{id:?}"), "ExecutionId(123)");
        assert_eq!("123".parse(), Ok(id));
        assert_eq!(ExecutionId::KIND, "execution id");
    }

    #[test]
    fn an_absent_id_takes_no_more_room() {
        assert_eq!(size_of::<Option<ExecutionId>>(), 8);
    }

    #[test]
    fn a_command_is_named_by_its_event() {
        let event = EventId::new(77).unwrap();
        assert_eq!(EventId::from(CommandId::from(event)), event);
    }

    /// Hole P8.
    #[test]
    fn numbers_and_texts_are_read() {
        for json in ["9007199254740993", "\"9007199254740993\""] {
            let id: EventId = serde_json::from_str(json).unwrap();
            assert_eq!(id.get(), 9_007_199_254_740_993);
            assert_eq!(serde_json::to_string(&id).unwrap(), "\"9007199254740993\"");
        }
        for wrong in [
            "0",
            "-1",
            "1.5",
            "\"\"",
            "\"x\"",
            "null",
            "[]",
            "18446744073709551615",
        ] {
            assert!(serde_json::from_str::<EventId>(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            serde_json::from_str::<EventId>("\"run-7\"")
                .unwrap_err()
                .to_string(),
            "`run-7` is not an id: an id is a positive whole number of at most 19 digits \
             at line 1 column 7"
        );
    }

    proptest! {
        #[test]
        fn round_trip(number in 1..=i64::MAX) {
            let id = CatalogId::new(number).unwrap();
            prop_assert_eq!(id.to_string().parse(), Ok(id));
            let json = serde_json::to_string(&id).unwrap();
            prop_assert_eq!(serde_json::from_str::<CatalogId>(&json).unwrap(), id);
        }
    }
}
