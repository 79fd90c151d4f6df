//! Results that workers store before an event refers to them.

use std::sync::Arc;

use noetl_api::result::{ResultPutRequest, ResultPutResponse};
use noetl_store::{MIN_BLOB_BYTES, NewResult, PutResultError, ResultPut};
use noetl_types::digest::sha256_of_parts;
use noetl_types::json::to_canonical;
use noetl_types::{Digest, ErrorCode, ExecutionId, Json, Millis, ResultId, sha256};

use crate::runtime::{Runtime, RuntimeError};

impl Runtime {
    /// Stores a result and returns its reference. With a key, the same data is stored once.
    pub async fn put_result(
        &self,
        execution_id: ExecutionId,
        request: ResultPutRequest,
        key: Option<&str>,
    ) -> Result<ResultPutResponse, RuntimeError> {
        self.visible_execution(execution_id).await?;
        if request.name.is_empty() || request.name.len() > 255 {
            let text = "the name of a result must have 1 to 255 bytes";
            return Err(RuntimeError::refused(ErrorCode::Validation, text));
        }
        let values = vec![(execution_id, request.data)];
        let redacted =
            self.redact_issued_secrets(values, |data, secrets| secrets.redact_json(data)).await?;
        let data = redacted.into_iter().next().unwrap_or_default();
        let now = self.now();
        let ttl = request.ttl.as_ref().map(parse_ttl).transpose()?;
        let expires_at = ttl.map(|ttl| now.saturating_add(ttl));
        let bytes: Arc<[u8]> = to_canonical(&data).into();
        let (size, digest) = (bytes.len(), sha256(&bytes));
        let max_size = self.settings().max_result_size;
        if max_size.is_exceeded_by(size) {
            let text = format!("the result has {size} bytes; the maximum is {max_size}");
            return Err(RuntimeError::refused(ErrorCode::TooLarge, text));
        }
        let result_id = match key {
            Some(key) => keyed_result_id(execution_id, key, digest)?,
            None => self.mint_id()?,
        };
        let scope = request.scope;
        let name = request.name;
        let reference = format!("noetl://execution/{execution_id}/result/{name}/{result_id}");
        let put = self.store().put_result(ResultPut {
            execution_id,
            result: NewResult {
                result_id,
                name,
                bytes,
                sha256: digest,
                media_type: "application/json".into(),
            },
            scope: Some(scope.clone()),
            source_step: request.source_step,
            expires_at,
            now,
        });
        put.await.map_err(|error| match error {
            PutResultError::TooLarge => {
                RuntimeError::refused(ErrorCode::TooLarge, error.to_string())
            }
            PutResultError::IdTaken => {
                RuntimeError::refused(ErrorCode::IdConflict, error.to_string())
            }
            PutResultError::Store(error) => error.into(),
        })?;
        self.metrics().count_stored_result();
        Ok(ResultPutResponse {
            reference: reference.into(),
            store: if size < MIN_BLOB_BYTES { "kv" } else { "disk" }.into(),
            scope,
            bytes: size as u64,
            sha256: digest.to_string().into(),
            expires_at,
        })
    }
}

/// Derives the id of a result from its key and data. A task that runs again has the same key and
/// possibly other data, which is then a different result.
fn keyed_result_id(
    execution_id: ExecutionId,
    key: &str,
    data: Digest,
) -> Result<ResultId, RuntimeError> {
    let execution_id = execution_id.get().to_be_bytes();
    let digest = sha256_of_parts(&[&execution_id, data.as_bytes(), key.as_bytes()]);
    let bytes = digest.as_bytes().first_chunk::<8>().copied().unwrap_or_default();
    let number = i64::from_be_bytes(bytes) & i64::MAX;
    ResultId::new(number.max(1))
        .map_err(|error| RuntimeError::refused(ErrorCode::Internal, error.to_string()))
}

/// Parses the lifetime of a result: seconds, or a text with a unit.
fn parse_ttl(value: &Json) -> Result<Millis, RuntimeError> {
    let ttl = match value.as_u64() {
        Some(secs) => secs.checked_mul(1000).map(Millis::from_ms),
        None => Millis::from_json(value).ok(),
    };
    ttl.filter(|ttl| *ttl > Millis::ZERO).ok_or_else(|| {
        let text = "ttl must be a number of seconds above 0, or a text such as `2h`";
        RuntimeError::refused(ErrorCode::Validation, text)
    })
}
