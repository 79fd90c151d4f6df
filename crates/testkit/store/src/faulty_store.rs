//! A store wrapper that injects faults.
//!
//! It wraps any other store. A function chooses the fault of every call, so a test can fail each
//! call in turn, or at random from a seed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{
    CatalogId, ChainHash, CommandId, CredentialId, Digest, EventId, ExecutionId, ExecutionVersion,
    FeedPosition, OutboxId, PlaybookPath, ResultId, Seq, StoredEvent, TenantId, Text, Timestamp,
    TokenId, WorkerId,
};

use noetl_store::{
    AnchorRow, AnchorStore, AnsweredRequest, ApiToken, AppendError, AppendReceipt, AppendRequest,
    AuditEntry, AuditHead, BroadcastFilter, BroadcastSignal, CachedStepResult, CatalogEntry,
    CatalogFilter, CatalogKey, CatalogStore, CatalogVersionFilter, ChangedExecutions, ClaimedBatch,
    Command, CommandFilter, CommandPage, CommandQueue, CommandStore, CoordinationStore, Credential,
    CredentialFilter, CredentialKey, CredentialPut, CredentialStore, CursorMove, DedupReservation,
    DroppedRange, DueTimer, EnabledPublishers, EventKey, EventLog, Execution, ExecutionFilter,
    ExecutionPage, ExecutionStore, ExecutionVar, ExecutionView, ExpiryStore, FailedPrivilegeCheck,
    FailureOutcome, FeedBatch, FeedItem, FeedLag, FeedLimit, Fence, FollowUpOutcome, GcTarget,
    IdempotencyRecord, IdentityStore, KeyCounts, KeychainEntry, KeychainFilter, KeychainPut,
    KeychainStore, KnownEvents, LeaseBounds, LeaseExtension, LeaseOutcome, LeaseRelease,
    LeaseRequest, LeaseTerms, LeasedCommand, LoadedLog, LogEpoch, LogPageLimit, LogPartition,
    MachineIdRequest, MachineLease, MachineLeaseError, MachineRenewal, MaintenanceStore, MatchKey,
    NewAuditEntry, NewCatalogEntry, NewTaskOutput, NotifyChannel, OldPartition, OpenWait,
    OutboxClaim, OutboxFailure, OutboxFilter, OutboxMark, OutboxQueue, OutboxRow, OutboxStats,
    OutboxStore, OutputChunk, OutputFilter, PinReason, PoolCount, PutResultError, QuarantineFilter,
    QuarantinedItem, RegisterOutcome, RegisteredRuntime, ReplayPage, RequestKey, RequestOutcome,
    RequestReservation, RequestStore, ReserveOutcome, ResultPut, RuntimeKind, RuntimeRegistration,
    RuntimeStore, SecretAuditFilter, SetVarsError, Slot, SlotChange, SlotSelector, Snapshot,
    SnapshotKey, SnapshotStore, StatsStore, StatusCounts, Store, StoreError, StoreSaturated,
    StoreStats, StoredFollowUp, StoredResult, StreamCursor, StreamCursorStore, StreamLeaseOutcome,
    StreamLeaseRequest, StreamOwner, TaskOutputOutcome, TaskOutputStore, TenantCounts, TenantTable,
    VerificationStore, WaitFilter,
};

/// Fault injected into a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// Fails without calling the store.
    FailBefore,
    /// Fails without calling the store, because no connection became free.
    Saturated,
    /// Calls the store, then fails with an unknown outcome.
    FailAfter,
    /// Yields to other tasks this many times before the call.
    Yield(u32),
    /// Sleeps before the call.
    Sleep(Duration),
    /// Never calls the store and never returns, so the caller has to be cancelled.
    Hang,
    /// Fails an append with a conflict. Other calls succeed.
    Conflict,
}

/// Chooses the fault of a call.
pub type FaultFn = Box<dyn Fn(StoreMethod) -> Fault + Send + Sync>;

/// Reads the clock of a database server.
pub type DatabaseClockFn = Box<dyn Fn() -> Timestamp + Send + Sync>;

/// A store that injects faults into calls to another store.
pub struct FaultyStore<S> {
    inner: Arc<S>,
    fault_fn: FaultFn,
    database_clock: Option<DatabaseClockFn>,
}

impl<S> FaultyStore<S> {
    pub fn new(inner: S, fault_fn: FaultFn) -> Self {
        Self::with_shared_store(Arc::new(inner), fault_fn)
    }

    /// Wraps a store that other wrappers share, each with different faults.
    pub fn with_shared_store(inner: Arc<S>, fault_fn: FaultFn) -> Self {
        Self { inner, fault_fn, database_clock: None }
    }

    /// Gives the store a clock of its own, as a database server has.
    #[must_use]
    pub fn with_database_clock(mut self, clock: DatabaseClockFn) -> Self {
        self.database_clock = Some(clock);
        self
    }

    /// The wrapped store.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns an error if the call fails before it reaches the store, otherwise the handling of
    /// its response.
    async fn inject_fault(&self, method: StoreMethod) -> Result<ResponseMode, StoreError> {
        match (self.fault_fn)(method) {
            Fault::None | Fault::Conflict => Ok(ResponseMode::Deliver),
            Fault::FailBefore => Err(StoreError::retry("failed on purpose, before the call")),
            Fault::Saturated => Err(saturated_error()),
            Fault::FailAfter => Ok(ResponseMode::Lose),
            Fault::Yield(turns) => {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                Ok(ResponseMode::Deliver)
            }
            Fault::Sleep(duration) => {
                tokio::time::sleep(duration).await;
                Ok(ResponseMode::Deliver)
            }
            Fault::Hang => std::future::pending().await,
        }
    }
}

impl<S: Store> FaultyStore<S> {
    async fn append_with_fault(
        &self,
        appends: Vec<AppendRequest>,
    ) -> Vec<Result<AppendReceipt, AppendError>> {
        let count = appends.len();
        match (self.fault_fn)(StoreMethod::AppendEvents) {
            Fault::None => self.inner.append_events(appends).await,
            Fault::FailBefore => {
                let error = StoreError::retry("failed on purpose, before the call");
                vec![Err(error.into()); count]
            }
            Fault::Saturated => vec![Err(saturated_error().into()); count],
            Fault::FailAfter => {
                self.inner.append_events(appends).await;
                vec![Err(lost_response_error().into()); count]
            }
            Fault::Yield(turns) => {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                self.inner.append_events(appends).await
            }
            Fault::Sleep(duration) => {
                tokio::time::sleep(duration).await;
                self.inner.append_events(appends).await
            }
            Fault::Hang => std::future::pending().await,
            Fault::Conflict => appends
                .iter()
                .map(|append| Err(AppendError::Conflict { actual: append.expected_head.version }))
                .collect(),
        }
    }
}

/// Handling of the response of a completed call.
enum ResponseMode {
    Deliver,
    Lose,
}

impl ResponseMode {
    fn apply_to<T, E: From<StoreError>>(self, result: Result<T, E>) -> Result<T, E> {
        match self {
            Self::Deliver => result,
            Self::Lose => Err(lost_response_error().into()),
        }
    }
}

fn saturated_error() -> StoreError {
    StoreError::retry(StoreSaturated(Duration::from_secs(30)))
}

fn lost_response_error() -> StoreError {
    StoreError::unknown_outcome("failed on purpose, after the call")
}

impl<S: fmt::Debug> fmt::Debug for FaultyStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// Implements the parts of a store by calling another store with faults, and lists their methods.
/// The first block of a part has methods that are not called through a fault.
macro_rules! faulty_store {
    ($($part:ident { $($item:item)* } {
        $($variant:ident: $method:ident($($arg:ident: $ty:ty),*) -> $result:ty;)+
    })+) => {
        /// A method of a store.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum StoreMethod {
            AppendEvents,
            DatabaseClock,
            $($($variant,)+)+
        }

        impl StoreMethod {
            /// All methods.
            pub const ALL: &'static [Self] = &[Self::AppendEvents, Self::DatabaseClock, $($(Self::$variant,)+)+];
        }

        $(
            #[async_trait]
            impl<S: Store> $part for FaultyStore<S> {
                $($item)*

                $(
                    async fn $method(&self, $($arg: $ty),*) -> $result {
                        let mode = self.inject_fault(StoreMethod::$variant).await?;
                        mode.apply_to(self.inner.$method($($arg),*).await)
                    }
                )+
            }
        )+
    };
}

faulty_store! {
    EventLog {
        async fn append_events(
            &self,
            appends: Vec<AppendRequest>,
        ) -> Vec<Result<AppendReceipt, AppendError>> {
            self.append_with_fault(appends).await
        }
    } {
        LoadExecution: load_execution(execution_id: ExecutionId, snapshot: &SnapshotKey, page: LogPageLimit)
            -> Result<Option<LoadedLog>, StoreError>;
        ReadEvents: read_events(execution_id: ExecutionId, after: ExecutionVersion, page: LogPageLimit)
            -> Result<Vec<StoredEvent>, StoreError>;
        ReadReplayRows: read_replay_rows(execution_id: ExecutionId, after: ExecutionVersion, page: LogPageLimit)
            -> Result<ReplayPage, StoreError>;
        FindEvent: find_event(execution_id: ExecutionId, event_id: EventId)
            -> Result<Option<StoredEvent>, StoreError>;
        ReadFeed: read_feed(after: FeedPosition, limit: FeedLimit) -> Result<FeedBatch, StoreError>;
        FindKnownEvents: find_known_events(events: Vec<EventKey>)
            -> Result<KnownEvents, StoreError>;
        ReadFeedMessages: read_feed_messages(after: FeedPosition, limit: FeedLimit)
            -> Result<FeedBatch<FeedItem>, StoreError>;
        FeedLag: feed_lag(after: FeedPosition) -> Result<FeedLag, StoreError>;
    }
    ExecutionStore {} {
        FindExecution: find_execution(execution_id: ExecutionId)
            -> Result<Option<Execution>, StoreError>;
        ListExecutions: list_executions(filter: ExecutionFilter)
            -> Result<ExecutionPage, StoreError>;
        ListExecutionIds: list_execution_ids(after: Option<ExecutionId>, limit: PageLimit)
            -> Result<Vec<ExecutionId>, StoreError>;
        TenantCounts: tenant_counts(tenant_id: &TenantId) -> Result<TenantCounts, StoreError>;
        CountExecutionsByStatus: count_executions_by_status() -> Result<StatusCounts, StoreError>;
        CountLiveExecutions: count_live_executions(tenant_id: &TenantId, max_count: u32)
            -> Result<u32, StoreError>;
        CountLiveDescendants: count_live_descendants(root: ExecutionId, max_count: u32)
            -> Result<u32, StoreError>;
        HasFollowUpOnPath: has_follow_up_on_path(parent: ExecutionId, child: ExecutionId, id_prefix: &Text)
            -> Result<bool, StoreError>;
        IsDropped: is_dropped(execution_id: ExecutionId) -> Result<bool, StoreError>;
        RewriteExecutionView: rewrite_execution_view(execution_id: ExecutionId, version: ExecutionVersion, view: ExecutionView)
            -> Result<bool, StoreError>;
        ListDueTimers: list_due_timers(now: Timestamp, after: Option<&DueTimer>, limit: PageLimit)
            -> Result<Vec<DueTimer>, StoreError>;
    }
    SnapshotStore {} {
        FindSnapshot: find_snapshot(execution_id: ExecutionId, key: &SnapshotKey, max_version: ExecutionVersion)
            -> Result<Option<Snapshot>, StoreError>;
        WriteSnapshot: write_snapshot(snapshot: Snapshot) -> Result<(), StoreError>;
        DeleteSnapshot: delete_snapshot(execution_id: ExecutionId, key: &SnapshotKey, version: ExecutionVersion)
            -> Result<(), StoreError>;
        PutResult: put_result(put: ResultPut) -> Result<(), PutResultError>;
        FindResult: find_result(execution_id: ExecutionId, result_id: ResultId)
            -> Result<Option<StoredResult>, StoreError>;
    }
    CommandQueue {} {
        LeaseCommands: lease_commands(request: LeaseRequest)
            -> Result<Vec<LeasedCommand>, StoreError>;
        TryLeaseCommand: try_lease_command(command_id: CommandId, terms: LeaseTerms)
            -> Result<Option<LeaseOutcome>, StoreError>;
        ExtendLeases: extend_leases(leases: Vec<Fence>, until: Timestamp)
            -> Result<Vec<LeaseExtension>, StoreError>;
        ReleaseLeases: release_leases(leases: Vec<LeaseRelease>) -> Result<Vec<bool>, StoreError>;
        ExpireWorkerLeases: expire_worker_leases(tenant_id: &TenantId, worker: &WorkerId, now: Timestamp)
            -> Result<u64, StoreError>;
    }
    CommandStore {} {
        ListExpiredLeases: list_expired_leases(now: Timestamp, limit: PageLimit)
            -> Result<Vec<Command>, StoreError>;
        BoundLeases: bound_leases(now: Timestamp, bounds: LeaseBounds) -> Result<u64, StoreError>;
        FindCommand: find_command(command_id: CommandId) -> Result<Option<Command>, StoreError>;
        ListCommands: list_commands(filter: CommandFilter) -> Result<CommandPage, StoreError>;
        PoolCounts: pool_counts() -> Result<Vec<PoolCount>, StoreError>;
    }
    CatalogStore {} {
        RegisterDefinition: register_definition(entry: NewCatalogEntry)
            -> Result<RegisterOutcome, StoreError>;
        FindCatalogEntry: find_catalog_entry(tenant_id: &TenantId, key: CatalogKey)
            -> Result<Option<CatalogEntry>, StoreError>;
        ListCatalog: list_catalog(filter: CatalogFilter) -> Result<Vec<CatalogEntry>, StoreError>;
        ListCatalogVersions: list_catalog_versions(filter: CatalogVersionFilter)
            -> Result<Vec<CatalogEntry>, StoreError>;
        SetDefinitionArchived: set_definition_archived(tenant_id: &TenantId, path: &PlaybookPath, since: Option<Timestamp>)
            -> Result<bool, StoreError>;
    }
    RuntimeStore {} {
        RegisterRuntime: register_runtime(runtime: RuntimeRegistration)
            -> Result<RegisteredRuntime, StoreError>;
        RecordHeartbeat: record_heartbeat(kind: RuntimeKind, name: &Text, now: Timestamp)
            -> Result<bool, StoreError>;
        ListRuntimes: list_runtimes(kind: RuntimeKind)
            -> Result<Vec<RegisteredRuntime>, StoreError>;
        RemoveRuntime: remove_runtime(kind: RuntimeKind, name: &Text) -> Result<bool, StoreError>;
        LeaseMachineId: lease_machine_id(request: MachineIdRequest)
            -> Result<MachineLease, MachineLeaseError>;
        RenewMachineLease: renew_machine_lease(renewal: MachineRenewal)
            -> Result<MachineLease, MachineLeaseError>;
    }
    CoordinationStore {} {
        ListWaits: list_waits(filter: WaitFilter) -> Result<Vec<OpenWait>, StoreError>;
        PutBroadcast: put_broadcast(signal: BroadcastSignal) -> Result<(), StoreError>;
        ListBroadcasts: list_broadcasts(filter: BroadcastFilter)
            -> Result<Vec<BroadcastSignal>, StoreError>;
        ListDueFollowUps: list_due_follow_ups(now: Timestamp, limit: PageLimit)
            -> Result<Vec<StoredFollowUp>, StoreError>;
        CompleteFollowUp: complete_follow_up(execution_id: ExecutionId, follow_up_id: &Text, outcome: FollowUpOutcome)
            -> Result<bool, StoreError>;
        GrantSlots: grant_slots(tenant_id: &TenantId, key: &MatchKey, now: Timestamp)
            -> Result<Vec<Slot>, StoreError>;
        ListSlots: list_slots(selector: SlotSelector, limit: PageLimit)
            -> Result<Vec<Slot>, StoreError>;
        ChangeSlots: change_slots(tenant_id: &TenantId, execution_id: ExecutionId, changes: Vec<SlotChange>)
            -> Result<(), StoreError>;
    }
    RequestStore {} {
        FindCachedResult: find_cached_result(tenant_id: &TenantId, scope: &MatchKey, key_sha256: Digest, now: Timestamp)
            -> Result<Option<CachedStepResult>, StoreError>;
        FindAnsweredRequest: find_answered_request(tenant_id: &TenantId, route: &Text, key_sha256: Digest, now: Timestamp)
            -> Result<Option<AnsweredRequest>, StoreError>;
        HasSeenMessage: has_seen_message(message: DedupReservation) -> Result<bool, StoreError>;
        ReserveRequest: reserve_request(reservation: RequestReservation)
            -> Result<ReserveOutcome, StoreError>;
        CompleteRequest: complete_request(key: RequestKey, work_id: EventId, outcome: RequestOutcome)
            -> Result<(), StoreError>;
        ReleaseRequests: release_requests(now: Timestamp) -> Result<u64, StoreError>;
        StoreAnswer: store_answer(tenant_id: &TenantId, execution_id: ExecutionId, record: IdempotencyRecord, now: Timestamp)
            -> Result<(), StoreError>;
        SetVars: set_vars(execution_id: ExecutionId, vars: Vec<ExecutionVar>)
            -> Result<(), SetVarsError>;
        ListVars: list_vars(execution_id: ExecutionId, name: Option<&Text>)
            -> Result<Vec<ExecutionVar>, StoreError>;
        DeleteVars: delete_vars(execution_id: ExecutionId, name: Option<&Text>)
            -> Result<u64, StoreError>;
    }
    CredentialStore {} {
        PutCredential: put_credential(put: CredentialPut) -> Result<bool, StoreError>;
        FindCredential: find_credential(tenant_id: &TenantId, key: &CredentialKey)
            -> Result<Option<Credential>, StoreError>;
        ListCredentials: list_credentials(filter: CredentialFilter, limit: PageLimit)
            -> Result<Vec<Credential>, StoreError>;
        DeleteCredential: delete_credential(tenant_id: &TenantId, credential_id: CredentialId)
            -> Result<bool, StoreError>;
    }
    KeychainStore {} {
        PutKeychainEntry: put_keychain_entry(put: KeychainPut) -> Result<bool, StoreError>;
        FindKeychainEntry: find_keychain_entry(tenant_id: &TenantId, cache_key: &str)
            -> Result<Option<KeychainEntry>, StoreError>;
        ListKeychainEntries: list_keychain_entries(filter: KeychainFilter, limit: PageLimit)
            -> Result<Vec<KeychainEntry>, StoreError>;
        DeleteKeychainEntry: delete_keychain_entry(tenant_id: &TenantId, cache_key: &str)
            -> Result<bool, StoreError>;
        CountSecretsByKey: count_secrets_by_key() -> Result<KeyCounts, StoreError>;
        GetOrInitKeyCheck: get_or_init_key_check(fresh: Option<Text>)
            -> Result<Option<Text>, StoreError>;
        ReplaceKeyCheck: replace_key_check(old: Text, new: Text) -> Result<bool, StoreError>;
    }
    IdentityStore {} {
        PutToken: put_token(token: ApiToken) -> Result<bool, StoreError>;
        PutFirstToken: put_first_token(token: ApiToken) -> Result<bool, StoreError>;
        FindToken: find_token(prefix: &Text) -> Result<Option<ApiToken>, StoreError>;
        ListTokens: list_tokens(tenant_id: &TenantId, after: Option<TokenId>, limit: PageLimit)
            -> Result<Vec<ApiToken>, StoreError>;
        ListAllTokens: list_all_tokens(after: Option<TokenId>, limit: PageLimit)
            -> Result<Vec<ApiToken>, StoreError>;
        SealToken: seal_token(token_id: TokenId, revoked_at: Option<Timestamp>, seal: Digest)
            -> Result<bool, StoreError>;
        RevokeToken: revoke_token(tenant_id: &TenantId, token_id: TokenId, now: Timestamp, seal: Option<Digest>)
            -> Result<Option<ApiToken>, StoreError>;
        RecordTokenUse: record_token_use(token_id: TokenId, now: Timestamp)
            -> Result<(), StoreError>;
        GetOrInitSharedSecret: get_or_init_shared_secret(fresh: Text) -> Result<Text, StoreError>;
        AppendAuditLog: append_audit_log(entries: Vec<NewAuditEntry>) -> Result<(), StoreError>;
        ListAuditEntries: list_audit_entries(tenant_id: &TenantId, before: Option<i64>, limit: PageLimit)
            -> Result<Vec<AuditEntry>, StoreError>;
        ListSecretAuditEntries: list_secret_audit_entries(filter: SecretAuditFilter, limit: PageLimit)
            -> Result<Vec<AuditEntry>, StoreError>;
    }
    OutboxQueue {} {
        ClaimOutbox: claim_outbox(claim: OutboxClaim) -> Result<ClaimedBatch, StoreError>;
        MarkPublished: mark_published(marks: Vec<OutboxMark>, now: Timestamp)
            -> Result<u64, StoreError>;
    }
    OutboxStore {} {
        IsOutboxEnabled: is_outbox_enabled() -> Result<Option<bool>, StoreError>;
        RecordOutboxEnabled: record_outbox_enabled(is_enabled: bool, may_change: bool)
            -> Result<bool, StoreError>;
        MarkFailed: mark_failed(failure: OutboxFailure)
            -> Result<Option<FailureOutcome>, StoreError>;
        CountClaimableOutboxRows: count_claimable_outbox_rows(now: Timestamp)
            -> Result<u64, StoreError>;
        ListOutboxRows: list_outbox_rows(filter: OutboxFilter)
            -> Result<Vec<OutboxRow>, StoreError>;
        OutboxStats: outbox_stats() -> Result<OutboxStats, StoreError>;
        NewestOutboxRowAt: newest_outbox_row_at() -> Result<Option<Timestamp>, StoreError>;
        RequeueOutboxRows: requeue_outbox_rows(rows: Vec<OutboxId>, now: Timestamp)
            -> Result<u64, StoreError>;
        DiscardOutboxRows: discard_outbox_rows(rows: Vec<OutboxId>, now: Timestamp)
            -> Result<u64, StoreError>;
        CountOldOutboxRows: count_old_outbox_rows(before: Timestamp) -> Result<u64, StoreError>;
        PurgeOutboxRows: purge_outbox_rows(before: Timestamp, limit: PageLimit)
            -> Result<u64, StoreError>;
        QuarantineItems: quarantine_items(items: Vec<QuarantinedItem>) -> Result<(), StoreError>;
        ListQuarantinedItems: list_quarantined_items(filter: QuarantineFilter)
            -> Result<Vec<QuarantinedItem>, StoreError>;
        PurgeQuarantinedItems: purge_quarantined_items(before: Timestamp, limit: PageLimit)
            -> Result<u64, StoreError>;
    }
    TaskOutputStore {} {
        AppendOutput: append_output(output: NewTaskOutput)
            -> Result<TaskOutputOutcome, StoreError>;
        ListOutput: list_output(filter: OutputFilter) -> Result<Vec<OutputChunk>, StoreError>;
    }
    StreamCursorStore {} {
        LogEpoch: log_epoch() -> Result<LogEpoch, StoreError>;
        StartLogEpoch: start_log_epoch() -> Result<LogEpoch, StoreError>;
        LeaseStream: lease_stream(request: StreamLeaseRequest)
            -> Result<StreamLeaseOutcome, StoreError>;
        RenewStreamLease: renew_stream_lease(owner: StreamOwner, lease_until: Timestamp)
            -> Result<bool, StoreError>;
        MoveStreamCursor: move_stream_cursor(owner: StreamOwner, to: CursorMove)
            -> Result<bool, StoreError>;
        ReleaseStreamLease: release_stream_lease(owner: StreamOwner) -> Result<bool, StoreError>;
        FindStreamCursor: find_stream_cursor(name: &Text)
            -> Result<Option<StreamCursor>, StoreError>;
        LastDroppedPosition: last_dropped_position() -> Result<i64, StoreError>;
    }
    ExpiryStore {} {
        CountOldCommands: count_old_commands(before: Timestamp) -> Result<u64, StoreError>;
        PurgeCommands: purge_commands(before: Timestamp, limit: PageLimit)
            -> Result<u64, StoreError>;
        CountOldRuntimes: count_old_runtimes(before: Timestamp) -> Result<u64, StoreError>;
        PurgeRuntimes: purge_runtimes(before: Timestamp, limit: PageLimit)
            -> Result<u64, StoreError>;
        DeleteExpired: delete_expired(target: GcTarget, now: Timestamp, limit: PageLimit)
            -> Result<u64, StoreError>;
    }
    StatsStore {} {
        StoreStats: store_stats() -> Result<StoreStats, StoreError>;
        CountTenantRows: count_tenant_rows(tenant_id: &TenantId, table: TenantTable, max_count: u32)
            -> Result<u32, StoreError>;
        CheckTables: check_tables() -> Result<BTreeMap<&'static str, bool>, StoreError>;
    }
    MaintenanceStore {
        async fn database_clock(&self) -> Result<Option<Timestamp>, StoreError> {
            let mode = self.inject_fault(StoreMethod::DatabaseClock).await?;
            mode.apply_to(match &self.database_clock {
                Some(clock) => Ok(Some(clock())),
                None => self.inner.database_clock().await,
            })
        }
    } {
        EnsureLogPartitions: ensure_log_partitions(now: Timestamp, months_ahead: u32)
            -> Result<(), StoreError>;
        LogPartitionsUntil: log_partitions_until() -> Result<Option<Timestamp>, StoreError>;
        ListOldPartitions: list_old_partitions(before: Timestamp, publishers: &EnabledPublishers)
            -> Result<Vec<OldPartition>, StoreError>;
        DropPartition: drop_partition(partition: &LogPartition, publishers: &EnabledPublishers, now: Timestamp)
            -> Result<Option<PinReason>, StoreError>;
        PurgeDroppedExecutions: purge_dropped_executions(now: Timestamp, limit: PageLimit)
            -> Result<u64, StoreError>;
        ListFailedPrivilegeChecks: list_failed_privilege_checks()
            -> Result<Vec<FailedPrivilegeCheck>, StoreError>;
        CheckIntegrity: check_integrity() -> Result<Vec<String>, StoreError>;
        WriteBackup: write_backup(to: &Path) -> Result<(), StoreError>;
    }
    VerificationStore {} {
        ListLoggedExecutions: list_logged_executions(after: Option<ExecutionId>, limit: PageLimit)
            -> Result<Vec<ExecutionId>, StoreError>;
        ListWronglyEnded: list_wrongly_ended(after: Option<ExecutionId>, limit: PageLimit)
            -> Result<Vec<ExecutionId>, StoreError>;
        ListSnapshotVersions: list_snapshot_versions(execution_id: ExecutionId)
            -> Result<Vec<(SnapshotKey, ExecutionVersion)>, StoreError>;
        ListExecutionCommands: list_execution_commands(execution_id: ExecutionId, after: Option<CommandId>, limit: PageLimit)
            -> Result<Vec<Command>, StoreError>;
        ListExecutionTimers: list_execution_timers(execution_id: ExecutionId, after: &Text, limit: PageLimit)
            -> Result<Vec<DueTimer>, StoreError>;
        ListResultIds: list_result_ids(execution_id: ExecutionId, after: Option<ResultId>, limit: PageLimit)
            -> Result<Vec<ResultId>, StoreError>;
        ListAllDefinitions: list_all_definitions(after: Option<CatalogId>, limit: PageLimit)
            -> Result<Vec<CatalogEntry>, StoreError>;
    }
    AnchorStore {} {
        AppendAnchor: append_anchor(anchor: AnchorRow) -> Result<bool, StoreError>;
        NewestAnchor: newest_anchor() -> Result<Option<AnchorRow>, StoreError>;
        ListAnchors: list_anchors(after: i64, limit: PageLimit)
            -> Result<Vec<AnchorRow>, StoreError>;
        ListChangedExecutions: list_changed_executions(after: FeedPosition, limit: PageLimit)
            -> Result<ChangedExecutions, StoreError>;
        FindChainLink: find_chain_link(execution_id: ExecutionId, seq: Seq)
            -> Result<Option<ChainHash>, StoreError>;
        ListAuditHeads: list_audit_heads(after: Option<&TenantId>, limit: PageLimit)
            -> Result<Vec<AuditHead>, StoreError>;
        FindAuditLink: find_audit_link(tenant_id: &TenantId, seq: i64)
            -> Result<Option<Digest>, StoreError>;
        ListDroppedRanges: list_dropped_ranges() -> Result<Vec<DroppedRange>, StoreError>;
    }
    Store {} {
        OpenNotifyChannel: open_notify_channel() -> Result<Option<Box<dyn NotifyChannel>>, StoreError>;
    }
}
