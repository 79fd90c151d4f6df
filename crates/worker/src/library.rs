//! Definitions and payloads: fetched once, checked, and kept while there is room.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::{ApiError, WorkerApi};
use noetl_playbook::bounds::size_within;
use noetl_playbook::model::Playbook;
use noetl_playbook::shift::Wanted;
use noetl_playbook::{CheckOptions, Document, Severity, check};
use noetl_types::json::to_canonical;
use noetl_types::{
    ByteSize, CatalogId, Digest, ErrorCode, Json, TaskError, TaskErrorKind, Text, sha256,
};

use crate::cache::Cache;
use crate::chance::{Backoff, Chance, retry_after};

/// Definitions that are kept.
const DEFINITIONS: usize = 256;
/// How long a server that does not answer is asked again.
const PATIENCE: Duration = Duration::from_mins(1);
/// Payloads from here on are checked beside the other work.
const SMALL: usize = 256 << 10;

/// Definitions and payloads.
pub(crate) struct Library {
    api: Arc<dyn WorkerApi>,
    chance: Chance,
    definitions: Cache<CatalogId, Arc<Playbook>>,
    payloads: Cache<(Arc<str>, Option<Digest>), Json>,
    payload_max: usize,
}

impl Library {
    pub(crate) fn new(api: Arc<dyn WorkerApi>, payload_cache: ByteSize) -> Self {
        let payload_max = usize::try_from(payload_cache.as_bytes()).unwrap_or(usize::MAX);
        Self {
            api,
            chance: Chance::new(),
            definitions: Cache::new(DEFINITIONS),
            payloads: Cache::new(payload_max),
            payload_max,
        }
    }

    /// A definition, checked.
    pub(crate) async fn definition(&self, id: CatalogId) -> Result<Arc<Playbook>, TaskError> {
        let fetch = async {
            let item = self.patiently(|| self.api.definition(id)).await;
            let item = item.map_err(|error| unavailable(&format!("definition {id}"), &error))?;
            let read = tokio::task::spawn_blocking(move || read(id, &item.content, &item.sha256));
            let playbook = read.await.map_err(|_| {
                let message = format!("definition {id} cannot be checked");
                TaskError::new(TaskErrorKind::Unknown, message)
            })??;
            Ok((playbook, 1))
        };
        self.definitions.get(&id, fetch).await
    }

    /// A payload, its digest compared.
    pub(crate) async fn payload(&self, wanted: Wanted) -> Result<Json, TaskError> {
        let key = (Arc::clone(&wanted.uri), wanted.sha256);
        let fetch = async {
            let payload = self.patiently(|| self.api.resolve(&wanted.uri)).await;
            let payload = payload.map_err(|error| unavailable(&wanted.uri, &error))?;
            let weight = size_within(&payload, self.payload_max).unwrap_or(usize::MAX / 2);
            let payload = match wanted.sha256 {
                Some(digest) => compared(payload, weight, digest, &wanted.uri).await?,
                None => payload,
            };
            Ok((payload, weight))
        };
        self.payloads.get(&key, fetch).await
    }

    /// Asks again as long as that may help.
    pub(crate) async fn patiently<T, F: Future<Output = Result<T, ApiError>>>(
        &self,
        mut ask: impl FnMut() -> F,
    ) -> Result<T, ApiError> {
        let mut backoff = Backoff::new();
        loop {
            match ask().await {
                Err(error) if error.is_retryable() && backoff.lasted() < PATIENCE => {
                    tokio::time::sleep(backoff.delay(&self.chance, retry_after(&error))).await;
                }
                other => return other,
            }
        }
    }
}

/// What the refusal of a server means to a task.
pub(crate) fn unavailable(what: &str, error: &ApiError) -> TaskError {
    let kind = match error.code() {
        Some(ErrorCode::NotFound | ErrorCode::RetentionDropped) => TaskErrorKind::NotFound,
        Some(ErrorCode::Forbidden | ErrorCode::Unauthenticated | ErrorCode::TokenExpired) => {
            TaskErrorKind::Auth
        }
        Some(_) | None if error.is_retryable() => TaskErrorKind::Connection,
        Some(_) | None => TaskErrorKind::StorageAccess,
    };
    TaskError::new(kind, format!("{what}: {error}"))
}

/// Reads a definition. The server has checked it too, perhaps by other rules than these.
fn read(id: CatalogId, text: &str, digest: &Text) -> Result<Arc<Playbook>, TaskError> {
    if Digest::parse(digest).is_ok_and(|digest| digest != sha256(text)) {
        return Err(TaskError::new(
            TaskErrorKind::StorageAccess,
            format!("definition {id} does not have the digest that its catalog tells"),
        ));
    }
    let checked = check(text, &CheckOptions::default());
    let schema = |message: String| Err(TaskError::new(TaskErrorKind::Schema, message));
    match checked.document {
        Some(Document::Playbook(playbook)) => Ok(Arc::from(playbook)),
        Some(_) => schema(format!("definition {id} is not a playbook")),
        None => {
            let mut found = checked.diagnostics.iter();
            let first = found.find(|found| found.severity == Severity::Error);
            let why = first.map_or_else(String::new, |found| {
                format!(": {} {}", found.code, found.message)
            });
            schema(format!("this worker cannot read definition {id}{why}"))
        }
    }
}

async fn compared(
    payload: Json,
    weight: usize,
    digest: Digest,
    uri: &str,
) -> Result<Json, TaskError> {
    let compare = move || (sha256(to_canonical(&payload)) == digest).then_some(payload);
    let compared = if weight < SMALL {
        compare()
    } else {
        let compared = tokio::task::spawn_blocking(compare).await;
        compared.unwrap_or_default()
    };
    compared.ok_or_else(|| {
        TaskError::new(
            TaskErrorKind::StorageAccess,
            format!("{uri} does not have the digest that its reference tells"),
        )
    })
}
