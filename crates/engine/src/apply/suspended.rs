//! Applies events of suspended tasks and of signals.

use noetl_types::Timestamp;

use super::{AppliedEvent, ApplyErrorKind, Result};
use crate::event::{
    CommandTimer, CommandTimerFired, PendingCallback, SignalDelivery, SignalReceived,
    SuspensionKind, TimerStarted,
};
use crate::state::{
    BufferedSignal, CommandPhase, DeliveredSignal, ExecutionState, OpenCommandTimer,
    SplitPipelineState, StepPass, StepWork, SuspendedTask,
};

impl ExecutionState {
    /// Starts a timer of a task that begins to wait, or of the delay before its next attempt.
    pub(super) fn apply_timer_started(
        &mut self,
        applied: &AppliedEvent<'_>,
        started: &TimerStarted,
    ) -> Result {
        let time = applied.event.time;
        let attempt = self.continued_attempt(applied, started)?;
        let command = self.legal_command(applied, &started.at)?;
        let open = OpenCommandTimer { timer: started.timer, fire_at: started.fire_at };
        let suspended = match (&mut command.phase, &started.started) {
            (CommandPhase::Leased { .. }, Some(reported))
                if open.timer == CommandTimer::Callback =>
            {
                let reported = reported.clone();
                let mut suspended = SuspendedTask::new(
                    SuspensionKind::Callback(PendingCallback { started: reported }),
                    time,
                );
                suspended.timer = Some(open);
                suspended.attempt = attempt;
                command.phase = CommandPhase::Suspended(Box::new(suspended));
                return Ok(());
            }
            // Only the delay before the next attempt may replace another timer.
            (CommandPhase::Suspended(suspended), None)
                if suspended.timer.is_none() || open.timer == CommandTimer::Retry =>
            {
                suspended
            }
            (
                CommandPhase::Pending { .. }
                | CommandPhase::Leased { .. }
                | CommandPhase::Suspended(_)
                | CommandPhase::Spent
                | CommandPhase::Called(_),
                _,
            ) => return Err(ApplyErrorKind::Contradiction("timer")),
        };
        match (&mut suspended.kind, started.child) {
            (SuspensionKind::Child(call), Some(child)) => call.child = child,
            (_, None) => {}
            (_, Some(_)) => return Err(ApplyErrorKind::Contradiction("child")),
        }
        if open.timer == CommandTimer::Retry {
            suspended.set.clone_from(&started.set);
        }
        suspended.timer = Some(open);
        Ok(())
    }

    /// Returns the attempt with which the task of a command begins.
    fn continued_attempt(&self, applied: &AppliedEvent<'_>, started: &TimerStarted) -> Result<u32> {
        let step = applied.find_step(&started.at.step)?;
        let pipeline =
            self.active_pass(step).and_then(|pass| pass.pipeline_state(started.at.index));
        Ok(pipeline.map_or(1, |pipeline| pipeline.onward.attempt))
    }

    /// Fires a timer: the wait times out, or the next attempt begins.
    pub(super) fn apply_timer_fired(
        &mut self,
        applied: &AppliedEvent<'_>,
        fired: &CommandTimerFired,
    ) -> Result {
        let time = applied.event.time;
        let command = self.legal_command(applied, &fired.at)?;
        let CommandPhase::Suspended(suspended) = &mut command.phase else {
            return Err(ApplyErrorKind::Contradiction("timer"));
        };
        match suspended.timer {
            Some(open) if open.timer == fired.timer => suspended.timer = None,
            Some(_) | None => return Err(ApplyErrorKind::Contradiction("timer")),
        }
        if fired.timer == CommandTimer::Retry {
            begin_next_attempt(suspended, time);
        }
        Ok(())
    }

    /// Receives a signal.
    pub(super) fn apply_signal_received(
        &mut self,
        applied: &AppliedEvent<'_>,
        signal: &SignalReceived,
    ) -> Result {
        let buffered = BufferedSignal::from_event(signal, applied.event.time);
        let Some(delivery) = &signal.delivery else {
            self.signal_buffer.buffer_signal(applied.event.seq, buffered);
            return Ok(());
        };
        self.deliver_signal(applied, delivery, buffered)?;
        if let Some(seq) = delivery.buffered_seq {
            self.signal_buffer.kept.remove(&seq);
        }
        if let Some(broadcast) = signal.broadcast {
            self.signal_buffer.remember_broadcast(broadcast);
        }
        Ok(())
    }

    fn deliver_signal(
        &mut self,
        applied: &AppliedEvent<'_>,
        delivery: &SignalDelivery,
        signal: BufferedSignal,
    ) -> Result {
        let is_buffered =
            delivery.buffered_seq.is_none_or(|seq| self.signal_buffer.kept.contains(&seq));
        if !is_buffered {
            return Err(ApplyErrorKind::Contradiction("kept signal"));
        }
        let command = self.legal_command(applied, &delivery.consumer)?;
        let CommandPhase::Suspended(suspended) = &mut command.phase else {
            return Err(ApplyErrorKind::Contradiction("wait"));
        };
        let awaited_index = delivery.awaited_index;
        suspended.signals.push(DeliveredSignal { awaited_index, signal });
        Ok(())
    }
}

/// Begins the next attempt of a suspended task.
fn begin_next_attempt(suspended: &mut SuspendedTask, now: Timestamp) {
    suspended.attempt = suspended.attempt.saturating_add(1);
    suspended.since = now;
    suspended.signals.clear();
    if let SuspensionKind::Sleep(sleep) = &mut suspended.kind
        && let Some(length) = sleep.length
    {
        sleep.until = now.saturating_add(length);
    }
}

impl StepPass {
    /// Stores the state of a split pipeline after one of its commands.
    pub(super) fn set_pipeline_state(&mut self, index: Option<u32>, state: SplitPipelineState) {
        match (&mut self.work, index) {
            (StepWork::Single { relay, .. }, _) => *relay = Some(Box::new(state)),
            (StepWork::Loop(looping), Some(index)) => looping.relays.insert(index, state),
            (StepWork::Loop(_), None) | (StepWork::Cursor(_), _) => {}
        }
    }

    /// Records that the next command of a split pipeline was issued.
    pub(super) fn mark_segment_issued(&mut self, index: Option<u32>) {
        let pipeline = match (&mut self.work, index) {
            (StepWork::Single { relay: pipeline, .. }, _) => pipeline.as_deref_mut(),
            (StepWork::Loop(looping), Some(index)) => looping.relays.get_mut(&index),
            (StepWork::Loop(_), None) | (StepWork::Cursor(_), _) => None,
        };
        if let Some(pipeline) = pipeline {
            pipeline.is_pending = false;
        }
    }
}
