//! What a store is asked and what it answers: plain data, the same for every backend.

mod append;
mod catalog;
mod command;
mod execution;
mod feed;
mod head;
mod log;
mod machine;
mod queue;
mod result;
mod runtime;
mod timer;

pub use append::{
    Append, AppendRefused, Appended, InvalidAppend, MAX_APPEND_EVENTS, MAX_APPEND_ITEMS,
};
pub use catalog::{CatalogEntry, CatalogFilter, CatalogKey, NewCatalogEntry, Registered};
pub use command::{
    Claim, Command, CommandChange, CommandEnd, Extension, Fence, Holder, LeaseHold, LeaseRequest,
    LeaseToken, LeasedCommand, NewCommand, Release, StepInstance,
};
pub use execution::{
    Execution, ExecutionCursor, ExecutionFacts, ExecutionFilter, ExecutionPage, ExecutionView,
    ForkedFrom, Origin, UnknownOrigin,
};
pub use feed::{FeedBatch, FeedLimit};
pub use head::Head;
pub use log::{Loaded, LogPage, Snapshot, SnapshotKey};
pub use machine::{MachineLease, MachineRefused, MachineRenewal, MachineRequest};
pub use queue::{CommandChoice, CommandFilter, CommandPage, MAX_POOLS, PoolCount};
pub use result::{MAX_APPEND_RESULT_BYTES, NewResult, StoredResult};
pub use runtime::{NewRuntime, Runtime, RuntimeKind, UnknownRuntimeKind};
pub use timer::{DueTimer, TimerChange};

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) use command::CommandPatch;
