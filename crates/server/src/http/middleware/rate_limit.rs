//! Limits per caller: requests per second and at a time, and failed authentications.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use noetl_types::{ErrorCode, TenantId, TokenId};
use tokio::time::Instant;

use super::access::CallerIdentity;
use crate::http::http_error::HttpError;
use crate::http::settings::HttpSettings;

/// Limits of all API tokens, tenants and addresses.
pub(in crate::http) struct CallerLimits {
    tokens: TokenBuckets<TokenId>,
    tenants: TokenBuckets<TenantId>,
    failed_addresses: TokenBuckets<IpAddr>,
    active: Arc<ActiveRequests>,
}

impl CallerLimits {
    pub(in crate::http) fn new(settings: &HttpSettings) -> Self {
        let failures = f64::from(settings.auth_failures_per_minute);
        Self {
            tokens: TokenBuckets::per_second(settings.rate_per_token),
            tenants: TokenBuckets::per_second(settings.rate_per_tenant),
            failed_addresses: TokenBuckets::new(failures / 60.0, failures),
            active: Arc::new(ActiveRequests {
                max_per_token: settings.max_requests_per_token,
                max_per_tenant: settings.max_requests_per_tenant,
                counts: Mutex::default(),
            }),
        }
    }

    /// Counts a request against the limits of its token and its tenant. It is active until the
    /// returned value is dropped.
    pub(in crate::http) fn admit_request(
        &self,
        identity: &CallerIdentity,
    ) -> Result<ActiveRequest, HttpError> {
        let now = Instant::now();
        let (token_id, tenant_id) = (identity.token_id(), &identity.auth_context().tenant_id);
        let has_permit = token_id.is_none_or(|token_id| self.tokens.take_permit(&token_id, now))
            && self.tenants.take_permit(tenant_id, now);
        if !has_permit {
            let text = "too many requests per second for this token or tenant; retry later";
            return Err(HttpError::new(ErrorCode::RateLimited, text));
        }
        ActiveRequests::start_request(&self.active, token_id, tenant_id)
    }

    /// Counts a failed authentication. Returns true if its address has failed too often.
    pub(in crate::http) fn is_failure_excessive(&self, address: IpAddr) -> bool {
        !self.failed_addresses.take_permit(&client_network(address), Instant::now())
    }
}

/// Address of a client, or its network for IPv6, in which a client has many addresses.
fn client_network(address: IpAddr) -> IpAddr {
    const NETWORK: u128 = !0 << 64;
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        IpAddr::V4(address) => address.into(),
    }
}

/// Token or tenant that requests are counted for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum RequestOwner {
    Token(TokenId),
    Tenant(TenantId),
}

/// Numbers of active requests, including long polls and live streams.
#[derive(Debug)]
struct ActiveRequests {
    max_per_token: usize,
    max_per_tenant: usize,
    counts: Mutex<HashMap<RequestOwner, usize>>,
}

/// A request that is being processed, or whose response is being sent.
#[derive(Debug)]
pub(in crate::http) struct ActiveRequest {
    active: Arc<ActiveRequests>,
    owners: [Option<RequestOwner>; 2],
}

impl ActiveRequests {
    fn start_request(
        active: &Arc<Self>,
        token_id: Option<TokenId>,
        tenant_id: &TenantId,
    ) -> Result<ActiveRequest, HttpError> {
        let owners =
            [token_id.map(RequestOwner::Token), Some(RequestOwner::Tenant(tenant_id.clone()))];
        let mut counts = active.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for owner in owners.iter().flatten() {
            let (name, limit) = match owner {
                RequestOwner::Token(_) => ("token", active.max_per_token),
                RequestOwner::Tenant(_) => ("tenant", active.max_per_tenant),
            };
            if counts.get(owner).is_some_and(|count| *count >= limit) {
                let text = format!(
                    "this {name} has {limit} requests in progress, which is its limit; end live \
                        streams and long polls, or retry later"
                );
                return Err(HttpError::new(ErrorCode::RateLimited, text));
            }
        }
        for owner in owners.iter().flatten() {
            *counts.entry(owner.clone()).or_default() += 1;
        }
        Ok(ActiveRequest { active: Arc::clone(active), owners })
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut counts = self.active.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for owner in self.owners.iter().flatten() {
            if let Some(count) = counts.get_mut(owner) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(owner);
                }
            }
        }
    }
}

/// One bucket per key. A bucket holds at most `capacity` permits and gains `rate` permits per
/// second.
struct TokenBuckets<K> {
    rate: f64,
    capacity: f64,
    buckets: Mutex<HashMap<K, TokenBucket>>,
}

struct TokenBucket {
    permits: f64,
    updated_at: Instant,
}

/// Maximum number of buckets. Full ones are dropped first, which changes nothing.
const MAX_BUCKETS: usize = 10_000;

impl<K: Hash + Eq + Clone> TokenBuckets<K> {
    /// Creates buckets with the permits of one second; 0 means no limit.
    fn per_second(rate: u32) -> Self {
        Self::new(rate.into(), rate.into())
    }

    /// Creates buckets; a rate of 0 means no limit.
    fn new(rate: f64, capacity: f64) -> Self {
        Self { rate, capacity, buckets: Mutex::default() }
    }

    /// Takes a permit. Returns false if the bucket is empty.
    fn take_permit(&self, key: &K, now: Instant) -> bool {
        if self.rate == 0.0 {
            return true;
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_BUCKETS && !buckets.contains_key(key) {
            buckets.retain(|_, bucket| self.refilled_permits(bucket, now) < self.capacity);
            if buckets.len() >= MAX_BUCKETS {
                buckets.clear();
            }
        }
        let bucket = buckets
            .entry(key.clone())
            .or_insert(TokenBucket { permits: self.capacity, updated_at: now });
        bucket.permits = self.refilled_permits(bucket, now);
        bucket.updated_at = now;
        if bucket.permits < 1.0 {
            return false;
        }
        bucket.permits -= 1.0;
        true
    }

    fn refilled_permits(&self, bucket: &TokenBucket, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(bucket.updated_at).as_secs_f64();
        self.capacity.min(elapsed.mul_add(self.rate, bucket.permits))
    }
}

#[cfg(test)]
mod tests;
