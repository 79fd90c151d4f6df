//! Tests of the worker against a fake server and fake tools.

mod fake;
mod output;
mod platform_client;
mod progress;
mod secrets;

use std::sync::Arc;
use std::time::Duration;

use noetl_api::ApiError;
use noetl_api::command::{ReportDisposition, ReportStatus};
use noetl_types::{ErrorCode, Json, Millis, TaskErrorKind, sha256};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{Worker, WorkerError, WorkerMetrics, WorkerSettings};
use fake::{FakeServer, FakeTools, leased_command, test_settings};

/// A running worker with its fakes.
struct TestWorker {
    server: Arc<FakeServer>,
    tools: Arc<FakeTools>,
    metrics: Arc<WorkerMetrics>,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), WorkerError>>,
}

impl TestWorker {
    fn start(settings: WorkerSettings, server: FakeServer) -> Self {
        let (server, tools) = (Arc::new(server), Arc::new(FakeTools::default()));
        let shutdown = CancellationToken::new();
        let worker =
            Worker::with_tool_runner(Arc::clone(&server) as _, Arc::clone(&tools) as _, settings);
        let metrics = worker.metrics();
        let running = tokio::spawn(worker.run(shutdown.clone()));
        Self { server, tools, metrics, shutdown, running }
    }

    fn with_concurrency(concurrency: u32) -> Self {
        Self::start(test_settings(concurrency), FakeServer::default())
    }

    /// Waits until a condition holds. The clock is paused, so waiting takes no real time.
    async fn wait_until(&self, description: &str, condition: impl Fn(&Self) -> bool) {
        for _ in 0..200_000 {
            if condition(self) {
                return;
            }
            assert!(!self.running.is_finished(), "the worker ended before: {description}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("never: {description}");
    }

    async fn wait_for_reports(&self, count: usize) {
        let description = format!("{count} reports");
        self.wait_until(&description, |worker| worker.server.final_reports().len() >= count).await;
    }

    /// Value of a metric, given its name with labels.
    fn metric_value(&self, name: &str) -> String {
        let text = self.metrics.to_text().unwrap();
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
        let value = lines.find_map(|rest| rest.strip_prefix(' '));
        value.unwrap_or("nothing").to_owned()
    }

    async fn shut_down(self) {
        self.shutdown.cancel();
        self.running.await.unwrap().unwrap();
        assert_eq!(self.server.with_state(|state| state.deregistrations), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn runs_and_reports_command() {
    let worker = TestWorker::with_concurrency(2);
    worker.server.enqueue([leased_command(1, "ok")]);
    worker.wait_for_reports(1).await;
    let report = worker.server.final_reports().remove(0);
    assert_eq!(report.status, ReportStatus::Completed);
    assert_eq!(report.result, Some(Json::from("7:1:ok:1")));
    assert_eq!(report.tasks[0].label, "ok");
    assert!(report.tasks[0].duration_ms.is_some());
    assert!(report.started_at.is_some() && report.finished_at.is_some());
    let leased = leased_command(1, "ok");
    assert_eq!(report.claimed_at, Some(leased.claimed_at));
    assert_eq!(report.lease_until, Some(leased.lease_until));
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn counts_commands_and_renewals() {
    let worker = TestWorker::with_concurrency(4);
    assert_eq!(worker.metric_value("noetl_worker_slots"), "4");
    let renewals = |outcome: &str| {
        let name = format!("noetl_worker_lease_renewals_total{{outcome=\"{outcome}\"}}");
        worker.metric_value(&name)
    };
    let commands = |outcome: &str| {
        let name = format!("noetl_worker_commands_total{{kind=\"shell\",outcome=\"{outcome}\"}}");
        worker.metric_value(&name)
    };
    assert_eq!((&*renewals("kept"), &*renewals("lost")), ("0", "0"));
    worker.server.enqueue([
        leased_command(1, "ok"),
        leased_command(2, "boom"),
        leased_command(3, "hang"),
    ]);
    worker.wait_for_reports(2).await;
    assert_eq!((&*commands("completed"), &*commands("failed")), ("1", "1"));
    assert_eq!(worker.metric_value("noetl_worker_in_flight"), "1");
    worker.wait_until("the lease is kept", |_| renewals("kept") != "0").await;
    worker.server.with_state(|state| state.cancelled_commands.insert(3));
    worker.wait_until("it is stopped", |worker| worker.tools.running_count() == 0).await;
    worker.wait_until("it is counted", |_| commands("abandoned") == "1").await;
    assert_eq!(renewals("lost"), "1");
    assert_eq!(worker.metric_value("noetl_worker_in_flight"), "0");
    let seconds = "noetl_worker_command_seconds_count{kind=\"shell\"}";
    assert_eq!(worker.metric_value(seconds), "2");
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn uses_full_concurrency_without_exceeding_it() {
    let worker = TestWorker::with_concurrency(8);
    worker.server.enqueue((1..=200).map(|id| leased_command(id, "nap")));
    worker.wait_for_reports(200).await;
    assert_eq!(worker.tools.peak_count(), 8);
    assert_eq!(worker.server.with_state(|state| state.peak_outstanding), 8);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn report_response_returns_next_command() {
    let worker = TestWorker::with_concurrency(1);
    worker
        .server
        .with_state(|state| state.follow_up = (1..50).map(|id| leased_command(id, "ok")).collect());
    worker.server.enqueue([leased_command(50, "ok")]);
    worker.wait_for_reports(50).await;
    // One poll returned the first command. The responses to reports returned the others.
    assert_eq!(worker.server.with_state(|state| state.polls_with_work), 1);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn queued_reports_are_batched() {
    let worker = TestWorker::with_concurrency(32);
    worker.server.with_state(|state| state.report_delay = Duration::from_secs(1));
    worker.server.enqueue((1..=32).map(|id| leased_command(id, "ok")));
    worker.wait_for_reports(32).await;
    let batches = worker.server.with_state(|state| state.report_batches.clone());
    assert!(batches.len() <= 9, "{batches:?}");
    assert!(worker.server.with_state(|state| state.peak_reports) <= 4);
    assert_eq!(batches.iter().sum::<usize>(), 32);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_command_is_stopped_and_not_reported() {
    let worker = TestWorker::with_concurrency(1);
    worker.server.enqueue([leased_command(1, "hang")]);
    worker.wait_until("it hangs", |worker| worker.tools.running_count() == 1).await;
    worker.server.with_state(|state| state.cancelled_commands.insert(1));
    worker.wait_until("it is stopped", |worker| worker.tools.running_count() == 0).await;
    worker.server.enqueue([leased_command(2, "ok")]);
    worker.wait_for_reports(1).await;
    assert_eq!(worker.server.reported_ids(), [2]);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn lost_lease_is_not_reported() {
    let worker = TestWorker::with_concurrency(1);
    worker.server.with_state(|state| state.lost_leases.insert(1));
    worker.server.enqueue([leased_command(1, "hang"), leased_command(2, "ok")]);
    worker.wait_for_reports(1).await;
    assert_eq!(worker.server.reported_ids(), [2]);
    assert!(worker.server.with_state(|state| state.watches) >= 1);
    worker.shut_down().await;
}

/// A cancel reaches the worker over the held request, long before a heartbeat is due.
#[tokio::test(start_paused = true)]
async fn cancel_stops_command_before_next_heartbeat() {
    let worker = TestWorker::with_concurrency(1);
    worker.server.enqueue([leased_command(1, "hang")]);
    let is_watched = |worker: &TestWorker| worker.server.with_state(|state| state.watches) == 1;
    worker.wait_until("it is watched", is_watched).await;
    worker.server.with_state(|state| state.cancelled_commands.insert(1));
    worker.wait_until("it is stopped", |worker| worker.tools.running_count() == 0).await;
    assert_eq!(worker.server.with_state(|state| state.heartbeats), 0);
    worker.shut_down().await;
}

/// A command that starts while others are watched is watched too.
#[tokio::test(start_paused = true)]
async fn later_command_is_watched_too() {
    let worker = TestWorker::with_concurrency(2);
    worker.server.enqueue([leased_command(1, "hang")]);
    let watches = |worker: &TestWorker| worker.server.with_state(|state| state.watches);
    worker.wait_until("the first is watched", |worker| watches(worker) == 1).await;
    worker.server.enqueue([leased_command(2, "hang")]);
    worker.wait_until("the second is watched", |worker| watches(worker) == 2).await;
    worker.server.with_state(|state| state.cancelled_commands.insert(2));
    worker.wait_until("it is stopped", |worker| worker.tools.running_count() == 1).await;
    assert_eq!(worker.server.with_state(|state| state.heartbeats), 0);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn stalled_worker_does_not_start_cancelled_command() {
    let worker = TestWorker::with_concurrency(2);
    // The first command loads the playbook.
    worker.server.enqueue([leased_command(3, "ok")]);
    worker.wait_for_reports(1).await;
    worker.server.with_state(|state| {
        state.stall = Duration::from_secs(12);
        state.cancelled_commands.insert(1);
    });
    worker.server.enqueue([leased_command(1, "hang")]);
    let is_confirmed =
        |worker: &TestWorker| worker.server.with_state(|state| state.heartbeats) == 1;
    worker.wait_until("the lease is confirmed", is_confirmed).await;
    worker.server.enqueue([leased_command(2, "ok")]);
    worker.wait_for_reports(2).await;
    assert_eq!(worker.server.reported_ids(), [3, 2]);
    assert_eq!(worker.tools.peak_count(), 1);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn old_lease_is_confirmed_when_server_returns() {
    let worker = TestWorker::with_concurrency(1);
    // The first command loads the playbook.
    worker.server.enqueue([leased_command(1, "ok")]);
    worker.wait_for_reports(1).await;
    worker.server.with_state(|state| state.stall = Duration::from_secs(12));
    worker.server.enqueue([leased_command(2, "ok")]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    worker.server.with_state(|state| state.is_unreachable = true);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(worker.server.reported_ids(), [1]);
    worker.server.with_state(|state| state.is_unreachable = false);
    worker.wait_for_reports(2).await;
    assert_eq!(worker.server.reported_ids(), [1, 2]);
    worker.shut_down().await;
}

/// The server does not know a lease any more whose command ended during the held request.
#[tokio::test(start_paused = true)]
async fn ended_command_is_not_counted_as_lost() {
    let worker = TestWorker::with_concurrency(1);
    worker.server.enqueue([leased_command(1, "long")]);
    worker.wait_for_reports(1).await;
    assert!(worker.server.with_state(|state| state.watches) > 0);
    worker.server.with_state(|state| state.lost_leases.insert(1));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lost = "noetl_worker_lease_renewals_total{outcome=\"lost\"}";
    assert_eq!(worker.metric_value(lost), "0");
    worker.shut_down().await;
}

/// The time that a poll waits for work does not make a lease old.
#[tokio::test(start_paused = true)]
async fn fresh_lease_needs_no_confirmation() {
    let worker = TestWorker::with_concurrency(1);
    tokio::time::sleep(Duration::from_secs(20)).await;
    worker.server.enqueue([leased_command(1, "ok")]);
    worker.wait_for_reports(1).await;
    assert_eq!(worker.server.with_state(|state| state.heartbeats), 0);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_at_a_third_of_duration() {
    let worker = TestWorker::with_concurrency(1);
    worker.server.enqueue([leased_command(1, "long")]);
    worker.wait_for_reports(1).await;
    // One minute with a lease of 30 seconds: five or six renewals.
    let renewals = worker.server.with_state(|state| state.heartbeats);
    assert!((5..=7).contains(&renewals), "{renewals}");
    worker.shut_down().await;
}

/// A cancellation must not wait for a third of an hour.
#[tokio::test(start_paused = true)]
async fn renewal_interval_of_long_leases_is_limited() {
    let hour = Millis::from_minutes(60);
    let settings = WorkerSettings { lease_duration: Some(hour), ..test_settings(1) };
    let worker = TestWorker::start(settings, FakeServer::default());
    let mut long = leased_command(1, "long");
    long.lease_until = long.claimed_at.saturating_add(hour);
    worker.server.enqueue([long]);
    worker.wait_for_reports(1).await;
    let renewals = worker.server.with_state(|state| state.heartbeats);
    assert!((5..=7).contains(&renewals), "{renewals}");
    worker.shut_down().await;
}

/// The lease of a short task ends at its deadline and must not shorten the interval of other
/// leases.
#[tokio::test(start_paused = true)]
async fn short_lease_does_not_shorten_renewal_interval() {
    let worker = TestWorker::with_concurrency(2);
    let mut short = leased_command(1, "ok");
    let deadline = short.claimed_at.saturating_add(Millis::from_ms(300));
    short.lease_until = deadline;
    short.deadline_at = Some(deadline);
    worker.server.enqueue([short, leased_command(2, "long")]);
    worker.wait_for_reports(2).await;
    let renewals = worker.server.with_state(|state| state.heartbeats);
    assert!((5..=7).contains(&renewals), "{renewals}");
    worker.shut_down().await;
}

/// A loaded server may respond later than the renewal interval of short leases.
#[tokio::test(start_paused = true)]
async fn slow_renewal_response_is_applied() {
    let worker = TestWorker::with_concurrency(1);
    worker.server.with_state(|state| {
        state.heartbeat_delay = Duration::from_secs(1);
        state.cancelled_commands.insert(1);
    });
    let mut short = leased_command(1, "hang");
    short.lease_until = short.claimed_at.saturating_add(Millis::from_ms(600));
    worker.server.enqueue([short, leased_command(2, "ok")]);
    worker.wait_for_reports(1).await;
    assert_eq!(worker.server.reported_ids(), [2]);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn report_is_retried_until_server_returns() {
    let worker = TestWorker::with_concurrency(2);
    worker.server.enqueue([leased_command(1, "long"), leased_command(2, "ok")]);
    worker.wait_for_reports(1).await;
    worker.server.with_state(|state| state.is_unreachable = true);
    worker.wait_until("the long one ends", |worker| worker.tools.running_count() == 0).await;
    worker
        .wait_until("calls have failed", |worker| {
            worker.server.with_state(|state| state.failed_calls) > 5
        })
        .await;
    worker.server.with_state(|state| state.is_unreachable = false);
    worker.wait_for_reports(2).await;
    assert_eq!(worker.server.reported_ids(), [2, 1]);
    worker.server.enqueue([leased_command(3, "ok")]);
    worker.wait_for_reports(3).await;
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn worker_waits_for_server_at_start() {
    let server = FakeServer::default();
    server.with_state(|state| state.is_unreachable = true);
    let worker = TestWorker::start(test_settings(1), server);
    worker
        .wait_until("calls have failed", |worker| {
            worker.server.with_state(|state| state.failed_calls) > 3
        })
        .await;
    worker.server.with_state(|state| state.is_unreachable = false);
    worker.server.enqueue([leased_command(1, "ok")]);
    worker.wait_for_reports(1).await;
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn rejected_registration_ends_worker() {
    let server = FakeServer::default();
    server.with_state(|state| state.is_forbidden = true);
    let worker = TestWorker::start(test_settings(1), server);
    let result = worker.running.await.unwrap();
    let refusal = ApiError::refused(ErrorCode::Forbidden, "no");
    assert_eq!(result, Err(WorkerError::Refused(refusal)));
}

#[tokio::test(start_paused = true)]
async fn fenced_worker_drops_commands_and_registers_again() {
    let worker = TestWorker::with_concurrency(1);
    worker.server.enqueue([leased_command(1, "hang")]);
    worker.wait_until("it hangs", |worker| worker.tools.running_count() == 1).await;
    worker.server.with_state(|state| state.is_registered = false);
    worker
        .wait_until("it registers", |worker| {
            worker.server.with_state(|state| state.registrations) == 2
        })
        .await;
    worker.wait_until("work is dropped", |worker| worker.tools.running_count() == 0).await;
    worker.server.enqueue([leased_command(2, "ok")]);
    worker.wait_for_reports(1).await;
    assert_eq!(worker.server.reported_ids(), [2]);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_drains_running_commands() {
    let settings = WorkerSettings { drain_timeout: Millis::from_minutes(2), ..test_settings(2) };
    let worker = TestWorker::start(settings, FakeServer::default());
    worker.server.enqueue([leased_command(1, "long")]);
    worker.wait_until("it runs", |worker| worker.tools.running_count() == 1).await;
    let server = Arc::clone(&worker.server);
    worker.shutdown.cancel();
    tokio::task::yield_now().await;
    server.enqueue([leased_command(2, "ok")]);
    worker.shut_down().await;
    assert_eq!(server.reported_ids(), [1]);
    assert_eq!(server.with_state(|state| state.requested_with_reports.last().copied()), Some(None));
}

#[tokio::test(start_paused = true)]
async fn drain_timeout_releases_commands() {
    let worker = TestWorker::with_concurrency(2);
    worker.server.enqueue([leased_command(1, "hang")]);
    worker.wait_until("it hangs", |worker| worker.tools.running_count() == 1).await;
    let (server, tools) = (Arc::clone(&worker.server), Arc::clone(&worker.tools));
    let started = tokio::time::Instant::now();
    worker.shut_down().await;
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
    assert_eq!(tools.running_count(), 0);
    assert!(server.final_reports().is_empty());
}

#[tokio::test(start_paused = true)]
async fn server_can_request_drain() {
    let worker = TestWorker::with_concurrency(2);
    worker.server.with_state(|state| state.requests_drain = true);
    worker.running.await.unwrap().unwrap();
    assert_eq!(worker.server.with_state(|state| state.deregistrations), 1);
}

#[tokio::test(start_paused = true)]
async fn tool_panic_fails_only_its_command() {
    let worker = TestWorker::with_concurrency(1);
    worker.server.enqueue([leased_command(1, "boom"), leased_command(2, "ok")]);
    worker.wait_for_reports(2).await;
    let reports = worker.server.final_reports();
    assert_eq!(reports[0].status, ReportStatus::Failed);
    let error = reports[0].error.as_ref().unwrap();
    assert_eq!(error.kind, TaskErrorKind::Unknown);
    assert_eq!(error.task.as_deref(), Some("boom"));
    assert_eq!(reports[1].status, ReportStatus::Completed);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn definition_is_fetched_once() {
    let worker = TestWorker::with_concurrency(100);
    worker.server.enqueue((1..=100).map(|id| leased_command(id, "ok")));
    worker.wait_for_reports(100).await;
    assert_eq!(worker.server.with_state(|state| state.definition_fetches), 1);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn command_past_deadline_fails() {
    let worker = TestWorker::with_concurrency(1);
    let mut late = leased_command(1, "hang");
    late.deadline_at = Some(late.claimed_at.saturating_add(Millis::from_secs(20)));
    let started = tokio::time::Instant::now();
    worker.server.enqueue([late]);
    worker.wait_for_reports(1).await;
    assert!(started.elapsed() < Duration::from_secs(22));
    let error = worker.server.final_reports()[0].error.clone().unwrap();
    assert_eq!(error.kind, TaskErrorKind::Timeout);
    assert_eq!(worker.tools.running_count(), 0);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn large_context_is_fetched_and_verified() {
    let worker = TestWorker::with_concurrency(1);
    let context = Json::object([("render_context", Json::object([("city", Json::from("Rome"))]))]);
    let digest = sha256(context.to_string()).to_string();
    worker
        .server
        .with_state(|state| state.payloads.insert("noetl://c".to_owned(), context.clone()));
    let by_reference = |id, digest: &str| {
        let mut command = leased_command(id, "reads");
        let reference = [("ref", Json::from("noetl://c")), ("sha256", Json::from(digest))];
        command.context = [("context_ref".into(), Json::object(reference))].into();
        command
    };
    worker.server.enqueue([
        by_reference(1, &digest),
        by_reference(2, &digest),
        by_reference(3, &"0".repeat(64)),
    ]);
    worker.wait_for_reports(3).await;
    let reports = worker.server.final_reports();
    assert_eq!(reports[0].result, Some(Json::from("Rome")));
    assert_eq!(reports[1].result, Some(Json::from("Rome")));
    let error = reports[2].error.as_ref().unwrap();
    assert_eq!(error.kind, TaskErrorKind::StorageAccess);
    // The second was served from the cache. The third was not, since its digest differs.
    assert_eq!(worker.server.with_state(|state| state.payload_fetches), 2);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn rejected_result_is_reported_as_failure() {
    let worker = TestWorker::with_concurrency(4);
    worker.server.with_state(|state| state.too_large_results.insert(2));
    worker.server.enqueue([
        leased_command(1, "ok"),
        leased_command(2, "ok"),
        leased_command(3, "ok"),
    ]);
    worker.wait_for_reports(3).await;
    let reports = worker.server.final_reports();
    let second = reports.iter().find(|report| report.command_id.get() == 2).unwrap();
    assert_eq!(second.error.as_ref().unwrap().kind, TaskErrorKind::Limit);
    assert_eq!(second.result, None);
    let completed = reports.iter().filter(|report| report.status == ReportStatus::Completed);
    assert_eq!(completed.count(), 2);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn every_final_verdict_frees_the_permit() {
    let worker = TestWorker::with_concurrency(1);
    for (id, verdict) in [
        (1, (ReportDisposition::Ignored, Some(ErrorCode::StaleAttempt))),
        (2, (ReportDisposition::Duplicate, None)),
        (3, (ReportDisposition::Rejected, Some(ErrorCode::NotLeaseHolder))),
        (4, (ReportDisposition::Rejected, Some(ErrorCode::StoreUnavailable))),
    ] {
        worker.server.with_state(|state| state.verdicts.insert(id, verdict));
    }
    worker.server.enqueue((1..=5).map(|id| leased_command(id, "ok")));
    worker.wait_for_reports(6).await;
    // Temporary errors are retried.
    assert_eq!(worker.server.reported_ids(), [1, 2, 3, 4, 4, 5]);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn worker_survives_invalid_responses() {
    let worker = TestWorker::with_concurrency(1);
    worker.server.with_state(|state| {
        state.ignores_requested_max = true;
        state.omits_report_results = true;
    });
    let mut unknown_step = leased_command(1, "ok");
    unknown_step.node_name = "nowhere".parse().unwrap();
    worker.server.enqueue([unknown_step, leased_command(2, "ok"), leased_command(3, "ok")]);
    worker.wait_until("it gives up", |worker| worker.server.final_reports().len() >= 3).await;
    assert_eq!(worker.server.reported_ids(), [1, 1, 1]);
    let error = worker.server.final_reports()[0].error.clone().unwrap();
    assert_eq!(error.kind, TaskErrorKind::Schema);
    assert!(worker.tools.peak_count() <= 1);
    worker.server.with_state(|state| state.omits_report_results = false);
    worker.server.enqueue([leased_command(4, "ok")]);
    worker.wait_until("it continues", |worker| worker.server.reported_ids().contains(&4)).await;
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn later_attempt_replaces_earlier_one() {
    let worker = TestWorker::with_concurrency(2);
    worker.server.enqueue([leased_command(1, "hang")]);
    worker.wait_until("it hangs", |worker| worker.tools.running_count() == 1).await;
    let mut second = leased_command(1, "ok");
    second.attempt = 2;
    worker.server.enqueue([second]);
    worker.wait_for_reports(1).await;
    assert_eq!(worker.server.final_reports()[0].attempt, 2);
    worker.wait_until("the first is stopped", |worker| worker.tools.running_count() == 0).await;
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn payload_read_by_template_is_fetched() {
    let worker = TestWorker::with_concurrency(1);
    let digest = sha256(r#""Rome""#).to_string();
    let reference = [("ref", Json::from("noetl://p")), ("sha256", Json::from(digest))];
    let mut reads = leased_command(1, "reads");
    reads.context = [
        ("render_context".into(), Json::object([("city", Json::object(reference))])),
        ("references".into(), Json::list([Json::from("city")])),
    ]
    .into();
    let payload = Json::from("Rome");
    worker.server.with_state(|state| state.payloads.insert("noetl://p".to_owned(), payload));
    worker.server.enqueue([reads]);
    worker.wait_for_reports(1).await;
    let report = worker.server.final_reports().remove(0);
    assert_eq!(report.result, Some(Json::from("Rome")), "{report:?}");
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn oversized_result_fails_its_task() {
    let settings = WorkerSettings {
        max_result_size: noetl_types::ByteSize::from_bytes(5),
        ..test_settings(1)
    };
    let worker = TestWorker::start(settings, FakeServer::default());
    worker.server.enqueue([leased_command(1, "ok")]);
    worker.wait_for_reports(1).await;
    let error = worker.server.final_reports()[0].error.clone().unwrap();
    assert_eq!(error.kind, TaskErrorKind::Limit);
    assert!(error.message.contains("larger than 5 bytes"));
    worker.shut_down().await;
}
