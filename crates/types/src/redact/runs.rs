//! Secrets of runs, for as long as a process has to do with them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Hidden, Most, Secrets, opened};
use crate::{ExecutionId, Json};

/// Runs that are kept in mind. What was not asked for the longest goes first.
const MOST_RUNS: usize = 4_096;
/// Bytes that it takes to keep all their secrets; over that, those go first that take the most.
const MOST_BYTES: usize = 64 << 20;
/// How much is looked for in all that is done for a run: a run that resolves ever more secrets
/// looks for the others where they are used.
const MOST_OF_A_RUN: Most = Most {
    texts: 2_000,
    bytes: 256 << 10,
};

/// What has to be hidden in all that is done for a run, by its id.
#[derive(Default)]
pub struct SecretsOfRuns(Mutex<Runs>);

#[derive(Default)]
struct Runs {
    by_id: HashMap<ExecutionId, Run>,
    /// Counts the questions.
    time: u64,
    /// Bytes that all secrets take.
    bytes: Arc<AtomicUsize>,
}

struct Run {
    secrets: Arc<OfRun>,
    asked: u64,
}

/// What has to be hidden in all that is done for a run.
#[derive(Default)]
pub(super) struct OfRun {
    secrets: Mutex<Secrets>,
    /// Bytes that the secrets of all runs take.
    of_all: Arc<AtomicUsize>,
}

impl OfRun {
    pub(super) fn add(&self, value: &Json) {
        let mut secrets = opened(&self.secrets);
        let before = secrets.room();
        secrets.add_within(value, MOST_OF_A_RUN);
        let more = secrets.room() - before;
        self.of_all.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn known(&self) -> Secrets {
        opened(&self.secrets).clone()
    }
}

impl Drop for OfRun {
    fn drop(&mut self) {
        let secrets = self
            .secrets
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        self.of_all.fetch_sub(secrets.room(), Ordering::Relaxed);
    }
}

impl SecretsOfRuns {
    /// What is known to be hidden in all that is done for a run.
    pub fn known(&self, run: ExecutionId) -> Secrets {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.time += 1;
        let asked = runs.time;
        runs.by_id
            .get_mut(&run)
            .map_or_else(Secrets::default, |run| {
                run.asked = asked;
                run.secrets.known()
            })
    }

    /// What has to be hidden by somebody who begins to work for a run.
    pub fn of(&self, run: ExecutionId) -> Hidden {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.time += 1;
        let asked = runs.time;
        let of_all = Arc::clone(&runs.bytes);
        let entry = runs.by_id.entry(run).or_insert_with(|| Run {
            secrets: Arc::new(OfRun {
                secrets: Mutex::default(),
                of_all,
            }),
            asked,
        });
        entry.asked = asked;
        let of_run = Arc::clone(&entry.secrets);
        if runs.by_id.len() > MOST_RUNS {
            runs.forget_idle();
        }
        if runs.bytes.load(Ordering::Relaxed) > MOST_BYTES {
            runs.forget_large();
        }
        Hidden {
            own: Arc::default(),
            of_run,
        }
    }
}

impl Runs {
    /// Forgets half of them at once, so that it is seldom done.
    fn forget_idle(&mut self) {
        let mut asked: Vec<u64> = self.by_id.values().map(|run| run.asked).collect();
        let (_, median, _) = asked.select_nth_unstable(self.by_id.len() / 2);
        let median = *median;
        self.by_id.retain(|_, run| run.asked >= median);
    }

    /// Forgets the largest until half of the room is free, and of those that are equally large what was
    /// not asked for the longest. One that somebody works for would take its room all the same.
    fn forget_large(&mut self) {
        let runs = self.by_id.iter();
        let idle = runs.filter(|(_, run)| Arc::strong_count(&run.secrets) == 1);
        let mut largest: Vec<_> = idle
            .map(|(id, run)| (Reverse(opened(&run.secrets.secrets).room()), run.asked, *id))
            .collect();
        largest.sort_unstable();
        for (_, _, id) in largest {
            if self.bytes.load(Ordering::Relaxed) <= MOST_BYTES / 2 {
                return;
            }
            self.by_id.remove(&id);
        }
    }
}

/// Secrets do not print.
impl std::fmt::Debug for SecretsOfRuns {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(super::REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::super::BESIDE_A_TEXT;
    use super::*;

    fn run(number: usize) -> ExecutionId {
        ExecutionId::new(i64::try_from(number).unwrap()).unwrap()
    }

    #[test]
    fn a_run_that_goes_on_telling_is_not_forgotten_before_idle_ones() {
        let runs = SecretsOfRuns::default();
        runs.of(run(1)).add_for_run(None, &Json::from("sesame-1"));
        for number in 2..=MOST_RUNS + 1 {
            runs.of(run(number));
            assert!(!runs.known(run(1)).is_empty(), "{number}");
        }
        assert!(runs.0.lock().unwrap().by_id.len() <= MOST_RUNS);
    }

    #[test]
    fn one_value_cannot_hold_more_than_a_run_may() {
        let runs = SecretsOfRuns::default();
        let many = (0..10_000).map(|number| Json::from(format!("sesame-{number}")));
        runs.of(run(1)).add_for_run(None, &Json::list(many));
        assert_eq!(runs.known(run(1)).texts.len(), MOST_OF_A_RUN.texts);
        let large = (0..10).map(|number| Json::from(number.to_string().repeat(60_000)));
        runs.of(run(2)).add_for_run(None, &Json::list(large));
        assert_eq!(runs.known(run(2)).texts.len(), 4);
    }

    #[test]
    fn the_secrets_of_all_runs_have_a_bound() {
        let runs = SecretsOfRuns::default();
        let large = Json::from("x".repeat(MOST_OF_A_RUN.bytes));
        let most = MOST_BYTES / MOST_OF_A_RUN.bytes;
        for number in 1..=most * 3 {
            runs.of(run(number)).add_for_run(None, &large);
        }
        let runs = runs.0.lock().unwrap();
        assert!(runs.by_id.len() <= most + 1, "{}", runs.by_id.len());
        let bytes = runs.by_id.len() * (MOST_OF_A_RUN.bytes + BESIDE_A_TEXT);
        assert_eq!(runs.bytes.load(Ordering::Relaxed), bytes);
    }

    #[test]
    fn runs_with_much_to_hide_go_before_those_with_little() {
        let runs = SecretsOfRuns::default();
        runs.of(run(1)).add_for_run(None, &Json::from("sesame-1"));
        let large = Json::from("x".repeat(MOST_OF_A_RUN.bytes));
        let most = MOST_BYTES / MOST_OF_A_RUN.bytes;
        for number in 2..=most * 3 {
            runs.of(run(number)).add_for_run(None, &large);
        }
        assert!(!runs.known(run(1)).is_empty());
        assert!(runs.known(run(2)).is_empty());
        // What the last one takes is not yet weighed against the others.
        assert!(!runs.known(run(most * 3)).is_empty());
        let runs = runs.0.lock().unwrap();
        assert!(runs.bytes.load(Ordering::Relaxed) <= MOST_BYTES + 2 * MOST_OF_A_RUN.bytes);
    }

    #[test]
    fn a_run_that_somebody_works_for_is_not_forgotten_for_its_size() {
        let runs = SecretsOfRuns::default();
        let large = Json::from("x".repeat(MOST_OF_A_RUN.bytes));
        let working = runs.of(run(1));
        working.add_for_run(None, &large);
        for number in 2..=MOST_BYTES / MOST_OF_A_RUN.bytes * 2 {
            runs.of(run(number)).add_for_run(None, &large);
        }
        assert!(!runs.known(run(1)).is_empty());
    }

    #[test]
    fn many_small_secrets_take_more_room_than_their_bytes() {
        let runs = SecretsOfRuns::default();
        let many = (1_000..1_100).map(|number| Json::from(format!("sesame-{number}")));
        runs.of(run(1)).add_for_run(None, &Json::list(many));
        let bytes = Arc::clone(&runs.0.lock().unwrap().bytes);
        let expected = 100 * ("sesame-1000".len() + BESIDE_A_TEXT);
        assert_eq!(bytes.load(Ordering::Relaxed), expected);
        drop(runs);
        assert_eq!(bytes.load(Ordering::Relaxed), 0);
    }
}
