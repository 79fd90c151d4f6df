//! The whole system as real processes: servers, workers and databases that are killed in mid-run.
//!
//! Every test ends with the same look at the logs: each run that was acknowledged is there, its log
//! has no gap and no edit, it has ended once, and no command has two accepted results.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it measured"
)]

mod api;
mod canary;
mod cancel;
mod constructs;
mod faults;
mod followers;
mod hostile;
mod house;
mod kills;
mod kinds;
mod load;
mod logs;
mod outage;
mod outside;
mod platform;
mod process;
mod roles;
mod servers;
mod storm;
mod town;
mod traces;
mod volume;
mod walls;
mod wire;
mod zombies;
