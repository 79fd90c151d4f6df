//! Secrets of runs, for as long as a process has to do with them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Hidden, Secrets, opened};
use crate::ExecutionId;

/// Runs that are kept in mind. What was not asked for the longest goes first.
const MOST_RUNS: usize = 4_096;

/// What has to be hidden in all that is done for a run, by its id.
#[derive(Default)]
pub struct SecretsOfRuns(Mutex<Runs>);

#[derive(Default)]
struct Runs {
    by_id: HashMap<ExecutionId, Run>,
    /// Counts the questions.
    time: u64,
}

struct Run {
    secrets: Arc<Mutex<Secrets>>,
    asked: u64,
}

impl SecretsOfRuns {
    /// What is known to be hidden in all that is done for a run.
    pub fn known(&self, run: ExecutionId) -> Secrets {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let run = runs.by_id.get(&run);
        run.map_or_else(Secrets::default, |run| opened(&run.secrets).clone())
    }

    /// What has to be hidden by somebody who begins to work for a run.
    pub fn of(&self, run: ExecutionId) -> Hidden {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.time += 1;
        let asked = runs.time;
        let entry = runs.by_id.entry(run).or_insert_with(|| Run {
            secrets: Arc::default(),
            asked,
        });
        entry.asked = asked;
        let of_run = Arc::clone(&entry.secrets);
        if runs.by_id.len() > MOST_RUNS {
            runs.make_room();
        }
        Hidden {
            own: Arc::default(),
            of_run,
        }
    }
}

impl Runs {
    /// Forgets half of them at once, so that it is seldom done.
    fn make_room(&mut self) {
        let mut asked: Vec<u64> = self.by_id.values().map(|run| run.asked).collect();
        let (_, median, _) = asked.select_nth_unstable(self.by_id.len() / 2);
        let median = *median;
        self.by_id.retain(|_, run| run.asked >= median);
    }
}

/// Secrets do not print.
impl std::fmt::Debug for SecretsOfRuns {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(super::REDACTED)
    }
}
