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
mod tests;
