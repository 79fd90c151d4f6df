//! Rate limits per token and per tenant, as token buckets.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use noetl_types::{TenantId, TokenId};
use tokio::time::Instant;

use super::access::CallerIdentity;

/// Rate limiter of all API tokens and tenants.
pub(in crate::http) struct RateLimiter {
    tokens: TokenBuckets<TokenId>,
    tenants: TokenBuckets<TenantId>,
}

impl RateLimiter {
    /// Creates a limiter with maximum requests per second; 0 for no limit.
    pub(in crate::http) fn new(per_token: u32, per_tenant: u32) -> Self {
        Self { tokens: TokenBuckets::new(per_token), tenants: TokenBuckets::new(per_tenant) }
    }

    /// Counts a request. Returns true if it exceeds a limit.
    pub(in crate::http) fn is_rate_exceeded(&self, identity: &CallerIdentity) -> bool {
        let now = Instant::now();
        if let Some(token_id) = identity.token_id()
            && !self.tokens.take_permit(&token_id, now)
        {
            return true;
        }
        !self.tenants.take_permit(&identity.auth_context().tenant_id, now)
    }
}

/// One bucket per key. A bucket holds at most `rate` permits and gains `rate` permits per second.
struct TokenBuckets<K> {
    rate: f64,
    buckets: Mutex<HashMap<K, TokenBucket>>,
}

struct TokenBucket {
    permits: f64,
    updated_at: Instant,
}

/// Number of buckets above which full ones are dropped. Dropping a full bucket changes nothing.
const MAX_BUCKETS: usize = 10_000;

impl<K: Hash + Eq + Clone> TokenBuckets<K> {
    fn new(rate: u32) -> Self {
        Self { rate: rate.into(), buckets: Mutex::default() }
    }

    /// Takes a permit. Returns false if the bucket is empty.
    fn take_permit(&self, key: &K, now: Instant) -> bool {
        if self.rate == 0.0 {
            return true;
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_BUCKETS && !buckets.contains_key(key) {
            let rate = self.rate;
            buckets.retain(|_, bucket| bucket.refilled_permits(rate, now) < rate);
        }
        let bucket = buckets
            .entry(key.clone())
            .or_insert(TokenBucket { permits: self.rate, updated_at: now });
        bucket.permits = bucket.refilled_permits(self.rate, now);
        bucket.updated_at = now;
        if bucket.permits < 1.0 {
            return false;
        }
        bucket.permits -= 1.0;
        true
    }
}

impl TokenBucket {
    fn refilled_permits(&self, rate: f64, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.updated_at).as_secs_f64();
        rate.min(elapsed.mul_add(rate, self.permits))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn bucket_refills_over_time() {
        let buckets = TokenBuckets::new(2);
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
        let buckets = TokenBuckets::new(0);
        let now = Instant::now();
        assert!((0..100).all(|_| buckets.take_permit(&"a", now)));
        assert!(buckets.buckets.lock().unwrap().is_empty());
    }
}
