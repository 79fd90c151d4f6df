//! Requests and responses of a store: plain data, identical for every backend.

mod anchor;
mod append;
mod audit;
mod broadcast;
mod cache;
mod catalog;
mod command;
mod credential;
mod dedup;
mod execution;
mod expiry;
mod feed;
mod follow_up;
mod head;
mod keychain;
mod log;
mod machine;
mod match_key;
mod message;
mod outbox;
mod privilege_check;
mod projected;
mod quarantine;
mod queue;
mod replay;
mod request;
mod result;
mod retention;
mod runtime;
mod slot;
mod stream;
mod task_output;
mod timer;
mod token;
mod var;
mod wait;
mod wakeup;

pub use anchor::{AnchorRow, AuditHead, ChangedExecutions, DroppedRange};
pub use append::{
    AppendError, AppendReceipt, AppendRequest, InvalidAppend, MAX_APPEND_EVENTS, MAX_APPEND_ITEMS,
};
pub use audit::{AuditEntry, NewAuditEntry, SecretAuditDetails, SecretAuditFilter};
pub use broadcast::{BroadcastFilter, BroadcastSignal};
pub use cache::{CachePut, CachedResult, CachedStepResult};
pub use catalog::{
    CatalogEntry, CatalogFilter, CatalogKey, CatalogVersionFilter, NewCatalogEntry, RegisterOutcome,
};
pub use command::{
    Command, CommandChange, CommandEnd, CommandLease, Fence, LeaseBounds, LeaseCondition,
    LeaseExtension, LeaseOutcome, LeaseRelease, LeaseRequest, LeaseTerms, LeasedCommand,
    NewCommand, StepInstance,
};
pub use credential::{Credential, CredentialFilter, CredentialKey, CredentialPut};
pub use dedup::{AnsweredRequest, DedupReservation, IdempotencyRecord};
pub use execution::{
    Execution, ExecutionCursor, ExecutionFacts, ExecutionFilter, ExecutionOrigin, ExecutionPage,
    ExecutionView, ForkedFrom, StatusCounts, TenantCounts,
};
pub use expiry::{GcTarget, TenantTable};
pub(crate) use feed::FeedEntry;
pub use feed::{FeedBatch, FeedLimit, MAX_FEED_BATCH_BYTES};
pub use follow_up::{FollowUpChange, FollowUpOutcome, StoredFollowUp};
pub use head::LogHead;
pub use keychain::{
    KeyCounts, KeychainEntry, KeychainFilter, KeychainPut, KeychainScope, UnknownKeychainScope,
};
pub use log::{LoadedLog, LogPageLimit, MAX_SNAPSHOTS, Snapshot, SnapshotKey};
pub use machine::{MachineIdRequest, MachineLease, MachineLeaseError, MachineRenewal};
pub use match_key::MatchKey;
pub use message::{
    EventBody, FeedItem, FeedMessage, LogEpoch, UnreadableEvent, encode_event_body,
    event_message_id, event_subject, parse_event_message_id,
};
pub use outbox::{
    ClaimedBatch, ClaimedMessage, FailureOutcome, MAX_CLAIM_BYTES, MAX_EXACT_PUBLISHED_COUNT,
    OutboxClaim, OutboxFailure, OutboxFilter, OutboxMark, OutboxPayload, OutboxRow, OutboxStats,
    OutboxStatus, outbox_retry_delay,
};
pub use projected::{EventKey, KnownEvents, ProjectOutcome, ProjectionBatch, ProjectionScope};
pub use quarantine::{QuarantineFilter, QuarantinedItem};
pub use queue::{CommandFilter, CommandPage, CommandStatusFilter, MAX_POOLS, PoolCount};
pub(crate) use replay::{PackedReplayRow, TEXT_COLUMN_COUNT};
pub use replay::{PackedReplayRows, ReplayPage};
pub use request::{RequestKey, RequestOutcome, RequestReservation, ReserveOutcome};
pub use result::{
    MAX_APPEND_RESULT_BYTES, MAX_RESULT_BYTES, MIN_BLOB_BYTES, NewResult, PutResultError,
    ResultPut, StoredResult,
};
pub use retention::{
    EnabledPublishers, LogPartition, MAX_CLOCK_DIFFERENCE, MAX_RETENTION_DAYS, OldPartition,
    PinReason, PurgePlan, PurgeReport, StoreStats, WindowTooLong, retention_cutoff,
};
pub use runtime::{RegisteredRuntime, RuntimeKind, RuntimeRegistration};
pub use slot::{NewSlot, Slot, SlotChange, SlotHolder, SlotId, SlotSelector, SlotState};
pub use stream::{
    CursorMove, FeedLag, MAX_FEED_LAG_EVENTS, StreamCursor, StreamLeaseOutcome, StreamLeaseRequest,
    StreamOwner, StreamStart,
};
pub use task_output::{
    NewOutputChunk, NewTaskOutput, OutputChunk, OutputFilter, TaskOutputOutcome,
};
pub use timer::{DueTimer, TimerChange};
pub use token::ApiToken;
pub use var::{
    ExecutionVar, MAX_VAR_BYTES, MAX_VAR_NAME_BYTES, MAX_VARS, MAX_VARS_BYTES, SetVarsError,
    VarKind,
};
pub use wait::{
    AwaitedName, NewWait, OpenWait, WaitChange, WaitFilter, WaitKind, WaitPosition, WaitSelector,
};
pub use wakeup::{LogChange, MAX_WAKEUP_TARGETS, Wakeup, WakeupSet};

pub(crate) use audit::AuditChains;
pub(crate) use broadcast::merge_oldest_first;
pub(crate) use dedup::DedupRecord;
pub(crate) use execution::LIVE_COUNT_READ_FACTOR;
pub(crate) use log::redundant_snapshot;
pub(crate) use slot::{MAX_SLOT_GRANTS, grant_waiting_slots};
pub(crate) use var::check_vars;

pub(crate) use command::CommandPatch;
pub use privilege_check::{FailedPrivilegeCheck, PrivilegeCheck};
