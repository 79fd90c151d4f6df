//! A real PostgreSQL for tests.
//!
//! One cluster serves all test processes that the same runner starts, so that a suite pays for one
//! `initdb`; without such a runner, a process has one for itself. Each test has a database of its
//! own. A small shell keeps the cluster, watches whom it is for, and removes everything when that
//! ends, however it ends. The cluster listens on a socket in its own folder only, runs as another
//! user where the tests run as root, and its default time zone is not UTC on purpose.

mod cluster;
mod database;
mod front;
mod kill;
#[cfg(test)]
mod tests;

pub use cluster::{Cluster, PostgresMissing, Role};
pub use database::Database;
pub use front::{AUTHORITY, tls_front};
