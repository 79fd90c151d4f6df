//! Who used the processors while something was measured.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::machine::{machine_cpu, tree_cpu};

/// Shares of processors in percent of one core: of each part of the system, of this process as
/// `driver`, of everybody else as `other`, and what the host took away as `steal`.
pub(crate) type Shares = BTreeMap<String, f64>;

/// Above this share of others a measurement was disturbed.
pub(crate) const DISTURBED: f64 = 20.0;

/// The share of everybody else.
pub(crate) const OTHER: &str = "other";

/// Looks at the processors between its making and its reading.
#[derive(Debug)]
pub(crate) struct Gauge {
    processes: Vec<(&'static str, u32)>,
    began: Instant,
    before: Sample,
}

#[derive(Debug)]
struct Sample {
    parts: Vec<f64>,
    own: f64,
    busy: f64,
    steal: f64,
}

impl Gauge {
    /// Begins to look. The processes are parts of the system, by name.
    pub(crate) fn begin(processes: Vec<(&'static str, u32)>) -> Self {
        let before = sample(&processes);
        Self {
            processes,
            began: Instant::now(),
            before,
        }
    }

    /// The shares since then.
    pub(crate) fn read(&self) -> Shares {
        let after = sample(&self.processes);
        let took = self.began.elapsed().as_secs_f64().max(1e-9);
        let mut spent: Vec<(&str, f64)> = Vec::new();
        let pairs = self.before.parts.iter().zip(&after.parts);
        for ((name, _), (before, after)) in self.processes.iter().zip(pairs) {
            spent.push((name, after - before));
        }
        spent.push(("driver", after.own - self.before.own));
        let known: f64 = spent.iter().map(|(_, seconds)| seconds).sum();
        let busy = after.busy - self.before.busy;
        spent.push((OTHER, (busy - known).max(0.0)));
        spent.push(("steal", after.steal - self.before.steal));
        let share = |seconds: f64| (1e3 * seconds / took).round() / 10.0;
        let shares = spent.into_iter();
        shares
            .map(|(name, seconds)| (name.to_owned(), share(seconds)))
            .collect()
    }
}

fn sample(processes: &[(&'static str, u32)]) -> Sample {
    let parts: Vec<f64> = processes.iter().map(|(_, pid)| tree_cpu(*pid)).collect();
    let whole = tree_cpu(std::process::id());
    // Parts that this process started are in its own tree too.
    let children: f64 = processes
        .iter()
        .zip(&parts)
        .filter(|((name, _), _)| *name != "postgres")
        .map(|(_, seconds)| seconds)
        .sum();
    let machine = machine_cpu();
    Sample {
        parts,
        own: whole - children,
        busy: machine.busy,
        steal: machine.steal,
    }
}
