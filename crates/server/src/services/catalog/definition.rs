//! Definitions: registered playbooks, parsed and planned once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use noetl_api::Problem;
use noetl_api::execute::{ExecuteRequest, VersionSelector};
use noetl_api::problem::ProblemDetail;
use noetl_engine::{Plan, PlanDefaults};
use noetl_playbook::model::ToolKind;
use noetl_playbook::{CheckOptions, Diagnostic, Document, Severity, check, segments};
use noetl_store::{CatalogEntry, CatalogKey};
use noetl_types::{CatalogId, ErrorCode, PlaybookPath, TenantId, Text};

use crate::error::{Result, RuntimeError};
use crate::services::Catalog;

/// Duration from which a decision counts as slow.
const SLOW_DECISION: Duration = Duration::from_millis(5);
/// Duration of a decision after which the next ones count as quick again.
const QUICK_DECISION: Duration = Duration::from_millis(1);

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
    /// True if the last decision of one of its executions took long.
    has_slow_decisions: AtomicBool,
    /// True after the first decision.
    has_decided: AtomicBool,
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
            Self::OtherKind => RuntimeError::invalid("only a document of kind Playbook can be run"),
            Self::Plan(error) => RuntimeError::invalid(error.to_string()),
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
            || plan.final_step().is_some()
            || plan.graph().steps().any(|step| {
                let step = plan.step(step);
                step.timeout.is_some() || step.deadline.is_some()
            });
        let tasks = || plan.graph().steps().flat_map(|step| plan.step_model(step).tool.tasks());
        let has_timers = has_timers || tasks().any(segments::is_suspending);
        let has_waits =
            tasks().any(|task| matches!(task.kind.value, ToolKind::Wait | ToolKind::Approval));
        Ok(Self {
            entry,
            plan,
            has_timers,
            has_waits,
            has_slow_decisions: AtomicBool::default(),
            has_decided: AtomicBool::default(),
        })
    }

    pub(crate) fn has_slow_decisions(&self) -> bool {
        self.has_slow_decisions.load(Ordering::Relaxed)
    }

    /// True if the next decision may be slow: the last one was, or there was none.
    pub(crate) fn may_decide_slowly(&self) -> bool {
        self.has_slow_decisions() || !self.has_decided.load(Ordering::Relaxed)
    }

    /// Records the duration of a decision.
    pub(crate) fn record_decision(&self, duration: Duration) {
        let is_slow = duration > SLOW_DECISION;
        self.has_decided.store(true, Ordering::Relaxed);
        if is_slow != self.has_slow_decisions() && (is_slow || duration < QUICK_DECISION) {
            self.has_slow_decisions.store(is_slow, Ordering::Relaxed);
        }
    }
}

/// Maximum number of cached definitions.
pub(super) const MAX_CACHED_DEFINITIONS: usize = 1_000;

impl Catalog {
    pub(crate) async fn load_definition(
        &self,
        tenant_id: &TenantId,
        catalog_id: CatalogId,
    ) -> Result<Arc<Definition>> {
        let cached = self.compiled.lock().get(&catalog_id).cloned();
        let is_of_tenant = |definition: &Arc<Definition>| definition.entry.tenant_id == *tenant_id;
        if let Some(definition) = cached.filter(is_of_tenant) {
            return Ok(definition);
        }
        let key = CatalogKey::Id(catalog_id);
        let entry = self.infra.store.find_catalog_entry(tenant_id, key).await?;
        let entry = entry.ok_or_else(RuntimeError::no_definition)?;
        self.compile_definition(entry)
    }

    /// Compiles a catalog entry into a runnable definition, or returns it from the cache.
    pub(crate) fn compile_definition(&self, entry: CatalogEntry) -> Result<Arc<Definition>> {
        let cached = self.compiled.lock().get(&entry.catalog_id).cloned();
        if let Some(definition) = cached {
            return Ok(definition);
        }
        let definition = Definition::from_catalog_entry(entry, self.infra.settings.defaults);
        let definition = Arc::new(definition.map_err(NotRunnable::into_error)?);
        self.compiled.lock().insert(definition.entry.catalog_id, Arc::clone(&definition));
        Ok(definition)
    }

    /// Returns the definition that a request names.
    pub(crate) async fn resolve_definition(
        &self,
        tenant_id: &TenantId,
        request: &ExecuteRequest,
    ) -> Result<Arc<Definition>> {
        if let Some(catalog_id) = request.catalog_id {
            return self.load_definition(tenant_id, catalog_id).await;
        }
        let Some(path) = &request.path else {
            return Err(RuntimeError::invalid("path or catalog_id is required"));
        };
        let key = catalog_key(path, request.version.as_ref())?;
        let entry = self.infra.store.find_catalog_entry(tenant_id, key).await?;
        let entry =
            entry.filter(|entry| entry.archived_at.is_none()).ok_or_else(|| no_definition(path))?;
        self.compile_definition(entry)
    }
}

pub(crate) fn no_definition(path: &PlaybookPath) -> RuntimeError {
    let text = format!("no playbook is registered at `{path}` in the requested version");
    RuntimeError::not_found(text)
}

/// Returns the catalog key of a path and a requested version.
pub(crate) fn catalog_key(
    path: &PlaybookPath,
    version: Option<&VersionSelector>,
) -> Result<CatalogKey> {
    let path = path.clone();
    let number = match version {
        None => return Ok(CatalogKey::Latest(path)),
        Some(VersionSelector::Number(number)) => *number,
        Some(VersionSelector::Label(label)) if label == "latest" => {
            return Ok(CatalogKey::Latest(path));
        }
        Some(VersionSelector::Label(label)) => label.parse().map_err(|_| {
            let text = format!("`{label}` is not a version; use a number or `latest`");
            RuntimeError::invalid(text)
        })?,
    };
    Ok(CatalogKey::Version(path, number))
}
