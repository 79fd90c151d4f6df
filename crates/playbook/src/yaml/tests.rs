//! What the loader makes of YAML.

use super::{YamlFault, load, to_json};

fn json(text: &str) -> String {
    to_json(text).map_or_else(|| format!("{:?}", load(text).1), |json| json.to_string())
}

fn faults(text: &str) -> Vec<String> {
    load(text)
        .1
        .into_iter()
        .map(|fault| match fault {
            YamlFault::Syntax { span, reason, .. } => format!("{}: {reason}", span.start),
            YamlFault::DuplicateKey { span, key, first } => {
                format!("{}: duplicate {key} of {}", span.start, first.start)
            }
            YamlFault::TooLarge { limit } => format!("exceeds {limit}"),
            YamlFault::SecondDocument { span } => format!("{}: second document", span.start),
        })
        .collect()
}

#[test]
fn the_core_schema_decides_what_a_plain_scalar_is() {
    assert_eq!(
        json("[yes, on, 1, 1.5, ~, true, '1', \"true\", 0x10]"),
        r#"["yes","on",1,1.5,null,true,"1","true",16]"#
    );
    assert_eq!(json("{1: a, true: b}"), r#"{"1":"a","true":"b"}"#);
    assert_eq!(
        json("[!!str 1, !!int 2, !!float 2, !!null ~]"),
        r#"["1",2,2,null]"#
    );
}

#[test]
fn anchors_and_merges_unfold() {
    assert_eq!(
        json("a: &x {n: 1}\nb: *x\n"),
        r#"{"a":{"n":1},"b":{"n":1}}"#
    );
    let merged = "base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\nown: {<<: [*b, *m], x: 0}\n";
    assert_eq!(
        json(merged),
        r#"{"base":{"x":1,"y":2},"more":{"y":3,"z":4},"own":{"x":0,"y":2,"z":4}}"#
    );
    assert_eq!(json("{'<<': 1}"), r#"{"<<":1}"#);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    assert_eq!(faults("a: 1\nb: 2\na: 3\n"), ["10: duplicate a of 0"]);
    assert_eq!(faults("a: 1\n---\nb: 2\n"), ["5: second document"]);
    assert_eq!(faults("<<: 1\n"), ["4: '<<' takes a map or a list of maps"]);
    assert_eq!(
        faults("a: &a [*a]\n"),
        ["7: the alias refers to itself or to nothing"]
    );
    assert_eq!(
        faults("a: !secret b\n"),
        ["3: tag '!secret' is not supported"]
    );
    assert_eq!(faults("a: .inf\n"), ["3: a number must be finite"]);
    assert_eq!(
        faults("é: 1\n? [x]\n: 2\n"),
        ["8: a key must be a text, not a list or a map"]
    );
    assert_eq!(faults("tool: [a\n"), ["6: '[' is never closed"]);
    assert_eq!(
        faults("a: 1\ntool: {k: [a, b]\n"),
        ["11: '{' is never closed"]
    );
}

#[test]
fn a_bare_template_is_told_to_be_quoted() {
    for text in [
        "a: {{ x }}\n",
        "a:\n  - {{ x }}\n",
        "url: {{ host }}/path\n",
    ] {
        let hint = load(text).1.into_iter().find_map(|fault| match fault {
            YamlFault::Syntax { hint, .. } => hint,
            YamlFault::DuplicateKey { .. }
            | YamlFault::TooLarge { .. }
            | YamlFault::SecondDocument { .. } => None,
        });
        assert!(hint.is_some_and(|hint| hint.contains("quotes")), "{text}");
    }
}

#[test]
fn bounds_hold_before_anything_unfolds() {
    assert_eq!(faults(&"[".repeat(65)), ["exceeds 64 levels of nesting"]);
    assert_eq!(
        faults(&"x".repeat(super::MAX_DOCUMENT_BYTES + 1)),
        ["exceeds 1 MiB"]
    );
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..8 {
        let list = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{list}]\n"));
    }
    assert_eq!(faults(&bomb), ["exceeds 100000 nodes"]);
}
