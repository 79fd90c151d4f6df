//! A scheduler that does everything a fair world may do, in an order that a seed determines.

use noetl_engine::{CommandPhase, Input, Refused, Report, ReportOutcome, Verdict};
use noetl_types::Millis;

use super::run::{Lease, Sim};
use super::splitmix::SplitMix;

/// How often something goes wrong, in a hundred.
#[derive(Debug, Clone, Copy)]
pub struct Odds {
    /// A worker is lost.
    pub lose: u32,
    /// A report is delivered twice.
    pub duplicate: u32,
    /// Somebody pauses the run for a while.
    pub pause: u32,
    /// Somebody cancels the run.
    pub cancel: u32,
    /// The claim of a worker is recorded on its own.
    pub claim: u32,
    /// A worker says how far it is before it is done.
    pub progress: u32,
}

impl Odds {
    /// Nothing goes wrong; only the order is by chance.
    pub const CALM: Self = Self {
        lose: 0,
        duplicate: 0,
        pause: 0,
        cancel: 0,
        claim: 0,
        progress: 0,
    };
    /// Everything happens that leaves the outcome alone.
    pub const ROUGH: Self = Self {
        lose: 10,
        duplicate: 20,
        pause: 5,
        cancel: 0,
        claim: 20,
        progress: 30,
    };
}

/// A world for a run.
#[derive(Debug, Clone)]
pub struct Chaos {
    chance: SplitMix,
    odds: Odds,
    /// How many commands are worked on at once.
    slots: usize,
    working: Vec<Lease>,
    /// Reports on their way.
    in_flight: Vec<Report>,
}

/// What can happen next, besides that somebody steers.
#[derive(Debug, Clone, Copy)]
enum Turn {
    /// A worker takes a command.
    Lease,
    /// A worker is done, or lost.
    Finish,
    /// A report arrives.
    Deliver,
    /// The world says something to a task that waits.
    Answer,
    /// A slot is granted.
    Grant,
}

/// Turns after which a run is taken to hang.
const MAX_TURNS: usize = 200_000;

impl Chaos {
    /// A world that a seed determines.
    pub fn new(seed: u64, odds: Odds) -> Self {
        let mut chance = SplitMix::new(seed);
        let slots = 1 + chance.below(6);
        Self {
            chance,
            odds,
            slots,
            working: Vec::new(),
            in_flight: Vec::new(),
        }
    }

    /// Drives a run that has begun to its end, and delivers what is late.
    pub fn drive(&mut self, sim: &mut Sim) {
        self.drive_watched(sim, &mut |_| {});
    }

    /// The same, with a look at the run after every decision.
    pub fn drive_watched(&mut self, sim: &mut Sim, watch: &mut dyn FnMut(&Sim)) {
        let mut seen = 0;
        for _ in 0..MAX_TURNS {
            if sim.state().is_ended() {
                self.deliver_the_rest(sim);
                return;
            }
            if sim.log().len() > seen {
                seen = sim.log().len();
                watch(sim);
            }
            self.turn(sim);
        }
        panic!("the run hangs\n{}", sim.table());
    }

    fn turn(&mut self, sim: &mut Sim) {
        if sim.state().is_paused() {
            // Workers go on while nobody looks.
            if self.chance.percent(40) || (self.working.is_empty() && self.in_flight.is_empty()) {
                assert_eq!(sim.resume(), Ok(Verdict::Accepted));
            }
        } else if self.chance.percent(self.odds.pause) {
            assert_eq!(sim.pause(), Ok(Verdict::Accepted));
        } else if self.chance.percent(self.odds.cancel) {
            assert_eq!(sim.cancel(), Ok(Verdict::Accepted));
            return;
        }
        let available = sim.available();
        let asks = sim.asks();
        let grantable = sim.grantable();
        let mut turns = Vec::with_capacity(4);
        if !available.is_empty() && self.working.len() < self.slots {
            turns.push(Turn::Lease);
        }
        if !self.working.is_empty() {
            turns.push(Turn::Finish);
        }
        if !self.in_flight.is_empty() {
            turns.push(Turn::Deliver);
        }
        if !asks.is_empty() {
            turns.push(Turn::Answer);
        }
        if !grantable.is_empty() {
            turns.push(Turn::Grant);
        }
        match self.chance.pick(&turns) {
            Some(Turn::Lease) => self.lease(sim, &available),
            Some(Turn::Finish) => self.finish_work(sim),
            Some(Turn::Deliver) => self.deliver(sim),
            Some(Turn::Answer) => self.answer(sim, &asks),
            Some(Turn::Grant) => {
                if let Some(grant) = self.chance.pick(&grantable) {
                    // One that nothing waits for any more is given back.
                    let verdict = sim.grant(grant.clone());
                    let is_fine = matches!(verdict, Ok(_) | Err(Refused::NoSlotWanted(_)));
                    assert!(is_fine, "{verdict:?}\n{}", sim.table());
                }
            }
            None => {
                if !sim.let_time_pass() {
                    sim.advance(Millis::from_ms(500));
                }
            }
        }
    }

    fn lease(&mut self, sim: &mut Sim, available: &[noetl_types::CommandId]) {
        let Some(command) = self.chance.pick(available).copied() else {
            return;
        };
        let worker = format!("w{}", self.chance.below(3));
        let lease = sim.lease(command, &worker);
        if self.chance.percent(self.odds.claim) {
            let claimed = sim.decide(Input::Claim(noetl_engine::Claim {
                command,
                attempt: lease.attempt,
                worker: lease.worker.clone(),
                lease_until: None,
            }));
            assert_eq!(claimed, Ok(Verdict::Accepted));
        }
        self.working.push(lease);
    }

    /// One worker finishes, or is lost. One that is taken for lost may be only late.
    fn finish_work(&mut self, sim: &mut Sim) {
        let at = self.chance.below(self.working.len());
        let lease = self.working.swap_remove(at);
        let mut report = sim.work(&lease);
        if let Some(report) = &mut report
            && self.chance.percent(self.odds.progress)
        {
            self.say(sim, report);
        }
        // The last attempt is never lost by chance: that would change the outcome.
        let is_lost =
            report.is_none() || (lease.attempt < 3 && self.chance.percent(self.odds.lose));
        if is_lost {
            let verdict = sim.expire(&lease);
            assert!(
                matches!(verdict, Ok(_) | Err(Refused::UnknownCommand(_))),
                "{verdict:?}"
            );
        }
        self.in_flight.extend(report);
    }

    /// A worker says how far it is. Whether it hears the answer before it is done is by chance: what
    /// it is not sure of it says again.
    fn say(&mut self, sim: &mut Sim, report: &mut Report) {
        let so_far = self.chance.below(report.retries.len() + 1);
        let said = Report {
            retries: report.retries[..so_far].to_vec(),
            outcome: ReportOutcome::Running { progress: None },
            ..report.clone()
        };
        if self.chance.percent(40) {
            self.in_flight.push(said);
            return;
        }
        let is_heard = hand_over(sim, said);
        if is_heard && self.chance.percent(50) {
            report.retries.drain(..so_far);
            report.retries_before += u32::try_from(so_far).expect("few attempts");
        }
    }

    fn deliver(&mut self, sim: &mut Sim) {
        let at = self.chance.below(self.in_flight.len());
        let report = if self.chance.percent(self.odds.duplicate) {
            self.in_flight[at].clone()
        } else {
            self.in_flight.swap_remove(at)
        };
        hand_over(sim, report);
    }

    /// The world speaks to one of those that wait, and may repeat itself.
    fn answer(&mut self, sim: &mut Sim, asks: &[noetl_types::CommandId]) {
        let Some(command) = self.chance.pick(asks).copied() else {
            return;
        };
        let word = sim.word_for(command);
        sim.answer(command);
        let Some(word) = word.filter(|_| self.chance.percent(self.odds.duplicate)) else {
            return;
        };
        if matches!(word, Input::ChildEnded(_) | Input::Callback(_)) {
            let again = sim.decide(word);
            assert!(
                matches!(
                    again,
                    Err(Refused::UnknownChild(_)
                        | Refused::UnknownCommand(_)
                        | Refused::AlreadyEnded(_))
                ),
                "{again:?}"
            );
        }
    }

    /// What arrives after the end changes nothing but the audit trail.
    fn deliver_the_rest(&mut self, sim: &mut Sim) {
        let status = sim.status();
        for report in std::mem::take(&mut self.in_flight) {
            let verdict = sim.report(report);
            assert!(
                matches!(verdict, Ok(Verdict::Duplicate | Verdict::Ignored(_))),
                "{verdict:?}"
            );
        }
        assert_eq!(sim.status(), status);
    }
}

/// Delivers a report, and checks that only the right one is accepted. Gives whether it was.
fn hand_over(sim: &mut Sim, report: Report) -> bool {
    let is_current =
        sim.state()
            .command(report.command)
            .is_some_and(|command| match &command.phase {
                CommandPhase::Pending { attempt, .. } => *attempt == report.attempt,
                CommandPhase::Leased {
                    attempt, worker, ..
                } => *attempt == report.attempt && *worker == report.worker,
                CommandPhase::Parked(_) | CommandPhase::Spent | CommandPhase::Called(_) => false,
            });
    let verdict = sim.report(report);
    match verdict {
        Ok(Verdict::Accepted | Verdict::Kept) => {
            assert!(is_current, "a stale report was accepted\n{}", sim.table());
        }
        Ok(Verdict::Duplicate | Verdict::Ignored(_)) | Err(Refused::UnknownCommand(_)) => {
            assert!(
                !is_current,
                "a good report was not accepted\n{}",
                sim.table()
            );
        }
        Err(refused) => panic!("{refused}\n{}", sim.table()),
    }
    is_current
}
