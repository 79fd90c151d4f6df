//! Simulation of a whole execution in one thread, without clock, store or network.
//!
//! Drives the engine with scripted workers: they render what a real worker renders, follow the
//! policies of tasks, and are lost, late or duplicated on request. The clock does not advance until
//! the test advances it. Every event of an execution is checked: it must decode from its record to
//! the same event, produce the state that the decision announced, and leave a consistent state.

mod chaos_scheduler;
mod coordination;
mod engine_driver;
mod external_responses;
mod log_table;
mod simulation;
mod splitmix;
mod tool_behavior;
mod worker;

pub use chaos_scheduler::{ChaosScheduler, FaultRates};
pub use engine_driver::EngineDriver;
pub use external_responses::{ExternalResponse, ResponseRequest};
pub use simulation::{SimulatedLease, Simulation};
pub use splitmix::SplitMix;
pub use tool_behavior::{SimulatedCall, ToolBehavior};
