//! Reduces a failing playbook to a readable size.
//!
//! Parts are removed one at a time, large ones first, as long as the rest is still a valid playbook
//! that fails. Entries that bound a run are kept: without them a candidate could run forever.

use noetl_playbook::model::Playbook;

use crate::generate::{DocumentNode, GenConfig, PlaybookDraft, generate_playbook};

/// Predicate: true if a playbook, passed with its text, still shows the failure.
pub type FailurePredicate<'f> = dyn FnMut(&Playbook, &str) -> bool + 'f;

/// Finds a smaller playbook that still fails.
pub fn shrink_draft(draft: &PlaybookDraft, fails: &mut FailurePredicate<'_>) -> PlaybookDraft {
    let mut best = draft.clone();
    'shrinking: loop {
        for candidate in shrink_candidates(&best) {
            if still_fails(&candidate, fails) {
                best = candidate;
                continue 'shrinking;
            }
        }
        return best;
    }
}

/// Shrinks the playbook of a seed. Returns `None` if it does not fail.
pub fn shrink_seed(
    seed: u64,
    config: &GenConfig,
    fails: &mut FailurePredicate<'_>,
) -> Option<PlaybookDraft> {
    let draft = generate_playbook(seed, config);
    still_fails(&draft, fails).then(|| shrink_draft(&draft, fails))
}

fn still_fails(draft: &PlaybookDraft, fails: &mut FailurePredicate<'_>) -> bool {
    draft.to_playbook().is_some_and(|playbook| fails(&playbook, &draft.to_yaml()))
}

/// Returns every variant of the document with one part removed.
fn shrink_candidates(draft: &PlaybookDraft) -> Vec<PlaybookDraft> {
    let mut candidates = remove_each_step(&draft.0);
    let mut parts = remove_each_part(&draft.0);
    // Removing large parts first needs fewer attempts.
    parts.sort_by_key(node_size);
    candidates.extend(parts);
    candidates.into_iter().map(PlaybookDraft).collect()
}

fn node_size(node: &DocumentNode) -> usize {
    match node {
        DocumentNode::Value(_) => 1,
        DocumentNode::List(items) => 1 + items.iter().map(node_size).sum::<usize>(),
        DocumentNode::Map(entries) => {
            1 + entries.iter().map(|(_, value)| node_size(value)).sum::<usize>()
        }
    }
}

/// Removes each step in turn, together with the arcs that lead to it.
fn remove_each_step(document: &DocumentNode) -> Vec<DocumentNode> {
    let Some(DocumentNode::List(steps)) = document.get("workflow") else {
        return Vec::new();
    };
    let names = steps.iter().filter_map(|step| step.get("step")?.as_text());
    names
        .map(|name| {
            let mut document = document.clone();
            remove_step(&mut document, name);
            document
        })
        .collect()
}

fn remove_step(node: &mut DocumentNode, name: &str) {
    match node {
        DocumentNode::Value(_) => {}
        DocumentNode::List(items) => {
            items.retain(|item| item.get("step").and_then(DocumentNode::as_text) != Some(name));
            for item in items {
                remove_step(item, name);
            }
        }
        DocumentNode::Map(entries) => {
            for (_, value) in entries.iter_mut() {
                remove_step(value, name);
            }
            // No arc is left.
            let is_empty = |node: &DocumentNode| matches!(node.get("arcs"), Some(DocumentNode::List(arcs)) if arcs.is_empty());
            entries.retain(|(key, value)| !(key == "next" && is_empty(value)));
        }
    }
}

fn remove_each_part(node: &DocumentNode) -> Vec<DocumentNode> {
    match node {
        DocumentNode::Value(_) => Vec::new(),
        DocumentNode::List(items) => {
            let mut candidates = Vec::new();
            for index in 0..items.len() {
                let mut fewer = items.clone();
                fewer.remove(index);
                candidates.push(DocumentNode::List(fewer));
                for smaller in remove_each_part(&items[index]) {
                    let mut items = items.clone();
                    items[index] = smaller;
                    candidates.push(DocumentNode::List(items));
                }
            }
            candidates
        }
        DocumentNode::Map(entries) => {
            let mut candidates = Vec::new();
            for (index, (key, value)) in entries.iter().enumerate() {
                if !is_run_bound(node, key, value) {
                    let mut fewer = entries.clone();
                    fewer.remove(index);
                    candidates.push(DocumentNode::Map(fewer));
                }
                if !is_jump_counter(node, key) {
                    for smaller in remove_each_part(value) {
                        let mut entries = entries.clone();
                        entries[index].1 = smaller;
                        candidates.push(DocumentNode::Map(entries));
                    }
                }
            }
            candidates
        }
    }
}

/// True if an entry keeps a run or a pipeline from running forever.
fn is_run_bound(map: &DocumentNode, key: &str, value: &DocumentNode) -> bool {
    key == "max_step_runs" || is_jump_counter(map, key) || contains_step_bound(value)
}

fn is_jump_counter(map: &DocumentNode, key: &str) -> bool {
    key == "set" && map.get("do").and_then(DocumentNode::as_text) == Some("jump")
}

fn contains_step_bound(node: &DocumentNode) -> bool {
    match node {
        DocumentNode::Value(_) => false,
        DocumentNode::List(items) => items.iter().any(contains_step_bound),
        DocumentNode::Map(entries) => {
            entries.iter().any(|(key, value)| key == "max_step_runs" || contains_step_bound(value))
        }
    }
}
