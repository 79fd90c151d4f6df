//! Loading of YAML: scalars, anchors, merges, errors and limits.

use super::{YamlError, load_yaml, to_json};

fn load_to_json(text: &str) -> String {
    to_json(text).map_or_else(|| format!("{:?}", load_yaml(text).1), |json| json.to_string())
}

fn describe_errors(text: &str) -> Vec<String> {
    load_yaml(text)
        .1
        .into_iter()
        .map(|error| match error {
            YamlError::Syntax { span, reason, .. } => format!("{}: {reason}", span.start),
            YamlError::DuplicateKey { span, key, first } => {
                format!("{}: duplicate {key} of {}", span.start, first.start)
            }
            YamlError::TooLarge { limit } => format!("exceeds {limit}"),
            YamlError::SecondDocument { span } => format!("{}: second document", span.start),
        })
        .collect()
}

#[test]
fn plain_scalars_follow_core_schema() {
    assert_eq!(
        load_to_json("[yes, on, 1, 1.5, ~, true, '1', \"true\", 0x10]"),
        r#"["yes","on",1,1.5,null,true,"1","true",16]"#
    );
    assert_eq!(load_to_json("{1: a, true: b}"), r#"{"1":"a","true":"b"}"#);
    assert_eq!(load_to_json("[!!str 1, !!int 2, !!float 2, !!null ~]"), r#"["1",2,2,null]"#);
}

#[test]
fn expands_anchors_and_merges() {
    assert_eq!(load_to_json("a: &x {n: 1}\nb: *x\n"), r#"{"a":{"n":1},"b":{"n":1}}"#);
    let merged = "base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\nown: {<<: [*b, *m], x: 0}\n";
    assert_eq!(
        load_to_json(merged),
        r#"{"base":{"x":1,"y":2},"more":{"y":3,"z":4},"own":{"x":0,"y":2,"z":4}}"#
    );
    assert_eq!(load_to_json("{'<<': 1}"), r#"{"<<":1}"#);
}

#[test]
fn errors_have_reason_and_offset() {
    assert_eq!(describe_errors("a: 1\nb: 2\na: 3\n"), ["10: duplicate a of 0"]);
    assert_eq!(describe_errors("a: 1\n---\nb: 2\n"), ["5: second document"]);
    assert_eq!(describe_errors("<<: 1\n"), ["4: '<<' requires a map or a list of maps"]);
    assert_eq!(
        describe_errors("a: &a [*a]\n"),
        ["7: the alias refers to itself or to an undefined anchor"]
    );
    assert_eq!(describe_errors("a: !secret b\n"), ["3: tag '!secret' is not supported"]);
    assert_eq!(describe_errors("a: .inf\n"), ["3: a number must be finite"]);
    assert_eq!(
        describe_errors("é: 1\n? [x]\n: 2\n"),
        ["8: a key must be text, not a list or a map"]
    );
    assert_eq!(describe_errors("tool: [a\n"), ["6: '[' is never closed"]);
    assert_eq!(describe_errors("a: 1\ntool: {k: [a, b]\n"), ["11: '{' is never closed"]);
}

#[test]
fn cause_of_error_is_reported_instead_of_its_effect() {
    let tool = "steps:\n  - name: a\n    tool: ";
    let at_bracket = |bracket: char| format!("{}: '{bracket}' is never closed", tool.len());
    for (rest, bracket) in [
        ("{ kind: noop\n    next: { arcs: [{ step: b }] }\n  - name: b\n", '{'),
        ("[ { kind: noop }\n  - name: b\n    tool: { kind: noop }\n", '['),
        ("{ text: 'it is }', list: [1, 2]\n    next: b # }\n", '{'),
    ] {
        assert_eq!(describe_errors(&format!("{tool}{rest}")), [at_bracket(bracket)], "{rest}");
    }
    // The bracket is closed, so the error is inside.
    let inside = describe_errors("a: { b: 1\n  c: 2\n}\nd: 1\n");
    assert!(inside.iter().all(|error| !error.contains("never closed")), "{inside:?}");
    for (text, tab) in
        [("a:\n  - b: 1\n\tc: 2\nd: 3\n", 12), ("a:\n  b: 1\n  \tc: 2\n", 12), ("a:\n\tb: 1\n", 3)]
    {
        let expected = format!("{tab}: a tab is used as indentation");
        assert_eq!(describe_errors(text), [expected], "{text:?}");
    }
}

#[test]
fn unquoted_template_gets_quoting_hint() {
    for text in ["a: {{ x }}\n", "a:\n  - {{ x }}\n", "url: {{ host }}/path\n"] {
        let hint = load_yaml(text).1.into_iter().find_map(|error| match error {
            YamlError::Syntax { hint, .. } => hint,
            YamlError::DuplicateKey { .. }
            | YamlError::TooLarge { .. }
            | YamlError::SecondDocument { .. } => None,
        });
        assert!(hint.is_some_and(|hint| hint.contains("quotes")), "{text}");
    }
}

#[test]
fn limits_apply_before_alias_expansion() {
    assert_eq!(describe_errors(&"[".repeat(65)), ["exceeds 64 levels of nesting"]);
    assert_eq!(describe_errors(&"x".repeat(super::MAX_DOCUMENT_BYTES + 1)), ["exceeds 1 MiB"]);
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..8 {
        let list = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{list}]\n"));
    }
    assert_eq!(describe_errors(&bomb), ["exceeds 100000 nodes"]);
}
