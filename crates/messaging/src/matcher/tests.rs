use super::*;

const NOW: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_hours(1);

fn shared_pool() -> PoolName {
    PoolName::new("shared").unwrap()
}

fn test_poller(max: usize) -> Poller {
    Poller { worker: WorkerId::new("w1").unwrap(), kinds: None, max, lease: Millis::from_secs(30) }
}

fn start_wait(matcher: &Matcher<u32>) -> PollWait<u32> {
    let mark = matcher.backlog_mark(&shared_pool());
    matcher.start_wait(&shared_pool(), test_poller(1), mark).unwrap()
}

#[tokio::test]
async fn waiting_poller_receives_work() {
    let matcher = Matcher::default();
    let wait = start_wait(&matcher);
    let reserved = matcher.reserve_poller(&shared_pool(), "noop").unwrap();
    assert!(matcher.reserve_poller(&shared_pool(), "noop").is_none());
    reserved.deliver_work(vec![7]).unwrap();
    assert_eq!(wait.wait_for_wake(LONG).await, Some(WakeReason::Work(vec![7])));
}

#[tokio::test]
async fn work_for_dropped_poller_is_returned() {
    let matcher = Matcher::default();
    let wait = start_wait(&matcher);
    let reserved = matcher.reserve_poller(&shared_pool(), "noop").unwrap();
    drop(wait);
    assert_eq!(reserved.deliver_work(vec![7]), Err(vec![7]));
}

#[tokio::test]
async fn released_reservation_keeps_waiting() {
    let matcher = Matcher::default();
    let wait = start_wait(&matcher);
    let reserved = matcher.reserve_poller(&shared_pool(), "noop").unwrap();
    matcher.return_reservation(reserved);
    assert_eq!(matcher.waiting_count(&shared_pool()), 1);
    assert_eq!(wait.wait_for_wake(NOW).await, None);
    assert_eq!(matcher.waiting_count(&shared_pool()), 0);
}

#[tokio::test]
async fn backlog_wakes_as_many_pollers_as_needed() {
    let matcher = Matcher::default();
    let (first, second) = (start_wait(&matcher), start_wait(&matcher));
    matcher.add_backlog(&shared_pool(), 1);
    assert_eq!(first.wait_for_wake(LONG).await, Some(WakeReason::Recheck));
    assert_eq!(matcher.waiting_count(&shared_pool()), 1);
    assert_eq!(second.wait_for_wake(NOW).await, None);
}

#[tokio::test]
async fn dismissed_worker_receives_no_work() {
    let matcher = Matcher::default();
    let wait = start_wait(&matcher);
    matcher.dismiss_worker(&WorkerId::new("w2").unwrap());
    assert_eq!(matcher.waiting_count(&shared_pool()), 1);
    matcher.dismiss_worker(&WorkerId::new("w1").unwrap());
    assert!(matcher.reserve_poller(&shared_pool(), "noop").is_none());
    assert_eq!(wait.wait_for_wake(LONG).await, Some(WakeReason::Work(vec![])));
}

#[test]
fn backlog_since_mark_prevents_wait() {
    let matcher = Matcher::<u32>::default();
    let mark = matcher.backlog_mark(&shared_pool());
    assert!(mark.has_backlog, "work from before this process");
    matcher.clear_backlog(&shared_pool(), mark);
    assert!(!matcher.backlog_mark(&shared_pool()).has_backlog);
    matcher.add_backlog(&shared_pool(), 1);
    assert!(matcher.start_wait(&shared_pool(), test_poller(1), mark).is_none());
    matcher.clear_backlog(&shared_pool(), mark);
    assert!(matcher.backlog_mark(&shared_pool()).has_backlog, "the mark is older");
}

#[test]
fn recheck_since_mark_prevents_wait() {
    let matcher = Matcher::<u32>::default();
    let mark = matcher.backlog_mark(&shared_pool());
    matcher.recheck_all();
    matcher.clear_backlog(&shared_pool(), mark);
    assert!(matcher.backlog_mark(&shared_pool()).has_backlog);
    assert!(matcher.start_wait(&shared_pool(), test_poller(1), mark).is_none());
}

#[test]
fn unused_pools_are_not_stored() {
    let matcher = Matcher::<u32>::default();
    matcher.add_backlog(&shared_pool(), 1);
    assert!(matcher.pools.lock().is_empty());
    assert!(matcher.backlog_mark(&shared_pool()).has_backlog);
}

#[test]
fn poller_receives_only_supported_kinds() {
    let matcher = Matcher::<u32>::default();
    let mark = matcher.backlog_mark(&shared_pool());
    let only_http = Poller { kinds: Some(vec!["http".into()]), ..test_poller(1) };
    let _wait = matcher.start_wait(&shared_pool(), only_http, mark).unwrap();
    assert!(matcher.reserve_poller(&shared_pool(), "python").is_none());
    assert!(matcher.reserve_poller(&shared_pool(), "http").is_some());
}
