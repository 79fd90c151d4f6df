//! Recorded input, and unsupported playbooks.

use noetl_playbook::template::RenderErrorKind;
use noetl_types::Json;

use super::{parse_json, parse_playbook};
use crate::{CommandOrder, ScriptedOutcomes, interpret_playbook, start_workload};

#[test]
fn merges_payload_over_rendered_defaults() {
    let playbook = parse_playbook(
        r#"
workload:
  greeting: "hello {{ payload.name | default('you') }}"
  twice: "{{ greeting }}"
  deep: { a: { x: 1, y: 2 }, b: [1, 2] }
workflow:
  - { step: a, tool: { kind: noop } }
"#,
    );
    let payload = parse_json(r#"{"name":"{{ 1 + 1 }}","deep":{"a":{"y":3},"b":[]},"more":null}"#);
    let expected = parse_json(
        r#"{"greeting":"hello {{ 1 + 1 }}","twice":null,"name":"{{ 1 + 1 }}","deep":{"a":{"x":1,"y":3},"b":[]},"more":null}"#,
    );
    assert_eq!(start_workload(&playbook, &payload), Ok(expected));
    let alone = start_workload(&playbook, &Json::Null).unwrap();
    assert_eq!(alone.get("greeting"), Some(&parse_json(r#""hello you""#)));
}

#[test]
fn broken_default_fails_start() {
    let playbook = parse_playbook(
        "workload: { n: \"{{ 1 // 0 }}\" }\nworkflow:\n  - { step: a, tool: { kind: noop } }\n",
    );
    let error = start_workload(&playbook, &Json::Null).unwrap_err();
    assert_eq!(error.kind, RenderErrorKind::Failed);
}

#[test]
fn rejects_container() {
    let playbook =
        parse_playbook("workflow:\n  - { step: a, tool: { kind: container, image: i } }\n");
    let error =
        interpret_playbook(&playbook, Json::Null, &ScriptedOutcomes, CommandOrder::IssueOrder)
            .unwrap_err();
    assert_eq!((&*error.step, error.what), ("a", "a container"));
}
