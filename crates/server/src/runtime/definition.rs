//! Definitions: registered playbooks, parsed and planned once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use noetl_api::Problem;
use noetl_api::problem::ProblemDetail;
use noetl_engine::{Plan, PlanDefaults};
use noetl_playbook::model::ToolKind;
use noetl_playbook::{CheckOptions, Diagnostic, Document, Severity, check, segments};
use noetl_store::CatalogEntry;
use noetl_types::{CatalogId, ErrorCode, Text};

use super::error::RuntimeError;

/// A registered playbook, ready to run.
#[derive(Debug)]
pub(crate) struct Definition {
    /// Entry in the catalog.
    pub(crate) entry: CatalogEntry,
    /// Plan that the engine decides by.
    pub(crate) plan: Plan,
    /// True if the playbook has timeouts, deadlines or tasks that suspend.
    pub(crate) has_timers: bool,
    /// True if a task waits for signals or for an approval.
    pub(crate) has_waits: bool,
}

/// Reason why a document cannot be run.
#[derive(Debug)]
pub(crate) enum NotRunnable {
    /// The checker found errors.
    Errors(Vec<Diagnostic>),
    /// The document is not a playbook.
    OtherKind,
    /// The playbook cannot be planned.
    Plan(noetl_engine::PlanError),
}

impl NotRunnable {
    /// Converts the reason to the error that the caller gets.
    pub(crate) fn into_error(self) -> RuntimeError {
        match self {
            Self::Errors(diagnostics) => {
                let count = diagnostics.len();
                let noun = if count == 1 { "error" } else { "errors" };
                let errors = diagnostics.iter().map(diagnostic_to_detail).collect();
                let text = format!("the playbook has {count} {noun}");
                Problem::new(ErrorCode::Validation, text).with_errors(errors).into()
            }
            Self::OtherKind => RuntimeError::refused(
                ErrorCode::Validation,
                "only a document of kind Playbook can be run",
            ),
            Self::Plan(error) => RuntimeError::refused(ErrorCode::Validation, error.to_string()),
        }
    }
}

/// Converts a diagnostic of the checker to an error detail of the API.
pub(crate) fn diagnostic_to_detail(diagnostic: &Diagnostic) -> ProblemDetail {
    ProblemDetail {
        code: Some(diagnostic.code.as_str().into()),
        pointer: Text::default(),
        path: Some(diagnostic.path.as_str().into()),
        line: Some(diagnostic.line),
        column: Some(diagnostic.column),
        message: diagnostic.message.as_str().into(),
        hint: diagnostic.hint.as_deref().map(Text::from),
    }
}

impl Definition {
    /// Parses and plans a catalog entry.
    pub(crate) fn from_catalog_entry(
        entry: CatalogEntry,
        defaults: PlanDefaults,
    ) -> Result<Self, NotRunnable> {
        let checked = check(&entry.content, &CheckOptions::default());
        let errors: Vec<Diagnostic> = checked
            .diagnostics
            .into_iter()
            .filter(|diagnostic| diagnostic.severity == Severity::Error)
            .collect();
        if !errors.is_empty() {
            return Err(NotRunnable::Errors(errors));
        }
        let Some(Document::Playbook(playbook)) = checked.document else {
            return Err(NotRunnable::OtherKind);
        };
        let plan = Plan::new(Arc::from(playbook)).map_err(NotRunnable::Plan)?;
        let plan = plan.with_defaults(defaults);
        let has_timers = plan.execution_timeout().is_some()
            || plan.graph().steps().any(|step| {
                let step = plan.step(step);
                step.timeout.is_some() || step.deadline.is_some()
            });
        let tasks = || plan.graph().steps().flat_map(|step| plan.step_model(step).tool.tasks());
        let has_timers = has_timers || tasks().any(segments::is_suspending);
        let has_waits =
            tasks().any(|task| matches!(task.kind.value, ToolKind::Wait | ToolKind::Approval));
        Ok(Self { entry, plan, has_timers, has_waits })
    }
}

/// Cache of the most recently loaded definitions.
#[derive(Debug, Default)]
pub(crate) struct CompiledDefinitions(Mutex<CachedDefinitions>);

#[derive(Debug, Default)]
struct CachedDefinitions {
    by_id: BTreeMap<CatalogId, Arc<Definition>>,
    order: VecDeque<CatalogId>,
}

/// Maximum number of cached definitions.
const MAX_CACHED_DEFINITIONS: usize = 1_000;

impl CompiledDefinitions {
    pub(crate) fn get(&self, id: CatalogId) -> Option<Arc<Definition>> {
        let cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cache.by_id.get(&id).map(Arc::clone)
    }

    pub(crate) fn insert_definition(&self, definition: Arc<Definition>) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = definition.entry.catalog_id;
        if cache.by_id.insert(id, definition).is_none() {
            cache.order.push_back(id);
        }
        while cache.order.len() > MAX_CACHED_DEFINITIONS {
            if let Some(oldest) = cache.order.pop_front() {
                cache.by_id.remove(&oldest);
            }
        }
    }
}
