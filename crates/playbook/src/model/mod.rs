//! The typed model of a document: the canonical form of the language.
//!
//! The model has no legacy spellings, because the parser rewrites them. Each type serializes to the
//! form recommended to authors, so a printed model parses to the same model. The JSON Schema of the
//! language is derived from these types.

mod document;
mod keychain;
mod kind;
mod looping;
mod output;
mod policy;
mod routing;
mod set;
mod step;
mod tool;
mod value;

pub use document::{
    ConcurrencyOverlap, Document, DocumentMetadata, ExecutorConfig, ExecutorPolicy, ExecutorSpec,
    KeychainMode, OtherDocument, Playbook, ResultsPolicy, RootConcurrency, RunLimits,
    RuntimeRequirements, TaskDefaults, WorkbookTask,
};
pub use keychain::{KeychainEntry, KeychainKind};
pub use kind::{BUILD_FEATURES, KeyType, KindKey, KindSpec, RESERVED_KINDS, ToolKind};
pub use looping::{
    CursorSource, FrameProcess, FrameRetry, FrameSpec, Loop, LoopMode, LoopSource, LoopSpec,
};
pub use output::{AccumulateSpec, AccumulateStrategy, OutputSelect, OutputSpec, SelectedPath};
pub use policy::{
    Backoff, JumpTarget, OnUnmatched, PolicyRule, RetryPolicy, RuleAction, RuleEffect, RuleTest,
    TaskPolicy,
};
pub use routing::{NoMatch, RouteArc, Router, RouterMode, RouterSpec};
pub use set::{ReservedName, SetClause, SetEntry, SetTarget, WRITE_PROTECTED_NAMES};
pub use step::{
    AdmitRule, CacheScope, ConcurrencyLimit, FailureMode, FailurePolicy, Lifecycle, Step,
    StepCache, StepPolicy, StepSpec,
};
pub use tool::{Task, TaskSpec, Tool};
pub use value::{Condition, NamedValue, NamedValues, ValueOrTemplate};
