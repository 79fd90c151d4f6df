//! Measures NoETL: how long a run takes, how many runs a machine bears, what it costs to be idle.
//!
//! Owns the workloads, the two shapes in which they meet the product, the check that nothing was
//! lost, and the tables. Every store syncs each commit, and every run that a workload started is
//! looked up in the log afterwards: what is missing there is an error, never a lower number.
//!
//! Must not: reach into the product. It uses what an embedder or a client of the API has.

pub mod args;
mod broker;
mod document;
mod error;
mod gauge;
mod ledger;
mod machine;
mod metric;
mod outlets;
mod peers;
mod pgboss;
mod playbooks;
mod progress;
mod report;
mod scale;
mod session;
mod site;
mod stats;
mod system;
mod workload;

pub use document::{Document, Meta, Round, SystemResult};
pub use error::BenchError;
pub use metric::Metric;
pub use outlets::Outlets;
pub use peers::Peers;
pub use progress::Progress;
pub use report::render;
pub use scale::Scale;
pub use session::{Choice, measure, measure_system};
pub use site::StoreKind;
pub use system::{Shape, ShapeKind};
pub use workload::{Measurement, Workload};
