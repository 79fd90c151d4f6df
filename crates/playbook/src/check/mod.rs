//! The checker: what can be said of a document before it runs.
//!
//! The parser has reported what cannot be read; here is what can be read and is still wrong, or
//! probably not meant: routes that lead nowhere, names that nothing provides, secrets in plain text.

mod catalog;
mod inputs;
mod names;
mod python;
mod routes;
mod scope;
mod secrets;
mod sites;
mod tasks;

pub use inputs::InputsRead;
pub(crate) use tasks::STATEMENT_KEYS;

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::diag::{Diagnostic, Severity};
use crate::graph::Graph;
use crate::model::{Document, Playbook};
use crate::parse::{CheckOptions, Parsed, parse, step_name};
use crate::yaml::Node;

/// A text that was checked.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The document, if nothing refuses it.
    pub document: Option<Document>,
    /// What was found, in document order.
    pub diagnostics: Vec<Diagnostic>,
    /// How many findings beyond the first 500 were left out.
    pub hidden: usize,
}

impl Checked {
    /// How many findings have this weight.
    pub fn count(&self, severity: Severity) -> usize {
        self.diagnostics
            .iter()
            .filter(|found| found.severity == severity)
            .count()
    }
}

/// Checks a text: every finding at once, in document order.
pub fn check(text: &str, options: &CheckOptions) -> Checked {
    let Parsed {
        mut sink,
        root,
        document,
    } = parse(text, options);
    if let Some(root) = &root {
        secrets::check(&mut sink, root);
    }
    if let (Some(root), Some(Document::Playbook(playbook))) = (&root, &document) {
        let subject = Subject::new(playbook, root);
        routes::check(&mut sink, &subject);
        tasks::check(&mut sink, &subject);
        names::check(&mut sink, &subject);
    }
    if let (Some(document), Some(catalog)) = (&document, &options.catalog) {
        catalog::check(&mut sink, document, catalog);
    }
    let (refused, hidden) = (sink.has_errors(), sink.hidden());
    let diagnostics = sink.finish(root.as_ref());
    Checked {
        document: document.filter(|_| !refused),
        diagnostics,
        hidden,
    }
}

/// A playbook under inspection.
struct Subject<'p> {
    playbook: &'p Playbook,
    graph: Graph,
    /// Names of all steps, also of those that could not be read.
    declared: Vec<String>,
}

impl<'p> Subject<'p> {
    fn new(playbook: &'p Playbook, root: &Node) -> Self {
        let steps = root
            .get("workflow")
            .and_then(Node::as_list)
            .unwrap_or_default();
        let declared: Vec<String> = steps
            .iter()
            .filter_map(step_name)
            .map(|name| name.value.to_string())
            .collect();
        let graph = Graph::new(&as_meant(playbook, &declared));
        Self {
            playbook,
            graph,
            declared,
        }
    }

    fn declares(&self, name: &str) -> bool {
        self.declared.iter().any(|declared| declared == name)
    }

    /// Whether every step was read, each under a name of its own, so that the graph is the whole one.
    fn is_whole(&self) -> bool {
        let names: BTreeSet<&String> = self.declared.iter().collect();
        names.len() == self.declared.len() && names.len() == self.playbook.workflow.len()
    }

    fn near_step(&self, name: &str) -> Option<&str> {
        crate::diag::near(name, self.declared.iter().map(String::as_str))
    }
}

/// The playbook with misspelt targets of arcs put right, so that one slip is reported once and not
/// again as a step that nobody reaches.
fn as_meant<'p>(playbook: &'p Playbook, declared: &[String]) -> Cow<'p, Playbook> {
    let known = |name: &str| name == "end" || declared.iter().any(|declared| declared == name);
    let mut meant = Cow::Borrowed(playbook);
    for (index, step) in playbook.workflow.iter().enumerate() {
        let arcs = step.next.iter().flat_map(|router| &router.arcs);
        for (number, arc) in arcs.enumerate().filter(|(_, arc)| !known(&arc.step.value)) {
            let near = crate::diag::near(&arc.step.value, declared.iter().map(String::as_str));
            if let Some(near) = near
                && let Some(router) = &mut meant.to_mut().workflow[index].next
            {
                router.arcs[number].step.value = near.into();
            }
        }
    }
    meant
}
