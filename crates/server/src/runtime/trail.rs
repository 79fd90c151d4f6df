//! What was done that somebody may ask about.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noetl_api::tokens::{AuditPage, AuditView, SecretActView};
use noetl_store::{AuditEntry, NewAudit, SecretAct};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, Json, Millis, TenantId, Text, Timestamp, TokenId};
use tokio::sync::oneshot;

use super::error::{RuntimeError, causes};
use super::{Core, Runtime};

/// Acts that may wait to be written; those beyond are told to the log of the process alone.
const MOST_WAITING: usize = 10_000;
/// How long refusals of one kind are counted before they are written once more.
const WINDOW: Millis = Millis::from_secs(300);
/// Kinds of refusals that are told apart within a window. All others are one more.
const MOST_KINDS: usize = 64;

/// Something that was done, or tried.
#[derive(Debug, Clone)]
pub(crate) struct Act {
    /// Who.
    pub(crate) actor: Text,
    /// By which token.
    pub(crate) token_id: Option<TokenId>,
    /// What.
    pub(crate) what: Text,
    /// To what.
    pub(crate) target: Option<Text>,
    /// From where.
    pub(crate) address: Option<Text>,
    /// What came of it.
    pub(crate) outcome: Text,
    /// What it did to a secret, where it did.
    pub(crate) secret: Option<SecretAct>,
}

impl Act {
    /// The outcome of what was done as it was meant.
    pub(crate) const OK: &str = "ok";

    /// Whether somebody gets a secret by it.
    fn hands_out(&self) -> bool {
        let secret = self.secret.as_ref();
        self.outcome == Self::OK && secret.is_some_and(|secret| secret.operation.hands_out())
    }
}

/// What is on its way to the trail.
#[derive(Debug, Default)]
pub(super) struct Trail {
    waiting: Mutex<Vec<Waiting>>,
    /// Held by whoever writes.
    writing: tokio::sync::Mutex<()>,
    refusals: Mutex<Refusals>,
}

/// An act that is to be written.
#[derive(Debug)]
struct Waiting {
    act: NewAudit,
    /// Hears when it is written. It hears nothing if that fails for now.
    heard: Option<oneshot::Sender<()>>,
}

impl Waiting {
    /// One that nobody waits for.
    fn unheard(act: NewAudit) -> Self {
        Self { act, heard: None }
    }
}

/// Refusals of the last while. Whoever is refused may come as often as they like, so what is written
/// of them has a bound: the first of each kind, and how many followed.
#[derive(Debug, Default)]
struct Refusals {
    since: Option<Timestamp>,
    kinds: BTreeMap<Kind, (u64, NewAudit)>,
}

/// Refusals that are counted together: by tenant, actor, address and outcome.
type Kind = (TenantId, Text, Option<Text>, Text);

impl Trail {
    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, act: Waiting) {
        let mut waiting = self.waiting();
        if waiting.len() < MOST_WAITING {
            waiting.push(act);
        } else {
            let NewAudit { act, actor, .. } = act.act;
            tracing::error!(%act, %actor, "an act is not in the trail");
        }
    }
}

impl Refusals {
    /// Counts a refusal; gives it back if it is the first of its kind.
    fn count(&mut self, act: NewAudit) -> Option<NewAudit> {
        self.since.get_or_insert(act.occurred_at);
        let kind = (
            act.tenant_id.clone(),
            act.actor.clone(),
            act.address.clone(),
            act.outcome.clone(),
        );
        let is_known = self.kinds.contains_key(&kind);
        let kind = if is_known || self.kinds.len() < MOST_KINDS {
            kind
        } else {
            (TenantId::default(), "many".into(), None, "refused".into())
        };
        let known = self.kinds.entry(kind);
        let mut first = None;
        let (count, _) = known.or_insert_with(|| {
            first = Some(act.clone());
            (0, act)
        });
        *count += 1;
        first
    }

    /// What is to be said of refusals once their time is over.
    fn over(&mut self, now: Timestamp, at_once: bool) -> Vec<(u64, NewAudit)> {
        let is_over = self.since.is_some_and(|since| now.since(since) >= WINDOW);
        if !is_over && !at_once {
            return Vec::new();
        }
        self.since = None;
        let kinds = std::mem::take(&mut self.kinds);
        kinds
            .into_values()
            .filter(|(count, _)| *count > 1)
            .collect()
    }
}

impl Runtime {
    /// Notes an act, durably. Where that fails for now it is written later, and refused is only what
    /// would hand out a secret without a trace.
    pub(crate) async fn note(&self, act: Act) -> Result<(), RuntimeError> {
        let must_be_written = act.hands_out() && self.settings().secret_audit_required;
        let operation = act.secret.as_ref().map(|secret| secret.operation);
        let outcome = act.outcome.clone();
        let is_refused = !self.written(act).await && must_be_written;
        // What is refused here was not done, whatever was meant.
        let outcome = if is_refused {
            ErrorCode::StoreUnavailable.as_str().into()
        } else {
            outcome
        };
        if let Some(operation) = operation {
            let outcome = (outcome == Act::OK).then_some(()).ok_or(&*outcome);
            self.core.metrics.secrets().acted(operation, outcome);
        }
        if !is_refused {
            return Ok(());
        }
        let text = "the trail cannot be written now, and no secret is handed out without a trace; \
            try again later";
        Err(RuntimeError::refused(ErrorCode::StoreUnavailable, text))
    }

    /// Writes an act; says whether that was done. Acts that come together are written together.
    async fn written(&self, act: Act) -> bool {
        let Some(act) = self.entry(act) else {
            return false;
        };
        let (heard, hears) = oneshot::channel();
        let heard = Some(heard);
        self.core.trail.wait(Waiting { act, heard });
        let core = Arc::clone(&self.core);
        // A task of its own, so that nobody who goes away takes it along.
        self.core
            .tasks
            .spawn(async move { core.write_trail().await });
        hears.await.is_ok()
    }

    /// Notes that somebody was refused: the first time at once, and then how often.
    pub(crate) fn note_refusal(&self, act: Act) {
        let Some(act) = self.entry(act) else { return };
        let first = self.core.trail.refusals().count(act);
        if let Some(first) = first {
            self.core.trail.wait(Waiting::unheard(first));
            let core = Arc::clone(&self.core);
            self.core
                .tasks
                .spawn(async move { core.write_trail().await });
        }
    }

    fn entry(&self, act: Act) -> Option<NewAudit> {
        let audit_id = self
            .mint()
            .inspect_err(|error| tracing::error!(%error, act = %act.what, "not in the trail"))
            .ok()?;
        let token = |id: TokenId| Json::object([("token_id", Json::from(id.to_string()))]);
        Some(NewAudit {
            audit_id,
            tenant_id: self.tenant().clone(),
            occurred_at: self.now(),
            actor: act.actor,
            act: act.what,
            target: act.target,
            address: act.address,
            outcome: act.outcome,
            detail: act.token_id.map_or(Json::Null, token),
            secret: act.secret,
        })
    }

    /// A page of the trail of the tenant, newest first.
    pub async fn audit_page(
        &self,
        limit: PageLimit,
        cursor: Option<Text>,
    ) -> Result<AuditPage, RuntimeError> {
        let before = cursor.map(|cursor| cursor.parse::<i64>()).transpose();
        let before = before.map_err(|_| {
            let text = "the cursor is not one that this list gave";
            RuntimeError::refused(ErrorCode::BadQuery, text)
        })?;
        let entries = self.store().audits(self.tenant(), before, limit).await?;
        let last = entries.last().map(|last| last.seq);
        // The one before the oldest of the page is needed to check its link.
        let previous = match last {
            Some(seq) if seq > 1 => {
                let store = self.store();
                let found = store.audits(self.tenant(), Some(seq), PageLimit::MIN);
                found.await?.into_iter().next()
            }
            Some(_) | None => None,
        };
        let befores = entries.iter().skip(1).chain(&previous).map(Some);
        let befores = befores.chain(std::iter::once(None));
        let intact = entries
            .iter()
            .zip(befores)
            .all(|(entry, before)| entry.follows(before));
        Ok(AuditPage {
            next_cursor: previous.and(last).map(|last| last.to_string().into()),
            entries: entries.into_iter().map(view).collect(),
            intact,
        })
    }
}

impl Core {
    /// Writes down refusals whose time is over.
    pub(super) async fn sum_up_refusals(&self, at_once: bool) {
        let now = self.clock.now();
        let over = self.trail.refusals().over(now, at_once);
        for (count, act) in over {
            let Ok(audit_id) = self.ids.mint(now) else {
                return;
            };
            self.trail.wait(Waiting::unheard(NewAudit {
                audit_id,
                occurred_at: now,
                detail: Json::object([
                    ("count", Json::from(count)),
                    ("since", Json::from(act.occurred_at.to_string())),
                ]),
                ..act
            }));
        }
        self.write_trail().await;
    }

    /// Writes what waits. Whoever finds nothing left knows that somebody else has written it.
    async fn write_trail(&self) {
        let _turn = self.trail.writing.lock().await;
        let waiting = std::mem::take(&mut *self.trail.waiting());
        if waiting.is_empty() {
            return;
        }
        let acts = waiting.iter().map(|waiting| waiting.act.clone()).collect();
        let Err(error) = self.store.audit(acts).await else {
            for heard in waiting.into_iter().filter_map(|waiting| waiting.heard) {
                // Who has gone away does not want to hear of it.
                let _ = heard.send(());
            }
            return;
        };
        let count = waiting.len();
        tracing::error!(error = %causes(&error), count, "the trail is not written");
        // They are written with the next ones; what was written all the same is not written twice.
        for Waiting { act, .. } in waiting {
            self.trail.wait(Waiting::unheard(act));
        }
    }
}

fn view(entry: AuditEntry) -> AuditView {
    let act = entry.act;
    AuditView {
        id: act.audit_id,
        seq: entry.seq,
        occurred_at: act.occurred_at,
        actor: act.actor,
        act: act.act,
        target: act.target,
        address: act.address,
        outcome: act.outcome,
        detail: act.detail,
        secret: act.secret.map(|secret| SecretActView {
            operation: secret.operation,
            credential: secret.credential,
            worker_id: secret.worker_id,
            execution_id: secret.execution_id,
            parent_execution_id: secret.parent_execution_id,
            key_id: secret.key_id,
        }),
        chain: entry.chain.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use noetl_types::AuditId;

    use super::*;

    fn refusal(address: u32) -> NewAudit {
        NewAudit {
            audit_id: AuditId::new(1).unwrap(),
            tenant_id: TenantId::default(),
            occurred_at: Timestamp::UNIX_EPOCH,
            actor: "nobody".into(),
            act: "access".into(),
            target: None,
            address: Some(format!("10.0.0.{address}").into()),
            outcome: "unauthenticated".into(),
            detail: Json::Null,
            secret: None,
        }
    }

    #[test]
    fn however_many_are_refused_few_are_written() {
        let mut refusals = Refusals::default();
        let firsts = (0..100_000_u32)
            .filter_map(|number| refusals.count(refusal(number % 1_000)))
            .count();
        assert_eq!(firsts, MOST_KINDS + 1);
        assert!(refusals.over(Timestamp::UNIX_EPOCH, false).is_empty());
        let later = Timestamp::UNIX_EPOCH.saturating_add(WINDOW);
        let over = refusals.over(later, false);
        assert_eq!(over.len(), MOST_KINDS + 1);
        assert_eq!(over.iter().map(|(count, _)| count).sum::<u64>(), 100_000);
        assert!(refusals.over(later, true).is_empty());
        assert!(refusals.count(refusal(1)).is_some(), "a new window");
    }
}
