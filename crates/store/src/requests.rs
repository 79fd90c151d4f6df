//! Idempotent requests, deduplicated messages, cached step results, and variables.

use async_trait::async_trait;
use noetl_types::{Digest, EventId, ExecutionId, Json, Millis, TenantId, Text, Timestamp};

use crate::error::StoreError;
use crate::model::{
    AnsweredRequest, CachedStepResult, DedupRecord, DedupReservation, ExecutionVar,
    IdempotencyRecord, MatchKey, RequestKey, RequestOutcome, RequestReservation, ReserveOutcome,
    SetVarsError, check_vars,
};
use crate::row::{
    CACHE, DEDUP, IDEMPOTENCY, StoredRequest, ToCell as _, ToRow as _, VAR, cells,
    encode_idempotency_record, encode_var, in_progress_status,
};
use crate::sql::{Database, Durability, Statement};

/// The part of a [`crate::Store`] that makes repeated work take effect once, and stores the
/// variables of executions.
#[async_trait]
pub trait RequestStore {
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

    /// Ends the reservations of all requests in progress, when no process works on any.
    async fn release_requests(&self, now: Timestamp) -> Result<u64, StoreError>;

    /// Stores the response to a request that had no effect of its own, unless its key is in use.
    async fn store_answer(
        &self,
        tenant_id: &TenantId,
        execution_id: ExecutionId,
        record: IdempotencyRecord,
        now: Timestamp,
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
}

static CACHED_RESULT: Statement = Statement::select(
    &CACHE,
    "WHERE tenant_id = $1 AND scope = $2 AND key_sha256 = $3 AND expires_at > $4::timestamptz",
);

/// Finds the message with a dedup key.
pub(crate) static DEDUP_BY_KEY: Statement =
    Statement::select(&DEDUP, "WHERE subscription_id = $1 AND dedup_key = $2");

/// Finds the answered request with an idempotency key.
pub(crate) static ANSWERED_REQUEST: Statement = Statement::select(
    &IDEMPOTENCY,
    "WHERE tenant_id = $1 AND route = $2 AND key_sha256 = $3 AND expires_at > $4::timestamptz
         AND status >= 0",
);

/// Reserves a request. An expired request with the same key is replaced. The same request is taken
/// over if its reservation has ended, or ends so late that a clock ahead of this one made it.
static RESERVE_REQUEST: Statement = Statement::insert(
    &IDEMPOTENCY,
    "ON CONFLICT (tenant_id, route, key_sha256) DO UPDATE SET
         body_sha256 = excluded.body_sha256,
         status = excluded.status,
         answer = excluded.answer,
         execution_id = CASE WHEN idempotency.expires_at <= $9::timestamptz
             THEN excluded.execution_id ELSE idempotency.execution_id END,
         expires_at = excluded.expires_at
     WHERE idempotency.expires_at <= $9::timestamptz OR (
         (-idempotency.status BETWEEN 1 AND $10::bigint OR -idempotency.status > $11::bigint)
         AND idempotency.body_sha256 = excluded.body_sha256
     )
     RETURNING execution_id",
);

/// Stores an answered request. An expired request with the same key is replaced.
static STORE_ANSWER: Statement = Statement::insert(
    &IDEMPOTENCY,
    "ON CONFLICT (tenant_id, route, key_sha256) DO UPDATE SET
         body_sha256 = excluded.body_sha256,
         status = excluded.status,
         answer = excluded.answer,
         execution_id = excluded.execution_id,
         expires_at = excluded.expires_at
     WHERE idempotency.expires_at <= $9::timestamptz",
);

static REQUEST_BY_KEY: Statement =
    Statement::select(&IDEMPOTENCY, "WHERE tenant_id = $1 AND route = $2 AND key_sha256 = $3");

/// Changes a request that is in progress under a work id.
macro_rules! on_request_in_progress {
    ($statement:literal) => {
        Statement::new(concat!(
            $statement,
            " WHERE tenant_id = $1 AND route = $2 AND key_sha256 = $3 AND execution_id = $4
                 AND status < 0"
        ))
    };
}

static ANSWER_REQUEST: Statement =
    on_request_in_progress!("UPDATE idempotency SET status = $5, answer = $6::text::json");

static DELETE_RESERVATION: Statement = on_request_in_progress!("DELETE FROM idempotency");

static MARK_OUTCOME_UNKNOWN: Statement =
    on_request_in_progress!("UPDATE idempotency SET status = $5");

static RELEASE_REQUESTS: Statement =
    Statement::new("UPDATE idempotency SET status = $1 WHERE status < 0").with_auto_plan();

/// Upper bound of the duration of a reservation.
const MAX_RESERVATION: Millis = Millis::from_minutes(1);

/// Maximum attempts to reserve a request key that other processes release concurrently.
const MAX_RESERVE_ATTEMPTS: usize = 5;

static PUT_VAR: Statement = Statement::upsert(&VAR, "execution_id, var_name");

static LIST_VARS: Statement = Statement::select(
    &VAR,
    "WHERE execution_id = $1 AND ($2::text IS NULL OR var_name = $2) ORDER BY var_name",
);

static DELETE_VARS: Statement = Statement::new(
    "DELETE FROM transient WHERE execution_id = $1 AND ($2::text IS NULL OR var_name = $2)",
);

#[async_trait]
impl<D: Database> RequestStore for D {
    async fn find_cached_result(
        &self,
        tenant_id: &TenantId,
        scope: &MatchKey,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<CachedStepResult>, StoreError> {
        self.query_first(&CACHED_RESULT, cells![tenant_id, scope, key_sha256, now]).await
    }

    async fn find_answered_request(
        &self,
        tenant_id: &TenantId,
        route: &Text,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Result<Option<AnsweredRequest>, StoreError> {
        self.query_first(&ANSWERED_REQUEST, cells![tenant_id, route, key_sha256, now]).await
    }

    async fn has_seen_message(&self, message: DedupReservation) -> Result<bool, StoreError> {
        let key = cells![message.scope, message.match_key()];
        let stored: Option<DedupRecord> = self.query_first(&DEDUP_BY_KEY, key).await?;
        Ok(stored.is_some_and(|stored| message.check_against(&stored).is_err()))
    }

    async fn reserve_request(
        &self,
        reservation: RequestReservation,
    ) -> Result<ReserveOutcome, StoreError> {
        let mut row = reservation.to_row();
        let latest = reservation.now.saturating_add(MAX_RESERVATION);
        row.extend(cells![reservation.now, reservation.now.as_micros(), latest.as_micros()]);
        let RequestKey { tenant_id, route, key_sha256 } = &reservation.key;
        for _ in 0..MAX_RESERVE_ATTEMPTS {
            let reserved =
                self.execute_returning(Durability::Synced, &RESERVE_REQUEST, row.clone()).await?;
            if let Some((work_id,)) = reserved.into_iter().next() {
                return Ok(ReserveOutcome::Reserved(work_id));
            }
            let key = cells![tenant_id, route, key_sha256];
            let existing: Option<StoredRequest> = self.query_first(&REQUEST_BY_KEY, key).await?;
            if let Some(existing) = existing {
                return Ok(existing.into_outcome(reservation.body_sha256));
            }
        }
        let text = "the request key is repeatedly released by other requests; try again";
        Err(StoreError::retry(text))
    }

    async fn complete_request(
        &self,
        key: RequestKey,
        work_id: EventId,
        outcome: RequestOutcome,
    ) -> Result<(), StoreError> {
        let mut params = cells![key.tenant_id, key.route, key.key_sha256, work_id];
        let statement = match outcome {
            RequestOutcome::Answered { status, answer } => {
                params.extend(cells![status, Json::from(answer)]);
                &ANSWER_REQUEST
            }
            RequestOutcome::Refused => &DELETE_RESERVATION,
            RequestOutcome::Unknown { retry_at } => {
                params.push(in_progress_status(retry_at).to_cell());
                &MARK_OUTCOME_UNKNOWN
            }
        };
        self.execute(Durability::Synced, statement, params).await.map(drop)
    }

    async fn release_requests(&self, now: Timestamp) -> Result<u64, StoreError> {
        let params = cells![in_progress_status(now)];
        self.execute(Durability::Synced, &RELEASE_REQUESTS, params).await
    }

    async fn store_answer(
        &self,
        tenant_id: &TenantId,
        execution_id: ExecutionId,
        record: IdempotencyRecord,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut row = encode_idempotency_record(tenant_id, execution_id, &record);
        row.push(now.to_cell());
        self.execute(Durability::Synced, &STORE_ANSWER, row).await.map(drop)
    }

    async fn set_vars(
        &self,
        execution_id: ExecutionId,
        vars: Vec<ExecutionVar>,
    ) -> Result<(), SetVarsError> {
        let vars = check_vars(vars)?;
        let rows = vars.values().map(|var| encode_var(execution_id, var)).collect();
        self.execute_many(Durability::Synced, &PUT_VAR, rows).await?;
        Ok(())
    }

    async fn list_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<Vec<ExecutionVar>, StoreError> {
        self.query(&LIST_VARS, cells![execution_id, name]).await
    }

    async fn delete_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Result<u64, StoreError> {
        self.execute(Durability::Synced, &DELETE_VARS, cells![execution_id, name]).await
    }
}
