//! Finding a step by its name: every event of a log asks for one.

use noetl_playbook::graph::StepIndex;

use super::StepPlan;

/// Steps by a hash of their names. Names are few and short, so a sorted list of numbers is found in
/// less time than it takes to hash a name the careful way; two that are equal are told apart by the
/// names themselves.
#[derive(Debug)]
pub(super) struct NameIndex(Vec<(u64, StepIndex)>);

impl NameIndex {
    pub(super) fn of(steps: &[StepPlan]) -> Self {
        let hashes = steps.iter().map(|step| hash(step.name.as_str()));
        let mut index: Vec<_> = hashes.zip((0..).map(StepIndex)).collect();
        index.sort_unstable();
        Self(index)
    }

    /// The steps whose names have the same hash as a name.
    pub(super) fn with_hash_of(&self, name: &str) -> impl Iterator<Item = StepIndex> {
        let hash = hash(name);
        let first = self.0.partition_point(|(other, _)| *other < hash);
        let same = self.0[first..]
            .iter()
            .take_while(move |(other, _)| *other == hash);
        same.map(|(_, step)| *step)
    }
}

/// FNV-1a.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
