//! Definitions: registered playbooks, read and planned once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use noetl_api::Problem;
use noetl_api::problem::Detail;
use noetl_engine::{Defaults, Plan};
use noetl_playbook::model::ToolKind;
use noetl_playbook::{CheckOptions, Diagnostic, Document, Severity, check, segments};
use noetl_store::CatalogEntry;
use noetl_types::{CatalogId, ErrorCode, Text};

use super::error::RuntimeError;

/// A registered playbook, ready to run.
#[derive(Debug)]
pub(crate) struct Definition {
    /// As it is registered.
    pub(crate) entry: CatalogEntry,
    /// As decisions need it.
    pub(crate) plan: Plan,
    /// Whether any of its timeouts can come due, or a task of it waits.
    pub(crate) has_timers: bool,
    /// Whether a task of it waits for signals or for a person.
    pub(crate) has_waits: bool,
}

/// Why a document is not something to run.
#[derive(Debug)]
pub(crate) enum NotRunnable {
    /// The checker found errors.
    Errors(Vec<Diagnostic>),
    /// It is a document of another kind.
    OtherKind,
    /// It cannot be planned.
    Plan(noetl_engine::PlanError),
}

impl NotRunnable {
    /// How a caller is told.
    pub(crate) fn into_error(self) -> RuntimeError {
        match self {
            Self::Errors(found) => {
                let count = found.len();
                let noun = if count == 1 { "error" } else { "errors" };
                let errors = found.iter().map(detail).collect();
                let what = format!("the playbook has {count} {noun}");
                Problem::new(ErrorCode::Validation, what)
                    .with_errors(errors)
                    .into()
            }
            Self::OtherKind => RuntimeError::refused(
                ErrorCode::Validation,
                "only a document of kind Playbook can be run",
            ),
            Self::Plan(error) => RuntimeError::refused(ErrorCode::Validation, error.to_string()),
        }
    }
}

/// A finding of the checker as the API tells it.
pub(crate) fn detail(found: &Diagnostic) -> Detail {
    Detail {
        code: Some(found.code.as_str().into()),
        pointer: Text::default(),
        path: Some(found.path.as_str().into()),
        line: Some(found.line),
        column: Some(found.column),
        message: found.message.as_str().into(),
        hint: found.hint.as_deref().map(Text::from),
    }
}

impl Definition {
    /// Reads and plans what is registered.
    pub(crate) fn of(entry: CatalogEntry, defaults: Defaults) -> Result<Self, NotRunnable> {
        let checked = check(&entry.content, &CheckOptions::default());
        let errors: Vec<Diagnostic> = checked
            .diagnostics
            .into_iter()
            .filter(|found| found.severity == Severity::Error)
            .collect();
        if !errors.is_empty() {
            return Err(NotRunnable::Errors(errors));
        }
        let Some(Document::Playbook(playbook)) = checked.document else {
            return Err(NotRunnable::OtherKind);
        };
        let plan = Plan::new(Arc::from(playbook)).map_err(NotRunnable::Plan)?;
        let plan = plan.with_defaults(defaults);
        let has_timers = plan.timeout().is_some()
            || plan.graph().steps().any(|step| {
                let step = plan.step(step);
                step.timeout.is_some() || step.deadline.is_some()
            });
        let tasks = || {
            plan.graph()
                .steps()
                .flat_map(|step| plan.model(step).tool.tasks())
        };
        let has_timers = has_timers || tasks().any(segments::parks);
        let has_waits =
            tasks().any(|task| matches!(task.kind.value, ToolKind::Wait | ToolKind::Approval));
        Ok(Self {
            entry,
            plan,
            has_timers,
            has_waits,
        })
    }
}

/// Definitions at hand, the newest ones.
#[derive(Debug, Default)]
pub(crate) struct Definitions(Mutex<Shelf>);

#[derive(Debug, Default)]
struct Shelf {
    by_id: BTreeMap<CatalogId, Arc<Definition>>,
    order: VecDeque<CatalogId>,
}

/// How many definitions are kept at hand.
const KEPT: usize = 1_000;

impl Definitions {
    pub(crate) fn get(&self, id: CatalogId) -> Option<Arc<Definition>> {
        let shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.by_id.get(&id).map(Arc::clone)
    }

    pub(crate) fn keep(&self, definition: Arc<Definition>) {
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = definition.entry.catalog_id;
        if shelf.by_id.insert(id, definition).is_none() {
            shelf.order.push_back(id);
        }
        while shelf.order.len() > KEPT {
            if let Some(oldest) = shelf.order.pop_front() {
                shelf.by_id.remove(&oldest);
            }
        }
    }
}
