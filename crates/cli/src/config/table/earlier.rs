//! Settings of earlier releases that deployments still give, and that have nothing to set any more.

use super::super::setting::Facts;
use super::{Setting, read};

/// All of them. Whoever gives one another value than it had is told that nothing comes of it.
pub(crate) static EARLIER: [&Facts; 2] = [&RUNTIME_SWEEP.facts, &AUTO_RECREATE.facts];

pub(crate) static RUNTIME_SWEEP: Setting<u32> = Setting::new(
    "NOETL_RUNTIME_SWEEP_INTERVAL",
    "30",
    read::number::<1, 3600>,
    "No effect: whether a worker is gone is found out whenever somebody asks",
);

pub(crate) static AUTO_RECREATE: Setting<bool> = Setting::new(
    "NOETL_AUTO_RECREATE_RUNTIME",
    "true",
    read::flag,
    "No effect: a process that nobody knows any more registers again by itself",
);
