//! Queries about the arcs of a playbook, each answered by a new search.
//!
//! Steps are numbered in document order. Only the written arcs count: conditions are not evaluated.

use std::collections::BTreeSet;

use noetl_playbook::model::Playbook;

/// Returns the index of the step with this name.
pub(crate) fn find_step(playbook: &Playbook, name: &str) -> Option<usize> {
    playbook.workflow.iter().position(|step| *step.name.value == *name)
}

/// Returns the steps that the arcs of a step lead to. An undeclared `end` is not a step.
fn successor_steps(playbook: &Playbook, step: usize) -> Vec<usize> {
    let router = playbook.workflow[step].next.as_ref();
    let arcs = router.map(|router| router.arcs.as_slice()).unwrap_or_default();
    arcs.iter().filter_map(|arc| find_step(playbook, &arc.step.value)).collect()
}

/// Returns every step that is reachable from one of these along at least one arc.
pub(crate) fn reachable_from(
    playbook: &Playbook,
    from: impl IntoIterator<Item = usize>,
) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut open: Vec<usize> = from.into_iter().collect();
    while let Some(step) = open.pop() {
        for next in successor_steps(playbook, step) {
            if found.insert(next) {
                open.push(next);
            }
        }
    }
    found
}

/// True if `to` is reachable from `from` along at least one arc.
pub(crate) fn is_reachable(playbook: &Playbook, from: usize, to: usize) -> bool {
    reachable_from(playbook, [from]).contains(&to)
}

/// True if two different steps are on a common cycle.
pub(crate) fn share_cycle(playbook: &Playbook, a: usize, b: usize) -> bool {
    is_reachable(playbook, a, b) && is_reachable(playbook, b, a)
}
