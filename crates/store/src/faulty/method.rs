//! The methods of a store, by name.

/// The methods of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// [`crate::Store::append`]
    Append,
    /// [`crate::Store::load`]
    Load,
    /// [`crate::Store::events`]
    Events,
    /// [`crate::Store::gists`]
    Gists,
    /// [`crate::Store::event`]
    Event,
    /// [`crate::Store::snapshot`]
    Snapshot,
    /// [`crate::Store::write_snapshot`]
    WriteSnapshot,
    /// [`crate::Store::drop_snapshot`]
    DropSnapshot,
    /// [`crate::Store::put_result`]
    PutResult,
    /// [`crate::Store::result`]
    Result,
    /// [`crate::Store::feed`]
    Feed,
    /// [`crate::Store::execution`]
    Execution,
    /// [`crate::Store::executions`]
    Executions,
    /// [`crate::Store::open_children`]
    OpenChildren,
    /// [`crate::Store::counts`]
    Counts,
    /// [`crate::Store::executions_by_status`]
    ExecutionsByStatus,
    /// [`crate::Store::live_executions`]
    LiveExecutions,
    /// [`crate::Store::is_gone`]
    IsGone,
    /// [`crate::Store::lease`]
    Lease,
    /// [`crate::Store::claim`]
    Claim,
    /// [`crate::Store::extend`]
    Extend,
    /// [`crate::Store::release`]
    Release,
    /// [`crate::Store::expired`]
    Expired,
    /// [`crate::Store::command`]
    Command,
    /// [`crate::Store::commands`]
    Commands,
    /// [`crate::Store::release_worker`]
    ReleaseWorker,
    /// [`crate::Store::pool_counts`]
    PoolCounts,
    /// [`crate::Store::due`]
    Due,
    /// [`crate::Store::register`]
    Register,
    /// [`crate::Store::catalog_entry`]
    CatalogEntry,
    /// [`crate::Store::catalog`]
    Catalog,
    /// [`crate::Store::catalog_versions`]
    CatalogVersions,
    /// [`crate::Store::archive`]
    Archive,
    /// [`crate::Store::register_runtime`]
    RegisterRuntime,
    /// [`crate::Store::heartbeat`]
    Heartbeat,
    /// [`crate::Store::runtimes`]
    Runtimes,
    /// [`crate::Store::remove_runtime`]
    RemoveRuntime,
    /// [`crate::Store::lease_machine`]
    LeaseMachine,
    /// [`crate::Store::renew_machine`]
    RenewMachine,
    /// [`crate::Store::line`]
    Line,
    /// [`crate::Commons::waits`]
    Waits,
    /// [`crate::Commons::broadcast`]
    Broadcast,
    /// [`crate::Commons::broadcasts`]
    Broadcasts,
    /// [`crate::Commons::errands`]
    Errands,
    /// [`crate::Commons::settle_errand`]
    SettleErrand,
    /// [`crate::Commons::grant_slots`]
    GrantSlots,
    /// [`crate::Commons::slots`]
    Slots,
    /// [`crate::Commons::change_slots`]
    ChangeSlots,
    /// [`crate::Commons::cached`]
    Cached,
    /// [`crate::Commons::answered`]
    Answered,
    /// [`crate::Commons::has_seen`]
    HasSeen,
    /// [`crate::Commons::take_request`]
    TakeRequest,
    /// [`crate::Commons::settle_request`]
    SettleRequest,
    /// [`crate::Commons::set_vars`]
    SetVars,
    /// [`crate::Commons::vars`]
    Vars,
    /// [`crate::Commons::delete_vars`]
    DeleteVars,
    /// [`crate::Commons::sweep`]
    Sweep,
    /// [`crate::Credentials::put_credential`]
    PutCredential,
    /// [`crate::Credentials::credential`]
    Credential,
    /// [`crate::Credentials::credentials`]
    Credentials,
    /// [`crate::Credentials::delete_credential`]
    DeleteCredential,
    /// [`crate::Keychain::put_keychain`]
    PutKeychain,
    /// [`crate::Keychain::keychain_entry`]
    KeychainEntry,
    /// [`crate::Keychain::keychain_entries`]
    KeychainEntries,
    /// [`crate::Keychain::delete_keychain`]
    DeleteKeychain,
    /// [`crate::Keychain::key_counts`]
    KeyCounts,
    /// [`crate::Outlets::claim_outbox`]
    ClaimOutbox,
    /// [`crate::Outlets::mark_published`]
    MarkPublished,
    /// [`crate::Outlets::mark_failed`]
    MarkFailed,
    /// [`crate::Outlets::outbox_pending`]
    OutboxPending,
    /// [`crate::Outlets::outbox`]
    Outbox,
    /// [`crate::Outlets::outbox_facts`]
    OutboxFacts,
    /// [`crate::Outlets::newest_outbox`]
    NewestOutbox,
    /// [`crate::Outlets::replay_outbox`]
    ReplayOutbox,
    /// [`crate::Outlets::discard_outbox`]
    DiscardOutbox,
    /// [`crate::Outlets::old_outbox`]
    OldOutbox,
    /// [`crate::Outlets::purge_outbox`]
    PurgeOutbox,
    /// [`crate::Outlets::known`]
    Known,
    /// [`crate::Outlets::quarantine`]
    Quarantine,
    /// [`crate::Outlets::quarantined`]
    Quarantined,
    /// [`crate::Outlets::purge_quarantine`]
    PurgeQuarantine,
    /// [`crate::Outlets::log_epoch`]
    LogEpoch,
    /// [`crate::Outlets::begin_log_epoch`]
    BeginLogEpoch,
    /// [`crate::Outlets::take_stream`]
    TakeStream,
    /// [`crate::Outlets::renew_stream`]
    RenewStream,
    /// [`crate::Outlets::move_stream`]
    MoveStream,
    /// [`crate::Outlets::release_stream`]
    ReleaseStream,
    /// [`crate::Outlets::stream_cursor`]
    StreamCursor,
    /// [`crate::Outlets::last_dropped`]
    LastDropped,
    /// [`crate::Outlets::messages`]
    Messages,
    /// [`crate::Outlets::feed_lag`]
    FeedLag,
    /// [`crate::Upkeep::keep_months`]
    KeepMonths,
    /// [`crate::Upkeep::months_until`]
    MonthsUntil,
    /// [`crate::Upkeep::clock`]
    Clock,
    /// [`crate::Upkeep::old_parts`]
    OldParts,
    /// [`crate::Upkeep::drop_part`]
    DropPart,
    /// [`crate::Upkeep::clean_dropped`]
    CleanDropped,
    /// [`crate::Upkeep::old_commands`]
    OldCommands,
    /// [`crate::Upkeep::purge_commands`]
    PurgeCommands,
    /// [`crate::Upkeep::old_runtimes`]
    OldRuntimes,
    /// [`crate::Upkeep::purge_runtimes`]
    PurgeRuntimes,
    /// [`crate::Upkeep::rewrite_view`]
    RewriteView,
    /// [`crate::Upkeep::facts`]
    Facts,
    /// [`crate::Upkeep::tables`]
    Tables,
    /// [`crate::Upkeep::missing_walls`]
    MissingWalls,
    /// [`crate::Upkeep::integrity`]
    Integrity,
    /// [`crate::Upkeep::execution_ids`]
    ExecutionIds,
    /// [`crate::Upkeep::backup`]
    Backup,
    /// [`crate::Vault::put_token`]
    PutToken,
    /// [`crate::Vault::put_first_token`]
    PutFirstToken,
    /// [`crate::Vault::token`]
    Token,
    /// [`crate::Vault::tokens`]
    Tokens,
    /// [`crate::Vault::revoke_token`]
    RevokeToken,
    /// [`crate::Vault::touch_token`]
    TouchToken,
    /// [`crate::Vault::common_secret`]
    CommonSecret,
    /// [`crate::Vault::audit`]
    Audit,
    /// [`crate::Vault::audits`]
    Audits,
    /// [`crate::Vault::secret_acts`]
    SecretActs,
}

impl Method {
    /// Every method.
    pub const ALL: &'static [Self] = &[
        Self::Append,
        Self::Load,
        Self::Events,
        Self::Gists,
        Self::Event,
        Self::Snapshot,
        Self::WriteSnapshot,
        Self::DropSnapshot,
        Self::PutResult,
        Self::Result,
        Self::Feed,
        Self::Execution,
        Self::Executions,
        Self::OpenChildren,
        Self::Counts,
        Self::ExecutionsByStatus,
        Self::LiveExecutions,
        Self::IsGone,
        Self::Lease,
        Self::Claim,
        Self::Extend,
        Self::Release,
        Self::Expired,
        Self::Command,
        Self::Commands,
        Self::ReleaseWorker,
        Self::PoolCounts,
        Self::Due,
        Self::Register,
        Self::CatalogEntry,
        Self::Catalog,
        Self::CatalogVersions,
        Self::Archive,
        Self::RegisterRuntime,
        Self::Heartbeat,
        Self::Runtimes,
        Self::RemoveRuntime,
        Self::LeaseMachine,
        Self::RenewMachine,
        Self::Line,
        Self::Waits,
        Self::Broadcast,
        Self::Broadcasts,
        Self::Errands,
        Self::SettleErrand,
        Self::GrantSlots,
        Self::Slots,
        Self::ChangeSlots,
        Self::Cached,
        Self::Answered,
        Self::HasSeen,
        Self::TakeRequest,
        Self::SettleRequest,
        Self::SetVars,
        Self::Vars,
        Self::DeleteVars,
        Self::Sweep,
        Self::PutCredential,
        Self::Credential,
        Self::Credentials,
        Self::DeleteCredential,
        Self::PutKeychain,
        Self::KeychainEntry,
        Self::KeychainEntries,
        Self::DeleteKeychain,
        Self::KeyCounts,
        Self::ClaimOutbox,
        Self::MarkPublished,
        Self::MarkFailed,
        Self::OutboxPending,
        Self::Outbox,
        Self::OutboxFacts,
        Self::NewestOutbox,
        Self::ReplayOutbox,
        Self::DiscardOutbox,
        Self::OldOutbox,
        Self::PurgeOutbox,
        Self::Known,
        Self::Quarantine,
        Self::Quarantined,
        Self::PurgeQuarantine,
        Self::LogEpoch,
        Self::BeginLogEpoch,
        Self::TakeStream,
        Self::RenewStream,
        Self::MoveStream,
        Self::ReleaseStream,
        Self::StreamCursor,
        Self::LastDropped,
        Self::Messages,
        Self::FeedLag,
        Self::KeepMonths,
        Self::MonthsUntil,
        Self::Clock,
        Self::OldParts,
        Self::DropPart,
        Self::CleanDropped,
        Self::OldCommands,
        Self::PurgeCommands,
        Self::OldRuntimes,
        Self::PurgeRuntimes,
        Self::RewriteView,
        Self::Facts,
        Self::Tables,
        Self::MissingWalls,
        Self::Integrity,
        Self::ExecutionIds,
        Self::Backup,
        Self::PutToken,
        Self::PutFirstToken,
        Self::Token,
        Self::Tokens,
        Self::RevokeToken,
        Self::TouchToken,
        Self::CommonSecret,
        Self::Audit,
        Self::Audits,
        Self::SecretActs,
    ];
}
