//! An oracle for the workflow engine: what a playbook must do, worked out the slow and plain way.
//!
//! The engine keeps incremental state and decides event by event. The interpreter here follows the
//! sentences of the language one after the other instead: it searches the graph anew for every
//! question, clones its whole state where a decision may turn out void, and knows nothing of logs,
//! stores or workers. Its clock stands still while anything can be done, and then goes to whatever
//! comes next. It shares the model and the templates with the engine, and no decision.
//!
//! Owns [`interpret`], the [`generate`] module that writes random playbooks, and [`shrink`], which makes
//! a failing one small. It must never depend on the engine.
//!
//! ```
//! use noetl_oracle::generate::{GenConfig, generate};
//! use noetl_oracle::{Schedule, Script, interpret, start_workload};
//! use noetl_types::Json;
//!
//! let draft = generate(7, &GenConfig::default());
//! let playbook = draft.playbook().expect("generated playbooks are valid");
//! let workload = start_workload(&playbook, &Json::Null)?;
//! let result = interpret(&playbook, workload, &Script, Schedule::InOrder)?;
//! assert!(result.status.is_terminal(), "{}", draft.text());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where the language leaves a choice open, the choice made here is written down beside the code
//! and starts with the word "Choice".

pub mod generate;
mod interpret;
mod names;
mod outcome;
mod pipeline;
mod reach;
mod result;
mod rng;
mod script;
mod shrink;
mod writes;

pub use interpret::{BEGINS, Schedule, Unsupported, interpret, interpret_after, start_workload};
pub use outcome::{Answer, Call, ErrorKind, Outcomes, TaskError};
pub use result::{Happening, RunResult, Skip, SkipReason, StepResult, StepStatus, comparable};
pub use script::{ChildEnd, ChildStatus, Decided, Script, Signal, World, child_end, decisions};
pub use shrink::{Fails, shrink, shrink_seed};

#[cfg(test)]
mod tests;
