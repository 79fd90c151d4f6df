//! What a playbook reads of its input.

use std::collections::BTreeSet;

use super::sites::sites;
use crate::model::Playbook;

/// The inputs that templates of a playbook read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputsRead<'p> {
    names: BTreeSet<&'p str>,
    takes_all: bool,
}

impl<'p> InputsRead<'p> {
    /// Looks through every template. An input is read as `workload.<name>` or by its name alone.
    pub fn of(playbook: &'p Playbook) -> Self {
        let mut read = Self {
            names: BTreeSet::new(),
            takes_all: false,
        };
        for site in sites(playbook) {
            for found in site.template.reads() {
                match (found.root(), found.path.get(1)) {
                    ("workload", Some(name)) => read.names.insert(name),
                    ("workload", None) => {
                        read.takes_all = true;
                        continue;
                    }
                    (name, _) => read.names.insert(name),
                };
            }
        }
        read
    }

    /// Whether some template may read the input of this name: who takes the workload as a whole may
    /// read anything of it.
    pub fn includes(&self, name: &str) -> bool {
        self.takes_all || self.names.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::InputsRead;
    use crate::{CheckOptions, Document, check};

    fn reads(template: &str, name: &str) -> bool {
        let text = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: x}}\nworkflow:\n  - {{step: a, when: \"{{{{ when_is }}}}\", tool: {{kind: noop, result: \"{template}\"}}}}\n"
        );
        let checked = check(&text, &CheckOptions::default());
        let Some(Document::Playbook(playbook)) = checked.document else {
            panic!("{:?}", checked.diagnostics);
        };
        InputsRead::of(&playbook).includes(name)
    }

    #[test]
    fn an_input_is_read_by_its_whole_name() {
        assert!(reads("{{ workload.base }}", "base"));
        assert!(reads("{{ base | upper }}", "base"));
        assert!(reads("{{ 1 }}", "when_is"));
        assert!(!reads("{{ workload.base }}", "bas"));
        assert!(!reads("base of {{ other }}", "base"));
        assert!(!reads("{{ other.base }}", "base"));
    }

    #[test]
    fn who_takes_all_may_read_anything() {
        assert!(reads("{{ workload | tojson }}", "anything"));
        assert!(reads("{{ workload[other] }}", "anything"));
    }
}
