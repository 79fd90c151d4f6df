//! What a document names and the catalog must hold. Without a catalog nobody asks.

use crate::diag::{Code, Sink, near};
use crate::model::{Document, Task, ToolKind};
use crate::parse::CatalogNames;
use crate::source::Span;

pub(super) fn check(sink: &mut Sink<'_>, document: &Document, catalog: &CatalogNames) {
    match document {
        Document::Playbook(playbook) => {
            let steps = playbook.workflow.iter().flat_map(|step| step.tool.tasks());
            for task in steps.chain(playbook.workbook.iter().map(|task| &task.tool)) {
                of_task(sink, task, catalog);
            }
        }
        Document::Subscription(subscription) => {
            for path in subscription.playbooks() {
                playbook(sink, path.value, path.span, catalog);
            }
        }
        Document::Schedule(schedule) => {
            let path = &schedule.spec.playbook;
            playbook(sink, path.value.as_str(), path.span, catalog);
        }
        Document::Other(_) => {}
    }
}

fn of_task(sink: &mut Sink<'_>, task: &Task, catalog: &CatalogNames) {
    if let Some(alias) = task
        .auth
        .as_ref()
        .and_then(|auth| auth.as_const()?.as_str())
        && catalog.credentials.iter().all(|known| known != alias)
    {
        let near = near(alias, catalog.credentials.iter().map(String::as_str));
        let message = format!("credential '{alias}' is not registered");
        sink.misspelt(Code::NP605, task.auth_span.span, message, near);
    }
    if task.kind.value == ToolKind::Playbook
        && let Some(field) = task.config.get("path")
        && let Some(path) = field.value.as_const().and_then(noetl_types::Json::as_str)
    {
        playbook(sink, path, field.span(), catalog);
    }
}

fn playbook(sink: &mut Sink<'_>, path: &str, span: Span, catalog: &CatalogNames) {
    if catalog.playbooks.iter().all(|known| known != path) {
        let near = near(path, catalog.playbooks.iter().map(String::as_str));
        sink.misspelt(
            Code::NP706,
            span,
            format!("playbook '{path}' is not in the catalog"),
            near,
        );
    }
}
