//! Progress reports of running commands.

use noetl_api::command::{CommandReport, ReportDisposition, ReportStatus};
use noetl_types::{ErrorCode, Json};

use super::TestWorker;
use super::fake::leased_command;

impl TestWorker {
    /// A worker with a cached playbook: fetching one takes long enough to trigger a progress
    /// report.
    async fn with_cached_playbook() -> Self {
        let worker = Self::with_concurrency(2);
        worker.server.enqueue([leased_command(100, "ok")]);
        worker.wait_for_reports(1).await;
        worker.server.with_state(|state| state.progress_reports.clear());
        worker
    }

    fn progress_reports(&self) -> Vec<CommandReport> {
        self.server.with_state(|state| state.progress_reports.clone())
    }
}

/// Retried attempts of a report and the number of retries before them.
fn reported_retries(report: &CommandReport) -> (Vec<u32>, u32) {
    let attempts = report.retries.iter().map(|retry| retry.attempt);
    (attempts.collect(), report.retries_before)
}

#[tokio::test(start_paused = true)]
async fn short_command_reports_no_progress() {
    let worker = TestWorker::with_cached_playbook().await;
    worker.server.enqueue([
        leased_command(1, "ok"),
        leased_command(2, "nap"),
        leased_command(3, "twitchy"),
    ]);
    worker.wait_for_reports(4).await;
    assert_eq!(worker.progress_reports(), []);
    let last = worker.server.final_reports().pop().unwrap();
    assert_eq!(reported_retries(&last), (vec![1, 2], 0));
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn long_command_reports_progress_once() {
    let worker = TestWorker::with_cached_playbook().await;
    worker.server.enqueue([leased_command(1, "long")]);
    worker.wait_for_reports(2).await;
    let progress = worker.progress_reports();
    assert_eq!(progress.len(), 1);
    assert_eq!(progress[0].status, ReportStatus::Progress);
    let leased = leased_command(1, "long");
    assert_eq!(progress[0].lease_token, leased.lease_token);
    assert_eq!(progress[0].claimed_at, Some(leased.claimed_at));
    assert!(progress[0].started_at.is_some() && progress[0].finished_at.is_none());
    assert_eq!((&progress[0].result, reported_retries(&progress[0])), (&None, (vec![], 0)));
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn retry_is_reported_once_before_its_delay() {
    let worker = TestWorker::with_cached_playbook().await;
    worker.server.enqueue([leased_command(1, "flaky")]);
    worker.wait_until("it waits", |worker| !worker.progress_reports().is_empty()).await;
    assert_eq!(worker.server.final_reports().len(), 1, "it is not over");
    worker.wait_for_reports(2).await;
    let progress: Vec<_> = worker.progress_reports().iter().map(reported_retries).collect();
    assert_eq!(progress, [(vec![1], 0), (vec![2], 1)]);
    let report = worker.server.final_reports().pop().unwrap();
    assert_eq!(report.status, ReportStatus::Completed);
    assert_eq!(reported_retries(&report), (vec![], 2));
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn unacknowledged_retry_is_reported_again() {
    let worker = TestWorker::with_cached_playbook().await;
    worker.server.with_state(|state| state.progress_responses_to_lose = 1);
    worker.server.enqueue([leased_command(1, "flaky")]);
    worker.wait_for_reports(2).await;
    let progress: Vec<_> = worker.progress_reports().iter().map(reported_retries).collect();
    assert_eq!(progress, [(vec![1], 0), (vec![1], 0), (vec![2], 1)]);

    worker.server.with_state(|state| {
        state.progress_reports.clear();
        state.progress_responses_to_lose = u32::MAX;
    });
    worker.server.enqueue([leased_command(2, "flaky")]);
    worker.wait_for_reports(3).await;
    assert!(worker.progress_reports().len() > 2);
    let report = worker.server.final_reports().pop().unwrap();
    assert_eq!(report.result, Some(Json::from("7:2:flaky:1")));
    assert_eq!(reported_retries(&report), (vec![1, 2], 0));
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn rejected_progress_does_not_affect_task() {
    for verdict in [
        (ReportDisposition::Ignored, Some(ErrorCode::StaleAttempt)),
        (ReportDisposition::Duplicate, None),
        (ReportDisposition::Rejected, Some(ErrorCode::Validation)),
    ] {
        let worker = TestWorker::with_cached_playbook().await;
        worker.server.with_state(|state| state.progress_verdict = Some(verdict));
        worker.server.enqueue([leased_command(1, "flaky")]);
        worker.wait_for_reports(2).await;
        // A final verdict is not retried.
        assert_eq!(worker.progress_reports().len(), 1, "{verdict:?}");
        let report = worker.server.final_reports().pop().unwrap();
        assert_eq!(report.status, ReportStatus::Completed);
        assert_eq!(reported_retries(&report), (vec![1, 2], 0));
        worker.shut_down().await;
    }
    let worker = TestWorker::with_cached_playbook().await;
    let temporary = (ReportDisposition::Rejected, Some(ErrorCode::StoreUnavailable));
    worker.server.with_state(|state| state.progress_verdict = Some(temporary));
    worker.server.enqueue([leased_command(1, "flaky")]);
    worker
        .wait_until("progress is reported again", |worker| worker.progress_reports().len() > 1)
        .await;
    worker.server.with_state(|state| state.progress_verdict = None);
    worker.wait_for_reports(2).await;
    let report = worker.server.final_reports().pop().unwrap();
    assert_eq!(reported_retries(&report), (vec![], 2));
    worker.shut_down().await;
}
