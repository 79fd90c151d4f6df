//! What a store is asked and what it answers: plain data, the same for every backend.

mod append;
mod audit;
mod cache;
mod catalog;
mod claim;
mod command;
mod copy;
mod credential;
mod errand;
mod execution;
mod feed;
mod gists;
mod head;
mod hints;
mod key;
mod keychain;
mod log;
mod machine;
mod message;
mod outbox;
mod quarantine;
mod queue;
mod request;
mod result;
mod retention;
mod runtime;
mod signal;
mod slot;
mod stream;
mod sweep;
mod timer;
mod token;
mod var;
mod wait;
mod wall;

pub use append::{
    Append, AppendRefused, Appended, InvalidAppend, MAX_APPEND_EVENTS, MAX_APPEND_ITEMS,
};
pub use audit::{AuditEntry, NewAudit, SecretAct, SecretActFilter};
pub use cache::{CachePut, Cached, CachedResult};
pub use catalog::{
    CatalogEntry, CatalogFilter, CatalogKey, NewCatalogEntry, Registered, VersionFilter,
};
pub use claim::{Answered, DedupClaim, IdempotencyClaim};
pub use command::{
    Claim, ClaimedCommand, Command, CommandChange, CommandEnd, Extension, Fence, Holder, LeaseHold,
    LeaseRequest, LeaseToken, LeasedCommand, NewCommand, Release, StepInstance,
};
pub use copy::{Copied, CopyBatch, CopyScope, EventKey, Known};
pub use credential::{Credential, CredentialFilter, CredentialKey, CredentialPut};
pub use errand::{Errand, ErrandChange, ErrandOutcome};
pub use execution::{
    Counts, Execution, ExecutionCursor, ExecutionFacts, ExecutionFilter, ExecutionPage,
    ExecutionView, ForkedFrom, Origin, StatusCounts, UnknownOrigin,
};
pub(crate) use feed::InFeed;
pub use feed::{FEED_BYTES, FeedBatch, FeedLimit};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) use gists::{GistRow, TEXTS};
pub use gists::{GistRows, Gists};
pub use head::Head;
pub use hints::{Growth, Hints, MAX_HINTED, Places};
pub use key::MatchKey;
pub use keychain::{
    KeyCounts, KeychainEntry, KeychainFilter, KeychainPut, KeychainScope, UnknownKeychainScope,
};
pub use log::{Loaded, LogPage, MAX_SNAPSHOTS, Snapshot, SnapshotKey};
pub use machine::{MachineLease, MachineRefused, MachineRenewal, MachineRequest};
pub use message::{
    EventBody, FeedItem, FeedMessage, LogEpoch, Message, Unreadable, body, message_id, subject,
};
pub use outbox::{
    Claimed, ClaimedMessage, Failed, JSON_CODEC, MAX_CLAIM_BYTES, MAX_COUNTED, OutboxClaim,
    OutboxFacts, OutboxFailure, OutboxFilter, OutboxMark, OutboxRow, OutboxStatus, Payload,
    UnknownOutboxStatus, backoff,
};
pub use quarantine::{QuarantineFilter, Quarantined};
pub use queue::{CommandChoice, CommandFilter, CommandPage, MAX_POOLS, PoolCount};
pub use request::{RequestEnd, RequestKey, RequestTake, Taken};
pub use result::{
    BLOB_BYTES, MAX_APPEND_RESULT_BYTES, MAX_RESULT_BYTES, NewResult, PutRefused, ResultPut,
    StoredResult,
};
pub use retention::{
    EnabledOutlets, LogPart, MAX_CLOCK_DIFFERENCE, MAX_RETENTION_DAYS, OldPart, Pinned, Purge,
    Purged, StoreFacts, WindowTooLong, days_before,
};
pub use runtime::{NewRuntime, Runtime, RuntimeKind, UnknownRuntimeKind};
pub use signal::{Broadcast, BroadcastFilter};
pub use slot::{Slot, SlotChange, SlotChoice, SlotHolder, SlotId, SlotState, SlotWish};
pub use stream::{
    FeedLag, MAX_FEED_LAG, StreamBegin, StreamCursor, StreamMove, StreamOwner, StreamTake,
    StreamTaken,
};
pub use sweep::Swept;
pub use timer::{DueTimer, TimerChange};
pub use token::ApiToken;
pub use var::{
    MAX_VAR_BYTES, MAX_VAR_NAME_BYTES, MAX_VARS, MAX_VARS_BYTES, UnknownVarKind, Var, VarKind,
    VarsRefused,
};
pub use wait::{
    Awaited, NewWait, OpenWait, UnknownWaitKind, WaitChange, WaitChoice, WaitFilter, WaitKind,
    WaitPlace,
};

pub(crate) use audit::Trails;
pub(crate) use claim::KeptDedup;
pub(crate) use execution::READ_FOR_ONE;
pub(crate) use log::superfluous;
pub(crate) use request::UnderWay;
pub(crate) use signal::oldest;
pub(crate) use slot::{MAX_GRANTS, grant};
pub(crate) use var::check_vars;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) use command::CommandPatch;
pub use wall::{LogWall, MissingWall};
