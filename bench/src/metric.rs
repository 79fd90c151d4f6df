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
    /// W7, events of the longest log per second, folded from memory and summed up.
    FoldEventsPerS,
    /// W7, the state at the end of the shortest log, in ms.
    EndShortMs,
    /// W7, the state at the end of the log that is ten times as long, in ms.
    EndMediumMs,
    /// W7, the state at the end of the log that is a hundred times as long, in ms.
    EndLongMs,
    /// W7, the state in the middle of the shortest log, in ms.
    AsOfShortMs,
    /// W7, the state in the middle of the log that is ten times as long, in ms.
    AsOfMediumMs,
    /// W7, the state in the middle of the log that is a hundred times as long, in ms.
    AsOfLongMs,
    /// W7, the same three where the state does not grow: at the end of the shortest log, in ms.
    SteadyEndShortMs,
    /// W7, at the end of the log that is ten times as long.
    SteadyEndMediumMs,
    /// W7, at the end of the log that is a hundred times as long.
    SteadyEndLongMs,
    /// W7, somewhere in the shortest log, where nobody has looked before.
    SteadyFirstShortMs,
    /// W7, in the log that is ten times as long.
    SteadyFirstMediumMs,
    /// W7, in the log that is a hundred times as long.
    SteadyFirstLongMs,
    /// W7, in the middle of the shortest log.
    SteadyMiddleShortMs,
    /// W7, in the middle of the log that is ten times as long.
    SteadyMiddleMediumMs,
    /// W7, in the middle of the log that is a hundred times as long.
    SteadyMiddleLongMs,
    /// W7, events per second of the longest such log, folded as a whole and without a snapshot.
    SteadyEventsPerS,
    /// W8, from the answer about an append until a consumer has its event, the median in ms.
    ConsumerP50Ms,
    /// W8, the 99th percentile.
    ConsumerP99Ms,
    /// W9, events per second of a backlog that go to the broker.
    PublishPerS,
    /// W9, the same messages per second from a plain publisher.
    PlainPublishPerS,
    /// W9, the first in percent of the second.
    PublishShare,
    /// W10, rows per second that are taken and marked, 50 at once.
    OutboxFewPerS,
    /// W10, the same 1,000 at once.
    OutboxManyPerS,
    /// W10, jobs per second of pg-boss that are fetched and completed, 50 at once.
    PgBossFewPerS,
    /// W10, the same 1,000 at once.
    PgBossManyPerS,
    /// W10, the count of pending rows beside many published ones, the median in ms.
    PendingP50Ms,
    /// W10, the 99th percentile.
    PendingP99Ms,
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
