//! Requests that have their effect once, by a key that their sender made.
//!
//! A request is taken before it is worked on, and settled with its answer. A server that goes away
//! in between leaves it under way; whoever sends it again once its time is over goes on under the
//! same id, which what was done already is known by.

use noetl_store::{RequestEnd, RequestKey, RequestTake, Taken};
use noetl_types::{Digest, EventId, Millis, Text};

use super::claim::{KEY_LIVES, digest_of_key};
use super::{Runtime, RuntimeError, causes};

/// How long nobody else works on a request. Longer than an answer takes; should one take longer, the
/// same request is worked on twice at once, under one id.
const AT_WORK: Millis = Millis::from_secs(60);

/// A request that this server works on.
#[derive(Debug, Clone)]
pub(crate) struct AtWork {
    key: RequestKey,
    pub(crate) work_id: EventId,
}

/// What becomes of a request with a key.
#[derive(Debug)]
pub(crate) enum Admitted {
    /// It is worked on, and settled afterwards.
    New(AtWork),
    /// It is somebody else's turn, or it is over; never [`Taken::Yours`].
    Known(Taken),
}

impl Runtime {
    /// Takes a request, unless it is or was worked on.
    pub(crate) async fn admit(
        &self,
        route: Text,
        key: &str,
        body_sha256: Digest,
    ) -> Result<Admitted, RuntimeError> {
        let (now, work_id) = (self.now(), self.mint()?);
        let key = RequestKey {
            tenant_id: self.tenant().clone(),
            route,
            key_sha256: digest_of_key(key)?,
        };
        let take = RequestTake {
            key: key.clone(),
            body_sha256,
            work_id,
            now,
            until: now.saturating_add(AT_WORK),
            expires_at: now.saturating_add(KEY_LIVES),
        };
        Ok(match self.store().take_request(take).await? {
            Taken::Yours(work_id) => Admitted::New(AtWork { key, work_id }),
            known => Admitted::Known(known),
        })
    }

    /// Says what came of a request. Should that fail, it stays under way, and is taken over.
    pub(crate) async fn settle(&self, work: AtWork, end: RequestEnd) {
        let settled = self.store().settle_request(work.key, work.work_id, end);
        if let Err(error) = settled.await {
            tracing::warn!(error = %causes(&error), "the answer of a request was not kept");
        }
    }
}
