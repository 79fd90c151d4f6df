//! Verification of a store: finds what was changed other than by this program.
//!
//! Owns the comparison of logs with their hash chains and of stored rows with the folds of their
//! logs. It reads only, and works in pages, so that a store of any size needs bounded memory.

mod anchors;
mod audit;
mod credentials;
mod definitions;
mod log;
mod schedule;
mod tokens;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use noetl_store::StoreError;
use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, Digest, EventId, ExecutionId, PlaybookPath, Seq, TenantId, Text};
use serde::Serialize;

use crate::driver::Driver;
use crate::error::{Result, RuntimeError, error_chain};
use crate::services::Infrastructure;
pub use crate::services::anchors::AnchorHead;
use crate::services::anchors::AnchorSealer;
use crate::services::credentials::key_check::check_encryption_key;
use crate::services::token_seals::TokenSealer;
pub use anchors::{AnchorCounts, OutsideAnchor};
pub(crate) use schedule::VerifyStatus;

/// Executions that are verified at the same time.
const MAX_CONCURRENT_LOGS: usize = 8;

/// Kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// The integrity check of the database failed.
    Database,
    /// An event was modified.
    ModifiedEvent,
    /// An event is missing or out of order.
    MissingEvent,
    /// A log ends before or after the version in its row.
    WrongEnd,
    /// A log does not fold, or does not belong to its definition.
    InvalidLog,
    /// A row contradicts the log.
    WrongRow,
    /// A snapshot differs from the fold of the log.
    WrongSnapshot,
    /// A stored result differs from its digest.
    ModifiedResult,
    /// The events of an execution have no row.
    MissingExecution,
    /// A definition differs from its digest.
    ModifiedDefinition,
    /// An execution that was anchored does not exist any more.
    RemovedExecution,
    /// A log ends before the event that was anchored.
    CutOffLog,
    /// A log contains other events than those that were anchored.
    RewrittenLog,
    /// An anchor was changed or removed.
    ModifiedAnchor,
    /// An entry of the audit log was changed or removed.
    ModifiedAuditLog,
    /// An API token was written or changed without the server's key.
    ModifiedToken,
    /// A credential was written or changed without the server's key.
    ModifiedCredential,
}

/// A difference between what was written and what is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub kind: ProblemKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    /// First event that cannot be trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// The problem for people, with its subject.
    pub message: Text,
}

impl Problem {
    /// Creates a problem of the store as a whole.
    pub fn of_store(kind: ProblemKind, message: impl Into<Text>) -> Self {
        Self { kind, execution_id: None, seq: None, event_id: None, message: message.into() }
    }

    /// Creates a problem of an execution.
    fn of_execution(kind: ProblemKind, execution_id: ExecutionId, text: &str) -> Self {
        let message = format!("execution {execution_id}: {text}");
        Self { execution_id: Some(execution_id), ..Self::of_store(kind, message) }
    }

    fn at_seq(self, seq: Seq) -> Self {
        Self { seq: Some(seq), ..self }
    }
}

/// The part of the store to verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyScope {
    All,
    Execution(ExecutionId),
    /// The executions from one id to another, both inclusive.
    Range(ExecutionId, ExecutionId),
}

impl VerifyScope {
    fn bounds(self) -> (i64, i64) {
        match self {
            Self::All => (1, i64::MAX),
            Self::Execution(id) => (id.get(), id.get()),
            Self::Range(first, last) => (first.get(), last.get()),
        }
    }
}

/// Amount of verified data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct VerifyCounts {
    pub executions: u64,
    pub events: u64,
    /// Executions whose rows were not compared with their logs, because this release cannot run
    /// their definitions.
    pub unfolded: u64,
    pub problems: u64,
}

/// Result of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    #[serde(flatten)]
    pub counts: VerifyCounts,
    /// The chain of anchors, if the whole store was verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchors: Option<AnchorCounts>,
}

/// Receives the findings of a verification.
pub trait VerifyObserver {
    fn on_problem(&mut self, problem: Problem);

    /// Called from time to time.
    fn on_progress(&mut self, _counts: VerifyCounts) {}
}

/// Collects problems.
impl VerifyObserver for Vec<Problem> {
    fn on_problem(&mut self, problem: Problem) {
        self.push(problem);
    }
}

/// Facts of a definition that logs refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DefinitionFacts {
    tenant_id: TenantId,
    path: PlaybookPath,
    version: u32,
    sha256: Digest,
}

/// Verifies the store.
pub struct Verification {
    infra: Arc<Infrastructure>,
    driver: Arc<Driver>,
    sealer: Option<AnchorSealer>,
    token_sealer: Option<TokenSealer>,
    status: Arc<VerifyStatus>,
}

/// Counts what is verified and passes problems on.
struct Pass<'o, O> {
    observer: &'o mut O,
    counts: VerifyCounts,
}

impl<O: VerifyObserver> Pass<'_, O> {
    fn report(&mut self, problem: Problem) {
        self.counts.problems += 1;
        self.observer.on_problem(problem);
    }

    /// Reports a row that was modified so that it cannot be read. The rest of its table is then not
    /// verified.
    fn report_unreadable<T>(
        &mut self,
        kind: ProblemKind,
        verified: Result<T>,
    ) -> Result<Option<T>> {
        match verified {
            Err(RuntimeError::Store(error @ StoreError::Fatal { .. })) => {
                let text = format!("a row was modified: {}", error_chain(&error));
                self.report(Problem::of_store(kind, text));
                Ok(None)
            }
            verified => verified.map(Some),
        }
    }
}

impl Verification {
    pub(crate) fn new(
        infra: &Arc<Infrastructure>,
        driver: &Arc<Driver>,
        status: Arc<VerifyStatus>,
    ) -> Self {
        let keys = infra.settings.keys.as_deref();
        Self {
            infra: Arc::clone(infra),
            driver: Arc::clone(driver),
            sealer: keys.and_then(AnchorSealer::from_keys),
            token_sealer: keys.and_then(TokenSealer::from_keys),
            status,
        }
    }

    /// Verifies a part of the store while it is in use, and reports each problem as it is found.
    pub async fn verify_store(
        self: &Arc<Self>,
        scope: VerifyScope,
        outside: &OutsideAnchor,
        observer: &mut impl VerifyObserver,
    ) -> Result<VerifyReport> {
        // With another key, all seals would look forged.
        if let Some(keys) = self.infra.settings.keys.as_deref() {
            check_encryption_key(self.infra.store(), keys).await?;
        }
        let mut pass = Pass { observer, counts: VerifyCounts::default() };
        let definitions = self.verify_definitions(scope, &mut pass).await;
        let definitions = pass.report_unreadable(ProblemKind::ModifiedDefinition, definitions)?;
        let definitions = Arc::new(definitions.unwrap_or_default());
        self.verify_executions(scope, &definitions, &mut pass).await?;
        self.find_missing_executions(scope, &mut pass).await?;
        self.find_wrongly_ended(scope, &mut pass).await?;
        let mut anchors = None;
        if scope == VerifyScope::All {
            let verified = self.verify_tokens(&mut pass).await;
            pass.report_unreadable(ProblemKind::ModifiedToken, verified)?;
            let verified = self.verify_credentials(&mut pass).await;
            pass.report_unreadable(ProblemKind::ModifiedCredential, verified)?;
            let verified = self.verify_audit_log(&mut pass).await;
            pass.report_unreadable(ProblemKind::ModifiedAuditLog, verified)?;
            anchors = Some(self.verify_anchors(outside, &mut pass).await?);
        }
        Ok(VerifyReport { counts: pass.counts, anchors })
    }

    async fn verify_executions(
        self: &Arc<Self>,
        scope: VerifyScope,
        definitions: &Arc<BTreeMap<CatalogId, DefinitionFacts>>,
        pass: &mut Pass<'_, impl VerifyObserver>,
    ) -> Result<()> {
        let (first, last) = scope.bounds();
        let mut after = ExecutionId::new(first - 1).ok();
        loop {
            let page = self.infra.store.list_execution_ids(after, PageLimit::MAX).await?;
            let Some(end) = page.last().copied() else {
                return Ok(());
            };
            let ids = page.into_iter().filter(|id| id.get() <= last);
            let verify = |id: ExecutionId| {
                let (this, definitions) = (Arc::clone(self), Arc::clone(definitions));
                tokio::spawn(async move { this.verify_execution(id, &definitions).await })
            };
            let mut verified = stream::iter(ids).map(verify).buffered(MAX_CONCURRENT_LOGS);
            while let Some(verified) = verified.next().await {
                let verified = verified.map_err(|_| {
                    RuntimeError::internal("the verification of an execution was aborted")
                })??;
                pass.counts.executions += 1;
                pass.counts.events += verified.events;
                pass.counts.unfolded += u64::from(verified.is_unfolded);
                verified.problems.into_iter().for_each(|problem| pass.report(problem));
                pass.observer.on_progress(pass.counts);
            }
            if end.get() >= last {
                return Ok(());
            }
            after = Some(end);
        }
    }

    /// Finds rows whose column `ended` contradicts their status. The column is otherwise only used
    /// to select rows.
    async fn find_wrongly_ended(
        &self,
        scope: VerifyScope,
        pass: &mut Pass<'_, impl VerifyObserver>,
    ) -> Result<()> {
        let (first, last) = scope.bounds();
        let mut after = ExecutionId::new(first - 1).ok();
        loop {
            let page = self.infra.store.list_wrongly_ended(after, PageLimit::MAX).await?;
            for id in page.iter().copied().filter(|id| id.get() <= last) {
                let text = "execution.ended contradicts execution.status";
                pass.report(Problem::of_execution(ProblemKind::WrongRow, id, text));
            }
            match page.last() {
                Some(end) if end.get() < last => after = Some(*end),
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// Finds events whose execution has no row.
    async fn find_missing_executions(
        &self,
        scope: VerifyScope,
        pass: &mut Pass<'_, impl VerifyObserver>,
    ) -> Result<()> {
        let (first, last) = scope.bounds();
        let store = &self.infra.store;
        let mut after = ExecutionId::new(first - 1).ok();
        loop {
            let logged = store.list_logged_executions(after, PageLimit::MAX).await?;
            let rows = store.list_execution_ids(after, PageLimit::MAX).await?;
            let Some(end) = logged.last().copied() else {
                return Ok(());
            };
            for id in logged.into_iter().filter(|id| id.get() <= last) {
                let is_listed = rows.binary_search(&id).is_ok();
                // An execution that was just created or dropped is not missing.
                if !is_listed
                    && store.find_execution(id).await?.is_none()
                    && !store.is_dropped(id).await?
                {
                    let text = "it has events, but its row is missing";
                    pass.report(Problem::of_execution(ProblemKind::MissingExecution, id, text));
                }
            }
            if end.get() >= last {
                return Ok(());
            }
            after = Some(end);
        }
    }
}
