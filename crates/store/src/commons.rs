//! What executions share with each other and with the world.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, TenantId, Text, Timestamp};

use crate::error::StoreError;
use crate::model::{
    Answered, Broadcast, BroadcastFilter, Cached, DedupClaim, Errand, ErrandOutcome, MatchKey,
    OpenWait, RequestEnd, RequestKey, RequestTake, Slot, SlotChange, SlotChoice, Swept, Taken, Var,
    VarsRefused, WaitFilter,
};

/// The part of a [`crate::Store`] that is about more than one execution.
///
/// Most of the rows come with appends; here they are looked at, and changed where no event tells of
/// it. As everywhere, times come in with the call, and nothing is decided that a caller could decide.
#[async_trait]
pub trait Commons {
    /// Names that open waits await, in the order of their places.
    async fn waits(&self, filter: WaitFilter) -> Result<Vec<OpenWait>, StoreError>;

    /// Keeps a signal to everybody. One of the same id that is there already stays.
    async fn broadcast(&self, signal: Broadcast) -> Result<(), StoreError>;

    /// Signals that a wait looks back at, oldest first.
    async fn broadcasts(&self, filter: BroadcastFilter) -> Result<Vec<Broadcast>, StoreError>;

    /// Errands whose time has come, longest due first. They stay until they are settled.
    async fn errands(&self, now: Timestamp, limit: PageLimit) -> Result<Vec<Errand>, StoreError>;

    /// Says what came of an errand; `false` if nobody wanted it any more.
    async fn settle_errand(
        &self,
        execution_id: ExecutionId,
        errand_id: &Text,
        outcome: ErrandOutcome,
    ) -> Result<bool, StoreError>;

    /// Gives the slots of a key that are free to whoever is next: by priority, then by arrival.
    /// Answers with those that were given now.
    ///
    /// However many call at once, no more hold a key than the limit of each of them allows.
    async fn grant_slots(
        &self,
        tenant_id: &TenantId,
        key: &MatchKey,
        now: Timestamp,
    ) -> Result<Vec<Slot>, StoreError>;

    /// Slots that are wanted or held.
    async fn slots(&self, choice: SlotChoice, limit: PageLimit) -> Result<Vec<Slot>, StoreError>;

    /// Changes slots of an execution whose log says nothing new, so that no append can carry it.
    async fn change_slots(
        &self,
        tenant_id: &TenantId,
        execution_id: ExecutionId,
        changes: Vec<SlotChange>,
    ) -> Result<(), StoreError>;

    /// A result under a key that may still be taken over.
    async fn cached(
        &self,
        tenant_id: &TenantId,
        scope: &MatchKey,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<Cached>, StoreError>;

    /// What a request was answered whose key may not be used for something else yet.
    async fn answered(
        &self,
        tenant_id: &TenantId,
        route: &Text,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<Answered>, StoreError>;

    /// Whether a message came before, in the window of its key: then it starts nothing, whatever its
    /// body is.
    async fn has_seen(&self, message: DedupClaim) -> Result<bool, StoreError>;

    /// Takes a request, so that nobody else works on it; durably, before the call is answered.
    async fn take_request(&self, take: RequestTake) -> Result<Taken, StoreError>;

    /// Says how work on a request ended, if it is still under this id.
    async fn settle_request(
        &self,
        key: RequestKey,
        work_id: EventId,
        end: RequestEnd,
    ) -> Result<(), StoreError>;

    /// Sets variables of an execution, all of them or none.
    async fn set_vars(&self, execution_id: ExecutionId, vars: Vec<Var>) -> Result<(), VarsRefused>;

    /// One variable of an execution, or all of them, by name.
    async fn vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<Vec<Var>, StoreError>;

    /// Forgets one variable of an execution, or all of them; says how many there were.
    async fn delete_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<u64, StoreError>;

    /// Forgets what is over at a time, the longest over first; says how many there were, up to the
    /// limit. As many as that means that there may be more. Of files it looks at as many as the
    /// limit says, and goes on behind them with the next call.
    async fn sweep(&self, what: Swept, now: Timestamp, limit: PageLimit)
    -> Result<u64, StoreError>;
}
