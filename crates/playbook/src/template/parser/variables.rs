//! Resolution of template variables.
//!
//! A `for` opens a scope for each iteration. A `set` defines a variable in the scope that contains
//! it. A `set` inside an `if` may or may not have run: reading the name then yields the variable if
//! it did, or else the previous meaning of the name.

use std::collections::BTreeMap;

/// Names that a template variable must not shadow.
pub(super) const UNSHADOWABLE_NAMES: [&str; 5] =
    ["execution_id", "workload", "ctx", "steps", "keychain"];

#[derive(Debug, Default)]
pub(super) struct VariableTable {
    scopes: Vec<VariableScope>,
    outermost: VariableScope,
    slots: usize,
}

type VariableScope = BTreeMap<String, TemplateVariable>;

#[derive(Debug, Clone, Copy)]
struct TemplateVariable {
    slot: usize,
    is_certain: bool,
}

/// The variables of the innermost scope that certainly have a value.
#[derive(Debug)]
pub(super) struct CertainVariables(Vec<String>);

impl VariableTable {
    /// Number of variables in total.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    pub(super) fn open_scope(&mut self) {
        self.scopes.push(VariableScope::new());
    }

    pub(super) fn close_scope(&mut self) {
        self.scopes.pop();
    }

    fn innermost_scope(&mut self) -> &mut VariableScope {
        self.scopes.last_mut().unwrap_or(&mut self.outermost)
    }

    /// Declares a variable in the innermost scope, or returns the existing one.
    pub(super) fn declare_variable(&mut self, name: &str) -> usize {
        let next = self.slots;
        let variable = self
            .innermost_scope()
            .entry(name.to_owned())
            .or_insert(TemplateVariable { slot: next, is_certain: true });
        variable.is_certain = true;
        let slot = variable.slot;
        self.slots = self.slots.max(slot + 1);
        slot
    }

    /// The variables that a name may refer to, innermost first. The bool is true if one of them
    /// certainly has a value.
    pub(super) fn resolve_variable(&self, name: &str) -> (Box<[usize]>, bool) {
        let mut slots = Vec::new();
        for scope in self.scopes.iter().rev().chain([&self.outermost]) {
            if let Some(variable) = scope.get(name) {
                slots.push(variable.slot);
                if variable.is_certain {
                    return (slots.into(), true);
                }
            }
        }
        (slots.into(), false)
    }

    /// The certain variables, before a branch.
    pub(super) fn certain_variables(&mut self) -> CertainVariables {
        let certain = self.innermost_scope().iter().filter(|(_, variable)| variable.is_certain);
        CertainVariables(certain.map(|(name, _)| name.clone()).collect())
    }

    /// Resets certainty to the state before a branch.
    pub(super) fn restore_certain(&mut self, before: &CertainVariables) {
        for (name, variable) in self.innermost_scope() {
            variable.is_certain = before.0.contains(name);
        }
    }

    /// After all branches: a variable is certain if every branch made it certain.
    pub(super) fn join_branches(&mut self, branches: &[CertainVariables]) {
        for (name, variable) in self.innermost_scope() {
            variable.is_certain = branches.iter().all(|branch| branch.0.contains(name));
        }
    }
}
