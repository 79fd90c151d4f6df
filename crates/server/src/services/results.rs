//! Results that are stored outside of events.

use std::sync::Arc;

use noetl_api::result::{ResultPutRequest, ResultPutResponse};
use noetl_store::{MIN_BLOB_BYTES, NewResult, PutResultError, ResultPut, StoredResult};
use noetl_types::digest::sha256_of_parts;
use noetl_types::json::to_canonical;
use noetl_types::{Digest, ErrorCode, ExecutionId, Json, Millis, ResultId, Text, json, sha256};

use crate::access::CallContext;
use crate::error::{Result, RuntimeError};
use crate::services::Infrastructure;
use crate::services::issued_secrets::IssuedSecrets;

/// Parsed reference of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResultAddress {
    pub(crate) execution_id: ExecutionId,
    name: Text,
    pub(crate) result_id: ResultId,
}

impl ResultAddress {
    /// Parses `noetl://execution/<id>/result/<name>/<result id>`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("noetl://execution/")?;
        let (execution_id, rest) = rest.split_once("/result/")?;
        let (name, result_id) = rest.rsplit_once('/')?;
        Some(Self {
            execution_id: execution_id.parse().ok()?,
            name: Text::new(name).ok().filter(|name| !name.is_empty())?,
            result_id: result_id.parse().ok()?,
        })
    }
}

/// Results that are stored outside of events.
pub struct Results {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) secrets: Arc<IssuedSecrets>,
}

impl Results {
    /// Returns a stored result and verifies its digest.
    pub async fn read_verified_result(
        &self,
        ctx: &CallContext,
        reference: &str,
    ) -> Result<StoredResult> {
        let result = self.find_result(ctx, reference).await?;
        check_digest(&result)?;
        Ok(result)
    }

    /// Returns a stored result without verifying its digest.
    pub(crate) async fn find_result(
        &self,
        ctx: &CallContext,
        reference: &str,
    ) -> Result<StoredResult> {
        let address = ResultAddress::parse(reference).ok_or_else(|| {
            RuntimeError::refused(
                ErrorCode::BadQuery,
                "ref is not of the form noetl://execution/<id>/result/<name>/<result id>",
            )
        })?;
        ctx.visible_execution(self.infra.store(), address.execution_id).await?;
        self.infra.metrics.server.results_resolved.inc();
        let found = self.infra.store().find_result(address.execution_id, address.result_id).await?;
        let result = found
            .filter(|found| found.name == address.name)
            .ok_or_else(|| RuntimeError::not_found("there is no such result"))?;
        if result.expires_at.is_some_and(|expires_at| expires_at <= self.infra.now()) {
            return Err(RuntimeError::refused(
                ErrorCode::RetentionDropped,
                "the result has expired",
            ));
        }
        Ok(result)
    }

    /// Returns the value of a stored result.
    pub async fn resolve_result(&self, ctx: &CallContext, reference: &str) -> Result<Json> {
        parse_result_value(&self.find_result(ctx, reference).await?)
    }

    /// Returns the value that an event refers to.
    pub(crate) async fn fetch_result(&self, uri: &str) -> Result<Json> {
        let address = ResultAddress::parse(uri).ok_or_else(|| {
            let text = format!("`{uri}` is not a result reference");
            RuntimeError::refused(ErrorCode::BadId, text)
        })?;
        let ResultAddress { execution_id, result_id, .. } = address;
        let stored = self.infra.store.find_result(execution_id, result_id).await?;
        let stored = stored.ok_or_else(|| RuntimeError::not_found("there is no such result"))?;
        let is_intact = sha256(&stored.bytes) == stored.sha256;
        let value = serde_json::from_slice(&stored.bytes).ok();
        value.filter(|_| is_intact).ok_or_else(|| {
            tracing::error!(%execution_id, %result_id, "a stored result is damaged");
            RuntimeError::refused(ErrorCode::DigestMismatch, "the stored result is damaged")
        })
    }

    /// Stores a result and returns its reference. With a key, the same data is stored once.
    pub async fn put_result(
        &self,
        ctx: &CallContext,
        execution_id: ExecutionId,
        request: ResultPutRequest,
        key: Option<&str>,
    ) -> Result<ResultPutResponse> {
        ctx.visible_execution(self.infra.store(), execution_id).await?;
        if request.name.is_empty() || request.name.len() > 255 {
            return Err(RuntimeError::invalid("the name of a result must have 1 to 255 bytes"));
        }
        let values =
            vec![(execution_id, request.data), (execution_id, Json::from(request.name.as_str()))];
        let redacted = self
            .secrets
            .redact_issued_secrets(values, |data, secrets| secrets.redact_json(data))
            .await?;
        let mut redacted = redacted.into_iter();
        let data = redacted.next().unwrap_or_default();
        let name = redacted.next().as_ref().and_then(Json::as_str).map(Text::from);
        let now = self.infra.now();
        let ttl = request.ttl.as_ref().map(parse_ttl).transpose()?;
        let expires_at = ttl.map(|ttl| now.saturating_add(ttl));
        let bytes: Arc<[u8]> = to_canonical(&data).into();
        let (size, digest) = (bytes.len(), sha256(&bytes));
        let max_size = self.infra.settings.max_result_size;
        if max_size.is_exceeded_by(size) {
            let text = format!("the result has {size} bytes; the maximum is {max_size}");
            return Err(RuntimeError::too_large(text));
        }
        let result_id = match key {
            Some(key) => keyed_result_id(execution_id, key, digest)?,
            None => self.infra.mint_id()?,
        };
        let scope = request.scope;
        let name = name.unwrap_or(request.name);
        let reference = format!("noetl://execution/{execution_id}/result/{name}/{result_id}");
        let put = self.infra.store().put_result(ResultPut {
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
            PutResultError::TooLarge => RuntimeError::too_large(error.to_string()),
            PutResultError::IdTaken => {
                RuntimeError::refused(ErrorCode::IdConflict, error.to_string())
            }
            PutResultError::Store(error) => error.into(),
        })?;
        self.infra.metrics.server.results_put.inc();
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

/// Refuses a result that does not match its digest.
fn check_digest(result: &StoredResult) -> Result<()> {
    if sha256(&result.bytes) == result.sha256 {
        return Ok(());
    }
    let StoredResult { execution_id, result_id, .. } = result;
    tracing::error!(%execution_id, %result_id, "a stored result does not match its digest");
    Err(RuntimeError::internal("the stored result is damaged"))
}

/// Verifies and parses the value of a stored result.
pub(crate) fn parse_result_value(result: &StoredResult) -> Result<Json> {
    check_digest(result)?;
    json::parse(&result.bytes).map_err(|_| {
        RuntimeError::refused(ErrorCode::UnsupportedMedia, "the stored result is not JSON")
    })
}

/// Derives the id of a result from its key and data. A task that runs again has the same key and
/// possibly other data, which is then a different result.
fn keyed_result_id(execution_id: ExecutionId, key: &str, data: Digest) -> Result<ResultId> {
    let execution_id = execution_id.get().to_be_bytes();
    let digest = sha256_of_parts(&[&execution_id, data.as_bytes(), key.as_bytes()]);
    let bytes = digest.as_bytes().first_chunk::<8>().copied().unwrap_or_default();
    let number = i64::from_be_bytes(bytes) & i64::MAX;
    ResultId::new(number.max(1)).map_err(|error| RuntimeError::internal(error.to_string()))
}

/// Parses the lifetime of a result: seconds, or a text with a unit.
fn parse_ttl(value: &Json) -> Result<Millis> {
    let ttl = match value.as_u64() {
        Some(secs) => secs.checked_mul(1000).map(Millis::from_ms),
        None => Millis::from_json(value).ok(),
    };
    ttl.filter(|ttl| *ttl > Millis::ZERO).ok_or_else(|| {
        let text = "ttl must be a number of seconds above 0, or a text such as `2h`";
        RuntimeError::invalid(text)
    })
}

#[cfg(test)]
mod tests;
