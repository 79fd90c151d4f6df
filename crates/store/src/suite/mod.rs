//! One suite for every backend.
//!
//! Each case is a function of a [`Bench`]; the macro at the end runs all of them on a backend. A
//! case states what a store promises, never how a backend keeps it.

pub(crate) mod append;
pub(crate) mod catalog;
pub(crate) mod claim;
pub(crate) mod copy;
pub(crate) mod credential;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) mod damage;
mod differential;
pub(crate) mod feed;
pub(crate) mod fixture;
pub(crate) mod gist;
mod history;
pub(crate) mod keep;
pub(crate) mod keychain;
pub(crate) mod lease;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod machine;
pub(crate) mod outbox;
pub(crate) mod queue;
pub(crate) mod race;
pub(crate) mod request;
pub(crate) mod result;
pub(crate) mod retention;
pub(crate) mod slot;
pub(crate) mod stream;
pub(crate) mod values;
pub(crate) mod vault;
pub(crate) mod wait;

use std::pin::Pin;
use std::sync::Arc;

use noetl_types::{OutboxId, Timestamp};

use crate::Store;

pub(crate) use differential::{differ, differ_in_lanes, differ_with_faults};

type Ready = Pin<Box<dyn Future<Output = ()> + Send>>;

type CallRow = Box<dyn Fn(OutboxId, &str) + Send + Sync>;

/// A backend under test.
pub(crate) struct Bench {
    pub(crate) store: Arc<dyn Store>,
    /// Marks everything that was started before a time as dropped.
    pub(crate) drop_before: Box<dyn Fn(Timestamp) -> Ready + Send + Sync>,
    /// Gives a row of the outbox the name that somebody else would give it.
    pub(crate) call_row: CallRow,
    /// What has to live as long as the store: a folder, a database.
    pub(crate) keep: Box<dyn std::any::Any + Send + Sync>,
}

/// Runs every case about outbox, streams, copies and retention on the bench that a function makes.
macro_rules! outlet_suite {
    ($bench:path) => {
        $crate::suite::store_suite! { $bench:
            outbox: rows_come_with_their_events,
            outbox: claims_go_by_time_and_number,
            outbox: o1_o2_rows_of_a_dead_publisher_come_back,
            outbox: o3_o5_only_a_row_in_hand_is_marked,
            outbox: o4_a_late_word_changes_nothing,
            outbox: o7_a_poison_row_dies_and_is_settled_by_hand,
            outbox: o7_a_row_that_nobody_survives_dies,
            outbox: o9_published_rows_are_purged_in_batches,
            outbox: rows_that_were_given_up_are_purged,
            outbox: payloads_of_a_claim_are_bounded,
            outbox: o4_racing_publishers_share_no_row,
            outbox: marks_of_the_same_rows_wait_in_no_circle,
            stream: messages_are_the_events_of_the_feed,
            stream: a_stream_begins_where_it_is_told,
            stream: t7_a_stream_has_one_publisher,
            stream: t7_of_racing_publishers_one_moves_the_cursor,
            stream: t11_a_new_life_of_the_log_has_new_names,
            stream: t11_what_others_called_their_rows_stays,
            stream: the_feed_says_how_far_it_is_ahead,
            stream: t2_an_old_id_that_comes_late_is_read_next,
            copy: copies_make_their_execution,
            copy: a_row_is_written_anew_from_its_log,
            copy: p1_an_echo_of_our_own_stream_is_a_duplicate,
            copy: a_driven_log_takes_no_copies,
            copy: p3_the_same_id_with_another_body_is_a_conflict,
            copy: t4_equal_ids_of_two_executions_are_two_events,
            copy: p6_the_execution_says_whose_its_events_are,
            copy: p2_copies_of_a_dropped_execution_are_rejected,
            copy: copies_of_a_past_month_are_kept,
            copy: copies_go_out_like_all_events,
            copy: racing_projectors_write_each_event_once,
            copy: what_is_refused_is_kept_once,
            copy: what_was_refused_is_forgotten_in_time,
            retention: r1_only_months_that_are_over_go,
            retention: a_month_goes_from_its_very_end_on,
            retention: r1_a_late_event_of_a_dropped_execution_is_gone,
            retention: r1_unpublished_events_keep_their_month,
            retention: what_is_given_up_or_not_wanted_keeps_nothing,
            retention: what_is_owed_keeps_its_month,
            retention: everything_of_an_execution_goes_with_it,
            retention: old_commands_and_silent_pools_go,
            retention: r7_a_purged_command_takes_no_result,
            retention: r1_whoever_writes_while_a_month_goes_is_there_or_gone,
            retention: logs_are_verified,
        }
    };
}

/// Runs every other case of the suite on the bench that a function makes.
macro_rules! store_suite {
    ($bench:path) => {
        $crate::suite::store_suite! { $bench:
            append: a_run_is_written_and_read_back,
            credential: a_credential_is_kept_and_replaced_by_who_knows_it,
            credential: credentials_are_listed_and_forgotten,
            keychain: a_keychain_entry_is_kept_replaced_and_forgotten,
            keychain: keychain_entries_are_listed_by_page,
            append: verdicts,
            append: contradictions_are_refused,
            append: one_of_sixteen_racers_wins,
            append: racers_on_one_run_leave_a_contiguous_log,
            append: items_of_a_call_are_independent,
            append: later_items_of_a_call_see_earlier_ones,
            append: ids_are_not_used_twice,
            append: an_ended_run_takes_audit_events_only,
            append: a_dropped_range_is_gone,
            append: ingest_time_never_decreases,
            lease: a_fence_lets_only_the_holder_through,
            lease: order_of_leases,
            lease: held_and_early_commands_wait,
            lease: racing_workers_share_no_command,
            lease: racing_holders_of_one_lease_report_once,
            lease: leases_are_kept_until_the_deadline,
            lease: an_expired_lease_is_taken_away_once,
            lease: a_released_command_does_not_count_the_attempt,
            lease: a_command_may_be_born_claimed,
            lease: a_command_is_claimed_by_name_once,
            queue: lists_of_commands,
            queue: commands_belong_to_a_tenant,
            queue: pages_of_commands,
            queue: the_leases_of_a_worker_that_leaves_end,
            queue: pools_tell_how_busy_they_are,
            result: results_come_with_their_append,
            result: a_refused_append_leaves_no_result,
            result: results_have_bounds,
            result: results_may_come_by_themselves,
            race: every_command_completes_exactly_once,
            wait: waits_open_change_and_close,
            wait: a_signal_finds_who_awaits_it,
            wait: people_see_each_wait_once,
            wait: a_wait_looks_back_at_signals,
            wait: racing_waits_and_signals_meet,
            wait: errands_stay_until_they_are_settled,
            slot: slots_go_by_priority_and_arrival,
            slot: nobody_overtakes,
            slot: a_grant_is_confirmed_by_the_log,
            slot: racing_grants_never_exceed_the_limit,
            claim: a_message_starts_one_execution,
            claim: windows_end_exactly,
            claim: keys_of_any_length,
            claim: thirty_two_racing_messages_start_one_execution,
            claim: messages_of_one_call,
            claim: a_request_has_its_effect_once,
            claim: racing_requests_have_one_effect,
            claim: a_refused_claim_leaves_no_other,
            request: a_request_is_worked_on_once_and_answered_alike,
            request: work_that_nobody_does_any_more_is_taken_over,
            request: of_racing_requests_one_is_worked_on,
            keep: a_result_is_taken_over_until_it_expires,
            keep: variables_are_set_together,
            keep: sweeps_are_bounded,
            keep: what_is_shared_comes_with_its_append,
            gist: pages_of_gists,
            gist: contexts_of_business_objects,
            gist: other_schema_versions_come_as_a_whole,
            log: pages_of_a_log,
            log: snapshot_and_tail,
            log: timers_come_due,
            log: timers_of_paused_runs_keep_none_waiting,
            list: pages_of_executions,
            list: filters,
            list: open_children_of_an_execution,
            list: everything_is_counted,
            list: what_goes_on_is_counted_up_to_a_number,
            list: runtimes_are_heard_of,
            catalog: versions_and_unchanged_content,
            catalog: racing_registrations_number_without_gaps,
            catalog: lists_of_definitions,
            catalog: versions_of_a_path,
            catalog: an_archived_path,
            machine: ids_are_unique_among_live_processes,
            machine: a_lapsed_id_is_taken_over,
            machine: an_id_that_is_given_back,
            machine: others_are_counted,
            machine: a_wanted_id,
            feed: the_feed_has_everything_once_in_order,
            feed: a_follower_misses_nothing_while_writers_race,
            values: odd_numbers_keep_their_text,
            values: every_field_of_an_event_survives,
            values: nul_cannot_be_stored,
            values: long_deep_and_empty_values_survive,
            values: edges_of_numbers_survive,
            vault: tokens_are_found_by_their_prefix,
            vault: a_token_is_revoked_once_and_by_its_tenant,
            vault: there_is_one_first_token,
            vault: all_servers_share_one_secret,
            vault: a_trail_is_linked,
            vault: racing_acts_leave_one_trail,
            vault: acts_on_secrets_are_found_newest_first,
        }
    };
    ($bench:path: $($module:ident: $case:ident,)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 16)]
            async fn $case() {
                let bench = $bench().await;
                $crate::suite::$module::$case(&bench).await;
                drop(bench.keep);
            }
        )+
    };
}

pub(crate) use outlet_suite;
pub(crate) use store_suite;
