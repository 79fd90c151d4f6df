use super::*;

#[tokio::test(start_paused = true)]
async fn delays_grow_to_max_and_respect_retry_after() {
    let mut backoff = Backoff::new();
    let delays: Vec<Duration> = (0..10).map(|_| backoff.next_delay(None)).collect();
    assert!(delays[0] >= INITIAL_BACKOFF / 2 && delays[0] <= INITIAL_BACKOFF);
    assert!(delays[9] >= MAX_BACKOFF / 2 && delays[9] <= MAX_BACKOFF);
    let retry_after = Some(Millis::from_secs(60));
    assert_eq!(backoff.next_delay(retry_after), Duration::from_mins(1));
}
