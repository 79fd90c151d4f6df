//! Verification of logs against the installation's chain of anchors.
//!
//! The chain in the database is compared with what an operator keeps outside of it: the anchor
//! file, or the head of the chain. Anchors from outside count, where the two differ.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::vec::IntoIter;

use noetl_store::{AnchorRow, DroppedRange, Execution};
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, Seq, Timestamp};
use serde::Serialize;

use super::log::ignore_unreadable;
use super::{Pass, Problem, ProblemKind, Verification, VerifyObserver};
use crate::error::{Result, RuntimeError};
use crate::services::anchors::{
    Anchor, AnchorHead, AnchorReader, AnchoredRun, SealedAnchor, facts_digest,
};

/// Anchors that are read at a time.
const PAGE_ANCHORS: i64 = 50;
/// Executions whose differences are remembered. Further ones are only counted.
const MAX_CHANGED_RUNS: usize = 100_000;

/// Record of anchors outside of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutsideAnchor {
    /// Nothing: the chain in the database is checked alone.
    None,
    File(PathBuf),
    Head(AnchorHead),
}

/// Extent of the verified chain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct AnchorCounts {
    /// Anchors in the chain.
    pub anchors: u64,
    /// Anchors that are also kept outside of the database.
    pub outside: u64,
    /// Time of the newest anchor outside of the database, or of the newest one if none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchored_until: Option<Timestamp>,
    /// Executions that changed since the newest anchor, up to a page.
    pub unanchored: u64,
    /// True if seals could not be checked, because there is no key.
    pub unsealed: bool,
}

/// The chain as the anchors outside of the database and in it tell together.
struct ChainReader<'v> {
    verification: &'v Verification,
    file: Option<AnchorReader>,
    next_in_file: Option<SealedAnchor>,
    page: IntoIter<AnchorRow>,
    next_row: Option<AnchorRow>,
    last_row: i64,
    /// Anchors in the database that cannot be read and are nowhere else.
    unreadable: Vec<i64>,
}

/// An anchor of the chain, and how the database differs from it.
struct ReadAnchor {
    sealed: SealedAnchor,
    is_outside: bool,
    difference: Option<&'static str>,
}

/// Ranges that retention dropped or kept, in the order of their anchors.
#[derive(Debug, Default)]
struct RecordedDrops(Vec<(DroppedRange, bool)>);

/// Difference between a log and its anchors.
#[derive(Debug)]
struct ChangedRun {
    /// Seq of the first anchor that differs.
    seq: Seq,
    anchor_id: i64,
    time: Timestamp,
    change: RunChange,
    /// Seq of the last anchor that does not differ.
    last_good: Option<Seq>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunChange {
    Removed,
    CutOff(Seq),
    Rewritten,
    Facts,
}

impl RecordedDrops {
    fn add_anchor(&mut self, anchor: &Anchor) {
        self.0.extend(anchor.dropped.iter().map(|range| (*range, true)));
        self.0.extend(anchor.kept.iter().map(|range| (*range, false)));
    }

    fn contains(&self, id: ExecutionId) -> bool {
        let last = self.0.iter().rev().find(|(range, _)| range.contains(id));
        last.is_some_and(|(_, is_dropped)| *is_dropped)
    }
}

impl ChainReader<'_> {
    async fn next(&mut self) -> Result<Option<ReadAnchor>> {
        loop {
            if self.next_in_file.is_none()
                && let Some(file) = &mut self.file
            {
                self.next_in_file = file.next_anchor().map_err(|error| unreadable_file(&error))?;
            }
            let row = self.peek_row().await?;
            let row_id = row.map_or(i64::MAX, |row| row.anchor_id);
            let file_id = self.next_in_file.as_ref().map(|next| next.anchor.anchor_id);
            if let Some(file_id) = file_id.filter(|file_id| *file_id <= row_id) {
                let row = if row_id == file_id { self.next_row.take() } else { None };
                let stored = row.as_ref().map(SealedAnchor::from_row);
                let difference = match (stored, &self.next_in_file) {
                    (None, _) => Some("is missing in the database"),
                    (Some(Some(stored)), Some(outside)) if stored.anchor == outside.anchor => None,
                    (Some(_), _) => Some("was changed in the database"),
                };
                let sealed = self.next_in_file.take();
                return Ok(sealed.map(|sealed| ReadAnchor {
                    sealed,
                    is_outside: true,
                    difference,
                }));
            }
            let Some(row) = self.next_row.take() else {
                return Ok(None);
            };
            let Some(sealed) = SealedAnchor::from_row(&row) else {
                self.unreadable.push(row.anchor_id);
                continue;
            };
            return Ok(Some(ReadAnchor { sealed, is_outside: false, difference: None }));
        }
    }

    async fn peek_row(&mut self) -> Result<Option<&AnchorRow>> {
        if self.next_row.is_none() {
            self.next_row = self.page.next();
        }
        if self.next_row.is_none() {
            let limit = PageLimit::clamped(PAGE_ANCHORS);
            let store = &self.verification.infra.store;
            self.page = store.list_anchors(self.last_row, limit).await?.into_iter();
            self.next_row = self.page.next();
        }
        if let Some(row) = &self.next_row {
            self.last_row = row.anchor_id;
        }
        Ok(self.next_row.as_ref())
    }
}

impl Verification {
    fn read_chain(&self, outside: &OutsideAnchor) -> Result<ChainReader<'_>> {
        let file = match outside {
            OutsideAnchor::File(path) => {
                Some(AnchorReader::open(path).map_err(|error| unreadable_file(&error))?)
            }
            OutsideAnchor::None | OutsideAnchor::Head(_) => None,
        };
        Ok(ChainReader {
            verification: self,
            file,
            next_in_file: None,
            page: Vec::new().into_iter(),
            next_row: None,
            last_row: 0,
            unreadable: Vec::new(),
        })
    }

    /// Verifies the chain of anchors, and all logs against it.
    pub(super) async fn verify_anchors(
        &self,
        outside: &OutsideAnchor,
        pass: &mut Pass<'_, impl VerifyObserver>,
    ) -> Result<AnchorCounts> {
        let (counts, drops) = self.verify_chain(outside, pass).await?;
        if counts.anchors > 0 {
            self.verify_dropped_ranges(&drops, pass).await?;
        }
        let changed = self.find_changed_runs(outside, &drops, pass).await?;
        for (id, changed) in changed {
            let (kind, text) = changed.describe();
            let problem = Problem::of_execution(kind, id, &text).at_seq(changed.first_bad_seq());
            pass.report(problem);
        }
        Ok(counts)
    }

    /// Verifies that each anchor follows the one before it, and that the database contains all.
    async fn verify_chain(
        &self,
        outside: &OutsideAnchor,
        pass: &mut Pass<'_, impl VerifyObserver>,
    ) -> Result<(AnchorCounts, RecordedDrops)> {
        let (mut counts, mut drops) = (AnchorCounts::default(), RecordedDrops::default());
        let (mut head, mut newest, mut requires_seals) = (AnchorHead::START, None, false);
        let mut chain = self.read_chain(outside)?;
        while let Some(read) = chain.next().await? {
            let anchor = &read.sealed.anchor;
            let id = anchor.anchor_id;
            if let Some(difference) = read.difference {
                pass.report_anchor(format!("anchor {id} {difference}"));
            } else if !anchor.follows(head) {
                pass.report_anchor(format!("anchor {id} does not follow the one before it"));
            }
            if requires_seals && !anchor.sealed {
                pass.report_anchor(format!(
                    "anchor {id} does not require seals, but an earlier one does"
                ));
            }
            requires_seals |= anchor.sealed;
            head = anchor.head();
            if let OutsideAnchor::Head(kept) = outside
                && kept.anchor_id == id
                && *kept != head
            {
                pass.report_anchor(format!("anchor {id} is not the one that was kept outside"));
            }
            let is_outside = read.is_outside
                || matches!(outside, OutsideAnchor::Head(kept) if id <= kept.anchor_id);
            counts.anchors += 1;
            counts.outside += u64::from(is_outside);
            if is_outside || counts.outside == 0 {
                counts.anchored_until = Some(anchor.time);
            }
            drops.add_anchor(anchor);
            newest = Some(read.sealed);
        }
        for id in std::mem::take(&mut chain.unreadable) {
            pass.report_anchor(format!("anchor {id} was changed in the database"));
        }
        if let OutsideAnchor::Head(kept) = outside
            && kept.anchor_id > head.anchor_id
        {
            let (last, kept) = (head.anchor_id, kept.anchor_id);
            let text =
                format!("the chain ends at anchor {last}, but anchor {kept} was kept outside");
            pass.report_anchor(text);
        }
        counts.unsealed = self.sealer.is_none();
        if let (Some(newest), Some(sealer)) = (&newest, &self.sealer)
            && requires_seals
            && !sealer.is_valid(newest)
        {
            let id = newest.anchor.anchor_id;
            let text = format!("anchor {id} was not written by a server with this encryption key");
            pass.report_anchor(text);
        }
        if let Some(newest) = newest {
            let store = &self.infra.store;
            let changed = store.list_changed_executions(newest.anchor.feed, PageLimit::MAX).await;
            // A standby cannot tell.
            let changed = changed.map_or(0, |changed| changed.execution_ids.len());
            counts.unanchored = u64::try_from(changed).unwrap_or(u64::MAX);
        }
        Ok((counts, drops))
    }

    /// Finds ranges that were dropped without a record in the chain.
    async fn verify_dropped_ranges(
        &self,
        drops: &RecordedDrops,
        pass: &mut Pass<'_, impl VerifyObserver>,
    ) -> Result<()> {
        for range in self.infra.store.list_dropped_ranges().await? {
            let DroppedRange { first_id, end_id } = range;
            let is_recorded = drops.0.iter().any(|(recorded, is_dropped)| {
                *is_dropped && recorded.first_id <= first_id && end_id <= recorded.end_id
            });
            if !is_recorded {
                let text = format!(
                    "executions {first_id} to {} are marked as dropped by retention, but no anchor \
                     records that",
                    end_id - 1
                );
                pass.report_anchor(text);
            }
        }
        Ok(())
    }

    /// Compares all logs with the anchors, oldest first.
    async fn find_changed_runs(
        &self,
        outside: &OutsideAnchor,
        drops: &RecordedDrops,
        pass: &mut Pass<'_, impl VerifyObserver>,
    ) -> Result<BTreeMap<ExecutionId, ChangedRun>> {
        let mut changed: BTreeMap<ExecutionId, ChangedRun> = BTreeMap::new();
        let mut chain = self.read_chain(outside)?;
        while let Some(read) = chain.next().await? {
            let anchor = &read.sealed.anchor;
            for run in &anchor.runs {
                if changed.contains_key(&run.id) || changed.len() >= MAX_CHANGED_RUNS {
                    continue;
                }
                if let Some(change) = self.find_change(run, drops).await? {
                    let AnchoredRun { id, seq, .. } = *run;
                    let (anchor_id, time) = (anchor.anchor_id, anchor.time);
                    let run = ChangedRun { seq, anchor_id, time, change, last_good: None };
                    changed.insert(id, run);
                }
            }
            for head in &anchor.audit {
                let link = self.infra.store.find_audit_link(&head.tenant_id, head.seq).await?;
                if link != Some(head.chain) {
                    let what = if link.is_some() { "was changed" } else { "is missing" };
                    let text = format!(
                        "entry {} of the audit log of tenant {} {what}; anchor {} has it",
                        head.seq, head.tenant_id, anchor.anchor_id
                    );
                    pass.report(Problem::of_store(ProblemKind::ModifiedAuditLog, text));
                }
            }
        }
        if !changed.is_empty() {
            self.find_last_good(outside, &mut changed).await?;
        }
        Ok(changed)
    }

    /// Compares a log with an anchor of it.
    async fn find_change(
        &self,
        run: &AnchoredRun,
        drops: &RecordedDrops,
    ) -> Result<Option<RunChange>> {
        let found = self.infra.store.find_execution(run.id).await;
        let found: Option<Option<Execution>> = ignore_unreadable(found)?;
        let row = match found {
            Some(Some(row)) => row,
            Some(None) => return Ok((!drops.contains(run.id)).then_some(RunChange::Removed)),
            None => return Ok(None),
        };
        if row.head.version < run.seq.into() {
            let end = Seq::new(row.head.version.get()).unwrap_or(Seq::FIRST);
            return Ok(Some(RunChange::CutOff(end)));
        }
        let link = self.infra.store.find_chain_link(run.id, run.seq).await?;
        if link != Some(run.link) {
            return Ok(Some(RunChange::Rewritten));
        }
        Ok((facts_digest(&row.facts) != run.facts).then_some(RunChange::Facts))
    }

    /// Finds the last anchors with which changed logs agree.
    async fn find_last_good(
        &self,
        outside: &OutsideAnchor,
        changed: &mut BTreeMap<ExecutionId, ChangedRun>,
    ) -> Result<()> {
        let mut chain = self.read_chain(outside)?;
        while let Some(read) = chain.next().await? {
            for run in &read.sealed.anchor.runs {
                if let Some(changed) = changed.get_mut(&run.id)
                    && run.seq < changed.seq
                {
                    changed.last_good = Some(run.seq);
                }
            }
        }
        Ok(())
    }
}

impl ChangedRun {
    /// First event that cannot be trusted.
    fn first_bad_seq(&self) -> Seq {
        match self.change {
            RunChange::Removed | RunChange::Facts => Seq::FIRST,
            RunChange::CutOff(end) => end.next(),
            RunChange::Rewritten => self.last_good.map_or(Seq::FIRST, Seq::next),
        }
    }

    fn describe(&self) -> (ProblemKind, String) {
        let Self { seq, anchor_id, time, .. } = self;
        match self.change {
            RunChange::Removed => {
                let text = format!(
                    "it was removed; anchor {anchor_id} of {time} has it with {seq} events"
                );
                (ProblemKind::RemovedExecution, text)
            }
            RunChange::CutOff(end) => {
                let text = format!(
                    "its log was cut off after event {end}; anchor {anchor_id} of {time} has \
                     {seq} events"
                );
                (ProblemKind::CutOffLog, text)
            }
            RunChange::Rewritten => {
                let first = self.first_bad_seq();
                let text = format!(
                    "its log was rewritten between event {first} and event {seq}, after anchor \
                     {anchor_id} of {time}"
                );
                (ProblemKind::RewrittenLog, text)
            }
            RunChange::Facts => {
                let text = format!(
                    "an attribute in its row, such as its tenant, path, labels or start time, was \
                     changed after anchor {anchor_id} of {time}"
                );
                (ProblemKind::WrongRow, text)
            }
        }
    }
}

impl<O: VerifyObserver> Pass<'_, O> {
    fn report_anchor(&mut self, text: String) {
        self.report(Problem::of_store(ProblemKind::ModifiedAnchor, text));
    }
}

fn unreadable_file(error: &io::Error) -> RuntimeError {
    RuntimeError::invalid(format!("the anchor file cannot be read: {error}"))
}
