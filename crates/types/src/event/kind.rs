//! The types of events that the house knows, and what is true of each.

use crate::status::{EventStatus, ExecutionStatus};
use crate::words::words;

words! {
    /// Type of an event, by its canonical word.
    pub enum EventType("an event type") {
        PlaybookStarted = "playbook.started",
        PlaybookPaused = "playbook.paused",
        PlaybookResumed = "playbook.resumed",
        PlaybookCompleted = "playbook.completed",
        PlaybookFailed = "playbook.failed",
        PlaybookCancelled = "playbook.cancelled",

        StepEnter = "step.enter",
        StepExit = "step.exit",
        StepSkipped = "step.skipped",

        CommandIssued = "command.issued",
        CommandClaimed = "command.claimed",
        CommandStarted = "command.started",
        /// Progress that a worker reports; a plain renewal of its lease is no event.
        CommandHeartbeat = "command.heartbeat",
        CommandCompleted = "command.completed",
        CommandFailed = "command.failed",
        CommandCancelled = "command.cancelled",
        /// The lease of an attempt ran out.
        CommandExpired = "command.expired",
        /// A late or fenced result, kept for the record.
        CommandResultIgnored = "command.result_ignored",

        CallDone = "call.done",
        CallError = "call.error",

        LoopDone = "loop.done",
        LoopItem = "loop.item",
        LoopShardDone = "loop.shard.done",
        LoopShardFailed = "loop.shard.failed",
        LoopFaninCompleted = "loop.fanin.completed",
        LoopStalled = "loop.stalled",

        TimerStarted = "timer.started",
        TimerFired = "timer.fired",
        SignalReceived = "signal.received",
        CtxUpdated = "ctx.updated",

        ExecutionForked = "execution.forked",
        ExecutionExported = "execution.exported",
        ExecutionVerified = "execution.verified",

        StageOpened = "stage.opened",
        StageClosed = "stage.closed",

        FrameDispatched = "frame.dispatched",
        FrameStarted = "frame.started",
        FrameHeartbeat = "frame.heartbeat",
        FrameCommitted = "frame.committed",
        FrameFailed = "frame.failed",
        FrameAbandoned = "frame.abandoned",

        BatchAccepted = "batch.accepted",
        BatchProcessing = "batch.processing",
        BatchCompleted = "batch.completed",
        BatchFailed = "batch.failed",

        SubscriptionRegistered = "subscription.registered",
        SubscriptionActivated = "subscription.activated",
        SubscriptionPaused = "subscription.paused",
        SubscriptionResumed = "subscription.resumed",
        SubscriptionDraining = "subscription.draining",
        SubscriptionDeactivated = "subscription.deactivated",
        SubscriptionRateLimited = "subscription.rate_limited",
        /// A message that made no second execution, kept in the log of the first.
        SubscriptionMessageDeduplicated = "subscription.message.deduplicated",
        SubscriptionMessageDirectivesApplied = "subscription.message.directives_applied",
        SubscriptionMessageSpooled = "subscription.message.spooled",
        SubscriptionMessageReplayed = "subscription.message.replayed",
        SubscriptionMessageDropped = "subscription.message.dropped",
        SubscriptionMessageDeadLettered = "subscription.message.dead_lettered",
        SubscriptionSpoolRecovered = "subscription.spool.recovered",
        SubscriptionSpoolDraining = "subscription.spool.draining",
        SubscriptionSpoolAlert = "subscription.spool.alert",
        SubscriptionCircuitOpened = "subscription.circuit.opened",
        SubscriptionCircuitClosed = "subscription.circuit.closed",

        /// Accompanies a terminal event in classic logs, and is none itself.
        WorkflowCompleted = "workflow.completed",
        /// Accompanies a terminal event in classic logs, and is none itself.
        WorkflowFailed = "workflow.failed",
    }
}

/// What is true of a type, whoever looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Ends the execution.
    Terminal(ExecutionStatus),
    /// May follow the end, and changes nothing.
    Audit,
    /// Told by the server alone.
    Server,
    /// A worker may send it.
    Worker,
}

impl EventType {
    /// Whether it ends the execution.
    pub const fn is_terminal(self) -> bool {
        self.ends_as().is_some()
    }

    /// The status that the execution ends with, if this ends it.
    pub const fn ends_as(self) -> Option<ExecutionStatus> {
        match self.class() {
            Class::Terminal(status) => Some(status),
            Class::Audit | Class::Server | Class::Worker => None,
        }
    }

    /// Whether it may follow the end of its execution.
    pub const fn is_audit(self) -> bool {
        matches!(self.class(), Class::Audit)
    }

    /// Whether a worker may send it. What a worker sends is normalised first, so the step exit of a
    /// classic worker is a finished call here.
    pub const fn may_be_sent_by_worker(self) -> bool {
        matches!(self.class(), Class::Worker)
    }

    /// The status of every event of this type; `None` where the event itself decides.
    pub const fn usual_status(self) -> Option<EventStatus> {
        use EventStatus as Status;
        match self {
            Self::PlaybookStarted | Self::TimerStarted => Some(Status::Started),
            Self::PlaybookPaused | Self::SubscriptionPaused => Some(Status::Paused),
            Self::PlaybookResumed | Self::CommandStarted | Self::CommandHeartbeat => {
                Some(Status::Running)
            }
            Self::PlaybookCompleted | Self::CommandCompleted | Self::CallDone | Self::LoopDone => {
                Some(Status::Completed)
            }
            Self::PlaybookFailed | Self::CommandFailed | Self::CallError => Some(Status::Failed),
            Self::PlaybookCancelled | Self::CommandCancelled => Some(Status::Cancelled),
            Self::StepEnter => Some(Status::Entered),
            Self::StepSkipped => Some(Status::Skipped),
            Self::CommandIssued => Some(Status::Pending),
            Self::CommandClaimed => Some(Status::Claimed),
            Self::CommandExpired => Some(Status::Expired),
            Self::CommandResultIgnored => Some(Status::Ignored),
            Self::TimerFired => Some(Status::Fired),
            Self::SignalReceived => Some(Status::Received),
            Self::CtxUpdated => Some(Status::Context),
            Self::ExecutionForked | Self::ExecutionExported | Self::ExecutionVerified => {
                Some(Status::Audit)
            }
            Self::SubscriptionRegistered => Some(Status::Registered),
            Self::SubscriptionActivated | Self::SubscriptionResumed => Some(Status::Active),
            Self::SubscriptionDraining => Some(Status::Draining),
            Self::SubscriptionDeactivated => Some(Status::Deactivated),
            Self::SubscriptionMessageDeduplicated => Some(Status::Deduplicated),
            Self::StepExit
            | Self::LoopItem
            | Self::LoopShardDone
            | Self::LoopShardFailed
            | Self::LoopFaninCompleted
            | Self::LoopStalled
            | Self::StageOpened
            | Self::StageClosed
            | Self::FrameDispatched
            | Self::FrameStarted
            | Self::FrameHeartbeat
            | Self::FrameCommitted
            | Self::FrameFailed
            | Self::FrameAbandoned
            | Self::BatchAccepted
            | Self::BatchProcessing
            | Self::BatchCompleted
            | Self::BatchFailed
            | Self::SubscriptionRateLimited
            | Self::SubscriptionMessageDirectivesApplied
            | Self::SubscriptionMessageSpooled
            | Self::SubscriptionMessageReplayed
            | Self::SubscriptionMessageDropped
            | Self::SubscriptionMessageDeadLettered
            | Self::SubscriptionSpoolRecovered
            | Self::SubscriptionSpoolDraining
            | Self::SubscriptionSpoolAlert
            | Self::SubscriptionCircuitOpened
            | Self::SubscriptionCircuitClosed
            | Self::WorkflowCompleted
            | Self::WorkflowFailed => None,
        }
    }

    const fn class(self) -> Class {
        match self {
            Self::PlaybookCompleted => Class::Terminal(ExecutionStatus::Completed),
            Self::PlaybookFailed => Class::Terminal(ExecutionStatus::Failed),
            Self::PlaybookCancelled => Class::Terminal(ExecutionStatus::Cancelled),

            Self::CommandResultIgnored
            | Self::ExecutionForked
            | Self::ExecutionExported
            | Self::ExecutionVerified
            | Self::SubscriptionMessageDeduplicated => Class::Audit,

            Self::CommandStarted
            | Self::CommandHeartbeat
            | Self::CommandCompleted
            | Self::CommandFailed
            | Self::CallDone
            | Self::CallError
            | Self::LoopItem
            | Self::FrameDispatched
            | Self::FrameStarted
            | Self::FrameHeartbeat
            | Self::FrameCommitted
            | Self::FrameFailed
            | Self::FrameAbandoned
            | Self::BatchAccepted
            | Self::BatchProcessing
            | Self::BatchCompleted
            | Self::BatchFailed
            | Self::SubscriptionRateLimited
            | Self::SubscriptionMessageDirectivesApplied
            | Self::SubscriptionMessageSpooled
            | Self::SubscriptionMessageReplayed
            | Self::SubscriptionMessageDropped
            | Self::SubscriptionMessageDeadLettered
            | Self::SubscriptionSpoolRecovered
            | Self::SubscriptionSpoolDraining
            | Self::SubscriptionSpoolAlert
            | Self::SubscriptionCircuitOpened
            | Self::SubscriptionCircuitClosed => Class::Worker,

            Self::PlaybookStarted
            | Self::PlaybookPaused
            | Self::PlaybookResumed
            | Self::StepEnter
            | Self::StepExit
            | Self::StepSkipped
            | Self::CommandIssued
            | Self::CommandClaimed
            | Self::CommandCancelled
            | Self::CommandExpired
            | Self::LoopDone
            | Self::LoopShardDone
            | Self::LoopShardFailed
            | Self::LoopFaninCompleted
            | Self::LoopStalled
            | Self::TimerStarted
            | Self::TimerFired
            | Self::SignalReceived
            | Self::CtxUpdated
            | Self::StageOpened
            | Self::StageClosed
            | Self::SubscriptionRegistered
            | Self::SubscriptionActivated
            | Self::SubscriptionPaused
            | Self::SubscriptionResumed
            | Self::SubscriptionDraining
            | Self::SubscriptionDeactivated
            | Self::WorkflowCompleted
            | Self::WorkflowFailed => Class::Server,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The words are in every log ever written: a change of this table is a change of them.
    #[test]
    fn the_whole_table() {
        let rows: Vec<String> = EventType::ALL
            .iter()
            .map(|kind| {
                format!(
                    "{kind:<40} {:?}, {}",
                    kind.class(),
                    kind.usual_status().map_or("as given", EventStatus::as_str)
                )
            })
            .collect();
        insta::assert_snapshot!(rows.join("\n"));
    }

    #[test]
    fn words_are_distinct_and_read_back() {
        let words: BTreeSet<&str> = EventType::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(words.len(), EventType::ALL.len());
        for kind in EventType::ALL {
            assert_eq!(EventType::parse(kind.as_str()), Ok(*kind));
        }
        assert_eq!(
            EventType::parse("step.done").unwrap_err().to_string(),
            "`step.done` is not an event type"
        );
    }

    #[test]
    fn ends() {
        let ends: Vec<_> = EventType::ALL
            .iter()
            .filter(|kind| kind.is_terminal())
            .collect();
        assert_eq!(ends.len(), 3);
        for kind in ends {
            let status = kind.ends_as().unwrap();
            assert!(status.is_terminal());
            assert_eq!(kind.usual_status(), Some(status.into()));
            assert!(!kind.is_audit() && !kind.may_be_sent_by_worker());
        }
    }
}
