//! Before the first step: the recorded input, and what the oracle does not take on.

use noetl_playbook::template::RenderErrorKind;
use noetl_types::Json;

use super::{json, playbook};
use crate::{Schedule, Script, interpret, start_workload};

#[test]
fn the_payload_is_merged_over_rendered_defaults() {
    let playbook = playbook(
        r#"
workload:
  greeting: "hello {{ payload.name | default('you') }}"
  twice: "{{ greeting }}"
  deep: { a: { x: 1, y: 2 }, b: [1, 2] }
workflow:
  - { step: a, tool: { kind: noop } }
"#,
    );
    let payload = json(r#"{"name":"{{ 1 + 1 }}","deep":{"a":{"y":3},"b":[]},"more":null}"#);
    let expected = json(
        r#"{"greeting":"hello {{ 1 + 1 }}","twice":null,"name":"{{ 1 + 1 }}","deep":{"a":{"x":1,"y":3},"b":[]},"more":null}"#,
    );
    assert_eq!(start_workload(&playbook, &payload), Ok(expected));
    let alone = start_workload(&playbook, &Json::Null).unwrap();
    assert_eq!(alone.get("greeting"), Some(&json(r#""hello you""#)));
}

#[test]
fn a_default_that_cannot_be_rendered_starts_nothing() {
    let playbook = playbook(
        "workload: { n: \"{{ 1 // 0 }}\" }\nworkflow:\n  - { step: a, tool: { kind: noop } }\n",
    );
    let error = start_workload(&playbook, &Json::Null).unwrap_err();
    assert_eq!(error.kind, RenderErrorKind::Failed);
}

#[test]
fn a_container_is_refused() {
    let playbook = playbook("workflow:\n  - { step: a, tool: { kind: container, image: i } }\n");
    let refused = interpret(&playbook, Json::Null, &Script, Schedule::InOrder).unwrap_err();
    assert_eq!((&*refused.step, refused.what), ("a", "a container"));
}
