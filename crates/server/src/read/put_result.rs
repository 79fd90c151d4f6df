//! Results that workers put beside an execution before any event refers to them.

use std::sync::Arc;

use noetl_api::result::{KeptResult, PutResult};
use noetl_store::{BLOB_BYTES, NewResult, PutRefused, ResultPut};
use noetl_types::digest::sha256_of_parts;
use noetl_types::json::to_canonical;
use noetl_types::{Digest, ErrorCode, ExecutionId, Json, Millis, ResultId, sha256};

use crate::runtime::{Runtime, RuntimeError};

impl Runtime {
    /// Keeps a result, and says by which address it is found. Under a key the same data is kept once.
    pub async fn put_result(
        &self,
        execution_id: ExecutionId,
        request: PutResult,
        key: Option<&str>,
    ) -> Result<KeptResult, RuntimeError> {
        self.execution_row(execution_id).await?;
        if request.name.is_empty() || request.name.len() > 255 {
            let text = "the name of a result has 1 to 255 bytes";
            return Err(RuntimeError::refused(ErrorCode::Validation, text));
        }
        let told = vec![(execution_id, request.data)];
        let hidden = self
            .without_lent(told, |data, lent| lent.hide(data))
            .await?;
        let data = hidden.into_iter().next().unwrap_or_default();
        let now = self.now();
        let ttl = request.ttl.as_ref().map(ttl).transpose()?;
        let expires_at = ttl.map(|ttl| now.saturating_add(ttl));
        let bytes: Arc<[u8]> = to_canonical(&data).into();
        let (size, digest) = (bytes.len(), sha256(&bytes));
        let most = self.settings().result_max;
        if most.is_exceeded_by(size) {
            let text = format!("a result has at most {most}, and this one has {size} bytes");
            return Err(RuntimeError::refused(ErrorCode::TooLarge, text));
        }
        let result_id = match key {
            Some(key) => id_under(execution_id, key, digest)?,
            None => self.mint()?,
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
        put.await.map_err(|refused| match refused {
            PutRefused::TooLarge => RuntimeError::refused(ErrorCode::TooLarge, refused.to_string()),
            PutRefused::Taken => RuntimeError::refused(ErrorCode::IdConflict, refused.to_string()),
            PutRefused::Store(error) => error.into(),
        })?;
        self.metrics().put_result();
        Ok(KeptResult {
            reference: reference.into(),
            store: if size < BLOB_BYTES { "kv" } else { "disk" }.into(),
            scope,
            bytes: size as u64,
            sha256: digest.to_string().into(),
            expires_at,
        })
    }
}

/// The id of data under a key. A task that runs again has the same key, and perhaps other data: then
/// that is another result.
fn id_under(execution_id: ExecutionId, key: &str, data: Digest) -> Result<ResultId, RuntimeError> {
    let execution_id = execution_id.get().to_be_bytes();
    let name = sha256_of_parts(&[&execution_id, data.as_bytes(), key.as_bytes()]);
    let bytes = name
        .as_bytes()
        .first_chunk::<8>()
        .copied()
        .unwrap_or_default();
    let number = i64::from_be_bytes(bytes) & i64::MAX;
    ResultId::new(number.max(1))
        .map_err(|error| RuntimeError::refused(ErrorCode::Internal, error.to_string()))
}

/// For how long a result is kept: seconds, or a text with a unit.
fn ttl(told: &Json) -> Result<Millis, RuntimeError> {
    let read = match told.as_u64() {
        Some(secs) => secs.checked_mul(1000).map(Millis::from_ms),
        None => Millis::from_json(told).ok(),
    };
    read.filter(|ttl| *ttl > Millis::ZERO).ok_or_else(|| {
        let text = "ttl is a number of seconds above 0, or a text such as `2h`";
        RuntimeError::refused(ErrorCode::Validation, text)
    })
}
