//! Renewal of leases, and the registration of the worker.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::ApiError;
use noetl_api::command::{HeartbeatRequest, LeaseRenewal};
use noetl_api::runtime::{RegisterWorkerRequest, WorkerName};
use noetl_types::{ErrorCode, Json, Millis, Text};
use tokio::time::sleep;

use crate::backoff::{Backoff, with_jitter};
use crate::context::{WorkerContext, call_with_timeout};
use crate::leases::ActiveLease;
use crate::metrics::RenewalOutcome;
use crate::settings::WorkerError;

/// Maximum number of leases per heartbeat.
const MAX_LEASES_PER_HEARTBEAT: usize = 500;
/// Age from which a command is watched. Most commands end earlier.
const MIN_WATCH_AGE: Duration = Duration::from_millis(500);
/// Age from which another command is added to a watch: the held request is sent again for all.
const MIN_ADDED_WATCH_AGE: Duration = Duration::from_secs(2);
/// Timeout of registration and pool heartbeat requests.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(30);
/// Minimum timeout of a renewal. Leases may be short, but the response of a server under load still
/// counts when it arrives.
const MIN_RENEWAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Kind of a worker in the list of processes.
const WORKER_KIND: &str = "worker_pool";

/// Renews the leases of all commands until the worker ends.
pub(crate) async fn lease_renewal_loop(context: Arc<WorkerContext>) {
    let shutdown = context.shutdown.clone();
    let renew = async {
        let mut wait = context.renew_interval();
        loop {
            tokio::select! {
                () = sleep(wait) => {}
                // A lease is shorter than any before, so the interval is computed again.
                () = context.renew_interval_changed.notified() => {
                    wait = context.renew_interval();
                    continue;
                }
            }
            let is_renewed = renew_leases(&context).await;
            // A failed renewal is repeated well before the next one would be due.
            let interval = context.renew_interval();
            wait = if is_renewed { interval } else { with_jitter(interval / 4) };
        }
    };
    let _ = shutdown.run_until_cancelled(renew).await;
}

fn renewal_request<'l>(
    context: &WorkerContext,
    leases: impl Iterator<Item = &'l ActiveLease>,
    wait: Millis,
) -> HeartbeatRequest {
    HeartbeatRequest {
        worker_id: context.settings.worker_id.clone(),
        leases: leases.map(ActiveLease::to_held_lease).collect(),
        extend_ms: context.settings.lease_duration.map(Millis::as_ms),
        wait_ms: wait.as_ms(),
    }
}

/// Renews the lease of a command. Retries until the server is reachable. Returns true if the server
/// confirms the lease, and false if it refuses to or is unreachable for too long.
pub(crate) async fn confirm_lease(context: &WorkerContext, lease: &ActiveLease) -> bool {
    let mut backoff = Backoff::new();
    loop {
        let request = renewal_request(context, std::iter::once(lease), Millis::ZERO);
        let call = context.api.renew_leases(request);
        let error = match call_with_timeout(MIN_RENEWAL_TIMEOUT, call).await {
            Ok(response) => {
                let mut renewals = response.leases.iter();
                let is_confirmed = |renewal: &LeaseRenewal| {
                    renewal.command_id == lease.command_id && is_kept(renewal)
                };
                return renewals.any(is_confirmed);
            }
            Err(error) => error,
        };
        tracing::warn!(command_id = %lease.command_id, "an old lease cannot be confirmed: {error}");
        let max_duration = Duration::from(context.settings.report_retry_duration);
        if !is_temporary_error(&error) || backoff.elapsed() >= max_duration {
            return false;
        }
        sleep(backoff.next_delay(error.retry_after())).await;
    }
}

fn is_kept(renewal: &LeaseRenewal) -> bool {
    renewal.ok && renewal.cancel != Some(true)
}

/// Watches commands that have run for some time, so that they stop as soon as they are cancelled:
/// the server holds a renewal until one of their leases is lost.
pub(crate) async fn command_watch_loop(context: Arc<WorkerContext>) {
    let shutdown = context.shutdown.clone();
    let watch = async {
        loop {
            let mut leases = context.leases.leases_older_than(MIN_WATCH_AGE);
            leases.truncate(MAX_LEASES_PER_HEARTBEAT);
            let age = if leases.is_empty() { MIN_WATCH_AGE } else { MIN_ADDED_WATCH_AGE };
            tokio::select! {
                () = watch_leases(&context, &leases), if !leases.is_empty() => {
                    sleep(MIN_WATCH_AGE).await;
                }
                () = context.leases.wait_for_other(&leases, age) => {}
            }
        }
    };
    let _ = shutdown.run_until_cancelled(watch).await;
}

async fn watch_leases(context: &WorkerContext, leases: &[Arc<ActiveLease>]) {
    let wait = context.settings.poll_wait;
    let request = renewal_request(context, leases.iter().map(|lease| &**lease), wait);
    let limit = Duration::from(wait) + REGISTRATION_TIMEOUT;
    match call_with_timeout(limit, context.api.renew_leases(request)).await {
        Ok(response) => {
            // Commands that ended while the server held the request are not lost.
            let is_lost = |renewal: &&LeaseRenewal| {
                !is_kept(renewal) && context.leases.has_lease(renewal.command_id)
            };
            for renewal in response.leases.iter().filter(is_lost) {
                context.metrics.count_renewals(apply_renewal(leases, renewal), 1);
            }
        }
        Err(error) => {
            tracing::debug!(worker_id = %context.settings.worker_id, "watching commands failed: {error}");
            sleep(with_jitter(context.renew_interval() / 4)).await;
        }
    }
}

/// Renews all leases. Returns false if any request failed.
async fn renew_leases(context: &WorkerContext) -> bool {
    let mut is_renewed = true;
    for batch in context.leases.all_leases().chunks(MAX_LEASES_PER_HEARTBEAT) {
        let request = renewal_request(context, batch.iter().map(|lease| &**lease), Millis::ZERO);
        match call_with_timeout(
            context.renew_interval().max(MIN_RENEWAL_TIMEOUT),
            context.api.renew_leases(request),
        )
        .await
        {
            Ok(response) => {
                for renewal in &response.leases {
                    context.metrics.count_renewals(apply_renewal(batch, renewal), 1);
                }
            }
            Err(error) => {
                tracing::warn!(worker_id = %context.settings.worker_id, "lease renewal failed: {error}");
                is_renewed = false;
                let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
                context.metrics.count_renewals(RenewalOutcome::Unanswered, count);
            }
        }
    }
    is_renewed
}

/// Stops a command whose lease is lost or that is cancelled.
fn apply_renewal(leases: &[Arc<ActiveLease>], renewal: &LeaseRenewal) -> RenewalOutcome {
    if is_kept(renewal) {
        return RenewalOutcome::Kept;
    }
    if let Some(lease) = leases.iter().find(|lease| lease.command_id == renewal.command_id) {
        tracing::info!(
            execution_id = %lease.execution_id,
            command_id = %lease.command_id,
            attempt = lease.attempt,
            is_cancelled = renewal.cancel == Some(true),
            "lease lost"
        );
        lease.cancel.cancel();
    }
    RenewalOutcome::Lost
}

/// Sends pool heartbeats until the worker ends. If the server does not know the worker, the worker
/// drops its commands and registers again.
pub(crate) async fn pool_heartbeat_loop(context: Arc<WorkerContext>) {
    let shutdown = context.shutdown.clone();
    let heartbeat = async {
        loop {
            tokio::select! {
                () = sleep(context.settings.pool_heartbeat_interval.into()) => {}
                () = context.unregistered.notified() => {}
            }
            match call_with_timeout(
                REGISTRATION_TIMEOUT,
                context.api.pool_heartbeat(worker_name(&context)),
            )
            .await
            {
                Ok(response) => {
                    for command in response.cancel {
                        context.leases.cancel_command(command);
                    }
                    if response.drain && !context.draining.is_cancelled() {
                        tracing::info!(worker_id = %context.settings.worker_id, "draining: requested by the server");
                        context.draining.cancel();
                    }
                }
                Err(error) if error.code() == Some(ErrorCode::NotFound) => {
                    tracing::warn!(
                        worker_id = %context.settings.worker_id,
                        "the server does not know this worker; dropping its commands and registering again"
                    );
                    context.leases.cancel_all();
                    if let Err(error) = register_worker(&context).await {
                        tracing::error!(worker_id = %context.settings.worker_id, "{error}");
                    }
                }
                Err(error) => {
                    tracing::warn!(worker_id = %context.settings.worker_id, "pool heartbeat failed: {error}");
                }
            }
        }
    };
    let _ = shutdown.run_until_cancelled(heartbeat).await;
}

/// Registers the worker. Retries until the server is reachable.
pub(crate) async fn register_worker(context: &WorkerContext) -> Result<(), WorkerError> {
    let settings = &context.settings;
    let kinds = context.tools.kinds().iter();
    let kinds = Json::list(kinds.map(|kind| Json::from(kind.as_str())));
    let sandbox = settings.sandbox.clone().map(|status| ("sandbox", status));
    let capabilities = [("kinds", kinds)].into_iter().chain(sandbox);
    let worker = RegisterWorkerRequest {
        name: Text::from(&settings.worker_id),
        kind: Some(WORKER_KIND.into()),
        uri: None,
        status: None,
        labels: [("pool_name".into(), Json::from(&settings.pool))].into(),
        capabilities: Some(Json::object(capabilities)),
        capacity: Some(settings.max_concurrent),
        runtime: Some(Json::from("rust")),
        hostname: settings.hostname.clone(),
    };
    let mut backoff = Backoff::new();
    loop {
        match call_with_timeout(REGISTRATION_TIMEOUT, context.api.register_worker(worker.clone()))
            .await
        {
            Ok(_) => {
                tracing::info!(worker_id = %settings.worker_id, pool = %settings.pool, "registered");
                return Ok(());
            }
            Err(error) if is_temporary_error(&error) => {
                tracing::warn!(worker_id = %settings.worker_id, "registration failed, retrying: {error}");
                sleep(backoff.next_delay(error.retry_after())).await;
            }
            Err(error) => return Err(WorkerError::Refused(error)),
        }
    }
}

/// Returns true if the error may be temporary. An unreadable response may come from a server that
/// is being replaced, or from a proxy.
fn is_temporary_error(error: &ApiError) -> bool {
    error.is_retryable() || matches!(error, ApiError::Unreadable(_))
}

/// Deregisters the worker. Its leases end at once.
pub(crate) async fn deregister_worker(context: &WorkerContext, limit: Duration) {
    match call_with_timeout(limit, context.api.deregister_worker(worker_name(context))).await {
        Ok(()) => tracing::info!(worker_id = %context.settings.worker_id, "deregistered"),
        Err(error) => {
            tracing::warn!(worker_id = %context.settings.worker_id, "deregistration failed: {error}");
        }
    }
}

fn worker_name(context: &WorkerContext) -> WorkerName {
    WorkerName { name: Text::from(&context.settings.worker_id), kind: Some(WORKER_KIND.into()) }
}
