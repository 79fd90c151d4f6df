use super::*;

fn test_execution_id() -> ExecutionId {
    ExecutionId::new(7).unwrap()
}

fn log_version(number: i64) -> ExecutionVersion {
    ExecutionVersion::new(number).unwrap()
}

/// True if a future is ready immediately.
async fn is_ready<F: Future>(wait: F) -> bool {
    tokio::time::timeout(std::time::Duration::ZERO, wait).await.is_ok()
}

#[tokio::test]
async fn follower_sees_progress_and_end() {
    let followers = ExecutionFollowers::default();
    let mut follower = followers.follow_execution(test_execution_id());
    followers.notify_progress(test_execution_id(), log_version(3), None);
    follower.wait_past(log_version(2)).await;
    assert!(!is_ready(follower.wait_past(log_version(3))).await);
    followers.notify_progress(test_execution_id(), log_version(9), Some("done"));
    assert_eq!(follower.wait_for_end().await, Some("done"));
}

#[tokio::test]
async fn end_is_kept_after_later_events() {
    let followers = ExecutionFollowers::default();
    let mut follower = followers.follow_execution(test_execution_id());
    followers.notify_progress(test_execution_id(), log_version(9), Some("done"));
    followers.notify_progress(test_execution_id(), log_version(10), None);
    assert_eq!(follower.wait_for_end().await, Some("done"));
    follower.wait_past(log_version(9)).await;
}

#[tokio::test]
async fn recheck_wakes_each_follower_once() {
    let followers = ExecutionFollowers::<()>::default();
    let mut follower = followers.follow_execution(test_execution_id());
    followers.notify_changed(test_execution_id(), false);
    follower.wait_past(log_version(3)).await;
    assert!(!is_ready(follower.wait_past(log_version(3))).await, "already rechecked");
    assert!(!is_ready(follower.wait_for_end()).await, "it has not ended");
    followers.notify_changed(test_execution_id(), true);
    assert_eq!(follower.wait_for_end().await, None);
    assert!(!is_ready(follower.wait_for_end()).await, "already rechecked");
    followers.notify_all();
    assert_eq!(follower.wait_for_end().await, None);
    follower.wait_past(log_version(3)).await;
    let mut late = followers.follow_execution(test_execution_id());
    assert!(!is_ready(late.wait_past(log_version(3))).await, "a new follower reads first");
}

#[test]
fn dropped_followers_are_removed() {
    let followers = ExecutionFollowers::<()>::default();
    let (first, second) = (
        followers.follow_execution(test_execution_id()),
        followers.follow_execution(test_execution_id()),
    );
    drop(first);
    assert!(followers.has_followers(test_execution_id()));
    drop(second);
    assert!(!followers.has_followers(test_execution_id()));
}
