//! Scheduler that takes every possible action in a random order determined by a seed.

use noetl_engine::{
    CommandPhase, DecisionError, EngineInput, InputVerdict, ReportOutcome, WorkerReport,
};
use noetl_types::Millis;

use super::simulation::{SimulatedLease, Simulation};
use super::splitmix::SplitMix;

/// Probabilities of faults and optional actions, in percent.
#[derive(Debug, Clone, Copy)]
pub struct FaultRates {
    /// A worker is lost.
    pub lose_worker: u32,
    /// A report is delivered twice.
    pub duplicate_report: u32,
    /// The execution is paused for a while.
    pub pause: u32,
    /// The execution is cancelled.
    pub cancel: u32,
    /// The claim of a worker is recorded in a separate event.
    pub record_claim: u32,
    /// A worker reports progress before it is done.
    pub report_progress: u32,
}

impl FaultRates {
    /// No faults. Only the order is random.
    pub const NO_FAULTS: Self = Self {
        lose_worker: 0,
        duplicate_report: 0,
        pause: 0,
        cancel: 0,
        record_claim: 0,
        report_progress: 0,
    };
    /// Every fault that does not change the outcome.
    pub const HARMLESS_FAULTS: Self = Self {
        lose_worker: 10,
        duplicate_report: 20,
        pause: 5,
        cancel: 0,
        record_claim: 20,
        report_progress: 30,
    };
}

/// Random scheduler of an execution.
#[derive(Debug, Clone)]
pub struct ChaosScheduler {
    rng: SplitMix,
    rates: FaultRates,
    /// Maximum commands executed at once.
    max_working: usize,
    working: Vec<SimulatedLease>,
    /// Reports in transit.
    in_flight: Vec<WorkerReport>,
}

/// Possible next actions, other than control operations.
#[derive(Debug, Clone, Copy)]
enum ChaosAction {
    /// A worker leases a command.
    Lease,
    /// A worker is done, or lost.
    Finish,
    /// A report arrives.
    Deliver,
    /// A suspended task receives a response.
    Respond,
    /// A slot is granted.
    Grant,
}

/// Maximum turns before an execution is considered stuck.
const MAX_TURNS: usize = 200_000;

impl ChaosScheduler {
    /// Creates a scheduler from a seed.
    pub fn new(seed: u64, rates: FaultRates) -> Self {
        let mut rng = SplitMix::new(seed);
        let max_working = 1 + rng.number_below(6);
        Self { rng, rates, max_working, working: Vec::new(), in_flight: Vec::new() }
    }

    /// Drives a started execution to its end, and delivers late reports.
    pub fn run_to_end(&mut self, sim: &mut Simulation) {
        self.run_watched(sim, &mut |_| {});
    }

    /// Drives an execution like `run_to_end`, and calls `watch` after every decision.
    pub fn run_watched(&mut self, sim: &mut Simulation, watch: &mut dyn FnMut(&Simulation)) {
        let mut watched_len = 0;
        for _ in 0..MAX_TURNS {
            if sim.state().is_ended() {
                self.deliver_late_reports(sim);
                return;
            }
            if sim.log().len() > watched_len {
                watched_len = sim.log().len();
                watch(sim);
            }
            self.take_turn(sim);
        }
        panic!("the execution is stuck\n{}", sim.format_log());
    }

    fn take_turn(&mut self, sim: &mut Simulation) {
        if sim.state().is_paused() {
            // Workers continue while the execution is paused.
            if self.rng.draw_percent(40) || (self.working.is_empty() && self.in_flight.is_empty()) {
                assert_eq!(sim.resume_execution(), Ok(InputVerdict::Accepted));
            }
        } else if self.rng.draw_percent(self.rates.pause) {
            assert_eq!(sim.pause_execution(), Ok(InputVerdict::Accepted));
        } else if self.rng.draw_percent(self.rates.cancel) {
            let expected = if sim.state().is_cancelling() {
                InputVerdict::Duplicate
            } else {
                InputVerdict::Accepted
            };
            assert_eq!(sim.cancel_execution(), Ok(expected));
            if !sim.state().is_ended() && self.rng.draw_percent(30) {
                assert_eq!(sim.force_cancel(), Ok(InputVerdict::Accepted));
            }
            return;
        }
        let available = sim.available_commands();
        let requests = sim.response_requests();
        let grantable = sim.grantable_slots();
        let mut actions = Vec::with_capacity(4);
        if !available.is_empty() && self.working.len() < self.max_working {
            actions.push(ChaosAction::Lease);
        }
        if !self.working.is_empty() {
            actions.push(ChaosAction::Finish);
        }
        if !self.in_flight.is_empty() {
            actions.push(ChaosAction::Deliver);
        }
        if !requests.is_empty() {
            actions.push(ChaosAction::Respond);
        }
        if !grantable.is_empty() {
            actions.push(ChaosAction::Grant);
        }
        match self.rng.pick_item(&actions) {
            Some(ChaosAction::Lease) => self.lease_random_command(sim, &available),
            Some(ChaosAction::Finish) => self.finish_random_worker(sim),
            Some(ChaosAction::Deliver) => self.deliver_random_report(sim),
            Some(ChaosAction::Respond) => self.respond_to_random_task(sim, &requests),
            Some(ChaosAction::Grant) => {
                if let Some(grant) = self.rng.pick_item(&grantable) {
                    // A slot that no step waits for any more is released.
                    let verdict = sim.grant_slot(grant.clone());
                    let is_expected =
                        matches!(verdict, Ok(_) | Err(DecisionError::SlotNotRequested(_)));
                    assert!(is_expected, "{verdict:?}\n{}", sim.format_log());
                }
            }
            None => {
                if !sim.advance_to_next_event() {
                    sim.advance_clock(Millis::from_ms(500));
                }
            }
        }
    }

    fn lease_random_command(&mut self, sim: &mut Simulation, available: &[noetl_types::CommandId]) {
        let Some(command) = self.rng.pick_item(available).copied() else {
            return;
        };
        let worker = format!("w{}", self.rng.number_below(3));
        let lease = sim.lease_command(command, &worker);
        if self.rng.draw_percent(self.rates.record_claim) {
            let verdict = sim.decide(EngineInput::Claim(noetl_engine::CommandClaim {
                command,
                attempt: lease.attempt,
                worker: lease.worker.clone(),
                lease_until: None,
            }));
            assert_eq!(verdict, Ok(InputVerdict::Accepted));
        }
        self.working.push(lease);
    }

    /// Finishes one worker, or loses it. A worker considered lost may only be late.
    fn finish_random_worker(&mut self, sim: &mut Simulation) {
        let index = self.rng.number_below(self.working.len());
        let lease = self.working.swap_remove(index);
        let mut report = sim.execute_lease(&lease);
        if let Some(report) = &mut report
            && self.rng.draw_percent(self.rates.report_progress)
        {
            self.report_progress(sim, report);
        }
        // The last attempt is never lost at random, since that would change the outcome.
        let is_lost = report.is_none()
            || (lease.attempt < 3 && self.rng.draw_percent(self.rates.lose_worker));
        if is_lost {
            let verdict = sim.expire_lease(&lease);
            assert!(
                matches!(verdict, Ok(_) | Err(DecisionError::UnknownCommand(_))),
                "{verdict:?}"
            );
        }
        self.in_flight.extend(report);
    }

    /// Reports the progress of a worker. The worker receives the response before it is done only at
    /// random, and repeats what was not confirmed.
    fn report_progress(&mut self, sim: &mut Simulation, report: &mut WorkerReport) {
        let reported = self.rng.number_below(report.retries.len() + 1);
        let progress = WorkerReport {
            retries: report.retries[..reported].to_vec(),
            outcome: ReportOutcome::Running { progress: None },
            ..report.clone()
        };
        if self.rng.draw_percent(40) {
            self.in_flight.push(progress);
            return;
        }
        let is_confirmed = deliver_checked(sim, progress);
        if is_confirmed && self.rng.draw_percent(50) {
            report.retries.drain(..reported);
            report.retries_before += u32::try_from(reported).expect("few attempts");
        }
    }

    fn deliver_random_report(&mut self, sim: &mut Simulation) {
        let index = self.rng.number_below(self.in_flight.len());
        let report = if self.rng.draw_percent(self.rates.duplicate_report) {
            self.in_flight[index].clone()
        } else {
            self.in_flight.swap_remove(index)
        };
        deliver_checked(sim, report);
    }

    /// Responds to one suspended task, sometimes twice.
    fn respond_to_random_task(
        &mut self,
        sim: &mut Simulation,
        requests: &[noetl_types::CommandId],
    ) {
        let Some(command) = self.rng.pick_item(requests).copied() else {
            return;
        };
        let response = sim.response_input(command);
        sim.respond_to(command);
        let Some(response) =
            response.filter(|_| self.rng.draw_percent(self.rates.duplicate_report))
        else {
            return;
        };
        if matches!(response, EngineInput::ChildEnded(_) | EngineInput::Callback(_)) {
            let verdict = sim.decide(response);
            assert!(
                matches!(
                    verdict,
                    Err(DecisionError::UnknownChild(_)
                        | DecisionError::UnknownCommand(_)
                        | DecisionError::AlreadyEnded(_))
                ),
                "{verdict:?}"
            );
        }
    }

    /// Reports that arrive after the end only add audit events.
    fn deliver_late_reports(&mut self, sim: &mut Simulation) {
        let status = sim.status();
        for report in std::mem::take(&mut self.in_flight) {
            let verdict = sim.submit_report(report);
            assert!(
                matches!(verdict, Ok(InputVerdict::Duplicate | InputVerdict::Ignored(_))),
                "{verdict:?}"
            );
        }
        assert_eq!(sim.status(), status);
    }
}

/// Delivers a report, and checks that only a current one is accepted. Returns whether it is
/// current.
fn deliver_checked(sim: &mut Simulation, report: WorkerReport) -> bool {
    let is_current =
        sim.state().command(report.command).is_some_and(|command| match &command.phase {
            CommandPhase::Pending { attempt, .. } => *attempt == report.attempt,
            CommandPhase::Leased { attempt, worker, .. } => {
                *attempt == report.attempt && *worker == report.worker
            }
            CommandPhase::Suspended(_) | CommandPhase::Spent | CommandPhase::Called(_) => false,
        });
    let verdict = sim.submit_report(report);
    match verdict {
        Ok(InputVerdict::Accepted | InputVerdict::Buffered) => {
            assert!(is_current, "a stale report was accepted\n{}", sim.format_log());
        }
        Ok(InputVerdict::Duplicate | InputVerdict::Ignored(_))
        | Err(DecisionError::UnknownCommand(_)) => {
            assert!(!is_current, "a good report was not accepted\n{}", sim.format_log());
        }
        Err(error) => panic!("{error}\n{}", sim.format_log()),
    }
    is_current
}
