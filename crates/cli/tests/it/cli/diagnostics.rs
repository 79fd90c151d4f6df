//! Rendering of the most common diagnostics.

use crate::cli::support::{CommandOutput, TestDir};

/// Documents with one mistake each.
const MISTAKES: [(&str, &str); 10] = [
    (
        "NP001",
        "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: unclosed }
workflow:
  - step: start
    tool: { kind: noop, result: [1, 2
",
    ),
    (
        "NP002",
        "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: twice }
workflow:
  - step: start
    tool: { kind: noop }
    desc: said once
    desc: said again
",
    ),
    (
        "NP005",
        "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { path: etl/nameless }
workflow:
  - step: start
    tool: { kind: noop }
",
    ),
    (
        "NP010",
        "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: unknown_key }
workflow:
  - step: start
    tool: { kind: noop }
    owner: data team
",
    ),
    (
        "NP102",
        "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: no_tool }
workflow:
  - step: start
    desc: does nothing at all
",
    ),
    (
        "NP201",
        "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: misspelt_step }
workload: { soon: true }
workflow:
  - step: start
    tool: { kind: noop }
    next:
      arcs:
        - { step: finsh, when: '{{ workload.soon }}' }
        - { step: finish }
  - step: finish
    tool: { kind: noop }
",
    ),
    (
        "NP401",
        "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: misspelt_kind }
workflow:
  - step: start
    tool: { kind: pyhton, code: result = 1 }
",
    ),
    (
        "NP404",
        "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: no_url }
workflow:
  - step: start
    tool: { kind: http, method: POST }
",
    ),
    (
        "NP501",
        "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: broken_template }
workload: { größe: 3 }
workflow:
  - step: start
    tool: { kind: noop, result: \"größe 日本 {{ workload. }} more\" }
",
    ),
    (
        "NP503",
        "\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: misspelt_name }
workflow:
  - step: start
    tool: { kind: noop, result: { count: 3 } }
    next: { arcs: [{ step: use }] }
  - step: use
    tool: { kind: noop, result: \"{{ strat.count }}\" }
",
    ),
];

fn check_document(code: &str, document: &str, flags: &[&str]) -> CommandOutput {
    let file = format!("{code}.yaml");
    let dir = TestDir::new(&format!("diagnostics_{code}_{}", flags.len()));
    let args = [&["check", &file], flags].concat();
    dir.write(&file, document).run(&args)
}

#[test]
fn common_diagnostics() {
    let outputs: Vec<String> = MISTAKES
        .iter()
        .map(|(code, document)| check_document(code, document, &["--quiet"]).out)
        .collect();
    insta::assert_snapshot!(outputs.concat().trim_end());
}

#[test]
fn each_document_reports_its_code() {
    for (code, document) in MISTAKES {
        let output = check_document(code, document, &["--quiet", "--format", "json"]);
        let report: serde_json::Value = serde_json::from_str(&output.out).unwrap();
        let codes: Vec<&str> = report["files"][0]["diagnostics"]
            .as_array()
            .unwrap()
            .iter()
            .map(|diagnostic| diagnostic["code"].as_str().unwrap())
            .collect();
        assert_eq!(codes, [code]);
    }
}

#[test]
fn severities_have_colours() {
    let (code, document) = MISTAKES[3];
    let output = check_document(code, document, &["--color", "always"]);
    assert!(output.out.contains("\u{1b}[33mwarning[NP010]"), "{}", output.out.escape_debug());
}

#[test]
fn long_line_is_shortened_around_the_mistake() {
    let long = format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: long }}\nworkflow:\n  \
         - {{ step: start, desc: {}, tool: {{ kind: noop }}, nxt: 1, when: \"{}\" }}\n",
        "word ".repeat(80).trim_end(),
        "workload.n > 1 or ".repeat(40) + "true",
    );
    let output = check_document("long", &long, &["--quiet"]);
    insta::assert_snapshot!(output.out.lines().take(7).collect::<Vec<_>>().join("\n"));
}
