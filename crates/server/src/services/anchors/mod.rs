//! Anchors: a chain of the installation that records the heads of all logs.
//!
//! A background task of each server appends an anchor with the heads of the executions that changed
//! since the last one, and copies the chain to a file outside of the database. Appends to logs are
//! not slowed: nothing is written per append.
//!
//! Must not: anchor anything that contradicts an earlier anchor file.

mod entry;
mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use noetl_store::{AuditHead, DropJournal, DroppedRange, StoreError};
use noetl_types::limits::PageLimit;
use noetl_types::{FeedPosition, Seq, TenantId, Text};

pub use entry::{Anchor, AnchorHead, AnchoredRun, SealedAnchor};
pub(crate) use entry::{AnchorSealer, facts_digest};
pub(crate) use file::AnchorReader;

use crate::error::{Result, RuntimeError, error_chain};
use crate::services::Infrastructure;

/// Executions after which an anchor is complete. The last page may exceed it.
const MAX_ANCHORED_RUNS: usize = 1_000;
/// Audit logs after which an anchor is complete. The last page may exceed it.
const MAX_ANCHORED_AUDIT_LOGS: usize = 1_000;
/// Anchors that are copied to the file at a time.
const COPY_ANCHORS: i64 = 50;
/// Attempts to append an anchor while other servers append theirs.
const MAX_APPEND_ATTEMPTS: u32 = 10;

/// Appends anchors.
pub struct Anchors {
    infra: Arc<Infrastructure>,
    sealer: Option<AnchorSealer>,
    state: tokio::sync::Mutex<AnchorState>,
    /// Reason why the chain cannot be trusted or written.
    failure: Mutex<Option<Text>>,
}

#[derive(Debug, Default)]
struct AnchorState {
    /// Newest anchor that this server has seen.
    newest: Option<AnchorHead>,
    /// Last anchor in the file.
    in_file: Option<AnchorHead>,
    /// True if an anchor that was seen says that anchors and API tokens must have seals.
    requires_seals: bool,
    /// Anchored entries of audit logs.
    audit: BTreeMap<TenantId, i64>,
}

/// Content of an anchor besides changed logs.
#[derive(Debug, Default)]
struct Additions {
    dropped: Option<DroppedRange>,
    kept: Option<DroppedRange>,
    /// From this anchor on, tokens and anchors must have seals.
    requires_seals: bool,
}

impl Anchors {
    pub(crate) fn new(infra: &Arc<Infrastructure>) -> Self {
        let keys = infra.settings.keys.as_deref();
        Self {
            infra: Arc::clone(infra),
            sealer: keys.and_then(AnchorSealer::from_keys),
            state: tokio::sync::Mutex::default(),
            failure: Mutex::default(),
        }
    }

    /// Reason why the last anchor could not be written, if any.
    pub(crate) fn failure(&self) -> Option<Text> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Appends anchors at an interval, and once more at shutdown.
    pub(crate) async fn anchor_loop(self: Arc<Self>) {
        let interval = Duration::from_millis(self.infra.settings.anchor_interval.as_ms());
        if interval.is_zero() {
            return;
        }
        loop {
            let is_running = self.infra.sleep_unless_shutdown(interval).await;
            let written = self.write_anchors().await;
            let failure = written.err().map(|error| Text::from(error_chain(&error)));
            if let Some(reason) = &failure {
                tracing::error!(%reason, "the heads of the logs could not be anchored");
            }
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
            if !is_running {
                return;
            }
        }
    }

    /// True if an anchor, in the database or outside of it, says that tokens must have seals. The
    /// error is the reason why the chain cannot be trusted.
    pub(crate) async fn requires_seals(&self) -> Result<bool> {
        let mut state = self.state.lock().await;
        self.check_chain(&mut state).await?;
        self.check_file(&mut state).await?;
        Ok(state.requires_seals)
    }

    /// Records in the chain that tokens must have seals, and replaces the seal of an earlier key.
    /// The other logs are anchored later, so that the start of a server does not wait for that.
    pub(crate) async fn record_seals(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        let additions = Additions { requires_seals: true, ..Additions::default() };
        self.append_anchor(&mut state, additions).await.map(drop)
    }

    /// Anchors all logs that changed since the last anchor, and completes the file.
    pub async fn write_anchors(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        self.check_chain(&mut state).await?;
        self.check_file(&mut state).await?;
        while self.append_anchor(&mut state, Additions::default()).await? {}
        self.copy_to_file(&mut state).await
    }

    /// Returns the newest anchor. It must follow the one that this server saw last.
    async fn check_chain(&self, state: &mut AnchorState) -> Result<Option<SealedAnchor>> {
        let newest = self.infra.store.newest_anchor().await?;
        let newest = match newest {
            None => None,
            Some(row) => {
                Some(SealedAnchor::from_row(&row).ok_or_else(|| changed_chain(row.anchor_id))?)
            }
        };
        let head = newest.as_ref().map_or(AnchorHead::START, |newest| newest.anchor.head());
        let seen = state.newest.unwrap_or(AnchorHead::START);
        if head != seen {
            self.check_follows(seen, head).await?;
        }
        state.requires_seals |= newest.as_ref().is_some_and(|newest| newest.anchor.sealed);
        if let (Some(sealer), Some(newest)) = (&self.sealer, &newest)
            && state.requires_seals
            && !sealer.is_valid(newest)
        {
            let text = format!(
                "anchor {} was not written by a server with this encryption key",
                head.anchor_id
            );
            return Err(RuntimeError::internal(text));
        }
        state.newest = Some(head);
        Ok(newest)
    }

    /// Checks that the chain in the database contains an anchor that was seen before.
    async fn check_follows(&self, seen: AnchorHead, newest: AnchorHead) -> Result<()> {
        if seen == AnchorHead::START {
            return Ok(());
        }
        let one = PageLimit::clamped(1);
        let found = self.infra.store.list_anchors(seen.anchor_id - 1, one).await?;
        let found = found.first().and_then(SealedAnchor::from_row);
        let is_same = found.is_some_and(|found| found.anchor.head() == seen);
        if is_same && newest.anchor_id >= seen.anchor_id {
            return Ok(());
        }
        Err(changed_chain(seen.anchor_id))
    }

    /// Appends one anchor, unless nothing changed. Returns true if more may follow.
    async fn append_anchor(&self, state: &mut AnchorState, additions: Additions) -> Result<bool> {
        for _ in 0..MAX_APPEND_ATTEMPTS {
            let previous = self.check_chain(state).await?;
            let (mut anchor, is_full) = self.next_anchor(previous.as_ref(), state).await?;
            anchor.dropped.extend(additions.dropped);
            anchor.kept.extend(additions.kept);
            anchor.sealed |= additions.requires_seals;
            if previous.is_none() {
                // What was dropped before the first anchor.
                anchor.dropped.extend(self.infra.store.list_dropped_ranges().await?);
            }
            // The newest anchor has a seal of the current key, which covers all before it.
            let is_current = previous.as_ref().is_none_or(|previous| self.is_current(previous));
            let was_sealed = previous.is_some_and(|previous| previous.anchor.sealed);
            if anchor.is_empty() && !is_full && anchor.sealed == was_sealed && is_current {
                return Ok(false);
            }
            let seal = self.sealer.as_ref().map(|sealer| sealer.seal(&anchor));
            let sealed = SealedAnchor { anchor, seal };
            if self.infra.store.append_anchor(sealed.to_row()).await? {
                state.newest = Some(sealed.anchor.head());
                state.requires_seals |= sealed.anchor.sealed;
                let heads = sealed.anchor.audit.into_iter();
                state.audit.extend(heads.map(|head| (head.tenant_id, head.seq)));
                return Ok(is_full);
            }
        }
        Err(StoreError::retry("other servers keep appending anchors").into())
    }

    /// True if an anchor has the seal of the current key, or if there is no key.
    fn is_current(&self, sealed: &SealedAnchor) -> bool {
        let seal = self.sealer.as_ref().map(|sealer| sealer.seal(&sealed.anchor));
        seal.is_none() || seal == sealed.seal
    }

    async fn next_anchor(
        &self,
        previous: Option<&SealedAnchor>,
        state: &AnchorState,
    ) -> Result<(Anchor, bool)> {
        let store = &self.infra.store;
        let epoch = entry::epoch_number(store.log_epoch().await?);
        let previous = previous.map(|previous| &previous.anchor);
        // Positions of another epoch mean nothing in this one.
        let after = previous.filter(|previous| previous.epoch == epoch);
        let after = after.map_or(FeedPosition::default(), |previous| previous.feed);
        let (mut feed, mut is_full, mut changed) = (after, true, BTreeSet::new());
        while is_full && changed.len() < MAX_ANCHORED_RUNS {
            let page = store.list_changed_executions(feed, PageLimit::MAX).await?;
            (feed, is_full) = (page.end, page.is_full);
            changed.extend(page.execution_ids);
        }
        let mut runs = Vec::with_capacity(changed.len());
        for id in changed {
            // Retention may have dropped it.
            let Some(row) = store.find_execution(id).await? else { continue };
            let Ok(seq) = Seq::new(row.head.version.get()) else { continue };
            let facts = facts_digest(&row.facts);
            runs.push(AnchoredRun { id, seq, link: row.head.chain, facts });
        }
        let (mut audit, mut tenant_id) = (Vec::new(), None);
        while audit.len() < MAX_ANCHORED_AUDIT_LOGS {
            let page = store.list_audit_heads(tenant_id.as_ref(), PageLimit::MAX).await?;
            let Some(last) = page.last() else { break };
            tenant_id = Some(last.tenant_id.clone());
            let is_new = |head: &AuditHead| state.audit.get(&head.tenant_id) != Some(&head.seq);
            audit.extend(page.into_iter().filter(is_new));
        }
        is_full |= audit.len() >= MAX_ANCHORED_AUDIT_LOGS;
        let anchor = Anchor {
            anchor_id: previous.map_or(1, |previous| previous.anchor_id + 1),
            time: self.infra.now(),
            previous: previous.map_or(AnchorHead::START, Anchor::head).digest,
            epoch,
            feed,
            sealed: state.requires_seals,
            runs,
            audit,
            dropped: Vec::new(),
            kept: Vec::new(),
        };
        Ok((anchor, is_full))
    }

    /// Checks that the database continues the anchor file.
    async fn check_file(&self, state: &mut AnchorState) -> Result<()> {
        let (Some(path), None) = (&self.infra.settings.anchor_file, state.in_file) else {
            return Ok(());
        };
        let last = run_blocking(path, |path| file::last_anchor(&path)).await?;
        state.requires_seals |= last.as_ref().is_some_and(|last| last.anchor.sealed);
        let last = last.map_or(AnchorHead::START, |last| last.anchor.head());
        let newest = state.newest.unwrap_or(AnchorHead::START);
        self.check_follows(last, newest).await.map_err(|error| match error {
            RuntimeError::Refused(_) => RuntimeError::internal(format!(
                "the database does not continue the anchor file {}, whose last anchor is {}: it \
                 was restored or changed; check it with noetl db check --anchor FILE, and then \
                 start another file",
                path.display(),
                last.anchor_id
            )),
            error => error,
        })?;
        state.in_file = Some(last);
        Ok(())
    }

    /// Copies the anchors that the file lacks.
    async fn copy_to_file(&self, state: &mut AnchorState) -> Result<()> {
        let (Some(path), Some(mut last)) = (&self.infra.settings.anchor_file, state.in_file) else {
            return Ok(());
        };
        let newest = state.newest.unwrap_or(AnchorHead::START);
        while last.anchor_id < newest.anchor_id {
            let limit = PageLimit::clamped(COPY_ANCHORS);
            let rows = self.infra.store.list_anchors(last.anchor_id, limit).await?;
            let mut anchors = Vec::with_capacity(rows.len());
            for row in rows {
                let next = SealedAnchor::from_row(&row);
                let next = next.filter(|next| next.anchor.follows(last));
                let next = next.ok_or_else(|| changed_chain(row.anchor_id))?;
                last = next.anchor.head();
                anchors.push(next);
            }
            if anchors.is_empty() {
                return Err(changed_chain(last.anchor_id + 1));
            }
            run_blocking(path, move |path| file::append(&path, &anchors)).await?;
            state.in_file = Some(last);
        }
        Ok(())
    }

    async fn record_range(&self, additions: Additions) -> Result<(), StoreError> {
        let mut state = self.state.lock().await;
        let appended = self.append_anchor(&mut state, additions).await;
        appended.map(drop).map_err(|error| match error {
            RuntimeError::Store(error) => error,
            other => StoreError::fatal(other.to_string()),
        })
    }
}

/// Retention records in the chain which executions it drops, before it drops them.
#[async_trait]
impl DropJournal for Anchors {
    async fn record_drop(&self, range: DroppedRange) -> Result<(), StoreError> {
        self.record_range(Additions { dropped: Some(range), ..Additions::default() }).await
    }

    async fn record_kept(&self, range: DroppedRange) -> Result<(), StoreError> {
        self.record_range(Additions { kept: Some(range), ..Additions::default() }).await
    }
}

fn changed_chain(anchor_id: i64) -> RuntimeError {
    RuntimeError::internal(format!("anchor {anchor_id} in the database was changed or removed"))
}

/// Accesses the file on a blocking thread.
async fn run_blocking<T: Send + 'static>(
    path: &std::path::Path,
    access: impl FnOnce(PathBuf) -> io::Result<T> + Send + 'static,
) -> Result<T> {
    let (owned, name) = (path.to_owned(), path.display().to_string());
    let accessed = tokio::task::spawn_blocking(move || access(owned)).await;
    let accessed = accessed.unwrap_or_else(|_| Err(io::Error::other("the access was aborted")));
    accessed.map_err(|error| {
        RuntimeError::internal(format!("the anchor file {name} cannot be used: {error}"))
    })
}
