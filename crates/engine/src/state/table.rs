//! The table of transitions: which event is legal when.
//!
//! An event is legal where all of its rows allow it: the life of the run, the stage of its step, the
//! stage of its command. Nothing else in the engine decides about legality.

use crate::event::{CtxSource, EventKind, SkipReason, Timeout};

/// Declares an enum with the list of its variants.
macro_rules! stages {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$variant_meta])* $variant,)+ }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
        }
    };
}

stages! {
    /// Where a run is.
    pub enum LifeStage {
        /// Before its first event.
        New,
        /// Going on.
        Running,
        /// A failure that nothing caught lets only open commands finish.
        Failing,
        /// Its final step has come up.
        Ending,
        /// Somebody paused it.
        Paused,
        /// After its terminal event.
        Ended,
    }
}

stages! {
    /// Where a step is.
    pub enum StepStage {
        /// Nothing was heard of it.
        Idle,
        /// It has arrivals and is not entered.
        Waiting,
        /// It is entered; arrivals wait for its exit.
        Running,
        /// It ran, or was passed over, and may be entered again.
        Passed,
        /// Nothing leads to it any more.
        Dead,
    }
}

stages! {
    /// Where a command is.
    pub enum CommandStage {
        /// It waits for a worker.
        Pending,
        /// A worker took it.
        Claimed,
        /// A worker runs it.
        Running,
        /// It waits without a worker.
        Parked,
        /// No attempt is left.
        Spent,
        /// Its tasks went well.
        Done,
        /// Its tasks failed.
        Erred,
    }
}

stages! {
    /// What an event does, as far as its legality depends on it.
    pub enum Act {
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
        PassOver,
        /// `step.skipped` of a step that nothing leads to
        Die,
        /// `command.issued`
        Issue,
        /// `command.claimed`
        Claim,
        /// `command.started`
        Begin,
        /// `command.heartbeat`
        Progress,
        /// `call.done`
        CallWell,
        /// `call.done` of a result that is taken over
        TakeOver,
        /// `call.error` that is final
        CallFailed,
        /// `call.error` that is not
        CallRetried,
        /// `command.completed`
        CloseWell,
        /// `command.failed`
        CloseFailed,
        /// `command.cancelled`
        Withdraw,
        /// `command.expired`
        Expire,
        /// `command.result_ignored`
        Ignore,
        /// `loop.done`
        FinishLoop,
        /// `timer.fired` of the run
        TimeOutRun,
        /// `timer.fired` of a step
        TimeOutStep,
        /// `timer.started`
        StartTimer,
        /// `timer.fired` of a command
        FireTimer,
        /// `signal.received` for a task that waits
        TakeSignal,
        /// `signal.received` that is kept
        KeepSignal,
        /// `ctx.updated` of a task or a step
        WriteInRun,
        /// `ctx.updated` of an arc
        WriteOnArc,
        /// Any event that shapes nothing
        Other,
    }
}

impl Act {
    /// What an event does.
    pub fn of(kind: &EventKind) -> Self {
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
                SkipReason::NotRouted => Self::Die,
                SkipReason::Guard { .. } | SkipReason::Admission { .. } => Self::PassOver,
            },
            EventKind::CommandIssued(_) => Self::Issue,
            EventKind::CommandClaimed(_) => Self::Claim,
            EventKind::CommandStarted { .. } => Self::Begin,
            EventKind::CommandHeartbeat { .. } => Self::Progress,
            EventKind::CallDone(_) => Self::CallWell,
            EventKind::TakenOver(_) => Self::TakeOver,
            EventKind::CallError(failed) if failed.retried.is_some() => Self::CallRetried,
            EventKind::CallError(_) => Self::CallFailed,
            EventKind::CommandCompleted(_) => Self::CloseWell,
            EventKind::CommandFailed(_) => Self::CloseFailed,
            EventKind::CommandCancelled(_) => Self::Withdraw,
            EventKind::CommandExpired(_) => Self::Expire,
            EventKind::ResultIgnored(_) => Self::Ignore,
            EventKind::LoopDone(_) => Self::FinishLoop,
            EventKind::TimerFired { timer, .. } => match timer {
                Timeout::Start | Timeout::Execution => Self::TimeOutRun,
                Timeout::Step { .. } => Self::TimeOutStep,
            },
            EventKind::TimerStarted(_) => Self::StartTimer,
            EventKind::CommandTimerFired(_) => Self::FireTimer,
            EventKind::SignalReceived(signal) if signal.taken.is_some() => Self::TakeSignal,
            EventKind::SignalReceived(_) => Self::KeepSignal,
            EventKind::CtxUpdated(updated) => match updated.source {
                CtxSource::Task | CtxSource::Step => Self::WriteInRun,
                CtxSource::Arc => Self::WriteOnArc,
            },
            EventKind::Other(_) => Self::Other,
        }
    }

    /// The lives of a run in which it is legal.
    pub const fn lives(self) -> &'static [LifeStage] {
        use LifeStage::{Ended, Ending, Failing, New, Paused, Running};
        match self {
            Self::Start => &[New],
            Self::Resume => &[Paused],
            Self::Complete
            | Self::Enter
            | Self::PassOver
            | Self::Die
            | Self::Issue
            | Self::TakeOver => &[Running, Ending],
            Self::Pause
            | Self::Fail
            | Self::Exit
            | Self::FinishLoop
            | Self::TimeOutRun
            | Self::TimeOutStep
            | Self::FireTimer
            | Self::TakeSignal
            | Self::KeepSignal
            | Self::WriteInRun
            | Self::WriteOnArc => &[Running, Failing, Ending],
            Self::Cancel
            | Self::Claim
            | Self::Begin
            | Self::Progress
            | Self::CallWell
            | Self::CallFailed
            | Self::CallRetried
            | Self::CloseWell
            | Self::CloseFailed
            | Self::Withdraw
            | Self::StartTimer
            | Self::Expire => &[Running, Failing, Ending, Paused],
            Self::Ignore => &[Running, Failing, Ending, Paused, Ended],
            Self::Other => LifeStage::ALL,
        }
    }

    /// The stages of its step in which it is legal; all for an event that is not about a step.
    pub const fn steps(self) -> &'static [StepStage] {
        use StepStage::{Idle, Passed, Running, Waiting};
        match self {
            Self::Enter | Self::PassOver => &[Waiting],
            Self::Die => &[Idle],
            Self::Exit
            | Self::Issue
            | Self::Claim
            | Self::Begin
            | Self::Progress
            | Self::CallWell
            | Self::TakeOver
            | Self::CallFailed
            | Self::CallRetried
            | Self::CloseWell
            | Self::CloseFailed
            | Self::Withdraw
            | Self::Expire
            | Self::FinishLoop
            | Self::TimeOutStep
            | Self::StartTimer
            | Self::FireTimer
            | Self::TakeSignal
            | Self::WriteInRun => &[Running],
            // The arc may lead back to its own step, which then waits already.
            Self::WriteOnArc => &[Passed, Waiting],
            Self::Start
            | Self::Pause
            | Self::Resume
            | Self::Complete
            | Self::Fail
            | Self::Cancel
            | Self::Ignore
            | Self::TimeOutRun
            | Self::KeepSignal
            | Self::Other => StepStage::ALL,
        }
    }

    /// The stages of its command in which it is legal; all for an event that is not about one.
    pub const fn commands(self) -> &'static [CommandStage] {
        use CommandStage::{Claimed, Done, Erred, Parked, Pending, Running, Spent};
        match self {
            Self::Claim => &[Pending],
            Self::Begin => &[Claimed],
            Self::Progress | Self::Expire => &[Claimed, Running],
            // A worker that parks what it has started begins its timer.
            Self::CallWell | Self::CallRetried | Self::StartTimer => &[Claimed, Running, Parked],
            Self::FireTimer | Self::TakeSignal => &[Parked],
            // The failure of a lost command is told by the server, when no attempt is left.
            Self::CallFailed => &[Claimed, Running, Parked, Spent],
            Self::CloseWell => &[Done],
            Self::CloseFailed => &[Erred],
            Self::Withdraw => &[Pending, Claimed, Running, Parked],
            Self::Start
            | Self::Pause
            | Self::Resume
            | Self::Complete
            | Self::Fail
            | Self::Cancel
            | Self::Enter
            | Self::Exit
            | Self::PassOver
            | Self::Die
            | Self::Issue
            | Self::TakeOver
            | Self::Ignore
            | Self::FinishLoop
            | Self::TimeOutRun
            | Self::TimeOutStep
            | Self::KeepSignal
            | Self::WriteInRun
            | Self::WriteOnArc
            | Self::Other => CommandStage::ALL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of this table is a change of what a log may say.
    #[test]
    fn the_whole_table() {
        let rows: Vec<String> = Act::ALL
            .iter()
            .map(|act| {
                let (lives, steps) = (format!("{:?}", act.lives()), format!("{:?}", act.steps()));
                format!(
                    "{:<12} {lives:<50} {steps:<42} {:?}",
                    format!("{act:?}"),
                    act.commands()
                )
            })
            .collect();
        insta::assert_snapshot!(rows.join("\n"));
    }
}
