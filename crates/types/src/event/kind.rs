//! The known event types and their properties.

use EventTypeClass::{Audit, Server, Terminal, Worker};

use crate::status::{EventStatus, ExecutionStatus};
use crate::string_enum::string_enum;

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

/// Declares the event types: name, class, and the status of every event of the type. `None` means
/// that the event itself carries the status.
macro_rules! event_types {
    ($($(#[$meta:meta])* $variant:ident = $name:literal: $class:expr, $status:expr;)+) => {
        string_enum! {
            /// Type of an event, by its canonical name.
            pub enum EventType("an event type") { $($(#[$meta])* $variant = $name,)+ }
        }

        impl EventType {
            const fn event_class(self) -> EventTypeClass {
                match self { $(Self::$variant => $class,)+ }
            }

            /// Returns the status of every event of this type; `None` if the event itself carries
            /// the status.
            pub const fn default_status(self) -> Option<EventStatus> {
                match self { $(Self::$variant => $status,)+ }
            }
        }
    };
}

event_types! {
    PlaybookStarted = "playbook.started": Server, Some(EventStatus::Started);
    PlaybookPaused = "playbook.paused": Server, Some(EventStatus::Paused);
    PlaybookResumed = "playbook.resumed": Server, Some(EventStatus::Running);
    /// The execution was cancelled, and its final step still runs.
    PlaybookCancelRequested = "playbook.cancel_requested": Server, Some(EventStatus::Running);
    PlaybookCompleted = "playbook.completed": Terminal(ExecutionStatus::Completed), Some(EventStatus::Completed);
    PlaybookFailed = "playbook.failed": Terminal(ExecutionStatus::Failed), Some(EventStatus::Failed);
    PlaybookCancelled = "playbook.cancelled": Terminal(ExecutionStatus::Cancelled), Some(EventStatus::Cancelled);

    StepEnter = "step.enter": Server, Some(EventStatus::Entered);
    StepExit = "step.exit": Server, None;
    StepSkipped = "step.skipped": Server, Some(EventStatus::Skipped);

    CommandIssued = "command.issued": Server, Some(EventStatus::Pending);
    CommandClaimed = "command.claimed": Server, Some(EventStatus::Claimed);
    CommandStarted = "command.started": Worker, Some(EventStatus::Running);
    /// Progress that a worker reports. A lease renewal without progress is not an event.
    CommandHeartbeat = "command.heartbeat": Worker, Some(EventStatus::Running);
    CommandCompleted = "command.completed": Worker, Some(EventStatus::Completed);
    CommandFailed = "command.failed": Worker, Some(EventStatus::Failed);
    CommandCancelled = "command.cancelled": Server, Some(EventStatus::Cancelled);
    /// The lease of an attempt expired.
    CommandExpired = "command.expired": Server, Some(EventStatus::Expired);
    /// A late or fenced result, recorded for audit.
    CommandResultIgnored = "command.result_ignored": Audit, Some(EventStatus::Ignored);

    CallDone = "call.done": Worker, Some(EventStatus::Completed);
    CallError = "call.error": Worker, Some(EventStatus::Failed);

    LoopDone = "loop.done": Server, Some(EventStatus::Completed);
    LoopItem = "loop.item": Worker, None;
    LoopShardDone = "loop.shard.done": Server, None;
    LoopShardFailed = "loop.shard.failed": Server, None;
    LoopFaninCompleted = "loop.fanin.completed": Server, None;
    LoopStalled = "loop.stalled": Server, None;

    TimerStarted = "timer.started": Server, Some(EventStatus::Started);
    TimerFired = "timer.fired": Server, Some(EventStatus::Fired);
    SignalReceived = "signal.received": Server, Some(EventStatus::Received);
    CtxUpdated = "ctx.updated": Server, Some(EventStatus::Context);

    // Reserved for planned operations; not written yet.
    ExecutionForked = "execution.forked": Audit, Some(EventStatus::Audit);
    ExecutionExported = "execution.exported": Audit, Some(EventStatus::Audit);
    ExecutionVerified = "execution.verified": Audit, Some(EventStatus::Audit);

    // Stages and frames of classic logs, which only a replay reads.
    StageOpened = "stage.opened": Server, None;
    StageClosed = "stage.closed": Server, None;

    FrameDispatched = "frame.dispatched": Worker, None;
    FrameStarted = "frame.started": Worker, None;
    FrameHeartbeat = "frame.heartbeat": Worker, None;
    FrameCommitted = "frame.committed": Worker, None;
    FrameFailed = "frame.failed": Worker, None;
    FrameAbandoned = "frame.abandoned": Worker, None;

    // Reserved: of classic logs, stored as given.
    BatchAccepted = "batch.accepted": Worker, None;
    BatchProcessing = "batch.processing": Worker, None;
    BatchCompleted = "batch.completed": Worker, None;
    BatchFailed = "batch.failed": Worker, None;

    // Reserved for subscriptions, except for the deduplicated message, which the server writes.
    SubscriptionRegistered = "subscription.registered": Server, Some(EventStatus::Registered);
    SubscriptionActivated = "subscription.activated": Server, Some(EventStatus::Active);
    SubscriptionPaused = "subscription.paused": Server, Some(EventStatus::Paused);
    SubscriptionResumed = "subscription.resumed": Server, Some(EventStatus::Active);
    SubscriptionDraining = "subscription.draining": Server, Some(EventStatus::Draining);
    SubscriptionDeactivated = "subscription.deactivated": Server, Some(EventStatus::Deactivated);
    SubscriptionRateLimited = "subscription.rate_limited": Worker, None;
    /// A message that started no second execution, recorded in the log of the first.
    SubscriptionMessageDeduplicated = "subscription.message.deduplicated": Audit, Some(EventStatus::Deduplicated);
    SubscriptionMessageDirectivesApplied = "subscription.message.directives_applied": Worker, None;
    SubscriptionMessageSpooled = "subscription.message.spooled": Worker, None;
    SubscriptionMessageReplayed = "subscription.message.replayed": Worker, None;
    SubscriptionMessageDropped = "subscription.message.dropped": Worker, None;
    SubscriptionMessageDeadLettered = "subscription.message.dead_lettered": Worker, None;
    SubscriptionSpoolRecovered = "subscription.spool.recovered": Worker, None;
    SubscriptionSpoolDraining = "subscription.spool.draining": Worker, None;
    SubscriptionSpoolAlert = "subscription.spool.alert": Worker, None;
    SubscriptionCircuitOpened = "subscription.circuit.opened": Worker, None;
    SubscriptionCircuitClosed = "subscription.circuit.closed": Worker, None;

    /// Accompanies the terminal event in classic logs, but is not terminal itself.
    WorkflowCompleted = "workflow.completed": Server, None;
    /// Accompanies the terminal event in classic logs, but is not terminal itself.
    WorkflowFailed = "workflow.failed": Server, None;
}

impl EventType {
    /// True if the event ends the execution.
    pub const fn is_terminal(self) -> bool {
        self.terminal_status().is_some()
    }

    /// Returns the final status of the execution, if this event ends it.
    pub const fn terminal_status(self) -> Option<ExecutionStatus> {
        match self.event_class() {
            Terminal(status) => Some(status),
            Audit | Server | Worker => None,
        }
    }

    /// True if the event is allowed after the end of its execution.
    pub const fn is_audit(self) -> bool {
        matches!(self.event_class(), Audit)
    }

    /// True if a worker may send the event. Names from workers are normalized first, so the step
    /// exit of a classic worker is a finished call here.
    pub const fn may_be_sent_by_worker(self) -> bool {
        matches!(self.event_class(), Worker)
    }
}

#[cfg(test)]
mod tests;
