//! Storage of state that executions share with each other and with external callers.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, TenantId, Text, Timestamp};

use crate::error::StoreError;
use crate::model::{
    AnsweredRequest, BroadcastFilter, BroadcastSignal, CachedStepResult, DedupReservation,
    ExecutionVar, FollowUpOutcome, GcTarget, MatchKey, OpenWait, RequestKey, RequestOutcome,
    RequestReservation, ReserveOutcome, SetVarsError, Slot, SlotChange, SlotSelector,
    StoredFollowUp, WaitFilter,
};

/// The part of a [`crate::Store`] that concerns more than one execution.
///
/// Most of these rows are written by appends. The methods here read them, and change them where no
/// event records the change. As everywhere in the store, times are arguments, and the store makes
/// no decision that a caller could make.
#[async_trait]
pub trait CoordinationStore {
    /// Returns the names that open waits await, ordered by position.
    async fn list_waits(&self, filter: WaitFilter) -> Result<Vec<OpenWait>, StoreError>;

    /// Stores a broadcast signal. An existing signal of the same id is left unchanged.
    async fn put_broadcast(&self, signal: BroadcastSignal) -> Result<(), StoreError>;

    /// Returns the broadcast signals that a wait may still consume, oldest first.
    async fn list_broadcasts(
        &self,
        filter: BroadcastFilter,
    ) -> Result<Vec<BroadcastSignal>, StoreError>;

    /// Returns the follow-ups that are due, the longest due first. They remain until they are
    /// completed.
    async fn list_due_follow_ups(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<Vec<StoredFollowUp>, StoreError>;

    /// Records the outcome of a follow-up. Returns `false` if the follow-up no longer exists.
    async fn complete_follow_up(
        &self,
        execution_id: ExecutionId,
        follow_up_id: &Text,
        outcome: FollowUpOutcome,
    ) -> Result<bool, StoreError>;

    /// Grants the free slots of a key by priority, then by arrival. Returns the slots granted by
    /// this call.
    ///
    /// With any number of concurrent callers, the holders of a key never exceed the limit of any of
    /// them.
    async fn grant_slots(
        &self,
        tenant_id: &TenantId,
        key: &MatchKey,
        now: Timestamp,
    ) -> Result<Vec<Slot>, StoreError>;

    /// Returns slots that are requested or held.
    async fn list_slots(
        &self,
        selector: SlotSelector,
        limit: PageLimit,
    ) -> Result<Vec<Slot>, StoreError>;

    /// Changes slots of an execution without a new event, that is, when no append can carry the
    /// change.
    async fn change_slots(
        &self,
        tenant_id: &TenantId,
        execution_id: ExecutionId,
        changes: Vec<SlotChange>,
    ) -> Result<(), StoreError>;

    /// Returns the cached result under a key if it has not expired.
    async fn find_cached_result(
        &self,
        tenant_id: &TenantId,
        scope: &MatchKey,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<CachedStepResult>, StoreError>;

    /// Returns the response to an earlier request if its idempotency key is still reserved.
    async fn find_answered_request(
        &self,
        tenant_id: &TenantId,
        route: &Text,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<AnsweredRequest>, StoreError>;

    /// True if a message with the same key was received within the key's window. Such a message
    /// starts nothing, even if its body differs.
    async fn has_seen_message(&self, message: DedupReservation) -> Result<bool, StoreError>;

    /// Reserves a request so that no other caller works on it. The reservation is durable once the
    /// call returns.
    async fn reserve_request(
        &self,
        reservation: RequestReservation,
    ) -> Result<ReserveOutcome, StoreError>;

    /// Records the outcome of a request, if it is still reserved under this id.
    async fn complete_request(
        &self,
        key: RequestKey,
        work_id: EventId,
        outcome: RequestOutcome,
    ) -> Result<(), StoreError>;

    /// Sets variables of an execution, all or none.
    async fn set_vars(
        &self,
        execution_id: ExecutionId,
        vars: Vec<ExecutionVar>,
    ) -> Result<(), SetVarsError>;

    /// Returns one variable of an execution, or all of them ordered by name.
    async fn list_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<Vec<ExecutionVar>, StoreError>;

    /// Deletes one variable of an execution, or all of them. Returns the number deleted.
    async fn delete_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<u64, StoreError>;

    /// Deletes what has expired by `now`, the longest expired first. Returns the number deleted, at
    /// most `limit`. If it equals `limit`, more may remain. For files, `limit` is the number of
    /// files checked, and the next call continues after them.
    async fn delete_expired(
        &self,
        target: GcTarget,
        now: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError>;
}
