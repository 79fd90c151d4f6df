//! Metrics of the components of a server.

use std::sync::atomic::Ordering;

use noetl_api::credential::RotationSummary;
use noetl_api::stream::StreamStatus;
use noetl_store::{OutboxStats, PoolCount, StatusCounts};
use noetl_types::error::RejectCode;
use noetl_types::{ErrorCode, ExecutionStatus, Millis, SecretOperation, Timestamp};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::labels::{
    CodeLabels, NoLabels, OutcomeLabels, PoolLabels, SecretLabels, StatusLabels, TableLabels,
};
use super::registry::{MetricRegistry, OptionalGauge, metric_set, to_gauge_value};

metric_set! {
    /// Gauges with values of the store, set at scrape time.
    struct StoreGauges {
        "executions" "Executions by status" executions: Family<StatusLabels, Gauge>;
        "commands" "Open commands by pool and status" commands: Family<PoolLabels, Gauge>;
    }
}

impl StoreGauges {
    /// Sets the number of executions per status, including zeros. `None` clears all values, so that
    /// old numbers are not reported as current.
    pub(crate) fn set_execution_counts(&self, counts: Option<&StatusCounts>) {
        let Some(counts) = counts else {
            self.executions.clear();
            return;
        };
        for status in ExecutionStatus::ALL {
            let count = counts.get(status).copied().unwrap_or(0);
            let status = status.as_str();
            let gauge = self.executions.get_or_create_owned(&StatusLabels { status });
            gauge.set(to_gauge_value(count));
        }
    }

    /// Sets the number of open commands per pool. Pools without open commands are removed, and
    /// `None` clears all values.
    pub(crate) fn set_pool_counts(&self, pools: Option<&[PoolCount]>) {
        self.commands.clear();
        for pool in pools.unwrap_or_default() {
            for (status, count) in [("PENDING", pool.pending), ("CLAIMED", pool.leased)] {
                let labels = PoolLabels { pool: pool.pool.as_str().to_owned(), status };
                self.commands.get_or_create_owned(&labels).set(to_gauge_value(count));
            }
        }
    }
}

metric_set! {
    /// Metrics of platform tasks: outbox, projection and retention.
    struct PlatformMetrics {
        "outbox_dead" "Outbox rows that reached the maximum number of attempts" dead_rows: Counter;
        "projection_advanced" "Read models compared with their log" advanced_models: Counter;
        "events_materialized" "Events of classic workers that were copied into the log"
            materialized_events: Counter;
        "projector_rejected" "Events that could not be copied, by error code"
            rejected_events: Family<CodeLabels, Counter>;
        "cleanup_rows_purged" "Rows deleted by retention, by table; for events, dropped partitions"
            purged_rows: Family<TableLabels, Counter>;
        "outbox_rows" "Outbox rows by status; approximate if many are published"
            rows: Family<StatusLabels, Gauge>;
        "outbox_oldest_age_seconds" "Age of the oldest unpublished event" oldest_age: OptionalGauge;
        "partitions_ahead_days" "Days for which partitions of the log exist in advance"
            days_ahead: OptionalGauge;
        "verify_problems" "Problems that the last scheduled verification of the store found"
            verify_problems: OptionalGauge;
        "verify_completed_timestamp_seconds" "Time of the last complete scheduled verification"
            verify_completed_at: OptionalGauge;
    }
}

impl PlatformMetrics {
    pub(crate) fn count_rejected(&self, code: RejectCode) {
        let code = code.as_str();
        self.rejected_events.get_or_create_owned(&CodeLabels { code }).inc();
    }

    pub(crate) fn count_purged(&self, table: &'static str, count: u64) {
        let labels = TableLabels { table };
        self.purged_rows.get_or_create_owned(&labels).inc_by(count);
    }

    /// Sets the gauges of the outbox. `None` clears them.
    pub(crate) fn set_outbox(&self, stats: Option<&OutboxStats>, now: Timestamp) {
        self.rows.clear();
        let age = |stats: &OutboxStats| {
            let age = stats.oldest_unpublished.map(|oldest| now.duration_since(oldest));
            to_gauge_value(age.unwrap_or_default().as_ms() / 1000)
        };
        self.oldest_age.set(stats.map(age));
        for (status, count) in stats.into_iter().flat_map(|stats| &stats.rows) {
            let status = status.as_str();
            let labels = StatusLabels { status };
            self.rows.get_or_create_owned(&labels).set(to_gauge_value(*count));
        }
    }

    /// Sets the gauges of a verification of the store. `None` if it was not completed.
    pub(crate) fn record_verification(&self, problems: u64, completed_at: Option<Timestamp>) {
        self.verify_problems.set(Some(to_gauge_value(problems)));
        if let Some(time) = completed_at {
            self.verify_completed_at.set(Some(time.as_unix_ms() / 1000));
        }
    }

    /// Sets the partition headroom. `None` if it is unknown or the store has no partitions.
    pub(crate) fn set_partition_headroom(&self, headroom: Option<Millis>) {
        let days =
            |headroom: Millis| to_gauge_value(headroom.as_ms() / Millis::from_days(1).as_ms());
        self.days_ahead.set(headroom.map(days));
    }
}

metric_set! {
    /// Metrics of operations on secrets, without names and tenants, which are in the audit log.
    struct SecretMetrics {
        "secret_operations" "Operations on secrets, by outcome"
            operations: Family<SecretLabels, Counter>;
        "credentials_sealed" "Credentials sealed for a worker" sealed_credentials: Counter;
        "wallet_rotate" "Secrets processed by key rotation, by outcome"
            rotated_secrets: Family<OutcomeLabels, Counter>;
    }
}

impl SecretMetrics {
    /// Counts an operation on a secret. The outcome is an error code on failure.
    pub(crate) fn count_operation(&self, operation: SecretOperation, outcome: Result<(), &str>) {
        let outcome = match outcome.map_err(ErrorCode::parse) {
            Ok(()) => "ok",
            Err(Ok(code)) if code.http_status() < 500 => "refused",
            Err(_) => "failed",
        };
        let operation = operation.as_str();
        let labels = SecretLabels { operation, outcome };
        self.operations.get_or_create_owned(&labels).inc();
    }

    pub(crate) fn count_rotated(&self, summary: RotationSummary) {
        for (outcome, count) in [
            ("rewrapped", summary.rewrapped),
            ("skipped", summary.skipped),
            ("failed", summary.failed),
        ] {
            let labels = OutcomeLabels { outcome };
            self.rotated_secrets.get_or_create_owned(&labels).inc_by(count);
        }
    }
}

metric_set! {
    /// Metrics of the notification channel between servers on one store. `up` is absent until
    /// another server was seen.
    struct PeerMetrics {
        "notify_sent" "Notifications sent to other servers" sent: Counter;
        "notify_received" "Notifications received from other servers" received: Counter;
        "notify_up" "1 if the notification channel to other servers is connected, else 0"
            up: Family<NoLabels, Gauge>;
    }
}

impl PeerMetrics {
    pub(crate) fn set_connected(&self, is_connected: bool) {
        self.up.get_or_create_owned(&NoLabels {}).set(is_connected.into());
    }
}

metric_set! {
    /// Metrics of the event stream, set at scrape time. `nats_up` is absent if no NATS server is
    /// configured.
    struct StreamMetrics {
        "event_stream_published" "Events acknowledged by the broker" published: Counter;
        "event_stream_duplicates" "Acknowledged events that the broker already had"
            duplicates: Counter;
        "event_stream_oversized" "Events published as a reference because they are too large"
            oversized: Counter;
        "event_stream_undeliverable" "Events that the broker rejects, moved to quarantine"
            undeliverable: Counter;
        "event_stream_restored" "Messages published again after the broker lost them"
            restored: Counter;
        "event_stream_rebuilds" "Rebuilds of the stream" rebuilds: Counter;
        "event_stream_skipped" "Events that were skipped; always 0" skipped: Counter;
        "event_stream_is_publisher" "1 if this server publishes the stream, else 0"
            is_publisher: Gauge;
        "event_stream_cursor" "Feed position up to which the log is published" cursor: OptionalGauge;
        "event_stream_epoch" "Number of changes of the publishing server" epoch: OptionalGauge;
        "event_stream_lag_events" "Events not yet published" lag_events: OptionalGauge;
        "event_stream_lag_seconds" "Age of the oldest event not yet published"
            lag_seconds: OptionalGauge;
        "commit_horizon_age_seconds" "Age of the oldest open transaction, which delays publishing"
            horizon_age: OptionalGauge;
        "nats_up" "1 if the NATS server is connected, else 0" nats_up: Family<NoLabels, Gauge>;
    }
}

impl StreamMetrics {
    /// Sets the counters of this process. The totals never decrease.
    pub(crate) fn set_counters(&self, status: &StreamStatus) {
        for (counter, total) in [
            (&self.published, status.published),
            (&self.duplicates, status.duplicates),
            (&self.oversized, status.by_reference),
            (&self.undeliverable, status.undeliverable),
            (&self.restored, status.restored),
            (&self.rebuilds, status.rebuilds),
        ] {
            counter.inner().fetch_max(total, Ordering::Relaxed);
        }
        self.is_publisher.set(i64::from(&*status.state == "publishing"));
    }

    /// Sets the gauges of the stream. `None` clears them.
    pub(crate) fn set_gauges(&self, status: Option<&StreamStatus>) {
        let value = |number: fn(&StreamStatus) -> i64| status.map(number);
        self.cursor.set(value(|status| status.position.map_or(0, |position| position.position)));
        self.epoch.set(value(|status| to_gauge_value(status.epoch.unwrap_or(0))));
        self.lag_events.set(value(|status| to_gauge_value(status.lag_events)));
        self.lag_seconds.set(value(|status| to_gauge_value(status.lag_ms / 1000)));
        self.horizon_age.set(value(|status| to_gauge_value(status.horizon_age_ms / 1000)));
    }

    pub(crate) fn set_nats_connected(&self, is_connected: bool) {
        self.nats_up.get_or_create_owned(&NoLabels {}).set(is_connected.into());
    }
}
