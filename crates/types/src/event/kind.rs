//! The known event types and their properties.

use crate::status::{EventStatus, ExecutionStatus};
use crate::string_enum::string_enum;

string_enum! {
    /// Type of an event, by its canonical name.
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
        /// Progress that a worker reports. A lease renewal without progress is not an event.
        CommandHeartbeat = "command.heartbeat",
        CommandCompleted = "command.completed",
        CommandFailed = "command.failed",
        CommandCancelled = "command.cancelled",
        /// The lease of an attempt expired.
        CommandExpired = "command.expired",
        /// A late or fenced result, recorded for audit.
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
        /// A message that started no second execution, recorded in the log of the first.
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

        /// Accompanies the terminal event in classic logs, but is not terminal itself.
        WorkflowCompleted = "workflow.completed",
        /// Accompanies the terminal event in classic logs, but is not terminal itself.
        WorkflowFailed = "workflow.failed",
    }
}

/// Class of an event type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventTypeClass {
    /// Ends the execution.
    Terminal(ExecutionStatus),
    /// Allowed after the end of the execution; changes no state.
    Audit,
    /// Written by the server only.
    Server,
    /// A worker may send it.
    Worker,
}

impl EventType {
    /// True if the event ends the execution.
    pub const fn is_terminal(self) -> bool {
        self.terminal_status().is_some()
    }

    /// Returns the final status of the execution, if this event ends it.
    pub const fn terminal_status(self) -> Option<ExecutionStatus> {
        match self.event_class() {
            EventTypeClass::Terminal(status) => Some(status),
            EventTypeClass::Audit | EventTypeClass::Server | EventTypeClass::Worker => None,
        }
    }

    /// True if the event is allowed after the end of its execution.
    pub const fn is_audit(self) -> bool {
        matches!(self.event_class(), EventTypeClass::Audit)
    }

    /// True if a worker may send the event. Names from workers are normalized first, so the step
    /// exit of a classic worker is a finished call here.
    pub const fn may_be_sent_by_worker(self) -> bool {
        matches!(self.event_class(), EventTypeClass::Worker)
    }

    /// Returns the status of every event of this type; `None` if the event itself carries the
    /// status.
    pub const fn default_status(self) -> Option<EventStatus> {
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

    const fn event_class(self) -> EventTypeClass {
        match self {
            Self::PlaybookCompleted => EventTypeClass::Terminal(ExecutionStatus::Completed),
            Self::PlaybookFailed => EventTypeClass::Terminal(ExecutionStatus::Failed),
            Self::PlaybookCancelled => EventTypeClass::Terminal(ExecutionStatus::Cancelled),

            Self::CommandResultIgnored
            | Self::ExecutionForked
            | Self::ExecutionExported
            | Self::ExecutionVerified
            | Self::SubscriptionMessageDeduplicated => EventTypeClass::Audit,

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
            | Self::SubscriptionCircuitClosed => EventTypeClass::Worker,

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
            | Self::WorkflowFailed => EventTypeClass::Server,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// These names are in every stored log, so a changed snapshot is a change of the log format.
    #[test]
    fn event_type_table_is_stable() {
        let rows: Vec<String> = EventType::ALL
            .iter()
            .map(|kind| {
                format!(
                    "{kind:<40} {:?}, {}",
                    kind.event_class(),
                    kind.default_status().map_or("as given", EventStatus::as_str)
                )
            })
            .collect();
        insta::assert_snapshot!(rows.join("\n"));
    }

    #[test]
    fn event_types_are_distinct_and_round_trip() {
        let names: BTreeSet<&str> = EventType::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), EventType::ALL.len());
        for kind in EventType::ALL {
            assert_eq!(EventType::parse(kind.as_str()), Ok(*kind));
        }
        assert_eq!(
            EventType::parse("step.done").unwrap_err().to_string(),
            "`step.done` is not an event type"
        );
    }

    #[test]
    fn terminal_types_have_execution_status() {
        let ends: Vec<_> = EventType::ALL.iter().filter(|kind| kind.is_terminal()).collect();
        assert_eq!(ends.len(), 3);
        for kind in ends {
            let status = kind.terminal_status().unwrap();
            assert!(status.is_terminal());
            assert_eq!(kind.default_status(), Some(status.into()));
            assert!(!kind.is_audit() && !kind.may_be_sent_by_worker());
        }
    }
}
