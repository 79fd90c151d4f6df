//! Keeping: the leases of commands, and the place of the worker among the others.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::ApiError;
use noetl_api::command::{HeartbeatRequest, KeptLease};
use noetl_api::runtime::{RegisterWorker, WorkerName};
use noetl_types::{ErrorCode, Json, Text};
use tokio::time::sleep;

use crate::chance::{Backoff, retry_after};
use crate::held::Held;
use crate::metrics::Renewal;
use crate::settings::WorkerError;
use crate::shop::{Shop, answered};

/// Leases in one call.
const MOST: usize = 500;
/// Time for the answer to a sign of life.
const ANSWER: Duration = Duration::from_secs(30);
/// Least time for the answer to a renewal. Leases may be short; a server under load still answers
/// when it can, and what it says counts.
const RENEWAL: Duration = Duration::from_secs(5);
/// What a worker is called in the list of processes.
const KIND: &str = "worker_pool";

/// Renews the leases of all commands until the worker ends.
pub(crate) async fn keep_leases(shop: Arc<Shop>) {
    let ending = shop.ending.clone();
    let keep = async {
        let mut wait = shop.pace();
        loop {
            tokio::select! {
                () = sleep(wait) => {}
                // A shorter lease than any before: count anew.
                () = shop.pace_changed.notified() => {
                    wait = shop.pace();
                    continue;
                }
            }
            let is_kept = renew(&shop).await;
            // One that failed is made again well before the next would be due.
            let pace = shop.pace();
            wait = if is_kept {
                pace
            } else {
                shop.chance.spread(pace / 4)
            };
        }
    };
    let _ = ending.run_until_cancelled(keep).await;
}

/// Renews all leases; whether the server took note.
async fn renew(shop: &Shop) -> bool {
    let mut is_kept = true;
    for some in shop.holdings.all().chunks(MOST) {
        let request = HeartbeatRequest {
            worker_id: shop.settings.worker_id.clone(),
            leases: some.iter().map(|held| held.lease()).collect(),
            extend_ms: Some(shop.settings.lease.as_ms()),
        };
        match answered(shop.pace().max(RENEWAL), shop.api.heartbeat(request)).await {
            Ok(answer) => {
                for kept in &answer.leases {
                    shop.metrics.renewed(heed(some, kept), 1);
                }
            }
            Err(error) => {
                tracing::warn!(worker_id = %shop.settings.worker_id, "leases not renewed: {error}");
                is_kept = false;
                let count = u64::try_from(some.len()).unwrap_or(u64::MAX);
                shop.metrics.renewed(Renewal::Unanswered, count);
            }
        }
    }
    is_kept
}

/// Stops a command that is not the worker's any more, or that nobody wants.
fn heed(held: &[Arc<Held>], kept: &KeptLease) -> Renewal {
    let is_cancelled = kept.cancel == Some(true);
    if kept.ok && !is_cancelled {
        return Renewal::Kept;
    }
    if let Some(held) = held.iter().find(|held| held.command_id == kept.command_id) {
        tracing::info!(
            execution_id = %held.execution_id,
            command_id = %held.command_id,
            attempt = held.attempt,
            is_cancelled,
            "the lease is gone"
        );
        held.cancel.cancel();
    }
    Renewal::Lost
}

/// Tells that the worker lives, until it ends. One that the server does not know drops its work and
/// makes itself known again.
pub(crate) async fn keep_place(shop: Arc<Shop>) {
    let ending = shop.ending.clone();
    let keep = async {
        loop {
            tokio::select! {
                () = sleep(shop.settings.pool_heartbeat.into()) => {}
                () = shop.fenced.notified() => {}
            }
            match answered(ANSWER, shop.api.pool_heartbeat(name(&shop))).await {
                Ok(answer) => {
                    for command in answer.cancel {
                        shop.holdings.cancel(command);
                    }
                    if answer.drain && !shop.leaving.is_cancelled() {
                        tracing::info!(worker_id = %shop.settings.worker_id, "asked to leave");
                        shop.leaving.cancel();
                    }
                }
                Err(error) if error.code() == Some(ErrorCode::NotFound) => {
                    tracing::warn!(
                        worker_id = %shop.settings.worker_id,
                        "the server does not know this worker; its work is dropped"
                    );
                    shop.holdings.cancel_all();
                    if let Err(error) = register(&shop).await {
                        tracing::error!(worker_id = %shop.settings.worker_id, "{error}");
                    }
                }
                Err(error) => {
                    tracing::warn!(worker_id = %shop.settings.worker_id, "no sign of life: {error}");
                }
            }
        }
    };
    let _ = ending.run_until_cancelled(keep).await;
}

/// Makes the worker known, however long it takes to reach the server.
pub(crate) async fn register(shop: &Shop) -> Result<(), WorkerError> {
    let settings = &shop.settings;
    let kinds = shop.tools.kinds().iter();
    let kinds = Json::list(kinds.map(|kind| Json::from(kind.as_str())));
    let sandbox = settings.sandbox.clone().map(|told| ("sandbox", told));
    let capabilities = [("kinds", kinds)].into_iter().chain(sandbox);
    let worker = RegisterWorker {
        name: Text::from(&settings.worker_id),
        kind: Some(KIND.into()),
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
        match answered(ANSWER, shop.api.register(worker.clone())).await {
            Ok(_) => {
                tracing::info!(worker_id = %settings.worker_id, pool = %settings.pool, "registered");
                return Ok(());
            }
            Err(error) if may_pass(&error) => {
                tracing::warn!(worker_id = %settings.worker_id, "not registered: {error}");
                sleep(backoff.delay(&shop.chance, retry_after(&error))).await;
            }
            Err(error) => return Err(WorkerError::Refused(error)),
        }
    }
}

/// Whether a refusal may pass by itself. An answer that cannot be read is one of a server that is
/// being replaced, or of something in between.
fn may_pass(error: &ApiError) -> bool {
    error.is_retryable() || matches!(error, ApiError::Unreadable(_))
}

/// Tells that the worker leaves; its leases end at once.
pub(crate) async fn deregister(shop: &Shop, within: Duration) {
    match answered(within, shop.api.deregister(name(shop))).await {
        Ok(()) => tracing::info!(worker_id = %shop.settings.worker_id, "left"),
        Err(error) => {
            tracing::warn!(worker_id = %shop.settings.worker_id, "left unheard: {error}");
        }
    }
}

fn name(shop: &Shop) -> WorkerName {
    WorkerName {
        name: Text::from(&shop.settings.worker_id),
        kind: Some(KIND.into()),
    }
}
