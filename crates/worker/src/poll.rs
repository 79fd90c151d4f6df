//! Getting work: one long poll with all the slots that are free.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::ApiError;
use noetl_types::{ErrorCode, Millis};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};

use crate::chance::{Backoff, retry_after};
use crate::shop::{Shop, answered};

/// Commands in one answer.
const MOST: usize = 100;
/// A poll without work that returns faster than this did not wait, whatever it was asked.
const TOO_FAST: Duration = Duration::from_millis(20);

/// Time for the answer to a poll, besides the time that it waits.
const ANSWER: Duration = Duration::from_secs(30);
/// The longest pause that a server may ask for.
const LONGEST_PAUSE: Millis = Millis::from_secs(30);

/// Gets work until no more is wanted.
pub(crate) async fn poll(shop: &Arc<Shop>) {
    let leaving = shop.leaving.clone();
    let _ = leaving.run_until_cancelled(poll_for_ever(shop)).await;
}

async fn poll_for_ever(shop: &Arc<Shop>) {
    let mut trouble: Option<Backoff> = None;
    while let Some(slots) = free_slots(shop).await {
        let asked = Instant::now();
        let within = Duration::from(shop.settings.poll_wait) + ANSWER;
        let request = shop.lease_request(slots.num_permits());
        let (went_well, pause) = match answered(within, shop.api.lease(request)).await {
            Ok(answer) => {
                let is_hasty = answer.commands.is_empty() && asked.elapsed() < TOO_FAST;
                shop.begin(answer.commands, Some(slots));
                (
                    !is_hasty,
                    Millis::from_ms(answer.poll_after_ms).min(LONGEST_PAUSE),
                )
            }
            Err(error) => {
                drop(slots);
                complain(shop, &error);
                (false, retry_after(&error).unwrap_or_default())
            }
        };
        if went_well {
            trouble = None;
            if !pause.is_zero() {
                sleep(pause.into()).await;
            }
        } else {
            let backoff = trouble.get_or_insert_with(Backoff::new);
            sleep(backoff.delay(&shop.chance, Some(pause))).await;
        }
    }
}

/// Every slot that is free, at least one; nothing where the worker ends.
async fn free_slots(shop: &Shop) -> Option<OwnedSemaphorePermit> {
    let mut slots = Arc::clone(&shop.slots).acquire_owned().await.ok()?;
    let more = shop.slots.available_permits().min(MOST - 1);
    if let Ok(more) = u32::try_from(more)
        && let Ok(more) = Arc::clone(&shop.slots).try_acquire_many_owned(more)
    {
        slots.merge(more);
    }
    Some(slots)
}

fn complain(shop: &Shop, error: &ApiError) {
    if error.code() == Some(ErrorCode::NotFound) {
        shop.fenced.notify_one();
    }
    tracing::warn!(worker_id = %shop.settings.worker_id, "no work could be asked for: {error}");
}
