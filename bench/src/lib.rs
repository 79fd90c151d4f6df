//! Measures NoETL: the duration of a run, the throughput of a machine, and the cost of idling.
//!
//! Owns the workloads, the two shapes in which they run the product, the check that nothing was
//! lost, and the tables. Every store syncs each commit, and every run that a workload started is
//! looked up in the log afterwards: a missing run is an error, never a lower figure.
//!
//! Must not reach into the internals of the product. It uses what an embedder or a client of the
//! API has.

pub mod args;
mod broker;
mod cpu_sampler;
mod document;
mod error;
mod machine;
mod measurement;
mod metric;
mod peers;
mod pgboss;
mod playbooks;
mod progress;
mod publishing;
mod report;
mod run_ledger;
mod scale;
mod stats;
mod store_site;
mod system;
mod workload;

pub use document::{BenchDocument, MeasurementRound, SessionMeta, SystemResult};
pub use error::BenchError;
pub use measurement::{MeasurementPlan, measure_all, measure_system};
pub use metric::Metric;
pub use peers::PeerHarness;
pub use progress::ProgressOutput;
pub use publishing::PublishingMode;
pub use report::render_report;
pub use scale::WorkloadScale;
pub use store_site::StoreKind;
pub use system::{ShapeKind, SystemShape};
pub use workload::{Measurement, Workload};
