//! CPU usage by process while something is measured.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::machine::{machine_cpu, tree_cpu};

/// CPU shares in percent of one core: of each part of the system, of this process as `driver`, of
/// all other processes as `other`, and the time that the host withheld as `steal`.
pub(crate) type CpuShares = BTreeMap<String, f64>;

/// Share of other processes above which a measurement counts as disturbed.
pub(crate) const MAX_OTHER_CPU_PERCENT: f64 = 20.0;

/// Key of the share of other processes.
pub(crate) const OTHER_CPU_KEY: &str = "other";

/// Samples CPU usage between its creation and its reading.
#[derive(Debug)]
pub(crate) struct CpuSampler {
    processes: Vec<(&'static str, u32)>,
    started_at: Instant,
    before: CpuSample,
}

#[derive(Debug)]
struct CpuSample {
    parts: Vec<f64>,
    driver: f64,
    busy: f64,
    steal: f64,
}

impl CpuSampler {
    /// Starts sampling. The processes are the named parts of the system.
    pub(crate) fn start_sampling(processes: Vec<(&'static str, u32)>) -> Self {
        let before = take_sample(&processes);
        Self { processes, started_at: Instant::now(), before }
    }

    /// Returns the shares since the start.
    pub(crate) fn read_shares(&self) -> CpuShares {
        let after = take_sample(&self.processes);
        let elapsed = self.started_at.elapsed().as_secs_f64().max(1e-9);
        let mut spent: Vec<(&str, f64)> = Vec::new();
        let pairs = self.before.parts.iter().zip(&after.parts);
        for ((name, _), (before, after)) in self.processes.iter().zip(pairs) {
            spent.push((name, after - before));
        }
        spent.push(("driver", after.driver - self.before.driver));
        let accounted: f64 = spent.iter().map(|(_, seconds)| seconds).sum();
        let busy = after.busy - self.before.busy;
        spent.push((OTHER_CPU_KEY, (busy - accounted).max(0.0)));
        spent.push(("steal", after.steal - self.before.steal));
        let share = |seconds: f64| (1e3 * seconds / elapsed).round() / 10.0;
        let shares = spent.into_iter();
        shares.map(|(name, seconds)| (name.to_owned(), share(seconds))).collect()
    }
}

fn take_sample(processes: &[(&'static str, u32)]) -> CpuSample {
    let parts: Vec<f64> = processes.iter().map(|(_, pid)| tree_cpu(*pid)).collect();
    let own_tree = tree_cpu(std::process::id());
    // Parts that this process started are in its own tree too.
    let children: f64 = processes
        .iter()
        .zip(&parts)
        .filter(|((name, _), _)| *name != "postgres")
        .map(|(_, seconds)| seconds)
        .sum();
    let machine = machine_cpu();
    CpuSample { parts, driver: own_tree - children, busy: machine.busy, steal: machine.steal }
}
