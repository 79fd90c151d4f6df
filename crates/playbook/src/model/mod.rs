//! The typed model of a document: the canonical form of the language.
//!
//! Legacy spellings are gone here: the parser has already rewritten them. Each type serialises to
//! the way a careful author would write it, so printing a model gives a document that reads back as
//! the same model, and the JSON Schema of the language is derived from the same types.

mod document;
mod keychain;
mod kind;
mod looping;
mod output;
mod policy;
mod routing;
mod schedule;
mod set;
mod step;
mod subscription;
mod tool;
mod value;

pub use document::{
    ConcurrencyOverlap, Document, Executor, ExecutorPolicy, ExecutorSpec, KeychainMode, Metadata,
    OtherDocument, Playbook, Profile, Requires, RootConcurrency, RunLimits, TaskDefaults,
    WorkbookTask,
};
pub use keychain::{KeychainEntry, KeychainKind, KeychainScope, Residency};
pub use kind::{Build, COMMON_TASK_KEYS, Key, KeyType, KindSpec, ToolKind};
pub use looping::{
    Cursor, Exec, Frame, FrameProcess, FrameRetry, Loop, LoopMode, LoopSource, LoopSpec,
};
pub use output::{
    Accumulate, AccumulateStrategy, OutputScope, OutputSelect, OutputSpec, Select, Store, StoreKind,
};
pub use policy::{
    Action, Backoff, JumpTarget, OnUnmatched, Retry, Rule, RuleTest, TaskPolicy, Then,
};
pub use routing::{NoMatch, RouteArc, Router, RouterMode};
pub use schedule::{Misfire, MisfirePolicy, Overlap, Schedule, ScheduleSpec, Timing};
pub use set::{ReservedName, Set, SetEntry, SetTarget, WRITE_PROTECTED};
pub use step::{
    AdmitRule, CacheScope, Concurrency, Failure, FailureMode, Lifecycle, Step, StepCache,
    StepPolicy, StepSpec,
};
pub use subscription::{
    Activation, Circuit, Connection, Directive, DirectiveControl, Dispatch, Downstream, Drain,
    Headers, Ingress, OnFull, OnRecovery, Ordering, PayloadFrom, Probe, ProbeType, Propagate,
    Runtime, Source, SourceKind, SourceMode, Spool, SpoolBackend, SpoolMode, SpoolRetention,
    SpoolStore, Subscription, SubscriptionDedup, SubscriptionLimits, SubscriptionSpec, Trace,
    Verify, VerifyType,
};
pub use tool::{Task, TaskSpec, Tool};
pub use value::{Condition, Field, Fields, Setting};
