//! Figures of the workloads.

use serde::{Deserialize, Serialize};

/// A figure of a workload.
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
    /// W5, from a start on the existing store to the first accepted run, in s.
    SecondStartS,
    /// W6, python steps per second.
    PythonStepsPerS,
    /// W6, the start of a bare interpreter, in ms.
    InterpreterMs,
    /// W6, python steps in the time of one bare start.
    StepsPerInterpreter,
    /// W7, events per second of the longest log, replayed as a whole without a snapshot.
    ReplayEventsPerS,
    /// W7, events per second of the longest log, replayed from memory, with checksums.
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
    /// W7, the state at the end of the shortest log whose state does not grow, in ms.
    SteadyEndShortMs,
    /// W7, the state at the end of the log that is ten times as long, in ms.
    SteadyEndMediumMs,
    /// W7, the state at the end of the log that is a hundred times as long, in ms.
    SteadyEndLongMs,
    /// W7, the first read inside of the shortest log, in ms.
    SteadyFirstShortMs,
    /// W7, the first read inside of the log that is ten times as long, in ms.
    SteadyFirstMediumMs,
    /// W7, the first read inside of the log that is a hundred times as long, in ms.
    SteadyFirstLongMs,
    /// W7, the state in the middle of the shortest log, in ms.
    SteadyMiddleShortMs,
    /// W7, the state in the middle of the log that is ten times as long, in ms.
    SteadyMiddleMediumMs,
    /// W7, the state in the middle of the log that is a hundred times as long, in ms.
    SteadyMiddleLongMs,
    /// W7, events per second of the longest such log, replayed as a whole without a snapshot.
    SteadyEventsPerS,
    /// W8, from the response to an append until a consumer has its event, the median in ms.
    ConsumerP50Ms,
    /// W8, the 99th percentile, in ms.
    ConsumerP99Ms,
    /// W9, events per second of a backlog that are published to the broker.
    PublishPerS,
    /// W9, messages per second from a plain publisher of the same messages.
    PlainPublishPerS,
    /// W9, our rate in percent of that of the plain publisher.
    PublishShare,
    /// W10, rows per second that are claimed and marked, 50 per batch.
    OutboxFewPerS,
    /// W10, rows per second that are claimed and marked, 1,000 per batch.
    OutboxManyPerS,
    /// W10, jobs per second of pg-boss that are fetched and completed, 50 per batch.
    PgBossFewPerS,
    /// W10, jobs per second of pg-boss that are fetched and completed, 1,000 per batch.
    PgBossManyPerS,
    /// W10, the count of pending rows among many published ones, the median in ms.
    PendingP50Ms,
    /// W10, the 99th percentile, in ms.
    PendingP99Ms,
}

/// Direction in which a figure improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BetterDirection {
    Lower,
    Higher,
}

impl BetterDirection {
    /// Returns the factor by which our value is better.
    pub(crate) fn improvement_ratio(self, ours: f64, theirs: f64) -> f64 {
        match self {
            Self::Lower => theirs / ours,
            Self::Higher => ours / theirs,
        }
    }

    /// True if the first value is better.
    pub(crate) fn is_better(self, first: f64, second: f64) -> bool {
        match self {
            Self::Lower => first < second,
            Self::Higher => first > second,
        }
    }
}
