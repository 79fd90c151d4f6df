//! The figures, and what they are called.

use serde::{Deserialize, Serialize};

/// A figure that a workload gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// W1, the median of single runs, in ms.
    RunP50Ms,
    /// W1, the 99th percentile of single runs, in ms.
    RunP99Ms,
    /// W2, runs per second.
    RunsPerS,
    /// W3, the median of sequences, in ms.
    SequenceP50Ms,
    /// W4, a fan-out and its join, in s.
    FanOutS,
    /// W4, an iteration of the short loop, in µs.
    ShortLoopUs,
    /// W4, an iteration of the long loop, in µs.
    LongLoopUs,
    /// W5, resident memory of the server after a start, in MiB.
    IdleServerMib,
    /// W5, resident memory of the worker after a start, in MiB.
    IdleWorkerMib,
    /// W5, resident memory of the server after some runs, in MiB.
    UsedServerMib,
    /// W5, resident memory of the worker after some runs, in MiB.
    UsedWorkerMib,
    /// W5, the proportional share of the PostgreSQL cluster after a start, in MiB.
    IdlePostgresMib,
    /// W5, from the first start to the first accepted run, in s.
    FirstStartS,
    /// W5, the same on the store that is there already.
    SecondStartS,
    /// W6, python steps per second.
    PythonStepsPerS,
    /// W6, the start of a bare interpreter, in ms.
    InterpreterMs,
    /// W6, python steps in the time of one bare start.
    StepsPerInterpreter,
    /// W7, events of the longest log per second, folded as a whole and without a snapshot.
    ReplayEventsPerS,
    /// W7, the state in the middle of the shortest log, in ms.
    AsOfShortMs,
    /// W7, the state in the middle of the log that is ten times as long, in ms.
    AsOfMediumMs,
    /// W7, the state in the middle of the log that is a hundred times as long, in ms.
    AsOfLongMs,
}

/// Which way a figure gets better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
}

impl Better {
    /// How many times as good one value is as another.
    pub(crate) fn ratio(self, ours: f64, theirs: f64) -> f64 {
        match self {
            Self::Lower => theirs / ours,
            Self::Higher => ours / theirs,
        }
    }

    /// Whether the first value is the better one.
    pub(crate) fn prefers(self, first: f64, second: f64) -> bool {
        match self {
            Self::Lower => first < second,
            Self::Higher => first > second,
        }
    }
}
