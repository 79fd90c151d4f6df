//! Reference interpreter for the workflow language, independent of the engine.
//!
//! The engine keeps incremental state and decides event by event. The interpreter here follows the
//! language rules literally: it searches the graph again for every question, clones its whole state
//! where a decision may be rolled back, and has no logs, stores or workers. Its clock advances only
//! when no work is left, directly to the next due event. It shares the model and the templates with
//! the engine, but none of its decision code.
//!
//! Owns [`interpret_playbook`], the [`generate`] module that writes random playbooks, and
//! [`shrink_draft`], which reduces a failing one. It must never depend on the engine.
//!
//! ```
//! use noetl_oracle::generate::{GenConfig, generate_playbook};
//! use noetl_oracle::{CommandOrder, ScriptedOutcomes, interpret_playbook, start_workload};
//! use noetl_types::Json;
//!
//! let draft = generate_playbook(7, &GenConfig::default());
//! let playbook = draft.to_playbook().expect("generated playbooks are valid");
//! let workload = start_workload(&playbook, &Json::Null)?;
//! let order = CommandOrder::IssueOrder;
//! let result = interpret_playbook(&playbook, workload, &ScriptedOutcomes, order)?;
//! assert!(result.status.is_terminal(), "{}", draft.to_yaml());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where the language leaves a choice open, a comment beside the code documents the choice made
//! here. Such comments start with the word "Choice".

pub mod generate;
mod interpret;
mod names;
mod outcome;
mod pipeline;
mod reachability;
mod rng;
mod run_result;
mod script;
mod shrink;
mod writes;

pub use interpret::{
    CommandOrder, RUN_START_TIME, Unsupported, interpret_playbook, interpret_with_cache,
    start_workload,
};
pub use outcome::{ErrorKind, TaskCall, TaskError, ToolAnswer, ToolOutcomes};
pub use run_result::{
    HistoryEvent, RunResult, SkipReason, SkippedStep, StepResult, StepStatus, normalize_data,
};
pub use script::{
    ChildEnd, ChildStatus, ExternalInputs, ScriptedDecision, ScriptedOutcomes, ScriptedSignal,
    parse_child_end, parse_decisions,
};
pub use shrink::{FailurePredicate, shrink_draft, shrink_seed};

#[cfg(test)]
mod tests;
