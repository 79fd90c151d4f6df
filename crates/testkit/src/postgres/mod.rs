//! A real PostgreSQL for tests.
//!
//! One cluster serves all test processes that the same runner starts, so that a suite pays for one
//! `initdb`; each test has a database of its own. A small shell keeps the cluster, watches the
//! runner, and removes everything when it ends, however it ends. The cluster listens on a socket in
//! its own folder only. Its default time zone is not UTC on purpose.

mod cluster;
mod database;
#[cfg(test)]
mod tests;

pub use cluster::{Cluster, PostgresMissing};
pub use database::Database;
