//! A worker between a server and tools that are played.

mod errands;
mod fake;
mod progress;
mod secrets;

use std::sync::Arc;
use std::time::Duration;

use noetl_api::ApiError;
use noetl_api::command::{ReportStatus, ReportVerdict};
use noetl_types::{ErrorCode, Json, Millis, TaskErrorKind, sha256};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{Metrics, Settings, Worker, WorkerError};
use fake::{FakeServer, FakeTools, command, settings};

/// A worker at work.
struct Bench {
    server: Arc<FakeServer>,
    tools: Arc<FakeTools>,
    metrics: Arc<Metrics>,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), WorkerError>>,
}

impl Bench {
    fn start(settings: Settings, server: FakeServer) -> Self {
        let (server, tools) = (Arc::new(server), Arc::new(FakeTools::default()));
        let shutdown = CancellationToken::new();
        let worker =
            Worker::with_tools(Arc::clone(&server) as _, Arc::clone(&tools) as _, settings);
        let metrics = worker.metrics();
        let running = tokio::spawn(worker.run(shutdown.clone()));
        Self {
            server,
            tools,
            metrics,
            shutdown,
            running,
        }
    }

    fn of(slots: u32) -> Self {
        Self::start(settings(slots), FakeServer::default())
    }

    /// Waits for something to become true. Time is not real, so it costs none.
    async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..200_000 {
            if is_so(self) {
                return;
            }
            assert!(
                !self.running.is_finished(),
                "the worker ended before: {what}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("never: {what}");
    }

    async fn until_reported(&self, count: usize) {
        let what = format!("{count} reports");
        self.until(&what, |bench| bench.server.taken().len() >= count)
            .await;
    }

    /// What is counted under a name, with its labels.
    fn counted(&self, name: &str) -> String {
        let text = self.metrics.text().unwrap();
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
        let value = lines.find_map(|rest| rest.strip_prefix(' '));
        value.unwrap_or("nothing").to_owned()
    }

    async fn end(self) {
        self.shutdown.cancel();
        self.running.await.unwrap().unwrap();
        assert_eq!(self.server.see(|seen| seen.goodbyes), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_is_run_and_reported() {
    let bench = Bench::of(2);
    bench.server.offer([command(1, "ok")]);
    bench.until_reported(1).await;
    let report = bench.server.taken().remove(0);
    assert_eq!(report.status, ReportStatus::Completed);
    assert_eq!(report.result, Some(Json::from("7:1:ok:1")));
    assert_eq!(report.tasks[0].label, "ok");
    assert!(report.tasks[0].duration_ms.is_some());
    assert!(report.started_at.is_some() && report.finished_at.is_some());
    let leased = command(1, "ok");
    assert_eq!(report.claimed_at, Some(leased.claimed_at));
    assert_eq!(report.lease_until, Some(leased.lease_until));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_it_does_is_counted() {
    let bench = Bench::of(4);
    assert_eq!(bench.counted("noetl_worker_slots"), "4");
    let renewals = |outcome: &str| {
        let name = format!("noetl_worker_lease_renewals_total{{outcome=\"{outcome}\"}}");
        bench.counted(&name)
    };
    let commands = |outcome: &str| {
        let name = format!("noetl_worker_commands_total{{kind=\"shell\",outcome=\"{outcome}\"}}");
        bench.counted(&name)
    };
    assert_eq!((&*renewals("kept"), &*renewals("lost")), ("0", "0"));
    bench
        .server
        .offer([command(1, "ok"), command(2, "boom"), command(3, "hang")]);
    bench.until_reported(2).await;
    assert_eq!((&*commands("completed"), &*commands("failed")), ("1", "1"));
    assert_eq!(bench.counted("noetl_worker_in_flight"), "1");
    bench
        .until("the lease is kept", |_| renewals("kept") != "0")
        .await;
    bench.server.see(|seen| seen.cancelled.insert(3));
    bench
        .until("it is stopped", |bench| bench.tools.running() == 0)
        .await;
    bench
        .until("it is counted", |_| commands("abandoned") == "1")
        .await;
    assert_eq!(renewals("lost"), "1");
    assert_eq!(bench.counted("noetl_worker_in_flight"), "0");
    let seconds = "noetl_worker_command_seconds_count{kind=\"shell\"}";
    assert_eq!(bench.counted(seconds), "2");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn slots_are_never_exceeded_and_all_of_them_are_used() {
    let bench = Bench::of(8);
    bench.server.offer((1..=200).map(|id| command(id, "nap")));
    bench.until_reported(200).await;
    assert_eq!(bench.tools.peak(), 8);
    assert_eq!(bench.server.see(|seen| seen.peak_promised), 8);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_report_brings_the_next_work() {
    let bench = Bench::of(1);
    bench
        .server
        .see(|seen| seen.follow_up = (1..50).map(|id| command(id, "ok")).collect());
    bench.server.offer([command(50, "ok")]);
    bench.until_reported(50).await;
    // One poll brought the first command; the others came with the answers to reports.
    assert_eq!(bench.server.see(|seen| seen.polls_with_work), 1);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn results_that_pile_up_go_together() {
    let bench = Bench::of(32);
    bench
        .server
        .see(|seen| seen.report_delay = Duration::from_secs(1));
    bench.server.offer((1..=32).map(|id| command(id, "ok")));
    bench.until_reported(32).await;
    let batches = bench.server.see(|seen| seen.report_batches.clone());
    assert!(batches.len() <= 9, "{batches:?}");
    assert!(bench.server.see(|seen| seen.peak_reports) <= 4);
    assert_eq!(batches.iter().sum::<usize>(), 32);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_command_is_stopped_and_not_reported() {
    let bench = Bench::of(1);
    bench.server.offer([command(1, "hang")]);
    bench
        .until("it hangs", |bench| bench.tools.running() == 1)
        .await;
    bench.server.see(|seen| seen.cancelled.insert(1));
    bench
        .until("it is stopped", |bench| bench.tools.running() == 0)
        .await;
    bench.server.offer([command(2, "ok")]);
    bench.until_reported(1).await;
    assert_eq!(bench.server.reported_ids(), [2]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reported_for_a_lost_lease() {
    let bench = Bench::of(1);
    bench.server.see(|seen| seen.lost.insert(1));
    bench.server.offer([command(1, "hang"), command(2, "ok")]);
    bench.until_reported(1).await;
    assert_eq!(bench.server.reported_ids(), [2]);
    assert!(bench.server.see(|seen| seen.heartbeats) >= 1);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_at_a_third() {
    let bench = Bench::of(1);
    bench.server.offer([command(1, "long")]);
    bench.until_reported(1).await;
    // A minute with a lease of thirty seconds: five or six renewals.
    let renewals = bench.server.see(|seen| seen.heartbeats);
    assert!((5..=7).contains(&renewals), "{renewals}");
    bench.end().await;
}

/// Who cancels a command does not wait for a third of an hour.
#[tokio::test(start_paused = true)]
async fn long_leases_are_renewed_no_less_often() {
    let hour = Millis::from_minutes(60);
    let settings = Settings {
        lease: hour,
        ..settings(1)
    };
    let bench = Bench::start(settings, FakeServer::default());
    let mut long = command(1, "long");
    long.lease_until = long.claimed_at.saturating_add(hour);
    bench.server.offer([long]);
    bench.until_reported(1).await;
    let renewals = bench.server.see(|seen| seen.heartbeats);
    assert!((5..=7).contains(&renewals), "{renewals}");
    bench.end().await;
}

/// The lease of a short task ends with the task's deadline, which says nothing of other leases.
#[tokio::test(start_paused = true)]
async fn a_short_task_does_not_quicken_renewals() {
    let bench = Bench::of(2);
    let mut short = command(1, "ok");
    let deadline = short.claimed_at.saturating_add(Millis::from_ms(300));
    short.lease_until = deadline;
    short.deadline_at = Some(deadline);
    bench.server.offer([short, command(2, "long")]);
    bench.until_reported(2).await;
    let renewals = bench.server.see(|seen| seen.heartbeats);
    assert!((5..=7).contains(&renewals), "{renewals}");
    bench.end().await;
}

/// A server under load takes longer than the pace of short leases; its answer is heard all the same.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_to_a_renewal_is_heard() {
    let bench = Bench::of(1);
    bench.server.see(|seen| {
        seen.heartbeat_delay = Duration::from_secs(1);
        seen.cancelled.insert(1);
    });
    let mut short = command(1, "hang");
    short.lease_until = short.claimed_at.saturating_add(Millis::from_ms(600));
    bench.server.offer([short, command(2, "ok")]);
    bench.until_reported(1).await;
    assert_eq!(bench.server.reported_ids(), [2]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_gets_the_report_when_it_is_back() {
    let bench = Bench::of(2);
    bench.server.offer([command(1, "long"), command(2, "ok")]);
    bench.until_reported(1).await;
    bench.server.see(|seen| seen.is_away = true);
    bench
        .until("the long one ends", |bench| bench.tools.running() == 0)
        .await;
    bench
        .until("it was tried", |bench| {
            bench.server.see(|seen| seen.turned_away) > 5
        })
        .await;
    bench.server.see(|seen| seen.is_away = false);
    bench.until_reported(2).await;
    assert_eq!(bench.server.reported_ids(), [2, 1]);
    bench.server.offer([command(3, "ok")]);
    bench.until_reported(3).await;
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_starts_before_its_server() {
    let server = FakeServer::default();
    server.see(|seen| seen.is_away = true);
    let bench = Bench::start(settings(1), server);
    bench
        .until("it was tried", |bench| {
            bench.server.see(|seen| seen.turned_away) > 3
        })
        .await;
    bench.server.see(|seen| seen.is_away = false);
    bench.server.offer([command(1, "ok")]);
    bench.until_reported(1).await;
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_refused_ends() {
    let server = FakeServer::default();
    server.see(|seen| seen.is_forbidden = true);
    let bench = Bench::start(settings(1), server);
    let ended = bench.running.await.unwrap();
    let refusal = ApiError::refused(ErrorCode::Forbidden, "no");
    assert_eq!(ended, Err(WorkerError::Refused(refusal)));
}

/// Hole R8.
#[tokio::test(start_paused = true)]
async fn a_fenced_worker_drops_its_work_and_registers_again() {
    let bench = Bench::of(1);
    bench.server.offer([command(1, "hang")]);
    bench
        .until("it hangs", |bench| bench.tools.running() == 1)
        .await;
    bench.server.see(|seen| seen.is_known = false);
    bench
        .until("it registers", |bench| {
            bench.server.see(|seen| seen.registrations) == 2
        })
        .await;
    bench
        .until("work is dropped", |bench| bench.tools.running() == 0)
        .await;
    bench.server.offer([command(2, "ok")]);
    bench.until_reported(1).await;
    assert_eq!(bench.server.reported_ids(), [2]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_runs_is_finished_before_the_worker_leaves() {
    let patient = Settings {
        drain: Millis::from_minutes(2),
        ..settings(2)
    };
    let bench = Bench::start(patient, FakeServer::default());
    bench.server.offer([command(1, "long")]);
    bench
        .until("it runs", |bench| bench.tools.running() == 1)
        .await;
    let server = Arc::clone(&bench.server);
    bench.shutdown.cancel();
    tokio::task::yield_now().await;
    server.offer([command(2, "ok")]);
    bench.end().await;
    assert_eq!(server.reported_ids(), [1]);
    assert_eq!(
        server.see(|seen| seen.asks_after_report.last().copied()),
        Some(None)
    );
}

#[tokio::test(start_paused = true)]
async fn what_takes_too_long_is_given_back() {
    let bench = Bench::of(2);
    bench.server.offer([command(1, "hang")]);
    bench
        .until("it hangs", |bench| bench.tools.running() == 1)
        .await;
    let (server, tools) = (Arc::clone(&bench.server), Arc::clone(&bench.tools));
    let began = tokio::time::Instant::now();
    bench.end().await;
    assert!(
        began.elapsed() < Duration::from_secs(40),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(tools.running(), 0);
    assert!(server.taken().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_may_ask_the_worker_to_leave() {
    let bench = Bench::of(2);
    bench.server.see(|seen| seen.wants_drain = true);
    bench.running.await.unwrap().unwrap();
    assert_eq!(bench.server.see(|seen| seen.goodbyes), 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_and_the_worker_lives() {
    let bench = Bench::of(1);
    bench.server.offer([command(1, "boom"), command(2, "ok")]);
    bench.until_reported(2).await;
    let reports = bench.server.taken();
    assert_eq!(reports[0].status, ReportStatus::Failed);
    let error = reports[0].error.as_ref().unwrap();
    assert_eq!(error.kind, TaskErrorKind::Unknown);
    assert_eq!(error.task.as_deref(), Some("boom"));
    assert_eq!(reports[1].status, ReportStatus::Completed);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_fetched_once_by_a_hundred_commands() {
    let bench = Bench::of(100);
    bench.server.offer((1..=100).map(|id| command(id, "ok")));
    bench.until_reported(100).await;
    assert_eq!(bench.server.see(|seen| seen.definitions), 1);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_command_out_of_time_fails() {
    let bench = Bench::of(1);
    let mut late = command(1, "hang");
    late.deadline_at = Some(late.claimed_at.saturating_add(Millis::from_secs(20)));
    let began = tokio::time::Instant::now();
    bench.server.offer([late]);
    bench.until_reported(1).await;
    assert!(began.elapsed() < Duration::from_secs(22));
    let error = bench.server.taken()[0].error.clone().unwrap();
    assert_eq!(error.kind, TaskErrorKind::Timeout);
    assert_eq!(bench.tools.running(), 0);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_big_context_is_fetched_and_compared() {
    let bench = Bench::of(1);
    let context = Json::object([(
        "render_context",
        Json::object([("city", Json::from("Rome"))]),
    )]);
    let digest = sha256(context.to_string()).to_string();
    bench.server.see(|seen| {
        seen.payloads
            .insert("noetl://c".to_owned(), context.clone())
    });
    let by_reference = |id, digest: &str| {
        let mut command = command(id, "reads");
        let reference = [
            ("ref", Json::from("noetl://c")),
            ("sha256", Json::from(digest)),
        ];
        command.context = [("context_ref".into(), Json::object(reference))].into();
        command
    };
    bench.server.offer([
        by_reference(1, &digest),
        by_reference(2, &digest),
        by_reference(3, &"0".repeat(64)),
    ]);
    bench.until_reported(3).await;
    let reports = bench.server.taken();
    assert_eq!(reports[0].result, Some(Json::from("Rome")));
    assert_eq!(reports[1].result, Some(Json::from("Rome")));
    let error = reports[2].error.as_ref().unwrap();
    assert_eq!(error.kind, TaskErrorKind::StorageAccess);
    // The second was served from memory; the third, whose digest differs, was not.
    assert_eq!(bench.server.see(|seen| seen.resolved), 2);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_result_that_the_server_does_not_take_is_told_as_a_failure() {
    let bench = Bench::of(4);
    bench.server.see(|seen| seen.too_large.insert(2));
    bench
        .server
        .offer([command(1, "ok"), command(2, "ok"), command(3, "ok")]);
    bench.until_reported(3).await;
    let taken = bench.server.taken();
    let second = taken
        .iter()
        .find(|report| report.command_id.get() == 2)
        .unwrap();
    assert_eq!(second.error.as_ref().unwrap().kind, TaskErrorKind::Limit);
    assert_eq!(second.result, None);
    let fine = taken
        .iter()
        .filter(|report| report.status == ReportStatus::Completed);
    assert_eq!(fine.count(), 2);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn verdicts_of_all_kinds_free_the_slot() {
    let bench = Bench::of(1);
    for (id, verdict) in [
        (1, (ReportVerdict::Ignored, Some(ErrorCode::StaleAttempt))),
        (2, (ReportVerdict::Duplicate, None)),
        (
            3,
            (ReportVerdict::Rejected, Some(ErrorCode::NotLeaseHolder)),
        ),
        (
            4,
            (ReportVerdict::Rejected, Some(ErrorCode::StoreUnavailable)),
        ),
    ] {
        bench.server.see(|seen| seen.verdicts.insert(id, verdict));
    }
    bench.server.offer((1..=5).map(|id| command(id, "ok")));
    bench.until_reported(6).await;
    // What may pass is sent again.
    assert_eq!(bench.server.reported_ids(), [1, 2, 3, 4, 4, 5]);
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn strange_answers_do_no_harm() {
    let bench = Bench::of(1);
    bench.server.see(|seen| {
        seen.is_generous = true;
        seen.is_silent = true;
    });
    let mut nowhere = command(1, "ok");
    nowhere.node_name = "nowhere".parse().unwrap();
    bench
        .server
        .offer([nowhere, command(2, "ok"), command(3, "ok")]);
    bench
        .until("it gives up", |bench| bench.server.taken().len() >= 3)
        .await;
    assert_eq!(bench.server.reported_ids(), [1, 1, 1]);
    let error = bench.server.taken()[0].error.clone().unwrap();
    assert_eq!(error.kind, TaskErrorKind::Schema);
    assert!(bench.tools.peak() <= 1);
    bench.server.see(|seen| seen.is_silent = false);
    bench.server.offer([command(4, "ok")]);
    bench
        .until("it goes on", |bench| {
            bench.server.reported_ids().contains(&4)
        })
        .await;
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_later_attempt_takes_the_place_of_an_earlier_one() {
    let bench = Bench::of(2);
    bench.server.offer([command(1, "hang")]);
    bench
        .until("it hangs", |bench| bench.tools.running() == 1)
        .await;
    let mut again = command(1, "ok");
    again.attempt = 2;
    bench.server.offer([again]);
    bench.until_reported(1).await;
    assert_eq!(bench.server.taken()[0].attempt, 2);
    bench
        .until("the first is stopped", |bench| bench.tools.running() == 0)
        .await;
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_a_template_reads_is_fetched() {
    let bench = Bench::of(1);
    let digest = sha256(r#""Rome""#).to_string();
    let reference = [
        ("ref", Json::from("noetl://p")),
        ("sha256", Json::from(digest)),
    ];
    let mut reads = command(1, "reads");
    reads.context = [
        (
            "render_context".into(),
            Json::object([("city", Json::object(reference))]),
        ),
        ("references".into(), Json::list([Json::from("city")])),
    ]
    .into();
    let payload = Json::from("Rome");
    bench
        .server
        .see(|seen| seen.payloads.insert("noetl://p".to_owned(), payload));
    bench.server.offer([reads]);
    bench.until_reported(1).await;
    let report = bench.server.taken().remove(0);
    assert_eq!(report.result, Some(Json::from("Rome")), "{report:?}");
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_result_over_the_limit_fails_its_task() {
    let small = Settings {
        result_max: noetl_types::ByteSize::from_bytes(5),
        ..settings(1)
    };
    let bench = Bench::start(small, FakeServer::default());
    bench.server.offer([command(1, "ok")]);
    bench.until_reported(1).await;
    let error = bench.server.taken()[0].error.clone().unwrap();
    assert_eq!(error.kind, TaskErrorKind::Limit);
    assert!(error.message.contains("larger than 5 bytes"));
    bench.end().await;
}
