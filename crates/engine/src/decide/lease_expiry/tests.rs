use super::*;

#[test]
fn backoff_grows_to_three_seconds() {
    let delays: Vec<u64> =
        [1, 2, 3, 4, 5, 70].map(|attempt| retry_backoff(attempt).as_ms()).to_vec();
    assert_eq!(delays, [500, 1000, 2000, 3000, 3000, 3000]);
}
