//! Transition table: the stages in which each event is legal.
//!
//! An event is legal if all of its rows allow it: the stage of the execution, of its step and of
//! its command. Nothing else in the engine decides about legality.

use crate::event::{CtxSource, EventKind, ExecutionTimer, SkipReason};

/// Declares an enum with the list of its variants.
macro_rules! stages {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }

        impl $name {
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
        }
    };
}

stages! {
    /// Stage of an execution.
    pub enum ExecutionStage {
        /// Before the first event.
        New,
        /// Running.
        Running,
        /// An uncaught failure lets only open commands finish.
        Failing,
        /// The final step was entered.
        Ending,
        /// Paused.
        Paused,
        /// After the terminal event.
        Ended,
    }
}

stages! {
    /// Stage of a step.
    pub enum StepStage {
        /// No event concerned it yet.
        Idle,
        /// It has arrivals and is not entered.
        Waiting,
        /// It is entered. New arrivals wait for its exit.
        Running,
        /// It ran or was skipped, and may be entered again.
        Passed,
        /// No active step can lead to it any more.
        Dead,
    }
}

stages! {
    /// Stage of a command.
    pub enum CommandStage {
        /// Waits for a worker.
        Pending,
        /// Claimed by a worker.
        Claimed,
        /// Started by a worker.
        Running,
        /// Suspended: waits without a worker.
        Suspended,
        /// All attempts are used up.
        Spent,
        /// Its tasks succeeded.
        Done,
        /// Its tasks failed.
        Failed,
    }
}

stages! {
    /// Kind of a state transition, as far as legality depends on it.
    pub enum TransitionKind {
        /// `playbook.started`
        Start,
        /// `playbook.paused`
        Pause,
        /// `playbook.resumed`
        Resume,
        /// `playbook.completed`
        Complete,
        /// `playbook.failed`
        Fail,
        /// `playbook.cancelled`
        Cancel,
        /// `step.enter`
        Enter,
        /// `step.exit`
        Exit,
        /// `step.skipped` of a guard or an admission
        Skip,
        /// `step.skipped` of a step that no active step can lead to
        MarkDead,
        /// `command.issued`
        Issue,
        /// `command.claimed`
        Claim,
        /// `command.started`
        StartCommand,
        /// `command.heartbeat`
        Progress,
        /// `call.done`
        CallSucceeded,
        /// `call.done` of a reused cached result
        ReuseResult,
        /// `call.error` that is final
        CallFailed,
        /// `call.error` that is retried
        CallRetried,
        /// `command.completed`
        CompleteCommand,
        /// `command.failed`
        FailCommand,
        /// `command.cancelled`
        CancelCommand,
        /// `command.expired`
        Expire,
        /// `command.result_ignored`
        Ignore,
        /// `loop.done`
        FinishLoop,
        /// `timer.fired` of the execution
        TimeOutExecution,
        /// `timer.fired` of a step
        TimeOutStep,
        /// `timer.started`
        StartTimer,
        /// `timer.fired` of a command
        FireTimer,
        /// `signal.received` that is delivered to a task
        DeliverSignal,
        /// `signal.received` that is buffered
        BufferSignal,
        /// `ctx.updated` of a task or a step
        WriteInStep,
        /// `ctx.updated` of an arc
        WriteOnArc,
        /// Any event without effect on the state
        Other,
    }
}

impl TransitionKind {
    /// Returns the transition of an event.
    pub fn from_event(kind: &EventKind) -> Self {
        match kind {
            EventKind::PlaybookStarted(_) => Self::Start,
            EventKind::PlaybookPaused(_) => Self::Pause,
            EventKind::PlaybookResumed(_) => Self::Resume,
            EventKind::PlaybookCompleted { .. } => Self::Complete,
            EventKind::PlaybookFailed(_) => Self::Fail,
            EventKind::PlaybookCancelled(_) => Self::Cancel,
            EventKind::StepEntered(_) => Self::Enter,
            EventKind::StepExited(_) => Self::Exit,
            EventKind::StepSkipped(skipped) => match skipped.reason {
                SkipReason::NotRouted => Self::MarkDead,
                SkipReason::Guard { .. } | SkipReason::Admission { .. } => Self::Skip,
            },
            EventKind::CommandIssued(_) => Self::Issue,
            EventKind::CommandClaimed(_) => Self::Claim,
            EventKind::CommandStarted { .. } => Self::StartCommand,
            EventKind::CommandHeartbeat { .. } => Self::Progress,
            EventKind::CallDone(_) => Self::CallSucceeded,
            EventKind::CachedResultUsed(_) => Self::ReuseResult,
            EventKind::CallError(failed) if failed.retried.is_some() => Self::CallRetried,
            EventKind::CallError(_) => Self::CallFailed,
            EventKind::CommandCompleted(_) => Self::CompleteCommand,
            EventKind::CommandFailed(_) => Self::FailCommand,
            EventKind::CommandCancelled(_) => Self::CancelCommand,
            EventKind::CommandExpired(_) => Self::Expire,
            EventKind::ResultIgnored(_) => Self::Ignore,
            EventKind::LoopDone(_) => Self::FinishLoop,
            EventKind::TimerFired { timer, .. } => match timer {
                ExecutionTimer::Start | ExecutionTimer::Execution => Self::TimeOutExecution,
                ExecutionTimer::Step { .. } => Self::TimeOutStep,
            },
            EventKind::TimerStarted(_) => Self::StartTimer,
            EventKind::CommandTimerFired(_) => Self::FireTimer,
            EventKind::SignalReceived(signal) if signal.delivery.is_some() => Self::DeliverSignal,
            EventKind::SignalReceived(_) => Self::BufferSignal,
            EventKind::CtxUpdated(updated) => match updated.source {
                CtxSource::Task | CtxSource::Step => Self::WriteInStep,
                CtxSource::Arc => Self::WriteOnArc,
            },
            EventKind::Other(_) => Self::Other,
        }
    }

    /// Stages of the execution in which it is legal.
    pub const fn execution_stages(self) -> &'static [ExecutionStage] {
        use ExecutionStage::{Ended, Ending, Failing, New, Paused, Running};
        match self {
            Self::Start => &[New],
            Self::Resume => &[Paused],
            Self::Complete
            | Self::Enter
            | Self::Skip
            | Self::MarkDead
            | Self::Issue
            | Self::ReuseResult => &[Running, Ending],
            Self::Pause
            | Self::Fail
            | Self::Exit
            | Self::FinishLoop
            | Self::TimeOutExecution
            | Self::TimeOutStep
            | Self::FireTimer
            | Self::DeliverSignal
            | Self::BufferSignal
            | Self::WriteInStep
            | Self::WriteOnArc => &[Running, Failing, Ending],
            Self::Cancel
            | Self::Claim
            | Self::StartCommand
            | Self::Progress
            | Self::CallSucceeded
            | Self::CallFailed
            | Self::CallRetried
            | Self::CompleteCommand
            | Self::FailCommand
            | Self::CancelCommand
            | Self::StartTimer
            | Self::Expire => &[Running, Failing, Ending, Paused],
            Self::Ignore => &[Running, Failing, Ending, Paused, Ended],
            Self::Other => ExecutionStage::ALL,
        }
    }

    /// Stages of its step in which it is legal. All stages if the event has no step.
    pub const fn step_stages(self) -> &'static [StepStage] {
        use StepStage::{Idle, Passed, Running, Waiting};
        match self {
            Self::Enter | Self::Skip => &[Waiting],
            Self::MarkDead => &[Idle],
            Self::Exit
            | Self::Issue
            | Self::Claim
            | Self::StartCommand
            | Self::Progress
            | Self::CallSucceeded
            | Self::ReuseResult
            | Self::CallFailed
            | Self::CallRetried
            | Self::CompleteCommand
            | Self::FailCommand
            | Self::CancelCommand
            | Self::Expire
            | Self::FinishLoop
            | Self::TimeOutStep
            | Self::StartTimer
            | Self::FireTimer
            | Self::DeliverSignal
            | Self::WriteInStep => &[Running],
            // The arc may lead back to its own step, which then already waits.
            Self::WriteOnArc => &[Passed, Waiting],
            Self::Start
            | Self::Pause
            | Self::Resume
            | Self::Complete
            | Self::Fail
            | Self::Cancel
            | Self::Ignore
            | Self::TimeOutExecution
            | Self::BufferSignal
            | Self::Other => StepStage::ALL,
        }
    }

    /// Stages of its command in which it is legal. All stages if the event has no command.
    pub const fn command_stages(self) -> &'static [CommandStage] {
        use CommandStage::{Claimed, Done, Failed, Pending, Running, Spent, Suspended};
        match self {
            Self::Claim => &[Pending],
            Self::StartCommand => &[Claimed],
            Self::Progress | Self::Expire => &[Claimed, Running],
            // A worker that suspends a task it has started also starts its timer.
            Self::CallSucceeded | Self::CallRetried | Self::StartTimer => {
                &[Claimed, Running, Suspended]
            }
            Self::FireTimer | Self::DeliverSignal => &[Suspended],
            // The server records the failure of a lost command after its last attempt.
            Self::CallFailed => &[Claimed, Running, Suspended, Spent],
            Self::CompleteCommand => &[Done],
            Self::FailCommand => &[Failed],
            Self::CancelCommand => &[Pending, Claimed, Running, Suspended],
            Self::Start
            | Self::Pause
            | Self::Resume
            | Self::Complete
            | Self::Fail
            | Self::Cancel
            | Self::Enter
            | Self::Exit
            | Self::Skip
            | Self::MarkDead
            | Self::Issue
            | Self::ReuseResult
            | Self::Ignore
            | Self::FinishLoop
            | Self::TimeOutExecution
            | Self::TimeOutStep
            | Self::BufferSignal
            | Self::WriteInStep
            | Self::WriteOnArc
            | Self::Other => CommandStage::ALL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of this table changes which logs are valid.
    #[test]
    fn transition_table_is_stable() {
        let rows: Vec<String> = TransitionKind::ALL
            .iter()
            .map(|transition| {
                let (executions, steps) = (
                    format!("{:?}", transition.execution_stages()),
                    format!("{:?}", transition.step_stages()),
                );
                format!(
                    "{:<12} {executions:<50} {steps:<42} {:?}",
                    format!("{transition:?}"),
                    transition.command_stages()
                )
            })
            .collect();
        insta::assert_snapshot!(rows.join("\n"));
    }
}
