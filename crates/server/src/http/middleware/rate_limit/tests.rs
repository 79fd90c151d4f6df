use std::time::Duration;

use super::*;

#[test]
fn bucket_refills_over_time() {
    let buckets = TokenBuckets::per_second(2);
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    assert!(buckets.take_permit(&"a", at(0)));
    assert!(buckets.take_permit(&"a", at(0)));
    assert!(!buckets.take_permit(&"a", at(0)));
    assert!(buckets.take_permit(&"b", at(0)), "each key has its own bucket");
    assert!(!buckets.take_permit(&"a", at(400)));
    assert!(buckets.take_permit(&"a", at(500)));
    assert!(!buckets.take_permit(&"a", at(500)));
    // A bucket holds at most the permits of one second.
    assert!(buckets.take_permit(&"a", at(60_000)));
    assert!(buckets.take_permit(&"a", at(60_000)));
    assert!(!buckets.take_permit(&"a", at(60_000)));
}

#[test]
fn zero_rate_means_no_limit() {
    let buckets = TokenBuckets::per_second(0);
    let now = Instant::now();
    assert!((0..100).all(|_| buckets.take_permit(&"a", now)));
    assert!(buckets.buckets.lock().unwrap().is_empty());
}

#[test]
fn number_of_buckets_is_bounded() {
    let buckets = TokenBuckets::new(1.0, 1.0);
    let now = Instant::now();
    assert!((0..3 * MAX_BUCKETS).all(|key| buckets.take_permit(&key, now)));
    assert!(buckets.buckets.lock().unwrap().len() <= MAX_BUCKETS);
}

#[test]
fn clients_are_networks_in_ipv6() {
    let network = |address: &str| client_network(address.parse().unwrap()).to_string();
    assert_eq!(network("10.1.2.3"), "10.1.2.3");
    assert_eq!(network("::ffff:10.1.2.3"), "10.1.2.3");
    assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
}
