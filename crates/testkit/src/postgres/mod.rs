//! Real PostgreSQL for tests.
//!
//! One cluster serves all test processes that the same runner starts, so that a suite runs one
//! `initdb`. Without such a runner, each process has its own cluster. Each test has a separate
//! database. A supervisor shell runs the cluster, watches its owner, and removes everything when
//! the owner ends in any way. The cluster listens only on a socket in its folder, runs as another
//! user if the tests run as root, and deliberately has a default time zone other than UTC.

mod cluster;
mod database;
mod kill;
#[cfg(test)]
mod tests;
mod tls_proxy;

pub use cluster::{ClusterRole, PostgresCluster, PostgresMissing};
pub use database::TestDatabase;
pub use tls_proxy::{TLS_AUTHORITY_PEM, start_tls_proxy};
