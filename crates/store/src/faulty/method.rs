//! Names of the store methods.

/// A method of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreMethod {
    /// [`crate::Store::append_events`]
    AppendEvents,
    /// [`crate::Store::load_execution`]
    LoadExecution,
    /// [`crate::Store::read_events`]
    ReadEvents,
    /// [`crate::Store::read_replay_rows`]
    ReadReplayRows,
    /// [`crate::Store::find_event`]
    FindEvent,
    /// [`crate::Store::find_snapshot`]
    FindSnapshot,
    /// [`crate::Store::write_snapshot`]
    WriteSnapshot,
    /// [`crate::Store::delete_snapshot`]
    DeleteSnapshot,
    /// [`crate::Store::put_result`]
    PutResult,
    /// [`crate::Store::find_result`]
    FindResult,
    /// [`crate::Store::read_feed`]
    ReadFeed,
    /// [`crate::Store::find_execution`]
    FindExecution,
    /// [`crate::Store::list_executions`]
    ListExecutions,
    /// [`crate::Store::list_open_children`]
    ListOpenChildren,
    /// [`crate::Store::tenant_counts`]
    TenantCounts,
    /// [`crate::Store::count_executions_by_status`]
    CountExecutionsByStatus,
    /// [`crate::Store::count_live_executions`]
    CountLiveExecutions,
    /// [`crate::Store::is_dropped`]
    IsDropped,
    /// [`crate::Store::lease_commands`]
    LeaseCommands,
    /// [`crate::Store::try_lease_command`]
    TryLeaseCommand,
    /// [`crate::Store::extend_leases`]
    ExtendLeases,
    /// [`crate::Store::release_leases`]
    ReleaseLeases,
    /// [`crate::Store::list_expired_leases`]
    ListExpiredLeases,
    /// [`crate::Store::find_command`]
    FindCommand,
    /// [`crate::Store::list_commands`]
    ListCommands,
    /// [`crate::Store::expire_worker_leases`]
    ExpireWorkerLeases,
    /// [`crate::Store::pool_counts`]
    PoolCounts,
    /// [`crate::Store::list_due_timers`]
    ListDueTimers,
    /// [`crate::Store::register_definition`]
    RegisterDefinition,
    /// [`crate::Store::find_catalog_entry`]
    FindCatalogEntry,
    /// [`crate::Store::list_catalog`]
    ListCatalog,
    /// [`crate::Store::list_catalog_versions`]
    ListCatalogVersions,
    /// [`crate::Store::set_definition_archived`]
    SetDefinitionArchived,
    /// [`crate::Store::register_runtime`]
    RegisterRuntime,
    /// [`crate::Store::record_heartbeat`]
    RecordHeartbeat,
    /// [`crate::Store::list_runtimes`]
    ListRuntimes,
    /// [`crate::Store::remove_runtime`]
    RemoveRuntime,
    /// [`crate::Store::lease_machine_id`]
    LeaseMachineId,
    /// [`crate::Store::renew_machine_lease`]
    RenewMachineLease,
    /// [`crate::Store::open_notify_channel`]
    OpenNotifyChannel,
    /// [`crate::CoordinationStore::list_waits`]
    ListWaits,
    /// [`crate::CoordinationStore::put_broadcast`]
    PutBroadcast,
    /// [`crate::CoordinationStore::list_broadcasts`]
    ListBroadcasts,
    /// [`crate::CoordinationStore::list_due_follow_ups`]
    ListDueFollowUps,
    /// [`crate::CoordinationStore::complete_follow_up`]
    CompleteFollowUp,
    /// [`crate::CoordinationStore::grant_slots`]
    GrantSlots,
    /// [`crate::CoordinationStore::list_slots`]
    ListSlots,
    /// [`crate::CoordinationStore::change_slots`]
    ChangeSlots,
    /// [`crate::CoordinationStore::find_cached_result`]
    FindCachedResult,
    /// [`crate::CoordinationStore::find_answered_request`]
    FindAnsweredRequest,
    /// [`crate::CoordinationStore::has_seen_message`]
    HasSeenMessage,
    /// [`crate::CoordinationStore::reserve_request`]
    ReserveRequest,
    /// [`crate::CoordinationStore::complete_request`]
    CompleteRequest,
    /// [`crate::CoordinationStore::set_vars`]
    SetVars,
    /// [`crate::CoordinationStore::list_vars`]
    ListVars,
    /// [`crate::CoordinationStore::delete_vars`]
    DeleteVars,
    /// [`crate::CoordinationStore::delete_expired`]
    DeleteExpired,
    /// [`crate::CredentialStore::put_credential`]
    PutCredential,
    /// [`crate::CredentialStore::find_credential`]
    FindCredential,
    /// [`crate::CredentialStore::list_credentials`]
    ListCredentials,
    /// [`crate::CredentialStore::delete_credential`]
    DeleteCredential,
    /// [`crate::KeychainStore::put_keychain_entry`]
    PutKeychainEntry,
    /// [`crate::KeychainStore::find_keychain_entry`]
    FindKeychainEntry,
    /// [`crate::KeychainStore::list_keychain_entries`]
    ListKeychainEntries,
    /// [`crate::KeychainStore::delete_keychain_entry`]
    DeleteKeychainEntry,
    /// [`crate::KeychainStore::count_secrets_by_key`]
    CountSecretsByKey,
    /// [`crate::PublishingStore::claim_outbox`]
    ClaimOutbox,
    /// [`crate::PublishingStore::mark_published`]
    MarkPublished,
    /// [`crate::PublishingStore::mark_failed`]
    MarkFailed,
    /// [`crate::PublishingStore::count_claimable_outbox_rows`]
    CountClaimableOutboxRows,
    /// [`crate::PublishingStore::list_outbox_rows`]
    ListOutboxRows,
    /// [`crate::PublishingStore::outbox_stats`]
    OutboxStats,
    /// [`crate::PublishingStore::newest_outbox_row_at`]
    NewestOutboxRowAt,
    /// [`crate::PublishingStore::requeue_outbox_rows`]
    RequeueOutboxRows,
    /// [`crate::PublishingStore::discard_outbox_rows`]
    DiscardOutboxRows,
    /// [`crate::PublishingStore::count_old_outbox_rows`]
    CountOldOutboxRows,
    /// [`crate::PublishingStore::purge_outbox_rows`]
    PurgeOutboxRows,
    /// [`crate::PublishingStore::find_known_events`]
    FindKnownEvents,
    /// [`crate::PublishingStore::quarantine_items`]
    QuarantineItems,
    /// [`crate::PublishingStore::list_quarantined_items`]
    ListQuarantinedItems,
    /// [`crate::PublishingStore::purge_quarantined_items`]
    PurgeQuarantinedItems,
    /// [`crate::PublishingStore::log_epoch`]
    LogEpoch,
    /// [`crate::PublishingStore::start_log_epoch`]
    StartLogEpoch,
    /// [`crate::PublishingStore::lease_stream`]
    LeaseStream,
    /// [`crate::PublishingStore::renew_stream_lease`]
    RenewStreamLease,
    /// [`crate::PublishingStore::move_stream_cursor`]
    MoveStreamCursor,
    /// [`crate::PublishingStore::release_stream_lease`]
    ReleaseStreamLease,
    /// [`crate::PublishingStore::find_stream_cursor`]
    FindStreamCursor,
    /// [`crate::PublishingStore::last_dropped_position`]
    LastDroppedPosition,
    /// [`crate::PublishingStore::read_feed_messages`]
    ReadFeedMessages,
    /// [`crate::PublishingStore::feed_lag`]
    FeedLag,
    /// [`crate::MaintenanceStore::ensure_log_partitions`]
    EnsureLogPartitions,
    /// [`crate::MaintenanceStore::log_partitions_until`]
    LogPartitionsUntil,
    /// [`crate::MaintenanceStore::database_clock`]
    DatabaseClock,
    /// [`crate::MaintenanceStore::list_old_partitions`]
    ListOldPartitions,
    /// [`crate::MaintenanceStore::drop_partition`]
    DropPartition,
    /// [`crate::MaintenanceStore::purge_dropped_executions`]
    PurgeDroppedExecutions,
    /// [`crate::MaintenanceStore::count_old_commands`]
    CountOldCommands,
    /// [`crate::MaintenanceStore::purge_commands`]
    PurgeCommands,
    /// [`crate::MaintenanceStore::count_old_runtimes`]
    CountOldRuntimes,
    /// [`crate::MaintenanceStore::purge_runtimes`]
    PurgeRuntimes,
    /// [`crate::MaintenanceStore::rewrite_execution_view`]
    RewriteExecutionView,
    /// [`crate::MaintenanceStore::store_stats`]
    StoreStats,
    /// [`crate::MaintenanceStore::check_tables`]
    CheckTables,
    /// [`crate::MaintenanceStore::list_failed_privilege_checks`]
    ListFailedPrivilegeChecks,
    /// [`crate::MaintenanceStore::check_integrity`]
    CheckIntegrity,
    /// [`crate::MaintenanceStore::list_execution_ids`]
    ListExecutionIds,
    /// [`crate::MaintenanceStore::write_backup`]
    WriteBackup,
    /// [`crate::IdentityStore::put_token`]
    PutToken,
    /// [`crate::IdentityStore::put_first_token`]
    PutFirstToken,
    /// [`crate::IdentityStore::find_token`]
    FindToken,
    /// [`crate::IdentityStore::list_tokens`]
    ListTokens,
    /// [`crate::IdentityStore::revoke_token`]
    RevokeToken,
    /// [`crate::IdentityStore::record_token_use`]
    RecordTokenUse,
    /// [`crate::IdentityStore::get_or_init_shared_secret`]
    GetOrInitSharedSecret,
    /// [`crate::IdentityStore::append_audit_log`]
    AppendAuditLog,
    /// [`crate::IdentityStore::list_audit_entries`]
    ListAuditEntries,
    /// [`crate::IdentityStore::list_secret_audit_entries`]
    ListSecretAuditEntries,
}

impl StoreMethod {
    /// All methods in the order of their declaration.
    pub const ALL: &'static [Self] = &[
        Self::AppendEvents,
        Self::LoadExecution,
        Self::ReadEvents,
        Self::ReadReplayRows,
        Self::FindEvent,
        Self::FindSnapshot,
        Self::WriteSnapshot,
        Self::DeleteSnapshot,
        Self::PutResult,
        Self::FindResult,
        Self::ReadFeed,
        Self::FindExecution,
        Self::ListExecutions,
        Self::ListOpenChildren,
        Self::TenantCounts,
        Self::CountExecutionsByStatus,
        Self::CountLiveExecutions,
        Self::IsDropped,
        Self::LeaseCommands,
        Self::TryLeaseCommand,
        Self::ExtendLeases,
        Self::ReleaseLeases,
        Self::ListExpiredLeases,
        Self::FindCommand,
        Self::ListCommands,
        Self::ExpireWorkerLeases,
        Self::PoolCounts,
        Self::ListDueTimers,
        Self::RegisterDefinition,
        Self::FindCatalogEntry,
        Self::ListCatalog,
        Self::ListCatalogVersions,
        Self::SetDefinitionArchived,
        Self::RegisterRuntime,
        Self::RecordHeartbeat,
        Self::ListRuntimes,
        Self::RemoveRuntime,
        Self::LeaseMachineId,
        Self::RenewMachineLease,
        Self::OpenNotifyChannel,
        Self::ListWaits,
        Self::PutBroadcast,
        Self::ListBroadcasts,
        Self::ListDueFollowUps,
        Self::CompleteFollowUp,
        Self::GrantSlots,
        Self::ListSlots,
        Self::ChangeSlots,
        Self::FindCachedResult,
        Self::FindAnsweredRequest,
        Self::HasSeenMessage,
        Self::ReserveRequest,
        Self::CompleteRequest,
        Self::SetVars,
        Self::ListVars,
        Self::DeleteVars,
        Self::DeleteExpired,
        Self::PutCredential,
        Self::FindCredential,
        Self::ListCredentials,
        Self::DeleteCredential,
        Self::PutKeychainEntry,
        Self::FindKeychainEntry,
        Self::ListKeychainEntries,
        Self::DeleteKeychainEntry,
        Self::CountSecretsByKey,
        Self::ClaimOutbox,
        Self::MarkPublished,
        Self::MarkFailed,
        Self::CountClaimableOutboxRows,
        Self::ListOutboxRows,
        Self::OutboxStats,
        Self::NewestOutboxRowAt,
        Self::RequeueOutboxRows,
        Self::DiscardOutboxRows,
        Self::CountOldOutboxRows,
        Self::PurgeOutboxRows,
        Self::FindKnownEvents,
        Self::QuarantineItems,
        Self::ListQuarantinedItems,
        Self::PurgeQuarantinedItems,
        Self::LogEpoch,
        Self::StartLogEpoch,
        Self::LeaseStream,
        Self::RenewStreamLease,
        Self::MoveStreamCursor,
        Self::ReleaseStreamLease,
        Self::FindStreamCursor,
        Self::LastDroppedPosition,
        Self::ReadFeedMessages,
        Self::FeedLag,
        Self::EnsureLogPartitions,
        Self::LogPartitionsUntil,
        Self::DatabaseClock,
        Self::ListOldPartitions,
        Self::DropPartition,
        Self::PurgeDroppedExecutions,
        Self::CountOldCommands,
        Self::PurgeCommands,
        Self::CountOldRuntimes,
        Self::PurgeRuntimes,
        Self::RewriteExecutionView,
        Self::StoreStats,
        Self::CheckTables,
        Self::ListFailedPrivilegeChecks,
        Self::CheckIntegrity,
        Self::ListExecutionIds,
        Self::WriteBackup,
        Self::PutToken,
        Self::PutFirstToken,
        Self::FindToken,
        Self::ListTokens,
        Self::RevokeToken,
        Self::RecordTokenUse,
        Self::GetOrInitSharedSecret,
        Self::AppendAuditLog,
        Self::ListAuditEntries,
        Self::ListSecretAuditEntries,
    ];
}
