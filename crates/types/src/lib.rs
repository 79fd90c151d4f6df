//! The vocabulary that every room of the house shares.
//!
//! Owns ids, events, statuses, canonical JSON, limits and error codes. Does no I/O and knows no
//! clock: whatever depends on time takes it as an argument.

pub mod digest;
pub mod error;
pub mod event;
pub mod id;
pub mod json;
pub mod limits;
pub mod name;
mod quantity;
pub mod record;
pub mod redact;
pub mod replay;
#[cfg(feature = "schema")]
pub mod schema;
pub mod scope;
pub mod secret;
pub mod size;
pub mod status;
pub mod text;
pub mod time;
pub mod trace;
pub mod words;

pub use digest::{Digest, sha256};
pub use error::{ErrorCode, TaskError, TaskErrorKind};
pub use event::{EventName, EventType};
pub use id::{
    AuditId, CatalogId, CommandId, CredentialId, EventId, ExecutionId, IdGenerator, KeychainId,
    MachineId, OutboxId, QuarantineId, ResultId, RuntimeId, ScheduleId, SignalId, SubscriptionId,
    TokenId,
};
pub use json::{Json, JsonMap};
pub use name::{OrganizationId, PlaybookPath, PoolName, StepName, TenantId, WorkerId};
pub use record::{Chain, EventRecord, FeedPosition, NewEvent, Seq, StoredEvent, Version};
pub use scope::{Scope, Scopes};
pub use secret::SecretOperation;
pub use size::ByteSize;
pub use status::{CommandStatus, EventStatus, ExecutionStatus, StatusName};
pub use text::Text;
pub use time::{Millis, Month, Timestamp};
