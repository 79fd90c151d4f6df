//! How many requests a token and a tenant may make in a second.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use noetl_types::{TenantId, TokenId};
use tokio::time::Instant;

use super::access::Identity;

/// The buckets of all tokens and tenants.
pub(super) struct Rates {
    tokens: Buckets<TokenId>,
    tenants: Buckets<TenantId>,
}

impl Rates {
    /// Requests in a second for each; 0 means any number.
    pub(super) fn new(per_token: u32, per_tenant: u32) -> Self {
        Self {
            tokens: Buckets::new(per_token),
            tenants: Buckets::new(per_tenant),
        }
    }

    /// Counts a request; whether it is one too many.
    pub(super) fn is_beyond(&self, identity: &Identity) -> bool {
        let now = Instant::now();
        if let Some(token_id) = identity.token_id()
            && !self.tokens.take(&token_id, now)
        {
            return true;
        }
        !self.tenants.take(&identity.behalf().tenant_id, now)
    }
}

/// A bucket for each of many, which fills by so many drops a second and holds as many.
struct Buckets<K> {
    rate: f64,
    buckets: Mutex<HashMap<K, Bucket>>,
}

struct Bucket {
    drops: f64,
    since: Instant,
}

/// Buckets that are kept; full ones are forgotten first, which changes nothing.
const MOST: usize = 10_000;

impl<K: Hash + Eq + Clone> Buckets<K> {
    fn new(rate: u32) -> Self {
        Self {
            rate: rate.into(),
            buckets: Mutex::default(),
        }
    }

    /// Takes a drop, if there is one.
    fn take(&self, key: &K, now: Instant) -> bool {
        if self.rate == 0.0 {
            return true;
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST && !buckets.contains_key(key) {
            let rate = self.rate;
            buckets.retain(|_, bucket| bucket.filled(rate, now) < rate);
        }
        let bucket = buckets.entry(key.clone()).or_insert(Bucket {
            drops: self.rate,
            since: now,
        });
        bucket.drops = bucket.filled(self.rate, now);
        bucket.since = now;
        if bucket.drops < 1.0 {
            return false;
        }
        bucket.drops -= 1.0;
        true
    }
}

impl Bucket {
    fn filled(&self, rate: f64, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.since).as_secs_f64();
        rate.min(passed.mul_add(rate, self.drops))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bucket_fills_as_time_passes() {
        let buckets = Buckets::new(2);
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        assert!(buckets.take(&"a", at(0)));
        assert!(buckets.take(&"a", at(0)));
        assert!(!buckets.take(&"a", at(0)));
        assert!(buckets.take(&"b", at(0)), "each has its own");
        assert!(!buckets.take(&"a", at(400)));
        assert!(buckets.take(&"a", at(500)));
        assert!(!buckets.take(&"a", at(500)));
        // It holds no more than a second's worth.
        assert!(buckets.take(&"a", at(60_000)));
        assert!(buckets.take(&"a", at(60_000)));
        assert!(!buckets.take(&"a", at(60_000)));
    }

    #[test]
    fn no_rate_is_no_bound() {
        let buckets = Buckets::new(0);
        let now = Instant::now();
        assert!((0..100).all(|_| buckets.take(&"a", now)));
        assert!(buckets.buckets.lock().unwrap().is_empty());
    }
}
