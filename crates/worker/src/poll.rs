//! Leases commands: one long poll with all free permits.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::ApiError;
use noetl_types::{ErrorCode, Millis};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;
use crate::context::{WorkerContext, call_with_timeout};
use crate::leases::GrantTime;

/// Maximum number of commands per response.
const MAX_COMMANDS_PER_POLL: usize = 100;
/// An empty poll that returns faster than this did not wait as requested.
const MIN_EMPTY_POLL: Duration = Duration::from_millis(20);

/// Timeout of a poll, in addition to its wait time.
const POLL_RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum pause that the server may request.
const MAX_POLL_PAUSE: Millis = Millis::from_secs(30);

/// Polls for commands until the worker drains.
pub(crate) async fn poll_until_draining(context: &Arc<WorkerContext>) {
    let draining = context.draining.clone();
    let _ = draining.run_until_cancelled(poll_loop(context)).await;
}

async fn poll_loop(context: &Arc<WorkerContext>) {
    let mut backoff: Option<Backoff> = None;
    while let Some(permits) = acquire_free_permits(context).await {
        let polled_at = Instant::now();
        let polled = GrantTime::new(context.now());
        let limit = Duration::from(context.settings.poll_wait) + POLL_RESPONSE_TIMEOUT;
        let request = context.lease_request(permits.num_permits());
        let (is_ok, pause) =
            match call_with_timeout(limit, context.api.lease_commands(request)).await {
                Ok(response) => {
                    let did_not_wait =
                        response.commands.is_empty() && polled_at.elapsed() < MIN_EMPTY_POLL;
                    let granted = polled.after_wait(Millis::from_ms(response.waited_ms));
                    context.start_commands(response.commands, Some(permits), granted);
                    (!did_not_wait, Millis::from_ms(response.poll_after_ms).min(MAX_POLL_PAUSE))
                }
                Err(error) => {
                    drop(permits);
                    log_poll_error(context, &error);
                    (false, error.retry_after().unwrap_or_default())
                }
            };
        if is_ok {
            backoff = None;
            if !pause.is_zero() {
                sleep(pause.into()).await;
            }
        } else {
            let backoff = backoff.get_or_insert_with(Backoff::new);
            sleep(backoff.next_delay(Some(pause))).await;
        }
    }
}

/// Acquires all free permits, at least one. Returns `None` if the worker ends.
async fn acquire_free_permits(context: &WorkerContext) -> Option<OwnedSemaphorePermit> {
    let mut permits = Arc::clone(&context.permits).acquire_owned().await.ok()?;
    let extra = context.permits.available_permits().min(MAX_COMMANDS_PER_POLL - 1);
    if let Ok(extra) = u32::try_from(extra)
        && let Ok(extra) = Arc::clone(&context.permits).try_acquire_many_owned(extra)
    {
        permits.merge(extra);
    }
    Some(permits)
}

fn log_poll_error(context: &WorkerContext, error: &ApiError) {
    if error.code() == Some(ErrorCode::NotFound) {
        context.unregistered.notify_one();
    }
    tracing::warn!(worker_id = %context.settings.worker_id, "polling for commands failed: {error}");
}
