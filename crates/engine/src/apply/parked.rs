//! Events of tasks that wait without a worker, and of signals.

use noetl_types::Timestamp;

use super::{Misfit, Now};
use crate::event::{
    Callback, CommandTimer, CommandTimerFired, Park, SignalReceived, Taken, TimerStarted,
};
use crate::state::{
    CommandPhase, KeptSignal, OpenTimer, Parked, RelayState, Run, State, TakenSignal, Work,
};

impl State {
    /// A task begins to wait, with an end to it; or it pauses before its next attempt.
    pub(super) fn start_timer(
        &mut self,
        now: &Now<'_>,
        started: &TimerStarted,
    ) -> Result<(), Misfit> {
        let time = now.event.time;
        let attempt = self.attempt_handed_on(now, started)?;
        let command = self.open_command(now, &started.at)?;
        let open = OpenTimer {
            timer: started.timer,
            fire_at: started.fire_at,
        };
        let parked = match (&mut command.phase, &started.started) {
            (CommandPhase::Leased { .. }, Some(known)) if open.timer == CommandTimer::Callback => {
                let known = known.clone();
                let mut parked = Parked::new(Park::Callback(Callback { started: known }), time);
                parked.timer = Some(open);
                parked.attempt = attempt;
                command.phase = CommandPhase::Parked(Box::new(parked));
                return Ok(());
            }
            // Only the pause before the next attempt takes the place of another timer.
            (CommandPhase::Parked(parked), None)
                if parked.timer.is_none() || open.timer == CommandTimer::Retry =>
            {
                parked
            }
            (
                CommandPhase::Pending { .. }
                | CommandPhase::Leased { .. }
                | CommandPhase::Parked(_)
                | CommandPhase::Spent
                | CommandPhase::Called(_),
                _,
            ) => return Err(Misfit::Contradiction("timer")),
        };
        match (&mut parked.park, started.child) {
            (Park::Child(call), Some(child)) => call.child = child,
            (_, None) => {}
            (_, Some(_)) => return Err(Misfit::Contradiction("child")),
        }
        if open.timer == CommandTimer::Retry {
            parked.set.clone_from(&started.set);
        }
        parked.timer = Some(open);
        Ok(())
    }

    /// Which attempt of its task a command begins with.
    fn attempt_handed_on(&self, now: &Now<'_>, started: &TimerStarted) -> Result<u32, Misfit> {
        let step = now.find(&started.at.step)?;
        let relay = self.run(step).and_then(|run| run.relay(started.at.index));
        Ok(relay.map_or(1, |relay| relay.onward.attempt))
    }

    /// The time of a wait is up, or its next attempt begins.
    pub(super) fn fire_timer(
        &mut self,
        now: &Now<'_>,
        fired: &CommandTimerFired,
    ) -> Result<(), Misfit> {
        let time = now.event.time;
        let command = self.open_command(now, &fired.at)?;
        let CommandPhase::Parked(parked) = &mut command.phase else {
            return Err(Misfit::Contradiction("timer"));
        };
        match parked.timer {
            Some(open) if open.timer == fired.timer => parked.timer = None,
            Some(_) | None => return Err(Misfit::Contradiction("timer")),
        }
        if fired.timer == CommandTimer::Retry {
            begin_again(parked, time);
        }
        Ok(())
    }

    /// A signal comes.
    pub(super) fn receive(&mut self, now: &Now<'_>, signal: &SignalReceived) -> Result<(), Misfit> {
        let kept = KeptSignal::of(signal, now.event.time);
        let Some(taken) = &signal.taken else {
            self.mailbox.keep(now.event.seq, kept);
            return Ok(());
        };
        self.take(now, taken, kept)?;
        if let Some(seq) = taken.kept {
            self.mailbox.kept.remove(&seq);
        }
        if let Some(broadcast) = signal.broadcast {
            self.mailbox.note_broadcast(broadcast);
        }
        Ok(())
    }

    fn take(&mut self, now: &Now<'_>, taken: &Taken, signal: KeptSignal) -> Result<(), Misfit> {
        let is_kept = taken
            .kept
            .is_none_or(|seq| self.mailbox.kept.contains(&seq));
        if !is_kept {
            return Err(Misfit::Contradiction("kept signal"));
        }
        let command = self.open_command(now, &taken.by)?;
        let CommandPhase::Parked(parked) = &mut command.phase else {
            return Err(Misfit::Contradiction("wait"));
        };
        let slot = taken.slot;
        parked.signals.push(TakenSignal { slot, signal });
        Ok(())
    }
}

/// The next attempt of a task begins to wait.
fn begin_again(parked: &mut Parked, now: Timestamp) {
    parked.attempt = parked.attempt.saturating_add(1);
    parked.since = now;
    parked.signals.clear();
    if let Park::Sleep(sleep) = &mut parked.park
        && let Some(length) = sleep.length
    {
        sleep.until = now.saturating_add(length);
    }
}

impl Run {
    /// Keeps what a command of a split pipeline hands on.
    pub(super) fn hand_on(&mut self, index: Option<u32>, handed: RelayState) {
        match (&mut self.work, index) {
            (Work::Single { relay, .. }, _) => *relay = Some(Box::new(handed)),
            (Work::Loop(looping), Some(index)) => looping.relays.insert(index, handed),
            (Work::Loop(_), None) | (Work::Cursor(_), _) => {}
        }
    }

    /// Notes that the next command of a split pipeline was issued.
    pub(super) fn relay_is_issued(&mut self, index: Option<u32>) {
        let relay = match (&mut self.work, index) {
            (Work::Single { relay, .. }, _) => relay.as_deref_mut(),
            (Work::Loop(looping), Some(index)) => looping.relays.get_mut(&index),
            (Work::Loop(_), None) | (Work::Cursor(_), _) => None,
        };
        if let Some(relay) = relay {
            relay.is_pending = false;
        }
    }
}
