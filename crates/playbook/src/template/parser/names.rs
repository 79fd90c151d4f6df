//! Which names are variables of the template.
//!
//! A `for` opens a scope for each iteration; a `set` makes a variable in the scope it stands in. One
//! that stands under an `if` may or may not have happened, and reading the name then means the
//! variable if it did, else whatever the name meant before.

use std::collections::BTreeMap;

/// Names that nothing may shadow.
pub(super) const UNSHADOWED: [&str; 5] = ["execution_id", "workload", "ctx", "steps", "keychain"];

#[derive(Debug, Default)]
pub(super) struct Names {
    scopes: Vec<Scope>,
    outermost: Scope,
    slots: usize,
}

type Scope = BTreeMap<String, Variable>;

#[derive(Debug, Clone, Copy)]
struct Variable {
    slot: usize,
    certain: bool,
}

/// The variables of the innermost scope that surely have a value.
#[derive(Debug)]
pub(super) struct Certain(Vec<String>);

impl Names {
    /// How many variables there are in all.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    pub(super) fn open(&mut self) {
        self.scopes.push(Scope::new());
    }

    pub(super) fn close(&mut self) {
        self.scopes.pop();
    }

    fn innermost(&mut self) -> &mut Scope {
        self.scopes.last_mut().unwrap_or(&mut self.outermost)
    }

    /// Makes a variable of the innermost scope, or finds the one that is there.
    pub(super) fn declare(&mut self, name: &str) -> usize {
        let next = self.slots;
        let variable = self.innermost().entry(name.to_owned()).or_insert(Variable {
            slot: next,
            certain: true,
        });
        variable.certain = true;
        let slot = variable.slot;
        self.slots = self.slots.max(slot + 1);
        slot
    }

    /// The variables that a name may stand for, innermost first, and whether it surely is one.
    pub(super) fn resolve(&self, name: &str) -> (Box<[usize]>, bool) {
        let mut slots = Vec::new();
        for scope in self.scopes.iter().rev().chain([&self.outermost]) {
            if let Some(variable) = scope.get(name) {
                slots.push(variable.slot);
                if variable.certain {
                    return (slots.into(), true);
                }
            }
        }
        (slots.into(), false)
    }

    /// What is certain before a branch.
    pub(super) fn certain(&mut self) -> Certain {
        let certain = self
            .innermost()
            .iter()
            .filter(|(_, variable)| variable.certain);
        Certain(certain.map(|(name, _)| name.clone()).collect())
    }

    /// Forgets whatever was made certain since.
    pub(super) fn forget(&mut self, before: &Certain) {
        for (name, variable) in self.innermost() {
            variable.certain = before.0.contains(name);
        }
    }

    /// After all branches: what each of them made certain is certain.
    pub(super) fn join(&mut self, branches: &[Certain]) {
        for (name, variable) in self.innermost() {
            variable.certain = branches.iter().all(|branch| branch.0.contains(name));
        }
    }
}
