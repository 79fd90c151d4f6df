//! Shared vocabulary of all NoETL crates.
//!
//! Owns ids, events, statuses, canonical JSON, limits and error codes. Does no I/O and reads no
//! clock: functions that depend on time take it as an argument.

#![warn(missing_docs)]

pub mod digest;
pub mod error;
pub mod event;
pub mod id;
pub mod json;
mod lease_token;
pub mod limits;
pub mod name;
mod quantity;
pub mod record;
pub mod redact;
pub mod replay;
pub mod report;
#[cfg(feature = "schema")]
pub mod schema;
pub mod scope;
pub mod secret;
pub mod size;
pub mod status;
pub mod string_enum;
pub mod text;
pub mod time;
pub mod trace;

pub use digest::{Digest, sha256};
pub use error::{ErrorCode, TaskError, TaskErrorKind};
pub use event::{EventName, EventType};
pub use id::{
    AuditId, CatalogId, CommandId, CredentialId, EventId, ExecutionId, IdGenerator, KeychainId,
    MachineId, OutboxId, QuarantineId, ResultId, RuntimeId, SignalId, TokenId,
};
pub use json::{Json, JsonMap};
pub use lease_token::LeaseToken;
pub use name::{OrganizationId, PlaybookPath, PoolName, StepName, TenantId, WorkerId};
pub use record::{
    ChainHash, EventRecord, ExecutionVersion, FeedPosition, NewEvent, Seq, StoredEvent,
};
pub use scope::{Scope, ScopeSet};
pub use secret::SecretOperation;
pub use size::ByteSize;
pub use status::{CommandStatus, EventStatus, ExecutionStatus, StatusName};
pub use text::Text;
pub use time::{Millis, Month, Timestamp};
