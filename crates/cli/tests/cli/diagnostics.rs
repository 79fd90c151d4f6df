//! How the commonest diagnostics look.

use crate::support::{Folder, Ran};

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
metadata: { name: misspelt_key }
workflow:
  - step: start
    tool: { kind: noop }
    nxt: { arcs: [{ step: end }] }
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

fn check(code: &str, document: &str, more: &[&str]) -> Ran {
    let file = format!("{code}.yaml");
    let folder = Folder::new(&format!("diagnostics_{code}_{}", more.len()));
    let args = [&["check", &file], more].concat();
    folder.write(&file, document).run(&args)
}

#[test]
fn the_ten_commonest() {
    let shown: Vec<String> = MISTAKES
        .iter()
        .map(|(code, document)| check(code, document, &["--quiet"]).out)
        .collect();
    insta::assert_snapshot!(shown.concat().trim_end());
}

#[test]
fn each_is_the_one_that_was_meant() {
    for (code, document) in MISTAKES {
        let ran = check(code, document, &["--quiet", "--format", "json"]);
        let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let codes: Vec<&str> = found["files"][0]["diagnostics"]
            .as_array()
            .unwrap()
            .iter()
            .map(|found| found["code"].as_str().unwrap())
            .collect();
        assert_eq!(codes, [code]);
    }
}

#[test]
fn severities_have_colours() {
    let (code, document) = MISTAKES[3];
    let ran = check(code, document, &["--color", "always"]);
    assert!(
        ran.out.contains("\u{1b}[33mwarning[NP010]"),
        "{}",
        ran.out.escape_debug()
    );
}

#[test]
fn a_very_long_line_is_shortened_around_the_mistake() {
    let long = format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: long }}\nworkflow:\n  \
         - {{ step: start, desc: {}, tool: {{ kind: noop }}, nxt: 1, when: \"{}\" }}\n",
        "word ".repeat(80).trim_end(),
        "workload.n > 1 or ".repeat(40) + "true",
    );
    let ran = check("long", &long, &["--quiet"]);
    insta::assert_snapshot!(ran.out.lines().take(7).collect::<Vec<_>>().join("\n"));
}
