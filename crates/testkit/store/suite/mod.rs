//! The test suite of all backends.
//!
//! Each case is a function of a [`StoreFixture`]. The macros at the end run all of them on a
//! backend. A case tests what a store guarantees, never how a backend implements it.

pub(crate) mod append;
pub(crate) mod cache_and_vars;
pub(crate) mod catalog;
pub(crate) mod credential;
pub(crate) mod damaged_rows;
pub(crate) mod dedup;
mod differential;
mod faults;
pub(crate) mod feed;
pub(crate) mod fixture;
mod history;
pub(crate) mod identities;
pub(crate) mod keychain;
pub(crate) mod lease;
pub(crate) mod lease_races;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod machine_ids;
pub(crate) mod outbox;
pub(crate) mod projection;
pub(crate) mod queue;
pub(crate) mod replay;
pub(crate) mod request_reservation;
pub(crate) mod result;
pub(crate) mod retention;
pub(crate) mod slot;
pub(crate) mod stream;
pub(crate) mod task_output;
pub(crate) mod values;
pub(crate) mod wait;

use std::pin::Pin;
use std::sync::Arc;

use noetl_types::{OutboxId, Timestamp};

use crate::Store;

pub(crate) use differential::{
    compare_concurrent_with_model, compare_with_model, compare_with_model_under_faults,
};

type UnitFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

type SetMessageId = Box<dyn Fn(OutboxId, &str) + Send + Sync>;

/// A backend under test.
pub(crate) struct StoreFixture {
    pub(crate) store: Arc<dyn Store>,
    /// Marks all executions that started before a time as dropped.
    pub(crate) mark_dropped_before: Box<dyn Fn(Timestamp) -> UnitFuture + Send + Sync>,
    /// Sets the message id of an outbox row, as an external writer would.
    pub(crate) set_message_id: SetMessageId,
    /// Resources that must outlive the store: a folder or a database.
    pub(crate) resources: Box<dyn std::any::Any + Send + Sync>,
}

/// Runs all cases about outbox, streams, projected events and retention on fixtures of a function.
macro_rules! publishing_suite {
    ($fixture:path) => {
        $crate::suite::store_suite! { $fixture:
            outbox: outbox_rows_are_appended_with_events,
            outbox: outbox_claims_are_ordered_by_time_and_id,
            outbox: rows_of_dead_publisher_are_reclaimed,
            outbox: only_claimed_rows_can_be_marked,
            outbox: late_mark_is_fenced_by_attempt,
            outbox: poison_row_becomes_dead_until_requeued,
            outbox: row_that_kills_publishers_becomes_dead,
            outbox: published_rows_are_purged_in_batches,
            outbox: discarded_rows_are_purged,
            outbox: claim_payloads_are_bounded,
            outbox: racing_publishers_share_no_row,
            outbox: concurrent_marks_do_not_deadlock,
            stream: feed_messages_match_feed_events,
            stream: stream_starts_at_requested_position,
            stream: stream_has_one_publisher,
            stream: only_lease_holder_moves_cursor,
            stream: new_log_epoch_changes_message_ids,
            stream: new_log_epoch_keeps_external_message_ids,
            stream: feed_lag_is_reported,
            stream: late_event_with_old_id_is_read_next,
            projection: projected_events_create_execution,
            projection: execution_view_is_rebuilt_from_log,
            projection: event_from_own_stream_is_duplicate,
            projection: driven_execution_rejects_projected_events,
            projection: same_event_id_with_other_body_conflicts,
            projection: same_event_id_in_two_executions_is_allowed,
            projection: execution_decides_tenant_of_projected_events,
            projection: projected_events_of_dropped_execution_are_rejected,
            projection: projected_events_of_past_month_are_stored,
            projection: projected_events_are_published,
            projection: racing_projectors_write_each_event_once,
            projection: rejected_items_are_quarantined_once,
            projection: old_quarantined_items_are_purged,
            retention: only_finished_months_are_dropped,
            retention: month_is_dropped_only_after_its_end,
            retention: late_event_of_dropped_execution_is_refused,
            retention: unpublished_events_pin_their_month,
            retention: discarded_rows_do_not_pin_month,
            retention: pending_follow_up_pins_its_month,
            retention: drop_deletes_all_rows_of_execution,
            retention: old_commands_and_silent_pools_are_purged,
            retention: purged_command_accepts_no_result,
            retention: runs_racing_a_drop_are_kept_or_dropped_whole,
            retention: intact_logs_pass_verification,
        }
    };
}

/// Runs all other cases on fixtures of a function.
macro_rules! store_suite {
    ($fixture:path) => {
        $crate::suite::store_suite! { $fixture:
            append: appended_events_are_read_back,
            credential: credential_replace_requires_current_version,
            credential: credentials_are_listed_and_deleted,
            keychain: keychain_replace_requires_current_version,
            keychain: keychain_entries_are_listed_by_page,
            keychain: key_check_is_stored_once_and_replaced,
            append: refuses_stale_duplicate_and_unknown_appends,
            append: invalid_appends_are_refused,
            append: one_of_racing_appends_wins,
            append: racing_appends_leave_contiguous_log,
            append: appends_of_one_call_are_independent,
            append: later_appends_of_call_see_earlier_ones,
            append: event_ids_are_unique_per_execution,
            append: ended_execution_accepts_only_audit_events,
            append: dropped_range_refuses_appends,
            append: ingest_time_never_decreases,
            lease: fence_admits_only_lease_holder,
            lease: commands_are_leased_by_priority_and_fairness,
            lease: held_and_early_commands_are_not_leased,
            lease: racing_workers_share_no_command,
            lease: racing_reports_of_one_lease_close_once,
            lease: lease_extension_is_capped_by_deadline,
            lease: expired_lease_is_requeued_once,
            lease: released_lease_does_not_count_as_attempt,
            lease: command_is_issued_with_eager_lease,
            lease: command_is_leased_by_id_once,
            queue: lists_commands_by_filter,
            queue: commands_are_listed_per_tenant,
            queue: pages_through_commands,
            queue: leases_of_departed_worker_expire,
            queue: leases_of_clock_ahead_are_bounded,
            queue: pool_counts_pending_and_leased,
            result: results_are_stored_with_append,
            result: refused_append_stores_no_result,
            result: result_size_is_limited,
            result: results_are_stored_without_append,
            lease_races: every_command_completes_exactly_once,
            wait: waits_open_change_and_close,
            wait: signal_finds_matching_waits,
            wait: approval_inbox_lists_each_wait_once,
            wait: wait_finds_earlier_signals,
            wait: racing_waits_and_signals_find_each_other,
            wait: follow_ups_stay_until_completed,
            wait: follow_up_is_found_on_path_to_root,
            slot: slots_are_granted_by_priority_and_arrival,
            slot: slot_waiters_do_not_overtake,
            slot: slot_grant_is_confirmed_by_append,
            slot: racing_slot_grants_never_exceed_limit,
            dedup: dedup_key_starts_one_execution,
            dedup: dedup_window_ends_exactly,
            dedup: dedup_keys_of_any_length_work,
            dedup: racing_messages_start_one_execution,
            dedup: messages_of_one_call_are_deduplicated,
            dedup: idempotent_request_has_one_effect,
            dedup: racing_idempotent_requests_have_one_effect,
            dedup: refused_append_reserves_no_key,
            request_reservation: reserved_request_runs_once_and_replays_answer,
            request_reservation: abandoned_request_is_taken_over,
            request_reservation: one_of_racing_requests_is_reserved,
            cache_and_vars: cached_result_is_reused_until_expiry,
            cache_and_vars: variables_are_set_atomically,
            cache_and_vars: expired_rows_are_deleted_in_batches,
            cache_and_vars: coordination_changes_are_atomic_with_append,
            replay: pages_through_replay_rows,
            replay: replay_rows_include_business_object_context,
            replay: other_schema_versions_return_whole_events,
            log: pages_through_log,
            log: loads_snapshot_and_tail,
            log: timers_are_listed_when_due,
            log: timers_of_paused_runs_do_not_block_others,
            list: pages_through_executions,
            list: filters_executions,
            list: executions_are_counted_by_status,
            list: live_execution_count_is_capped,
            list: live_descendants_are_counted_by_root,
            list: runtimes_register_and_heartbeat,
            catalog: unchanged_content_keeps_its_version,
            catalog: racing_registrations_get_contiguous_versions,
            catalog: lists_latest_definitions,
            catalog: lists_versions_of_path,
            catalog: archived_path_is_hidden_until_registered,
            machine_ids: machine_ids_are_unique_among_live_processes,
            machine_ids: expired_machine_id_is_taken_over,
            machine_ids: released_machine_id_is_reused,
            machine_ids: other_machine_leases_are_counted,
            machine_ids: requested_machine_id_is_granted_or_refused,
            feed: feed_delivers_each_event_once_in_order,
            feed: follower_misses_nothing_while_writers_race,
            task_output: output_is_stored_once_under_its_lease,
            task_output: output_is_listed_by_page_step_and_attempt,
            task_output: endless_output_keeps_head_and_tail,
            task_output: output_of_execution_is_limited,
            task_output: racing_writers_leave_no_gap_for_readers,
            values: unusual_numbers_round_trip,
            values: every_event_field_round_trips,
            values: nul_cannot_be_stored,
            values: long_deep_and_empty_values_round_trip,
            values: extreme_numbers_round_trip,
            identities: tokens_are_found_by_prefix,
            identities: token_is_revoked_once_by_its_tenant,
            identities: only_one_first_token_is_created,
            identities: servers_share_one_secret,
            identities: audit_log_is_hash_chained,
            identities: racing_audit_entries_form_one_chain,
            identities: secret_audit_entries_are_listed_newest_first,
        }
    };
    ($fixture:path: $($module:ident: $case:ident,)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 16)]
            async fn $case() {
                let fixture = $fixture().await;
                $crate::suite::$module::$case(&fixture).await;
                drop(fixture.resources);
            }
        )+
    };
}

pub(crate) use publishing_suite;
pub(crate) use store_suite;
