//! Memory of process trees.

use super::tree::process_tree;

/// Memory of a process tree, in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct MemoryUsage {
    /// Resident pages of each process.
    pub(crate) rss: f64,
    /// Resident pages with shared pages divided among their processes.
    pub(crate) pss: f64,
}

/// Reads the memory of a process and its descendants.
pub(crate) fn tree_memory(root: u32) -> MemoryUsage {
    let mut total = MemoryUsage::default();
    for process in process_tree(root) {
        let rollup = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup"));
        let usage = parse_rollup(&rollup.unwrap_or_default());
        total.rss += usage.rss;
        total.pss += usage.pss;
    }
    total
}

fn parse_rollup(text: &str) -> MemoryUsage {
    let mib_of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.split_whitespace().next());
        kib.and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
    };
    MemoryUsage { rss: mib_of("Rss:"), pss: mib_of("Pss:") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_smaps_rollup() {
        let text = "55d-7ff ---p 00 00:00 0 [rollup]\nRss:     2048 kB\nPss:     1024 kB\n\
                    Pss_Dirty:  512 kB\n";
        let memory = parse_rollup(text);
        assert!((memory.rss - 2.0).abs() < 1e-9);
        assert!((memory.pss - 1.0).abs() < 1e-9);
        assert_eq!(parse_rollup(""), MemoryUsage::default());
    }
}
