//! Verification of one execution: its chain, and all rows that its log implies.

use std::collections::{BTreeMap, VecDeque};

use noetl_engine::replay::ReplayState;
use noetl_store::{
    CatalogKey, Execution, ExecutionOrigin, ExecutionView, LogPageLimit, SnapshotKey, StoreError,
    WaitFilter, WaitSelector,
};
use noetl_types::limits::PageLimit;
use noetl_types::record::{ChainError, ChainVerifier};
use noetl_types::{
    CatalogId, ChainHash, Digest, ExecutionId, ExecutionVersion, FeedPosition, Json, ResultId, Seq,
    StoredEvent, Text, Timestamp, sha256,
};

use super::{DefinitionFacts, Problem, ProblemKind, Verification};
use crate::driver::{Differences, FoldedRows, StoredRows};
use crate::error::{Result, RuntimeError, error_chain};
use crate::services::queries::replay;
use crate::services::results::ResultAddress;

/// Events per page. Two pages are in memory at a time.
const PAGE_EVENTS: u32 = 1_000;
/// Minimum events of a page that is verified on a blocking thread.
const MIN_BLOCKING_EVENTS: usize = 100;
/// Times that the rows of an execution are read until its log does not grow meanwhile.
const MAX_ROW_READS: u32 = 5;
/// Longest part of a value in a message.
const MAX_VALUE_CHARS: usize = 160;

/// Result of the verification of an execution.
#[derive(Debug, Default)]
pub(super) struct VerifiedExecution {
    pub(super) events: u64,
    /// True if the rows were not compared, because the definition cannot be run.
    pub(super) is_unfolded: bool,
    pub(super) problems: Vec<Problem>,
}

/// State of the verification of a log.
struct LogPass {
    execution_id: ExecutionId,
    verifier: ChainVerifier,
    /// Position of the last event in the feed.
    feed: FeedPosition,
    /// Ingest time of the last event.
    ingest_time: Timestamp,
    /// The log as far as it is verified.
    version: ExecutionVersion,
    fold: RowFold,
    /// Fold of the replay, if it has snapshots.
    replay: Option<Box<ReplayState>>,
    /// Snapshots that lie ahead, in order.
    snapshots: VecDeque<(SnapshotKey, ExecutionVersion)>,
    /// Digests of results by their ids, as the log refers to them. `None` if it has no results.
    results: Option<BTreeMap<ResultId, Digest>>,
    /// Expected snapshots that were passed, to be compared with the stored ones.
    folded_snapshots: Vec<FoldedSnapshot>,
    last_event: Option<LastEvent>,
    problems: Vec<Problem>,
    /// True after a problem that makes the rest of the log meaningless.
    is_broken: bool,
}

/// Fold that implies the rows of the execution.
enum RowFold {
    Driven(Box<FoldedRows>),
    Projected(ExecutionView),
    /// The definition cannot be run.
    None,
}

struct FoldedSnapshot {
    key: SnapshotKey,
    version: ExecutionVersion,
    chain: ChainHash,
    /// `None` if another release made the snapshot.
    state: Option<Vec<u8>>,
}

struct LastEvent {
    event_id: noetl_types::EventId,
    event_type: noetl_types::EventName,
}

impl Verification {
    /// Verifies an execution. An execution that does not exist any more is valid.
    pub(super) async fn verify_execution(
        &self,
        execution_id: ExecutionId,
        definitions: &BTreeMap<CatalogId, DefinitionFacts>,
    ) -> Result<VerifiedExecution> {
        match self.verify_readable(execution_id, definitions).await {
            Err(RuntimeError::Store(error)) => unreadable_row(execution_id, error),
            verified => verified,
        }
    }

    /// Verifies an execution whose rows can all be read.
    async fn verify_readable(
        &self,
        execution_id: ExecutionId,
        definitions: &BTreeMap<CatalogId, DefinitionFacts>,
    ) -> Result<VerifiedExecution> {
        let Some(row) = self.infra.store.find_execution(execution_id).await? else {
            return Ok(VerifiedExecution::default());
        };
        let mut pass = self.start_pass(&row).await?;
        pass.check_definition(&row, definitions);
        self.check_definition_exists(&row, definitions, &mut pass).await?;
        let mut row = row;
        for attempt in 0..MAX_ROW_READS {
            pass = self.verify_events(pass, &row).await?;
            if pass.is_broken {
                break;
            }
            pass.check_end(&row);
            pass.check_view(&row);
            let is_last = attempt + 1 == MAX_ROW_READS;
            let rows = self.load_rows(&row).await?;
            let Some(now) = self.infra.store.find_execution(execution_id).await? else {
                return Ok(VerifiedExecution::default());
            };
            if now.head == row.head {
                pass.check_rows(&rows);
                self.check_beyond_end(&row, &mut pass).await?;
                break;
            }
            // The log grew meanwhile, or the execution never rests.
            if is_last {
                break;
            }
            row = now;
        }
        if !pass.is_broken {
            self.check_root(&row, &mut pass).await?;
            self.check_snapshots(&mut pass).await?;
            self.check_results(&mut pass).await?;
        }
        Ok(VerifiedExecution {
            events: u64::try_from(pass.version.get()).unwrap_or_default(),
            is_unfolded: matches!(pass.fold, RowFold::None),
            problems: pass.problems,
        })
    }

    /// Finds out if the definition of an execution was removed from the catalog.
    async fn check_definition_exists(
        &self,
        row: &Execution,
        definitions: &BTreeMap<CatalogId, DefinitionFacts>,
        pass: &mut LogPass,
    ) -> Result<()> {
        let facts = &row.facts;
        let (Some(catalog_id), ExecutionOrigin::Driven) = (facts.catalog_id, facts.origin) else {
            return Ok(());
        };
        let key = CatalogKey::Id(catalog_id);
        // It may have been registered after the definitions were read.
        if definitions.contains_key(&catalog_id) {
            return Ok(());
        }
        // One that cannot be read is reported with the definitions.
        let found = self.infra.store.find_catalog_entry(&facts.tenant_id, key).await;
        if let Some(None) = ignore_unreadable(found)? {
            let text = format!("its definition {catalog_id} is missing in the catalog");
            pass.report(ProblemKind::ModifiedDefinition, &text);
        }
        Ok(())
    }

    async fn start_pass(&self, row: &Execution) -> Result<LogPass> {
        let id = row.execution_id;
        let fold = match row.facts.origin {
            ExecutionOrigin::Driven => match FoldedRows::without_events(&self.driver, row).await {
                Ok(fold) => RowFold::Driven(Box::new(fold)),
                Err(error @ RuntimeError::Store(StoreError::Retry { .. })) => return Err(error),
                Err(_) => RowFold::None,
            },
            ExecutionOrigin::Projected | ExecutionOrigin::Imported => {
                RowFold::Projected(ExecutionView::new_projected())
            }
        };
        let snapshots: VecDeque<_> = self.infra.store.list_snapshot_versions(id).await?.into();
        let has_replay = snapshots.iter().any(|(key, _)| *key == replay::snapshot_key());
        let facts = &row.facts;
        let replay = has_replay.then(|| {
            let (tenant, organization) = (facts.tenant_id.clone(), facts.organization_id.clone());
            Box::new(ReplayState::new(tenant, organization, id))
        });
        let one = PageLimit::clamped(1);
        let results = self.infra.store.list_result_ids(id, None, one).await?;
        Ok(LogPass {
            execution_id: id,
            verifier: ChainVerifier::default(),
            feed: FeedPosition::default(),
            ingest_time: Timestamp::MIN,
            version: ExecutionVersion::EMPTY,
            fold,
            replay,
            snapshots,
            results: (!results.is_empty()).then(BTreeMap::new),
            folded_snapshots: Vec::new(),
            last_event: None,
            problems: Vec::new(),
            is_broken: false,
        })
    }

    /// Verifies the events up to the version of a row. The next page is read while one is verified.
    async fn verify_events(&self, mut pass: LogPass, row: &Execution) -> Result<LogPass> {
        let mut page = self.read_page(&mut pass, row).await?;
        while !page.is_empty() && !pass.is_broken {
            let Some(last) = page.last().map(|event| ExecutionVersion::from(event.record.seq))
            else {
                break;
            };
            let row = row.clone();
            let next = self.infra.store.read_events(row.execution_id, last, page_limit(&row, last));
            let next = async { if last < row.head.version { next.await } else { Ok(Vec::new()) } };
            let verify = async {
                if page.len() < MIN_BLOCKING_EVENTS {
                    pass.verify_page(&page, &row);
                    return Ok(pass);
                }
                let row = row.clone();
                let verify = tokio::task::spawn_blocking(move || {
                    pass.verify_page(&page, &row);
                    pass
                });
                verify.await.map_err(|_| replay::replay_aborted())
            };
            let (next, verified) = tokio::join!(next, verify);
            pass = verified?;
            page = match next {
                Ok(next) => next,
                Err(error) => self.explain_unreadable(&mut pass, &row, error).await?,
            };
        }
        Ok(pass)
    }

    async fn read_page(&self, pass: &mut LogPass, row: &Execution) -> Result<Vec<StoredEvent>> {
        if pass.version >= row.head.version {
            return Ok(Vec::new());
        }
        let limit = page_limit(row, pass.version);
        match self.infra.store.read_events(row.execution_id, pass.version, limit).await {
            Ok(page) => Ok(page),
            Err(error) => self.explain_unreadable(pass, row, error).await,
        }
    }

    /// Finds the event of a page whose row cannot be read. Returns the readable events before it.
    async fn explain_unreadable(
        &self,
        pass: &mut LogPass,
        row: &Execution,
        error: StoreError,
    ) -> Result<Vec<StoredEvent>> {
        let StoreError::Fatal { .. } = error else {
            return Err(error.into());
        };
        let one = LogPageLimit::clamped(1);
        while pass.version < row.head.version && !pass.is_broken {
            match self.infra.store.read_events(row.execution_id, pass.version, one).await {
                Ok(page) if page.is_empty() => break,
                Ok(page) => pass.verify_page(&page, row),
                Err(error @ StoreError::Fatal { .. }) => {
                    let seq = pass.version.next_seq();
                    let text = format!("event {seq} was modified: {}", error_chain(&error));
                    pass.break_at(ProblemKind::ModifiedEvent, seq, &text);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Vec::new())
    }

    async fn load_rows(&self, row: &Execution) -> Result<StoredRows> {
        let (store, id) = (&self.infra.store, row.execution_id);
        let mut rows = StoredRows::default();
        loop {
            let after = rows.commands.last().map(|command| command.command_id);
            let page = store.list_execution_commands(id, after, PageLimit::MAX).await?;
            if page.is_empty() {
                break;
            }
            rows.commands.extend(page);
        }
        loop {
            let after = rows.timers.last().map(|timer| timer.timer_id.clone());
            let after = after.unwrap_or_default();
            let page = store.list_execution_timers(id, &after, PageLimit::MAX).await?;
            if page.is_empty() {
                break;
            }
            rows.timers.extend(page);
        }
        loop {
            let filter = WaitFilter {
                tenant_id: row.facts.tenant_id.clone(),
                selector: WaitSelector::InExecution(id),
                after: rows.waits.last().map(|wait| wait.position),
                limit: PageLimit::MAX,
            };
            let page = store.list_waits(filter).await?;
            if page.is_empty() {
                break;
            }
            rows.waits.extend(page);
        }
        Ok(rows)
    }

    /// Finds events after the end that the row names.
    async fn check_beyond_end(&self, row: &Execution, pass: &mut LogPass) -> Result<()> {
        let (id, end) = (row.execution_id, row.head.version);
        let beyond = self.infra.store.read_events(id, end, LogPageLimit::clamped(1)).await?;
        let Some(event) = beyond.first() else {
            return Ok(());
        };
        let now = self.infra.store.find_execution(id).await?;
        if now.is_some_and(|now| now.head == row.head) {
            let seq = event.record.seq;
            let text =
                format!("its row says that the log ends at event {end}, but event {seq} follows");
            pass.report_at(ProblemKind::WrongEnd, seq, &text);
        }
        Ok(())
    }

    /// Compares the root of a child with the row of its parent.
    async fn check_root(&self, row: &Execution, pass: &mut LogPass) -> Result<()> {
        let Some(root) = row.facts.root_execution_id else {
            return Ok(());
        };
        let parent = match row.facts.parent_execution_id {
            Some(parent) => ignore_unreadable(self.infra.store.find_execution(parent).await)?,
            None => return Ok(()),
        };
        let Some(Some(parent)) = parent else {
            return Ok(());
        };
        let expected = parent.facts.root_execution_id.unwrap_or(parent.execution_id);
        if root != expected {
            let text =
                format!("execution.root_execution_id is {root}, but its parent says {expected}");
            pass.report(ProblemKind::WrongRow, &text);
        }
        Ok(())
    }

    /// Compares stored snapshots with the folded states.
    async fn check_snapshots(&self, pass: &mut LogPass) -> Result<()> {
        let id = pass.execution_id;
        for folded in std::mem::take(&mut pass.folded_snapshots) {
            let FoldedSnapshot { key, version, chain, state } = folded;
            let found = self.infra.store.find_snapshot(id, &key, version).await?;
            // It may have been replaced meanwhile.
            let Some(found) = found.filter(|found| found.head.version == version) else {
                continue;
            };
            let is_valid = sha256(&found.state) == found.checksum
                && found.head.chain == chain
                && state.is_none_or(|state| state == found.state);
            if !is_valid {
                let text =
                    format!("the snapshot {} at event {version} differs from the log", key.kind);
                pass.report(ProblemKind::WrongSnapshot, &text);
            }
        }
        for (key, version) in std::mem::take(&mut pass.snapshots) {
            if version > pass.version
                && self
                    .infra
                    .store
                    .find_execution(id)
                    .await?
                    .is_some_and(|row| row.head.version < version)
            {
                let text = format!(
                    "the snapshot {} is of event {version}, after the end of the log",
                    key.kind
                );
                pass.report(ProblemKind::WrongSnapshot, &text);
            }
        }
        Ok(())
    }

    /// Compares results with their digests, in their rows and in the log.
    async fn check_results(&self, pass: &mut LogPass) -> Result<()> {
        let Some(referenced) = pass.results.take() else {
            return Ok(());
        };
        let (store, id, mut after) = (&self.infra.store, pass.execution_id, None);
        loop {
            let page = store.list_result_ids(id, after, PageLimit::MAX).await?;
            let Some(last) = page.last().copied() else {
                return Ok(());
            };
            after = Some(last);
            for result_id in page {
                let problem = match store.find_result(id, result_id).await {
                    Ok(None) => None,
                    Ok(Some(result)) => {
                        let expected = referenced.get(&result_id).unwrap_or(&result.sha256);
                        let actual = sha256(&result.bytes);
                        (actual != *expected || result.sha256 != *expected)
                            .then(|| "its bytes do not have the digest in the log".to_owned())
                    }
                    Err(error @ StoreError::Fatal { .. }) => Some(error_chain(&error)),
                    Err(error) => return Err(error.into()),
                };
                if let Some(problem) = problem {
                    let text = format!("result {result_id} was modified: {problem}");
                    pass.report(ProblemKind::ModifiedResult, &text);
                }
            }
        }
    }
}

impl LogPass {
    fn report(&mut self, kind: ProblemKind, text: &str) {
        self.problems.push(Problem::of_execution(kind, self.execution_id, text));
    }

    fn report_at(&mut self, kind: ProblemKind, seq: Seq, text: &str) {
        self.problems.push(Problem::of_execution(kind, self.execution_id, text).at_seq(seq));
    }

    /// Reports a problem after which the log cannot be folded.
    fn break_at(&mut self, kind: ProblemKind, seq: Seq, text: &str) {
        self.report_at(kind, seq, text);
        self.is_broken = true;
    }

    /// Compares the definition of the row with the catalog.
    fn check_definition(
        &mut self,
        row: &Execution,
        definitions: &BTreeMap<CatalogId, DefinitionFacts>,
    ) {
        let facts = &row.facts;
        let (Some(catalog_id), ExecutionOrigin::Driven) = (facts.catalog_id, facts.origin) else {
            return;
        };
        let of_row = (
            Some(&facts.tenant_id),
            facts.path.as_ref(),
            facts.playbook_version,
            facts.definition_sha256,
        );
        // Registered after the definitions were read.
        let Some(found) = definitions.get(&catalog_id) else {
            return;
        };
        let of_catalog =
            (Some(&found.tenant_id), Some(&found.path), Some(found.version), Some(found.sha256));
        if of_row != of_catalog {
            let text = format!(
                "its definition {} version {} in the catalog is not the one that it started with",
                found.path, found.version
            );
            self.report(ProblemKind::ModifiedDefinition, &text);
        }
    }

    fn verify_page(&mut self, page: &[StoredEvent], row: &Execution) {
        for stored in page {
            if self.is_broken || self.version >= row.head.version {
                return;
            }
            self.verify_event(stored, row);
        }
    }

    fn verify_event(&mut self, stored: &StoredEvent, row: &Execution) {
        let (record, event) = (&stored.record, &stored.record.event);
        let seq = record.seq;
        if let Err(broken) = self.verifier.verify_event(stored) {
            let text = match broken {
                ChainError::Modified { .. } => {
                    let (event_type, id) = (&event.event_type, event.event_id);
                    format!("event {seq} ({event_type}, id {id}) was modified after it was written")
                }
                ChainError::Gap { .. } => broken.to_string(),
            };
            let kind = match broken {
                ChainError::Modified { .. } => ProblemKind::ModifiedEvent,
                ChainError::Gap { .. } => ProblemKind::MissingEvent,
            };
            self.break_at(kind, broken.first_bad_seq(), &text);
            if let (ProblemKind::ModifiedEvent, Some(problem)) = (kind, self.problems.last_mut()) {
                problem.event_id = Some(event.event_id);
            }
            return;
        }
        let checksum = record.envelope_checksum;
        // Only events of another system have a stored checksum.
        if seq == Seq::FIRST && checksum.is_some() == (row.facts.origin == ExecutionOrigin::Driven)
        {
            let text = format!(
                "execution.origin is {}, but its first event has another",
                row.facts.origin.as_str()
            );
            self.report(ProblemKind::WrongRow, &text);
        }
        if checksum.is_some_and(|checksum| checksum != event.envelope_checksum()) {
            let text = format!("the stored checksum of event {seq} was modified");
            self.report_at(ProblemKind::ModifiedEvent, seq, &text);
        }
        if stored.feed.position <= self.feed.position && seq != Seq::FIRST {
            let text = format!("event {seq} comes before event {} in the feed", self.version);
            self.report_at(ProblemKind::MissingEvent, seq, &text);
        }
        let facts = &row.facts;
        if event.tenant_id != facts.tenant_id || event.organization_id != facts.organization_id {
            let text = format!(
                "execution.tenant_id is {} ({}), but event {seq} belongs to {} ({})",
                facts.tenant_id, facts.organization_id, event.tenant_id, event.organization_id
            );
            self.break_at(ProblemKind::WrongRow, seq, &text);
            return;
        }
        self.fold_event(stored);
        self.feed = stored.feed;
        self.ingest_time = record.ingest_time;
        self.version = seq.into();
        self.last_event =
            Some(LastEvent { event_id: event.event_id, event_type: event.event_type.clone() });
        self.fold_snapshots(stored.chain);
    }

    fn fold_event(&mut self, stored: &StoredEvent) {
        let (record, event) = (&stored.record, &stored.record.event);
        let folded = match &mut self.fold {
            RowFold::Driven(fold) => fold.apply_event(stored),
            RowFold::Projected(view) => {
                view.apply_projected_event(event);
                Ok(())
            }
            RowFold::None => Ok(()),
        };
        if let Err(reason) = folded {
            let text = format!("event {} does not fit the log before it: {reason}", record.seq);
            self.break_at(ProblemKind::InvalidLog, record.seq, &text);
            return;
        }
        if let Some(replay) = &mut self.replay
            && replay.apply(record).is_err()
        {
            self.replay = None;
        }
        if let Some(results) = &mut self.results {
            let values = [&event.context, &event.result, &event.meta, &event.payload_ref];
            values.into_iter().flatten().for_each(|value| collect_references(value, results));
        }
    }

    /// Records the states at the versions of stored snapshots.
    fn fold_snapshots(&mut self, chain: ChainHash) {
        while let Some((key, version)) = self.snapshots.front().cloned()
            && version <= self.version
        {
            self.snapshots.pop_front();
            if version < self.version {
                continue;
            }
            let state = match &self.fold {
                RowFold::Driven(fold) => fold.snapshot_bytes(&key),
                RowFold::Projected(_) | RowFold::None => None,
            };
            let replayed = self.replay.as_ref().filter(|_| key == replay::snapshot_key());
            let replayed = replayed.and_then(|replay| replay.to_snapshot().ok());
            let state = state.or(replayed.map(|(bytes, _)| bytes));
            self.folded_snapshots.push(FoldedSnapshot { key, version, chain, state });
        }
    }

    /// Compares the end of the log with the row.
    fn check_end(&mut self, row: &Execution) {
        let head = &row.head;
        if self.version < head.version {
            let seq = self.version.next_seq();
            let text = format!(
                "its log ends at event {}, but its row says that it has {} events",
                self.version, head.version
            );
            self.break_at(ProblemKind::WrongEnd, seq, &text);
        } else if self.verifier.head() != head.chain {
            self.report(ProblemKind::WrongRow, "execution.chain_head differs from the last event");
        }
        if !self.is_broken && self.ingest_time != head.ingest_time {
            let text = "execution.last_ingest_time differs from the last event";
            self.report(ProblemKind::WrongRow, text);
        }
        let last = self.last_event.as_ref();
        let is_last = last.is_some_and(|last| {
            last.event_id == row.last_event_id && last.event_type == row.last_event_type
        });
        if !self.is_broken && !is_last {
            let text = "execution.last_event_id or last_event_type differs from the last event";
            self.report(ProblemKind::WrongRow, text);
        }
    }

    fn check_view(&mut self, row: &Execution) {
        let mut differences = Differences::default();
        match &self.fold {
            RowFold::Driven(fold) => fold.compare_execution(row, &mut differences),
            RowFold::Projected(view) => {
                let view = ExecutionView { paused: row.view.paused, ..view.clone() };
                differences.compare("execution", &row.view, &view);
            }
            RowFold::None => {}
        }
        self.report_differences(differences);
    }

    fn check_rows(&mut self, rows: &StoredRows) {
        if let RowFold::Driven(fold) = &self.fold {
            let mut differences = Differences::default();
            fold.compare_rows(rows, &mut differences);
            self.report_differences(differences);
        }
    }

    fn report_differences(&mut self, differences: Differences) {
        for difference in differences.0 {
            let (stored, folded) = (shorten(&difference.stored), shorten(&difference.folded));
            let text = format!("{} is {stored}, but its log says {folded}", difference.subject);
            self.report(ProblemKind::WrongRow, &text);
        }
    }
}

fn page_limit(row: &Execution, after: ExecutionVersion) -> LogPageLimit {
    let left = u32::try_from(row.head.version.get() - after.get()).unwrap_or(u32::MAX);
    LogPageLimit::clamped(left.min(PAGE_EVENTS))
}

/// Returns `None` if a row was modified so that it cannot be read. The verification of its execution
/// reports that.
pub(super) fn ignore_unreadable<T>(found: Result<T, StoreError>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(StoreError::Fatal { .. }) => Ok(None),
        Err(error @ StoreError::Retry { .. }) => Err(error.into()),
    }
}

fn unreadable_row(execution_id: ExecutionId, error: StoreError) -> Result<VerifiedExecution> {
    match error {
        StoreError::Fatal { .. } => {
            let text = format!("its row was modified: {}", error_chain(&error));
            let problem = Problem::of_execution(ProblemKind::WrongRow, execution_id, &text);
            Ok(VerifiedExecution { problems: vec![problem], ..VerifiedExecution::default() })
        }
        StoreError::Retry { .. } => Err(error.into()),
    }
}

/// Collects the digests of results that a value refers to.
fn collect_references(value: &Json, results: &mut BTreeMap<ResultId, Digest>) {
    if let Some(map) = value.as_map() {
        if let (Some(uri), Some(digest)) = (value.get("ref"), value.get("sha256")) {
            let address = uri.as_str().and_then(ResultAddress::parse);
            let digest = digest.as_str().and_then(|digest| digest.parse().ok());
            results.extend(address.zip(digest).map(|(it, digest)| (it.result_id, digest)));
        }
        for value in map.values() {
            collect_references(value, results);
        }
    }
    for value in value.as_list().unwrap_or_default() {
        collect_references(value, results);
    }
}

/// Shortens a value for a message.
fn shorten(text: &Text) -> String {
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.as_str().to_owned(),
    }
}
