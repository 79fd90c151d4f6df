//! `noetl graph`

use std::fs;

use crate::cli::support::{CRATE_DIR, TestDir, run_noetl, run_with_stdin};

fn draw_graph(file: &str, flags: &[&str]) -> String {
    let path = format!("{CRATE_DIR}/{file}");
    let output = run_noetl(&[&["graph", &path], flags].concat());
    assert_eq!((output.code, &*output.err), (0, ""));
    output.out
}

fn draw_flow(name: &str) -> String {
    draw_graph(&format!("tests/flows/{name}.yaml"), &[])
}

fn draw_corpus(name: &str, flags: &[&str]) -> String {
    draw_graph(&format!("../testkit/corpus/good/{name}.yaml"), flags)
}

#[test]
fn linear_flow() {
    insta::assert_snapshot!(draw_flow("linear"));
}

#[test]
fn rejoining_branches() {
    insta::assert_snapshot!(draw_flow("diamonds"));
}

#[test]
fn wide_fan_out() {
    insta::assert_snapshot!(draw_flow("wide_fan_out"));
}

#[test]
fn nested_cycles() {
    insta::assert_snapshot!(draw_flow("nested_cycles"));
}

#[test]
fn cycle_with_two_entries_and_unreachable_steps() {
    insta::assert_snapshot!(draw_flow("tangle"));
}

#[test]
fn step_shared_by_all_branches() {
    insta::assert_snapshot!(draw_flow("shared_alarm"));
}

#[test]
fn nested_decisions() {
    insta::assert_snapshot!(draw_flow("deep"));
}

#[test]
fn loops_of_every_mode() {
    insta::assert_snapshot!(draw_flow("loops"));
}

#[test]
fn dead_arcs_and_required_matches() {
    insta::assert_snapshot!(draw_flow("dead_arc"));
}

#[test]
fn names_wider_than_columns() {
    insta::assert_snapshot!(draw_flow("long_names"));
}

#[test]
fn realistic_playbooks() {
    for name in ["order_saga", "daily_orders_etl", "export_poll", "weather_fanout"] {
        insta::assert_snapshot!(format!("from_life_{name}"), draw_corpus(name, &[]));
    }
}

#[test]
fn ascii_output_is_ascii() {
    let drawing = draw_corpus("export_poll", &["--ascii"]);
    assert!(drawing.is_ascii(), "{drawing}");
    insta::assert_snapshot!(drawing);
}

#[test]
fn mermaid_format() {
    for name in ["order_saga", "export_poll", "weather_fanout"] {
        insta::assert_snapshot!(
            format!("mermaid_{name}"),
            draw_corpus(name, &["--format", "mermaid"])
        );
    }
}

#[test]
fn dot_format() {
    for name in ["order_saga", "export_poll", "weather_fanout"] {
        insta::assert_snapshot!(format!("dot_{name}"), draw_corpus(name, &["--format", "dot"]));
    }
}

/// Step names that are keywords of Mermaid and Graphviz, and all characters with a meaning there.
const SPECIAL_CHARACTERS_PLAYBOOK: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: 'na"sty name' }
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
fn special_characters_are_escaped() {
    for format in ["text", "mermaid", "dot"] {
        let output = run_with_stdin(
            &["graph", "-", "--format", format],
            SPECIAL_CHARACTERS_PLAYBOOK.as_bytes(),
        );
        insta::assert_snapshot!(format!("nasty_{format}"), output.to_snapshot());
    }
}

#[test]
fn draws_every_corpus_playbook() {
    for entry in fs::read_dir(format!("{CRATE_DIR}/../testkit/corpus/good")).unwrap() {
        let path = entry.unwrap().path();
        if fs::read_to_string(&path).is_ok_and(|text| text.contains("kind: Playbook")) {
            for format in ["text", "mermaid", "dot"] {
                let output = run_noetl(&["graph", path.to_str().unwrap(), "--format", format]);
                assert_eq!(output.code, 0, "{}: {}", path.display(), output.err);
            }
        }
    }
}

#[test]
fn rejects_document_with_errors() {
    let output =
        run_with_stdin(&["graph", "-"], b"apiVersion: noetl.io/v2\nkind: Playbook\nworkflow: []\n");
    assert_eq!((output.code, &*output.out), (1, ""));
    assert!(output.err.contains("error[NP014]"), "{}", output.err);
}

#[test]
fn model_has_no_graph() {
    let model = "apiVersion: noetl.io/v1\nkind: Model\nmetadata: { name: forest }\n";
    let dir = TestDir::new("graph_model");
    let output = dir.write("model.yaml", model).run(&["graph", "model.yaml"]);
    insta::assert_snapshot!(output.to_snapshot(), @r"
    ──── stderr
    error: 'model.yaml' is a Model; only playbooks have a graph
      help: check it with: noetl check FILE
    ──── exit 1
    ");
}

#[test]
fn missing_file_exits_with_not_found() {
    let dir = TestDir::new("graph_missing");
    assert_eq!(dir.run(&["graph", "nowhere.yaml"]).code, 3);
    insta::assert_snapshot!(dir.run(&["graph", "."]).to_snapshot(), @r"
    ──── stderr
    error: cannot read '.': is a directory
      help: specify a file inside it
    ──── exit 1
    ");
}
