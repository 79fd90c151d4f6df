//! Memory of process trees.

use super::tree::tree;

/// What a process tree has in memory, in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Memory {
    /// All pages of each process.
    pub(crate) rss: f64,
    /// Pages that several processes have, shared out among them.
    pub(crate) pss: f64,
}

/// Reads it of a process and its descendants.
pub(crate) fn tree_memory(root: u32) -> Memory {
    let mut total = Memory::default();
    for process in tree(root) {
        let rollup = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup"));
        let one = read_rollup(&rollup.unwrap_or_default());
        total.rss += one.rss;
        total.pss += one.pss;
    }
    total
}

fn read_rollup(text: &str) -> Memory {
    let mib_of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.split_whitespace().next());
        kib.and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
    };
    Memory {
        rss: mib_of("Rss:"),
        pss: mib_of("Pss:"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollup_is_read() {
        let text = "55d-7ff ---p 00 00:00 0 [rollup]\nRss:     2048 kB\nPss:     1024 kB\n\
                    Pss_Dirty:  512 kB\n";
        let memory = read_rollup(text);
        assert!((memory.rss - 2.0).abs() < 1e-9);
        assert!((memory.pss - 1.0).abs() < 1e-9);
        assert_eq!(read_rollup(""), Memory::default());
    }
}
