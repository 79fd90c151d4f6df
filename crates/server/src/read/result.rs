//! Stored results, which are too large for an event, by reference.

use noetl_store::{Execution, StoredResult};
use noetl_types::{ErrorCode, ExecutionId, Json, ResultId, Text, json, sha256};

use crate::runtime::{Runtime, RuntimeError};

/// Maximum bytes of a result that is inlined in answers about an execution. Larger ones are
/// returned as references.
const MAX_INLINE_BYTES: u64 = 1 << 20;
/// Events per read when searching for the terminal event from the end of the log.
const TAIL_EVENTS: i64 = 50;
/// Maximum reads. Only audit events can follow a terminal event.
const MAX_TAIL_READS: i64 = 20;

/// Parsed reference of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ResultAddress {
    execution_id: ExecutionId,
    name: Text,
    result_id: ResultId,
}

impl ResultAddress {
    /// Parses `noetl://execution/<id>/result/<name>/<result id>`.
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
    /// Returns a stored result and verifies its digest.
    pub async fn read_verified_result(
        &self,
        reference: &str,
    ) -> Result<StoredResult, RuntimeError> {
        let result = self.find_result(reference).await?;
        check_digest(&result)?;
        Ok(result)
    }

    /// Returns a stored result without verifying its digest.
    pub(crate) async fn find_result(&self, reference: &str) -> Result<StoredResult, RuntimeError> {
        let address = ResultAddress::parse(reference).ok_or_else(|| {
            RuntimeError::refused(
                ErrorCode::BadQuery,
                "ref is not of the form noetl://execution/<id>/result/<name>/<result id>",
            )
        })?;
        self.visible_execution(address.execution_id).await?;
        self.metrics().count_resolved_result();
        let found = self.store().find_result(address.execution_id, address.result_id).await?;
        let result = found
            .filter(|found| found.name == address.name)
            .ok_or_else(|| RuntimeError::refused(ErrorCode::NotFound, "there is no such result"))?;
        if result.expires_at.is_some_and(|expires_at| expires_at <= self.now()) {
            return Err(RuntimeError::refused(
                ErrorCode::RetentionDropped,
                "the result has expired",
            ));
        }
        Ok(result)
    }

    /// Returns the value of a stored result.
    pub async fn resolve_result(&self, reference: &str) -> Result<Json, RuntimeError> {
        parse_result_value(&self.find_result(reference).await?)
    }

    /// Returns the result of an ended execution.
    pub(super) async fn final_result(&self, row: &Execution) -> Result<Option<Json>, RuntimeError> {
        if !row.view.status.is_terminal() {
            return Ok(None);
        }
        let mut before = row.head.version.get();
        for _ in 0..MAX_TAIL_READS {
            let after = (before - TAIL_EVENTS).max(0);
            let tail = self.read_log_chunk(row.execution_id, after, before - after);
            let tail = tail.await?;
            let is_terminal = |event: &&noetl_types::StoredEvent| {
                let kind = event.record.event.event_type.known_type();
                kind.is_some_and(|kind| kind.terminal_status().is_some())
            };
            if let Some(event) = tail.iter().rev().find(is_terminal) {
                let result = event.record.event.result.as_ref();
                if let Some(value) = self.resolve_reference(result).await? {
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

    /// Returns the value that the `result` of an event refers to, or the reference itself if the
    /// value is large or no longer available.
    pub(super) async fn resolve_reference(
        &self,
        result: Option<&Json>,
    ) -> Result<Option<Json>, RuntimeError> {
        let reference = result.and_then(|result| result.get("reference"));
        let Some(reference) = reference.filter(|reference| !reference.is_null()) else {
            return Ok(None);
        };
        let address = reference.get("ref").and_then(Json::as_str);
        let bytes = reference.get("bytes").and_then(Json::as_u64);
        if let (Some(address), Some(..=MAX_INLINE_BYTES)) = (address, bytes) {
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

/// Refuses a result that does not match its digest.
fn check_digest(result: &StoredResult) -> Result<(), RuntimeError> {
    if sha256(&result.bytes) == result.sha256 {
        return Ok(());
    }
    let StoredResult { execution_id, result_id, .. } = result;
    tracing::error!(%execution_id, %result_id, "a stored result does not match its digest");
    let text = "the stored result is damaged";
    Err(RuntimeError::refused(ErrorCode::Internal, text))
}

/// Verifies and parses the value of a stored result.
pub(crate) fn parse_result_value(result: &StoredResult) -> Result<Json, RuntimeError> {
    check_digest(result)?;
    json::parse(&result.bytes).map_err(|_| {
        RuntimeError::refused(ErrorCode::UnsupportedMedia, "the stored result is not JSON")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_result_addresses() {
        let address = ResultAddress::parse("noetl://execution/7/result/load/9").unwrap();
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
            assert_eq!(ResultAddress::parse(wrong), None, "{wrong}");
        }
    }
}
