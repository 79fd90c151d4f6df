//! `noetl graph`

use std::fs;

use crate::support::{CRATE, Folder, feed, run};

fn draw(file: &str, more: &[&str]) -> String {
    let path = format!("{CRATE}/{file}");
    let ran = run(&[&["graph", &path], more].concat());
    assert_eq!((ran.code, &*ran.err), (0, ""));
    ran.out
}

fn flow(name: &str) -> String {
    draw(&format!("tests/flows/{name}.yaml"), &[])
}

fn corpus(name: &str, more: &[&str]) -> String {
    draw(&format!("../testkit/corpus/good/{name}.yaml"), more)
}

#[test]
fn one_after_the_other() {
    insta::assert_snapshot!(flow("linear"));
}

#[test]
fn branches_that_meet_again() {
    insta::assert_snapshot!(flow("diamonds"));
}

#[test]
fn a_wide_fan_out() {
    insta::assert_snapshot!(flow("wide_fan_out"));
}

#[test]
fn cycles_inside_each_other() {
    insta::assert_snapshot!(flow("nested_cycles"));
}

#[test]
fn a_cycle_with_two_ways_in_and_steps_that_are_never_reached() {
    insta::assert_snapshot!(flow("tangle"));
}

#[test]
fn a_step_that_all_others_can_fall_into() {
    insta::assert_snapshot!(flow("shared_alarm"));
}

#[test]
fn decisions_inside_decisions() {
    insta::assert_snapshot!(flow("deep"));
}

#[test]
fn loops_of_every_mode() {
    insta::assert_snapshot!(flow("loops"));
}

#[test]
fn arcs_that_are_never_taken_and_routers_that_must_match() {
    insta::assert_snapshot!(flow("dead_arc"));
}

#[test]
fn names_that_fit_into_no_column() {
    insta::assert_snapshot!(flow("long_names"));
}

#[test]
fn playbooks_from_life() {
    for name in [
        "order_saga",
        "daily_orders_etl",
        "export_poll",
        "weather_fanout",
    ] {
        insta::assert_snapshot!(format!("from_life_{name}"), corpus(name, &[]));
    }
}

#[test]
fn ascii_keeps_to_ascii() {
    let drawing = corpus("export_poll", &["--ascii"]);
    assert!(drawing.is_ascii(), "{drawing}");
    insta::assert_snapshot!(drawing);
}

#[test]
fn mermaid() {
    for name in ["order_saga", "export_poll", "weather_fanout"] {
        insta::assert_snapshot!(
            format!("mermaid_{name}"),
            corpus(name, &["--format", "mermaid"])
        );
    }
}

#[test]
fn graphviz() {
    for name in ["order_saga", "export_poll", "weather_fanout"] {
        insta::assert_snapshot!(format!("dot_{name}"), corpus(name, &["--format", "dot"]));
    }
}

/// Step names that are words of Mermaid and Graphviz, and every character that means something there.
const NASTY: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: 'na"sty \ name' }
workload: { a: x }
workflow:
  - step: end
    tool: { kind: noop }
    next:
      arcs:
        - { step: graph, when: '{{ workload.a == "`<b>#;&|{}[]()\\" }}' }
        - { step: subgraph }
  - step: graph
    tool: { kind: noop }
    loop: { in: '{{ ["-->", "%%"] }}', iterator: item }
  - step: subgraph
    tool: { kind: noop }
"#;

#[test]
fn nothing_in_a_playbook_breaks_the_formats() {
    for format in ["text", "mermaid", "dot"] {
        let ran = feed(&["graph", "-", "--format", format], NASTY.as_bytes());
        insta::assert_snapshot!(format!("nasty_{format}"), ran.shown());
    }
}

#[test]
fn every_playbook_of_the_corpus_can_be_drawn() {
    for entry in fs::read_dir(format!("{CRATE}/../testkit/corpus/good")).unwrap() {
        let path = entry.unwrap().path();
        if fs::read_to_string(&path).is_ok_and(|text| text.contains("kind: Playbook")) {
            for format in ["text", "mermaid", "dot"] {
                let ran = run(&["graph", path.to_str().unwrap(), "--format", format]);
                assert_eq!(ran.code, 0, "{}: {}", path.display(), ran.err);
            }
        }
    }
}

#[test]
fn a_document_with_errors_is_not_drawn() {
    let ran = feed(
        &["graph", "-"],
        b"apiVersion: noetl.io/v2\nkind: Playbook\nworkflow: []\n",
    );
    assert_eq!((ran.code, &*ran.out), (1, ""));
    assert!(ran.err.contains("error[NP014]"), "{}", ran.err);
}

#[test]
fn a_document_without_steps_has_no_graph() {
    let model = "apiVersion: noetl.io/v1\nkind: Model\nmetadata: { name: forest }\n";
    let folder = Folder::new("graph_model");
    let ran = folder
        .write("model.yaml", model)
        .run(&["graph", "model.yaml"]);
    insta::assert_snapshot!(ran.shown(), @r"
    ──── stderr
    error: 'model.yaml' is a Model, and only a playbook has a graph
      help: look at it with: noetl check FILE
    ──── exit 1
    ");
}

#[test]
fn a_missing_file_is_not_found() {
    let folder = Folder::new("graph_missing");
    assert_eq!(folder.run(&["graph", "nowhere.yaml"]).code, 3);
    insta::assert_snapshot!(folder.run(&["graph", "."]).shown(), @r"
    ──── stderr
    error: cannot read '.': is a directory
      help: name a file inside it
    ──── exit 1
    ");
}
