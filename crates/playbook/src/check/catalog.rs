//! Checks references to catalog entries, if a catalog is available.

use crate::diag::{Code, DiagnosticSink, nearest_name};
use crate::model::{Playbook, Task, ToolKind};
use crate::parse::CatalogNames;
use crate::source::Span;

pub(super) fn check_catalog_references(
    sink: &mut DiagnosticSink<'_>,
    playbook: &Playbook,
    catalog: &CatalogNames,
) {
    let steps = playbook.workflow.iter().flat_map(|step| step.tool.tasks());
    for task in steps.chain(playbook.workbook.iter().map(|task| &task.tool)) {
        check_task_references(sink, task, catalog);
    }
}

fn check_task_references(sink: &mut DiagnosticSink<'_>, task: &Task, catalog: &CatalogNames) {
    if let Some(alias) = task.auth.as_ref().and_then(|auth| auth.as_const()?.as_str())
        && catalog.credentials.iter().all(|name| name != alias)
    {
        let nearest = nearest_name(alias, catalog.credentials.iter().map(String::as_str));
        let message = format!("credential '{alias}' is not registered");
        sink.add_with_suggestion(Code::NP605, task.auth_span.span, message, nearest);
    }
    if task.kind.value == ToolKind::Playbook
        && let Some(field) = task.config.get("path")
        && let Some(path) = field.value.as_const().and_then(noetl_types::Json::as_str)
    {
        check_playbook_path(sink, path, field.span(), catalog);
    }
}

fn check_playbook_path(
    sink: &mut DiagnosticSink<'_>,
    path: &str,
    span: Span,
    catalog: &CatalogNames,
) {
    let path = path.trim_start_matches('/');
    if catalog.playbooks.iter().all(|name| name != path) {
        let nearest = nearest_name(path, catalog.playbooks.iter().map(String::as_str));
        sink.add_with_suggestion(
            Code::NP706,
            span,
            format!("playbook '{path}' is not in the catalog"),
            nearest,
        );
    }
}
