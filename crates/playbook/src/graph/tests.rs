use super::*;
use crate::{CheckOptions, Document, check};

fn build_graph(arcs: &[(&str, &[&str])]) -> StepGraph {
    let mut steps = Vec::new();
    for (name, targets) in arcs {
        let arcs: Vec<String> =
            targets.iter().map(|target| format!("{{step: {target}, when: \"x\"}}")).collect();
        let arcs = arcs.join(", ");
        steps.push(format!("  - {{step: {name}, tool: {{kind: noop}}, next: {{arcs: [{arcs}]}}}}"));
    }
    let steps = steps.join("\n");
    let text = format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: g}}\nworkload: {{x: 1}}\nworkflow:\n{steps}"
    );
    match check(&text, &CheckOptions::default()).document {
        Some(Document::Playbook(playbook)) => StepGraph::new(&playbook),
        other => panic!("{other:?}\n{text}"),
    }
}

fn step_names(graph: &StepGraph, steps: &[StepIndex]) -> Vec<String> {
    steps.iter().map(|step| graph.name(*step).to_string()).collect()
}

#[test]
fn finds_separate_cycles() {
    let graph = build_graph(&[
        ("a", &["b", "e"]),
        ("b", &["c"]),
        ("c", &["b", "d"]),
        ("d", &["d", "end"]),
        ("e", &[]),
    ]);
    let cycles: Vec<_> = graph.cycles().iter().map(|cycle| step_names(&graph, cycle)).collect();
    assert_eq!(cycles, [vec!["b", "c"], vec!["d"]]);
    let find = |name| graph.find_step(name).unwrap();
    assert!(graph.share_cycle(find("b"), find("c")));
    assert!(!graph.share_cycle(find("c"), find("d")));
    assert!(!graph.is_on_cycle(find("a")) && !graph.is_on_cycle(find("e")));
}

#[test]
fn finds_reachable_steps() {
    let graph = build_graph(&[("a", &["b"]), ("b", &["end"]), ("c", &["a"])]);
    assert_eq!(graph.reachable_from(graph.entry()), [true, true, false]);
    let a = graph.find_step("a").unwrap();
    assert_eq!(graph.reachable_from(graph.successors(a)), [false, true, false]);
    assert_eq!(graph.edges(graph.find_step("b").unwrap())[0].target, Some(EdgeTarget::End));
}
