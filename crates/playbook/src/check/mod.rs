//! The checker: problems that can be found before a document runs.
//!
//! The parser reports what cannot be parsed. The checker reports documents that parse but are
//! wrong, or probably unintended: routes without a target, undefined names, secrets in plain text.

mod build;
mod catalog;
mod inputs;
mod names;
mod python;
mod routes;
mod secrets;
mod tasks;
mod template_sites;
mod visible_names;

pub use catalog::find_references;
pub use inputs::InputsRead;
pub(crate) use tasks::STATEMENT_KEYS;

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::diag::{Diagnostic, Severity};
use crate::graph::StepGraph;
use crate::model::{Document, Playbook};
use crate::parse::{CheckOptions, ParsedDocument, parse, step_name};
use crate::yaml::YamlNode;

/// Result of checking a text.
#[derive(Debug, Clone)]
pub struct CheckReport {
    /// The document, unless it is rejected.
    pub document: Option<Document>,
    /// Diagnostics, in document order.
    pub diagnostics: Vec<Diagnostic>,
    /// Number of findings omitted because they exceed the limit of 500.
    pub omitted_count: usize,
}

impl CheckReport {
    /// Counts the diagnostics with this severity.
    pub fn count_severity(&self, severity: Severity) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count()
    }
}

/// Checks a text and returns all findings, in document order.
pub fn check(text: &str, options: &CheckOptions) -> CheckReport {
    let ParsedDocument { mut sink, root, document } = parse(text, options);
    if let Some(root) = &root {
        secrets::check_secrets(&mut sink, root);
    }
    if let (Some(root), Some(Document::Playbook(playbook))) = (&root, &document) {
        let context = CheckContext::new(playbook, root);
        routes::check_routes(&mut sink, &context);
        build::check_build(&mut sink, playbook, options.features);
        tasks::check_tasks(&mut sink, &context);
        names::check_names(&mut sink, &context);
        catalog::check_references(&mut sink, playbook, &options.catalog);
    }
    let (is_rejected, omitted_count) = (sink.has_errors(), sink.omitted_count());
    let diagnostics = sink.into_diagnostics(root.as_ref());
    CheckReport { document: document.filter(|_| !is_rejected), diagnostics, omitted_count }
}

/// The playbook being checked.
struct CheckContext<'p> {
    playbook: &'p Playbook,
    graph: StepGraph,
    /// Names of all steps, including invalid ones.
    declared: Vec<String>,
}

impl<'p> CheckContext<'p> {
    fn new(playbook: &'p Playbook, root: &YamlNode) -> Self {
        let steps = root.get("workflow").and_then(YamlNode::as_list).unwrap_or_default();
        let declared: Vec<String> =
            steps.iter().filter_map(step_name).map(|name| name.value.to_string()).collect();
        let graph = StepGraph::new(&correct_arc_targets(playbook, &declared));
        Self { playbook, graph, declared }
    }

    fn declares_step(&self, name: &str) -> bool {
        self.declared.iter().any(|declared| declared == name)
    }

    /// True if every step was parsed and has a unique name, so that the graph is complete.
    fn is_complete(&self) -> bool {
        let names: BTreeSet<&String> = self.declared.iter().collect();
        names.len() == self.declared.len() && names.len() == self.playbook.workflow.len()
    }

    fn nearest_step(&self, name: &str) -> Option<&str> {
        crate::diag::nearest_name(name, self.declared.iter().map(String::as_str))
    }
}

/// Returns the playbook with misspelled arc targets corrected, so that one typo is not also
/// reported as an unreachable step.
fn correct_arc_targets<'p>(playbook: &'p Playbook, declared: &[String]) -> Cow<'p, Playbook> {
    let is_known = |name: &str| name == "end" || declared.iter().any(|declared| declared == name);
    let mut corrected = Cow::Borrowed(playbook);
    for (index, step) in playbook.workflow.iter().enumerate() {
        let arcs = step.next.iter().flat_map(|router| &router.arcs);
        for (number, arc) in arcs.enumerate().filter(|(_, arc)| !is_known(&arc.step.value)) {
            let nearest =
                crate::diag::nearest_name(&arc.step.value, declared.iter().map(String::as_str));
            if let Some(nearest) = nearest
                && let Some(router) = &mut corrected.to_mut().workflow[index].next
            {
                router.arcs[number].step.value = nearest.into();
            }
        }
    }
    corrected
}
