//! CPU time of process trees and of the whole machine.

use super::tree::process_tree;

/// Returns the CPU seconds of a process tree, including children that have ended.
pub(crate) fn tree_cpu(root: u32) -> f64 {
    let ticks: u64 = process_tree(root).into_iter().filter_map(process_ticks).sum();
    ticks_to_seconds(ticks)
}

/// Returns the ticks of a process and of the children that it has waited for. No tick counts twice.
fn process_ticks(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may contain any character, even a parenthesis.
    let (_, after_name) = stat.rsplit_once(')')?;
    let times = after_name.split_whitespace().skip(11).take(4);
    Some(times.filter_map(|field| field.parse::<u64>().ok()).sum())
}

/// CPU time of the machine since boot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MachineCpu {
    /// Seconds in which a processor was not idle.
    pub(crate) busy: f64,
    /// Seconds that the host gave to other machines.
    pub(crate) steal: f64,
}

pub(crate) fn machine_cpu() -> MachineCpu {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    parse_machine_cpu(stat.lines().next().unwrap_or_default())
}

fn parse_machine_cpu(line: &str) -> MachineCpu {
    // user nice system idle iowait irq softirq steal; guest time is included in the first two.
    let fields = line.split_whitespace().skip(1).take(8);
    let ticks: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
    let tick_at = |index: usize| ticks.get(index).copied().unwrap_or(0);
    let busy = ticks.iter().sum::<u64>() - tick_at(3) - tick_at(4);
    MachineCpu { busy: ticks_to_seconds(busy), steal: ticks_to_seconds(tick_at(7)) }
}

#[expect(clippy::cast_precision_loss, reason = "ticks of years still fit into the mantissa")]
fn ticks_to_seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iowait_is_not_busy() {
        let tick = ticks_to_seconds(1);
        let cpu = parse_machine_cpu("cpu  10 20 30 4000 5000 6 7 8 99 99");
        let is_close = |left: f64, right: f64| (left - right).abs() < tick / 2.0;
        assert!(is_close(cpu.busy, 81.0 * tick), "{cpu:?}");
        assert!(is_close(cpu.steal, 8.0 * tick), "{cpu:?}");
    }

    #[test]
    fn reads_own_cpu_time() {
        assert!(process_ticks(std::process::id()).is_some());
        assert!(machine_cpu().busy > 0.0);
    }
}
