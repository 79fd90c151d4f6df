//! Index of steps by name. Every event of a log is resolved through it.

use noetl_playbook::graph::StepIndex;

use super::StepPlan;

/// Steps sorted by a hash of their names. Names are few and short, so a binary search over numbers
/// is faster than hashing with `SipHash`. Callers compare the names of candidates with equal hashes.
#[derive(Debug)]
pub(super) struct NameIndex(Vec<(u64, StepIndex)>);

impl NameIndex {
    pub(super) fn from_steps(steps: &[StepPlan]) -> Self {
        let hashes = steps.iter().map(|step| fnv1a_hash(step.name.as_str()));
        let mut index: Vec<_> = hashes.zip((0..).map(StepIndex)).collect();
        index.sort_unstable();
        Self(index)
    }

    /// Returns the steps whose names have the same hash as `name`.
    pub(super) fn candidates(&self, name: &str) -> impl Iterator<Item = StepIndex> {
        let hash = fnv1a_hash(name);
        let first = self.0.partition_point(|(other, _)| *other < hash);
        let candidates = self.0[first..].iter().take_while(move |(other, _)| *other == hash);
        candidates.map(|(_, step)| *step)
    }
}

/// Computes the FNV-1a hash.
fn fnv1a_hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
