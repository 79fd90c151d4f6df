//! Questions about the arcs of a playbook, each answered by a fresh search.
//!
//! Steps are numbered in document order. Only the arcs as written count: whether a condition can
//! ever hold is not asked.

use std::collections::BTreeSet;

use noetl_playbook::model::Playbook;

/// The number of the step with this name.
pub(crate) fn find(playbook: &Playbook, name: &str) -> Option<usize> {
    playbook
        .workflow
        .iter()
        .position(|step| *step.name.value == *name)
}

/// The steps that the arcs of a step lead to. An `end` that nobody declared is no step.
fn successors(playbook: &Playbook, step: usize) -> Vec<usize> {
    let router = playbook.workflow[step].next.as_ref();
    let arcs = router
        .map(|router| router.arcs.as_slice())
        .unwrap_or_default();
    arcs.iter()
        .filter_map(|arc| find(playbook, &arc.step.value))
        .collect()
}

/// Every step that at least one arc leads to, directly or through others, from one of these.
pub(crate) fn beyond(
    playbook: &Playbook,
    from: impl IntoIterator<Item = usize>,
) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut open: Vec<usize> = from.into_iter().collect();
    while let Some(step) = open.pop() {
        for next in successors(playbook, step) {
            if found.insert(next) {
                open.push(next);
            }
        }
    }
    found
}

/// Whether a step can be reached from another along at least one arc.
pub(crate) fn leads_to(playbook: &Playbook, from: usize, to: usize) -> bool {
    beyond(playbook, [from]).contains(&to)
}

/// Whether two different steps lie on a cycle with each other.
pub(crate) fn on_cycle_together(playbook: &Playbook, a: usize, b: usize) -> bool {
    leads_to(playbook, a, b) && leads_to(playbook, b, a)
}
