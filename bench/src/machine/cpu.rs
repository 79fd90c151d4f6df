//! Time on processors: of process trees, and of the whole machine.

use super::tree::tree;

/// Seconds that a process tree spent, with those of children that have ended.
pub(crate) fn tree_cpu(root: u32) -> f64 {
    let ticks: u64 = tree(root).into_iter().filter_map(process_ticks).sum();
    seconds(ticks)
}

/// Its own time, and that of children that it has waited for: no tick is in two processes.
fn process_ticks(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may hold anything, also a parenthesis.
    let (_, behind_name) = stat.rsplit_once(')')?;
    let times = behind_name.split_whitespace().skip(11).take(4);
    Some(times.filter_map(|field| field.parse::<u64>().ok()).sum())
}

/// What the machine did since it was started.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MachineCpu {
    /// Seconds in which a processor was not idle.
    pub(crate) busy: f64,
    /// Those of them that went to other machines on the same host.
    pub(crate) steal: f64,
}

/// Reads the first line of `/proc/stat`.
pub(crate) fn machine_cpu() -> MachineCpu {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    read_machine(stat.lines().next().unwrap_or_default())
}

fn read_machine(line: &str) -> MachineCpu {
    // user nice system idle iowait irq softirq steal; guests are in the first two already.
    let words = line.split_whitespace().skip(1).take(8);
    let ticks: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    let at = |place: usize| ticks.get(place).copied().unwrap_or(0);
    let busy = ticks.iter().sum::<u64>() - at(3) - at(4);
    MachineCpu {
        busy: seconds(busy),
        steal: seconds(at(7)),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "ticks of years still fit into the mantissa"
)]
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_not_busy() {
        let tick = seconds(1);
        let cpu = read_machine("cpu  10 20 30 4000 5000 6 7 8 99 99");
        let near = |left: f64, right: f64| (left - right).abs() < tick / 2.0;
        assert!(near(cpu.busy, 81.0 * tick), "{cpu:?}");
        assert!(near(cpu.steal, 8.0 * tick), "{cpu:?}");
    }

    #[test]
    fn this_process_has_a_time() {
        assert!(process_ticks(std::process::id()).is_some());
        assert!(machine_cpu().busy > 0.0);
    }
}
