//! What is told of a command while it is at work.

use noetl_api::command::{CommandReport, ReportStatus, ReportVerdict};
use noetl_types::{ErrorCode, Json};

use super::Bench;
use super::fake::command;

impl Bench {
    /// A worker that knows the playbook already: to fetch it takes long enough to be told.
    async fn warm() -> Self {
        let bench = Self::of(2);
        bench.server.offer([command(100, "ok")]);
        bench.until_reported(1).await;
        bench.server.see(|seen| seen.said.clear());
        bench
    }

    /// What commands said while they were at work.
    fn said(&self) -> Vec<CommandReport> {
        self.server.see(|seen| seen.said.clone())
    }
}

/// Which attempts a report tells of, and how many there were before.
fn retries(report: &CommandReport) -> (Vec<u32>, u32) {
    let attempts = report.retries.iter().map(|retry| retry.attempt);
    (attempts.collect(), report.retries_before)
}

#[tokio::test(start_paused = true)]
async fn a_command_that_is_soon_over_tells_its_end_alone() {
    let bench = Bench::warm().await;
    bench
        .server
        .offer([command(1, "ok"), command(2, "nap"), command(3, "twitchy")]);
    bench.until_reported(4).await;
    assert_eq!(bench.said(), []);
    let last = bench.server.taken().pop().unwrap();
    assert_eq!(retries(&last), (vec![1, 2], 0));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_command_that_is_at_work_for_a_while_says_so_once() {
    let bench = Bench::warm().await;
    bench.server.offer([command(1, "long")]);
    bench.until_reported(2).await;
    let said = bench.said();
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].status, ReportStatus::Progress);
    let leased = command(1, "long");
    assert_eq!(said[0].lease_token, leased.lease_token);
    assert_eq!(said[0].claimed_at, Some(leased.claimed_at));
    assert!(said[0].started_at.is_some() && said[0].finished_at.is_none());
    assert_eq!((&said[0].result, retries(&said[0])), (&None, (vec![], 0)));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_made_again_is_told_before_the_wait_and_once() {
    let bench = Bench::warm().await;
    bench.server.offer([command(1, "flaky")]);
    bench
        .until("it waits", |bench| !bench.said().is_empty())
        .await;
    assert_eq!(bench.server.taken().len(), 1, "it is not over");
    bench.until_reported(2).await;
    let said: Vec<_> = bench.said().iter().map(retries).collect();
    assert_eq!(said, [(vec![1], 0), (vec![2], 1)]);
    let report = bench.server.taken().pop().unwrap();
    assert_eq!(report.status, ReportStatus::Completed);
    assert_eq!(retries(&report), (vec![], 2));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_may_not_have_been_heard_is_told_again_under_the_same_number() {
    let bench = Bench::warm().await;
    bench.server.see(|seen| seen.answers_to_lose = 1);
    bench.server.offer([command(1, "flaky")]);
    bench.until_reported(2).await;
    let said: Vec<_> = bench.said().iter().map(retries).collect();
    assert_eq!(said, [(vec![1], 0), (vec![1], 0), (vec![2], 1)]);

    bench.server.see(|seen| {
        seen.said.clear();
        seen.answers_to_lose = u32::MAX;
    });
    bench.server.offer([command(2, "flaky")]);
    bench.until_reported(3).await;
    assert!(bench.said().len() > 2);
    let report = bench.server.taken().pop().unwrap();
    assert_eq!(report.result, Some(Json::from("7:2:flaky:1")));
    assert_eq!(retries(&report), (vec![1, 2], 0));
    bench.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_task_does_not_care_whether_anybody_hears() {
    for answer in [
        (ReportVerdict::Ignored, Some(ErrorCode::StaleAttempt)),
        (ReportVerdict::Duplicate, None),
        (ReportVerdict::Rejected, Some(ErrorCode::Validation)),
    ] {
        let bench = Bench::warm().await;
        bench
            .server
            .see(|seen| seen.answers_what_is_said = Some(answer));
        bench.server.offer([command(1, "flaky")]);
        bench.until_reported(2).await;
        // Nobody wants to hear it, so it is said once.
        assert_eq!(bench.said().len(), 1, "{answer:?}");
        let report = bench.server.taken().pop().unwrap();
        assert_eq!(report.status, ReportStatus::Completed);
        assert_eq!(retries(&report), (vec![1, 2], 0));
        bench.end().await;
    }
    let bench = Bench::warm().await;
    let busy = (ReportVerdict::Rejected, Some(ErrorCode::StoreUnavailable));
    bench
        .server
        .see(|seen| seen.answers_what_is_said = Some(busy));
    bench.server.offer([command(1, "flaky")]);
    bench
        .until("it is said again", |bench| bench.said().len() > 1)
        .await;
    bench.server.see(|seen| seen.answers_what_is_said = None);
    bench.until_reported(2).await;
    let report = bench.server.taken().pop().unwrap();
    assert_eq!(retries(&report), (vec![], 2));
    bench.end().await;
}
