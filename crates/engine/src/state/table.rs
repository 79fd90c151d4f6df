//! Transition table: the stages in which each event is legal.
//!
//! An event is legal if all of its rows allow it: the stage of the execution, of its step and of
//! its command. Nothing else in the engine decides about legality.

use crate::event::{CtxSource, EventKind, ExecutionTimer, SkipReason};
use CommandStage::{Claimed, Done, Failed, Pending, Running, Spent, Suspended};
use StepStage::{Idle, Passed, Waiting};

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
        /// An uncaught failure lets only open commands finish, or the execution was interrupted.
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

/// Declares the transitions, the event of each, and the stages of the execution, of the step and of
/// the command in which it is legal.
macro_rules! transitions {
    ($($event:literal $name:ident: $executions:expr, $steps:expr, $commands:expr;)+) => {
        /// Kind of a state transition, as far as legality depends on it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum TransitionKind { $(#[doc = $event] $name,)+ }

        impl TransitionKind {
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Stages of the execution in which it is legal.
            pub const fn execution_stages(self) -> &'static [ExecutionStage] {
                match self { $(Self::$name => $executions,)+ }
            }

            /// Stages of its step in which it is legal. All stages if the event has no step.
            pub const fn step_stages(self) -> &'static [StepStage] {
                match self { $(Self::$name => $steps,)+ }
            }

            /// Stages of its command in which it is legal. All stages if the event has no command.
            pub const fn command_stages(self) -> &'static [CommandStage] {
                match self { $(Self::$name => $commands,)+ }
            }
        }
    };
}

/// Stages in which steps can be entered.
const ADVANCING: &[ExecutionStage] = &[ExecutionStage::Running, ExecutionStage::Ending];
/// Stages in which the execution neither waits to start, is paused nor has ended.
const ACTIVE: &[ExecutionStage] =
    &[ExecutionStage::Running, ExecutionStage::Failing, ExecutionStage::Ending];
/// Stages in which commands can be open.
const OPEN: &[ExecutionStage] = &[
    ExecutionStage::Running,
    ExecutionStage::Failing,
    ExecutionStage::Ending,
    ExecutionStage::Paused,
];
const STARTED: &[ExecutionStage] = &[
    ExecutionStage::Running,
    ExecutionStage::Failing,
    ExecutionStage::Ending,
    ExecutionStage::Paused,
    ExecutionStage::Ended,
];
const IN_STEP: &[StepStage] = &[StepStage::Running];
const ANY_STEP: &[StepStage] = StepStage::ALL;
const ANY: &[CommandStage] = CommandStage::ALL;

transitions! {
    "`playbook.started`" Start: &[ExecutionStage::New], ANY_STEP, ANY;
    "`playbook.paused`" Pause: ACTIVE, ANY_STEP, ANY;
    "`playbook.resumed`" Resume: &[ExecutionStage::Paused], ANY_STEP, ANY;
    "`playbook.completed`" Complete: ADVANCING, ANY_STEP, ANY;
    "`playbook.failed`" Fail: ACTIVE, ANY_STEP, ANY;
    "`playbook.cancel_requested`" RequestCancel: &[ExecutionStage::Running, ExecutionStage::Failing], ANY_STEP, ANY;
    "`playbook.cancelled`" Cancel: OPEN, ANY_STEP, ANY;
    "`step.enter`" Enter: ADVANCING, &[Waiting], ANY;
    "`step.exit`" Exit: ACTIVE, IN_STEP, ANY;
    "`step.skipped` of a guard or an admission" Skip: ADVANCING, &[Waiting], ANY;
    "`step.skipped` of a step that no active step can lead to" MarkDead: ADVANCING, &[Idle], ANY;
    "`command.issued`" Issue: ADVANCING, IN_STEP, ANY;
    "`command.claimed`" Claim: OPEN, IN_STEP, &[Pending];
    "`command.started`" StartCommand: OPEN, IN_STEP, &[Claimed];
    "`command.heartbeat`" Progress: OPEN, IN_STEP, &[Claimed, Running];
    "`call.done`" CallSucceeded: OPEN, IN_STEP, &[Claimed, Running, Suspended];
    "`call.done` of a reused cached result" ReuseResult: ADVANCING, IN_STEP, ANY;
    // The server records the failure of a lost command after its last attempt.
    "`call.error` that is final" CallFailed: OPEN, IN_STEP, &[Claimed, Running, Suspended, Spent];
    "`call.error` that is retried" CallRetried: OPEN, IN_STEP, &[Claimed, Running, Suspended];
    "`command.completed`" CompleteCommand: OPEN, IN_STEP, &[Done];
    "`command.failed`" FailCommand: OPEN, IN_STEP, &[Failed];
    "`command.cancelled`" CancelCommand: OPEN, IN_STEP, &[Pending, Claimed, Running, Suspended];
    "`command.expired`" Expire: OPEN, IN_STEP, &[Claimed, Running];
    "`command.result_ignored`" Ignore: STARTED, ANY_STEP, ANY;
    "`loop.done`" FinishLoop: ACTIVE, IN_STEP, ANY;
    "`timer.fired` of the execution" TimeOutExecution: ACTIVE, ANY_STEP, ANY;
    "`timer.fired` of a step" TimeOutStep: ACTIVE, IN_STEP, ANY;
    // A worker that suspends a task it has started also starts its timer.
    "`timer.started`" StartTimer: OPEN, IN_STEP, &[Claimed, Running, Suspended];
    "`timer.fired` of a command" FireTimer: ACTIVE, IN_STEP, &[Suspended];
    "`signal.received` that is delivered to a task" DeliverSignal: ACTIVE, IN_STEP, &[Suspended];
    "`signal.received` that is buffered" BufferSignal: ACTIVE, ANY_STEP, ANY;
    "`ctx.updated` of a task or a step" WriteInStep: ACTIVE, IN_STEP, ANY;
    // The arc may lead back to its own step, which then already waits.
    "`ctx.updated` of an arc" WriteOnArc: ACTIVE, &[Passed, Waiting], ANY;
    "Any event without effect on the state" Other: ExecutionStage::ALL, ANY_STEP, ANY;
}

impl TransitionKind {
    /// Returns the transition of an event.
    pub fn from_event(kind: &EventKind) -> Self {
        match kind {
            EventKind::PlaybookStarted(_) => Self::Start,
            EventKind::PlaybookPaused(_) => Self::Pause,
            EventKind::PlaybookResumed(_) => Self::Resume,
            EventKind::PlaybookCancelRequested(_) => Self::RequestCancel,
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
}

#[cfg(test)]
mod tests;
