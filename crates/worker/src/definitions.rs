//! Definitions and payloads: fetched once, verified, and cached.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::{ApiError, WorkerApi};
use noetl_playbook::bounds::size_within;
use noetl_playbook::command_machine::PayloadRequest;
use noetl_playbook::model::Playbook;
use noetl_playbook::{CheckOptions, Document, Severity, check};
use noetl_types::json::to_canonical;
use noetl_types::{
    ByteSize, CatalogId, Digest, ErrorCode, Json, TaskError, TaskErrorKind, Text, sha256,
};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::backoff::Backoff;

/// Maximum number of cached definitions.
const MAX_CACHED_DEFINITIONS: usize = 256;
/// Maximum duration of retries while the server does not respond.
const MAX_RETRY_DURATION: Duration = Duration::from_mins(1);
/// Payloads of at least this size are verified on a blocking thread.
const BLOCKING_DIGEST_BYTES: usize = 256 << 10;

/// Expected number of cached payloads. Few, so that the cache is one shard and a large payload fits
/// into it.
const EXPECTED_PAYLOADS: usize = 32;

/// URI and expected digest of a payload.
type PayloadKey = (Arc<str>, Option<Digest>);

/// Weighs a payload by its size, which is cached with it.
#[derive(Debug, Clone)]
struct PayloadWeighter;

impl Weighter<PayloadKey, (Json, usize)> for PayloadWeighter {
    fn weight(&self, _key: &PayloadKey, (_, bytes): &(Json, usize)) -> u64 {
        u64::try_from(*bytes).unwrap_or(u64::MAX)
    }
}

/// A cache of definitions and payloads. Concurrent requests for one of them share a fetch. Errors
/// are not cached.
pub(crate) struct DefinitionCache {
    api: Arc<dyn WorkerApi>,
    definitions: Cache<CatalogId, Arc<Playbook>>,
    payloads: Cache<PayloadKey, (Json, usize), PayloadWeighter>,
    payload_max: usize,
}

impl DefinitionCache {
    pub(crate) fn new(api: Arc<dyn WorkerApi>, payload_cache: ByteSize) -> Self {
        let payload_max = usize::try_from(payload_cache.as_bytes()).unwrap_or(usize::MAX);
        Self {
            api,
            definitions: Cache::new(MAX_CACHED_DEFINITIONS),
            payloads: Cache::with_weighter(
                EXPECTED_PAYLOADS,
                payload_cache.as_bytes(),
                PayloadWeighter,
            ),
            payload_max,
        }
    }

    /// Returns a definition, parsed and checked.
    pub(crate) async fn get_definition(&self, id: CatalogId) -> Result<Arc<Playbook>, TaskError> {
        let fetch = async {
            let resource = self.with_retries(|| self.api.fetch_definition(id)).await;
            let resource =
                resource.map_err(|error| unavailable_error(&format!("definition {id}"), &error))?;
            let parse = tokio::task::spawn_blocking(move || {
                parse_definition(id, &resource.content, &resource.sha256)
            });
            let playbook = parse.await.map_err(|_| {
                let message = format!("definition {id} cannot be checked");
                TaskError::new(TaskErrorKind::Unknown, message)
            })??;
            Ok(playbook)
        };
        self.definitions.get_or_insert_async(&id, fetch).await
    }

    /// Returns a payload after verifying its digest.
    pub(crate) async fn get_payload(&self, request: PayloadRequest) -> Result<Json, TaskError> {
        let key = (Arc::clone(&request.uri), request.sha256);
        let fetch = async {
            let payload = self.with_retries(|| self.api.resolve_result(&request.uri)).await;
            let payload = payload.map_err(|error| unavailable_error(&request.uri, &error))?;
            let weight = size_within(&payload, self.payload_max).unwrap_or(usize::MAX / 2);
            let payload = match request.sha256 {
                Some(digest) => verify_digest(payload, weight, digest, &request.uri).await?,
                None => payload,
            };
            Ok::<_, TaskError>((payload, weight))
        };
        Ok(self.payloads.get_or_insert_async(&key, fetch).await?.0)
    }

    /// Retries a request while the error is retryable.
    pub(crate) async fn with_retries<T, F: Future<Output = Result<T, ApiError>>>(
        &self,
        mut call: impl FnMut() -> F,
    ) -> Result<T, ApiError> {
        let mut backoff = Backoff::new();
        loop {
            match call().await {
                Err(error) if error.is_retryable() && backoff.elapsed() < MAX_RETRY_DURATION => {
                    tokio::time::sleep(backoff.next_delay(error.retry_after())).await;
                }
                other => return other,
            }
        }
    }
}

/// Converts a refusal of the server to a task error.
pub(crate) fn unavailable_error(subject: &str, error: &ApiError) -> TaskError {
    let kind = match error.code() {
        Some(ErrorCode::NotFound | ErrorCode::RetentionDropped) => TaskErrorKind::NotFound,
        Some(ErrorCode::Forbidden | ErrorCode::Unauthenticated | ErrorCode::TokenExpired) => {
            TaskErrorKind::Auth
        }
        Some(_) | None if error.is_retryable() => TaskErrorKind::Connection,
        Some(_) | None => TaskErrorKind::StorageAccess,
    };
    TaskError::new(kind, format!("{subject}: {error}"))
}

/// Parses a definition. The server has checked it too, possibly with another version of the rules.
fn parse_definition(id: CatalogId, text: &str, digest: &Text) -> Result<Arc<Playbook>, TaskError> {
    if Digest::parse(digest).is_ok_and(|digest| digest != sha256(text)) {
        return Err(TaskError::new(
            TaskErrorKind::StorageAccess,
            format!("definition {id} does not match the digest in the catalog"),
        ));
    }
    let checked = check(text, &CheckOptions::default());
    let schema = |message: String| Err(TaskError::new(TaskErrorKind::Schema, message));
    match checked.document {
        Some(Document::Playbook(playbook)) => Ok(Arc::from(playbook)),
        Some(_) => schema(format!("definition {id} is not a playbook")),
        None => {
            let mut diagnostics = checked.diagnostics.iter();
            let first = diagnostics.find(|diagnostic| diagnostic.severity == Severity::Error);
            let reason = first.map_or_else(String::new, |diagnostic| {
                format!(": {} {}", diagnostic.code, diagnostic.message)
            });
            schema(format!("this worker cannot read definition {id}{reason}"))
        }
    }
}

async fn verify_digest(
    payload: Json,
    weight: usize,
    digest: Digest,
    uri: &str,
) -> Result<Json, TaskError> {
    let compare = move || (sha256(to_canonical(&payload)) == digest).then_some(payload);
    let verified = if weight < BLOCKING_DIGEST_BYTES {
        compare()
    } else {
        let verified = tokio::task::spawn_blocking(compare).await;
        verified.unwrap_or_default()
    };
    verified.ok_or_else(|| {
        TaskError::new(
            TaskErrorKind::StorageAccess,
            format!("{uri} does not match the digest in its reference"),
        )
    })
}
