//! Results that are too large for an event, by their addresses.

use noetl_store::{Execution, StoredResult};
use noetl_types::{ErrorCode, ExecutionId, Json, ResultId, Text, json, sha256};

use crate::runtime::{Runtime, RuntimeError};

/// Bytes of a result that answers about an execution show; a larger one is shown by its reference.
const MAX_SHOWN: u64 = 1 << 20;
/// How many events a terminal event is looked for among at once, from the end of the log.
const TAIL: i64 = 50;
/// How often: behind a terminal event only audit events can follow.
const MAX_TAILS: i64 = 20;

/// What a result's address says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    execution_id: ExecutionId,
    name: Text,
    result_id: ResultId,
}

impl Address {
    /// Reads `noetl://execution/<id>/result/<name>/<result id>`.
    fn parse(text: &str) -> Option<Self> {
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

impl Runtime {
    /// A stored result, by the address in its reference.
    pub async fn stored_result(&self, reference: &str) -> Result<StoredResult, RuntimeError> {
        let result = self.found_result(reference).await?;
        check(&result)?;
        Ok(result)
    }

    /// The same without a look at its bytes.
    pub(crate) async fn found_result(&self, reference: &str) -> Result<StoredResult, RuntimeError> {
        let address = Address::parse(reference).ok_or_else(|| {
            RuntimeError::refused(
                ErrorCode::BadQuery,
                "ref is not of the form noetl://execution/<id>/result/<name>/<result id>",
            )
        })?;
        self.execution_row(address.execution_id).await?;
        self.metrics().resolved_result();
        let found = self
            .store()
            .result(address.execution_id, address.result_id)
            .await?;
        let result = found
            .filter(|found| found.name == address.name)
            .ok_or_else(|| RuntimeError::refused(ErrorCode::NotFound, "there is no such result"))?;
        if result.expires_at.is_some_and(|end| end <= self.now()) {
            return Err(RuntimeError::refused(
                ErrorCode::RetentionDropped,
                "the result was kept for a while, which is over",
            ));
        }
        Ok(result)
    }

    /// The value of a stored result, by the address in its reference.
    pub async fn resolve_result(&self, reference: &str) -> Result<Json, RuntimeError> {
        value_of(&self.found_result(reference).await?)
    }

    /// What came out of an execution, once it ended.
    pub(super) async fn final_result(&self, row: &Execution) -> Result<Option<Json>, RuntimeError> {
        if !row.view.status.is_terminal() {
            return Ok(None);
        }
        let mut before = row.head.version.get();
        for _ in 0..MAX_TAILS {
            let after = (before - TAIL).max(0);
            let tail = self.log_chunk(row.execution_id, after, before - after);
            let tail = tail.await?;
            let is_end = |event: &&noetl_types::StoredEvent| {
                let kind = event.record.event.event_type.known();
                kind.is_some_and(|kind| kind.ends_as().is_some())
            };
            if let Some(end) = tail.iter().rev().find(is_end) {
                let result = end.record.event.result.as_ref();
                if let Some(value) = self.by_reference(result).await? {
                    return Ok(Some(value));
                }
                let context = result.and_then(|result| result.get("context"));
                return Ok(context.and_then(|context| context.get("result")).cloned());
            }
            if after == 0 {
                break;
            }
            before = after;
        }
        Ok(None)
    }

    /// The value that the `result` of an event refers to; the reference itself where the value is
    /// large, or no longer there.
    pub(super) async fn by_reference(
        &self,
        result: Option<&Json>,
    ) -> Result<Option<Json>, RuntimeError> {
        let reference = result.and_then(|result| result.get("reference"));
        let Some(reference) = reference.filter(|reference| !reference.is_null()) else {
            return Ok(None);
        };
        let address = reference.get("ref").and_then(Json::as_str);
        let bytes = reference.get("bytes").and_then(Json::as_u64);
        if let (Some(address), Some(..=MAX_SHOWN)) = (address, bytes) {
            match self.resolve_result(address).await {
                Ok(value) => return Ok(Some(value)),
                Err(error @ (RuntimeError::Store(_) | RuntimeError::Machine(_))) => {
                    return Err(error);
                }
                Err(RuntimeError::Refused(_)) => {}
            }
        }
        Ok(Some(reference.clone()))
    }
}

/// Refuses a result that is not what was stored.
fn check(result: &StoredResult) -> Result<(), RuntimeError> {
    if sha256(&result.bytes) == result.sha256 {
        return Ok(());
    }
    let StoredResult {
        execution_id,
        result_id,
        ..
    } = result;
    tracing::error!(%execution_id, %result_id, "a stored result does not match its digest");
    let text = "the stored result is damaged";
    Err(RuntimeError::refused(ErrorCode::Internal, text))
}

/// The value of a stored result.
pub(crate) fn value_of(result: &StoredResult) -> Result<Json, RuntimeError> {
    check(result)?;
    json::parse(&result.bytes).map_err(|_| {
        RuntimeError::refused(ErrorCode::UnsupportedMedia, "the stored result is not JSON")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let address = Address::parse("noetl://execution/7/result/load/9").unwrap();
        assert_eq!(address.execution_id.get(), 7);
        assert_eq!((&*address.name, address.result_id.get()), ("load", 9));
        for wrong in [
            "",
            "noetl://execution/7",
            "noetl://execution/7/result/load",
            "noetl://execution/7/result//9",
            "noetl://execution/x/result/load/9",
            "noetl://execution/7/result/load/-9",
            "noetl://execution/0/result/load/9",
            "http://execution/7/result/load/9",
        ] {
            assert_eq!(Address::parse(wrong), None, "{wrong}");
        }
    }
}
