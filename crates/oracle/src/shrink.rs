//! Making a failing playbook small enough to read.
//!
//! Parts are left out one after the other, the large ones first, as long as what remains is still a
//! valid playbook that fails. What bounds a run stays: without it, trying would take for ever.

use noetl_playbook::model::Playbook;

use crate::generate::{Draft, GenConfig, Node, generate};

/// Whether a playbook, given with its text, still shows the failure.
pub type Fails<'f> = dyn FnMut(&Playbook, &str) -> bool + 'f;

/// Finds a smaller playbook that still fails.
pub fn shrink(draft: &Draft, fails: &mut Fails<'_>) -> Draft {
    let mut best = draft.clone();
    'again: loop {
        for candidate in candidates(&best) {
            if still_fails(&candidate, fails) {
                best = candidate;
                continue 'again;
            }
        }
        return best;
    }
}

/// The same for the playbook of a seed; `None` if it does not fail.
pub fn shrink_seed(seed: u64, config: &GenConfig, fails: &mut Fails<'_>) -> Option<Draft> {
    let draft = generate(seed, config);
    still_fails(&draft, fails).then(|| shrink(&draft, fails))
}

fn still_fails(draft: &Draft, fails: &mut Fails<'_>) -> bool {
    draft
        .playbook()
        .is_some_and(|playbook| fails(&playbook, &draft.text()))
}

/// The document with one part left out, in every way.
fn candidates(draft: &Draft) -> Vec<Draft> {
    let mut found = without_a_step(&draft.0);
    let mut parts = without_a_part(&draft.0);
    // Leaving out much at once gets to the end sooner.
    parts.sort_by_key(size);
    found.extend(parts);
    found.into_iter().map(Draft).collect()
}

fn size(node: &Node) -> usize {
    match node {
        Node::Value(_) => 1,
        Node::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Node::Map(entries) => 1 + entries.iter().map(|(_, value)| size(value)).sum::<usize>(),
    }
}

/// A step goes together with the arcs that lead to it.
fn without_a_step(document: &Node) -> Vec<Node> {
    let Some(Node::List(steps)) = document.get("workflow") else {
        return Vec::new();
    };
    let names = steps.iter().filter_map(|step| step.get("step")?.as_text());
    names
        .map(|name| {
            let mut document = document.clone();
            drop_step(&mut document, name);
            document
        })
        .collect()
}

fn drop_step(node: &mut Node, name: &str) {
    match node {
        Node::Value(_) => {}
        Node::List(items) => {
            items.retain(|item| item.get("step").and_then(Node::as_text) != Some(name));
            for item in items {
                drop_step(item, name);
            }
        }
        Node::Map(entries) => {
            for (_, value) in entries.iter_mut() {
                drop_step(value, name);
            }
            // Nothing is left to choose from.
            let is_empty =
                |node: &Node| matches!(node.get("arcs"), Some(Node::List(arcs)) if arcs.is_empty());
            entries.retain(|(key, value)| !(key == "next" && is_empty(value)));
        }
    }
}

fn without_a_part(node: &Node) -> Vec<Node> {
    match node {
        Node::Value(_) => Vec::new(),
        Node::List(items) => {
            let mut found = Vec::new();
            for at in 0..items.len() {
                let mut fewer = items.clone();
                fewer.remove(at);
                found.push(Node::List(fewer));
                for smaller in without_a_part(&items[at]) {
                    let mut items = items.clone();
                    items[at] = smaller;
                    found.push(Node::List(items));
                }
            }
            found
        }
        Node::Map(entries) => {
            let mut found = Vec::new();
            for (at, (key, value)) in entries.iter().enumerate() {
                if !holds_bound(node, key, value) {
                    let mut fewer = entries.clone();
                    fewer.remove(at);
                    found.push(Node::Map(fewer));
                }
                if !counts_jumps(node, key) {
                    for smaller in without_a_part(value) {
                        let mut entries = entries.clone();
                        entries[at].1 = smaller;
                        found.push(Node::Map(entries));
                    }
                }
            }
            found
        }
    }
}

/// Whether an entry is what keeps a run or a pipeline from going on for ever.
fn holds_bound(map: &Node, key: &str, value: &Node) -> bool {
    key == "max_step_runs" || counts_jumps(map, key) || mentions_bound(value)
}

fn counts_jumps(map: &Node, key: &str) -> bool {
    key == "set" && map.get("do").and_then(Node::as_text) == Some("jump")
}

fn mentions_bound(node: &Node) -> bool {
    match node {
        Node::Value(_) => false,
        Node::List(items) => items.iter().any(mentions_bound),
        Node::Map(entries) => entries
            .iter()
            .any(|(key, value)| key == "max_step_runs" || mentions_bound(value)),
    }
}
