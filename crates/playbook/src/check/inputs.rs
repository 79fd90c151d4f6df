//! Determines which inputs a playbook reads.

use std::collections::BTreeSet;

use super::template_sites::collect_template_sites;
use crate::model::Playbook;

/// The inputs that the templates of a playbook read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputsRead<'p> {
    names: BTreeSet<&'p str>,
    reads_all: bool,
}

impl<'p> InputsRead<'p> {
    /// Collects the inputs that any template reads, either as `workload.<name>` or as a bare name.
    pub fn from_playbook(playbook: &'p Playbook) -> Self {
        let mut inputs = Self { names: BTreeSet::new(), reads_all: false };
        for site in collect_template_sites(playbook) {
            for read in site.template.reads() {
                match (read.root(), read.path.get(1)) {
                    ("workload", Some(name)) => inputs.names.insert(name),
                    ("workload", None) => {
                        inputs.reads_all = true;
                        continue;
                    }
                    (name, _) => inputs.names.insert(name),
                };
            }
        }
        inputs
    }

    /// True if a template may read the input with this name. A template that reads the whole
    /// workload may read any input.
    pub fn may_read(&self, name: &str) -> bool {
        self.reads_all || self.names.contains(name)
    }
}

#[cfg(test)]
mod tests {
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
}
