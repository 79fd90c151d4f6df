use super::InputsRead;
use crate::{CheckOptions, Document, check};

fn may_read_input(template: &str, name: &str) -> bool {
    let text = format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: x}}\nworkflow:\n  - {{step: a, when: \"{{{{ when_is }}}}\", tool: {{kind: noop, result: \"{template}\"}}}}\n"
    );
    let checked = check(&text, &CheckOptions::default());
    let Some(Document::Playbook(playbook)) = checked.document else {
        panic!("{:?}", checked.diagnostics);
    };
    InputsRead::from_playbook(&playbook).may_read(name)
}

#[test]
fn inputs_are_matched_by_whole_name() {
    assert!(may_read_input("{{ workload.base }}", "base"));
    assert!(may_read_input("{{ base | upper }}", "base"));
    assert!(may_read_input("{{ 1 }}", "when_is"));
    assert!(!may_read_input("{{ workload.base }}", "bas"));
    assert!(!may_read_input("base of {{ other }}", "base"));
    assert!(!may_read_input("{{ other.base }}", "base"));
}

#[test]
fn dynamic_access_may_read_anything() {
    assert!(may_read_input("{{ workload | tojson }}", "anything"));
    assert!(may_read_input("{{ workload[other] }}", "anything"));
}
