//! Results that are stored outside the log.

use noetl_types::{ErrorCode, ExecutionId, Json, ResultId, sha256};

use super::Core;
use super::error::RuntimeError;

impl Core {
    /// Returns the value that an event refers to.
    pub(crate) async fn fetch_result(&self, uri: &str) -> Result<Json, RuntimeError> {
        let (execution_id, result_id) = parse_result_uri(uri).ok_or_else(|| {
            let text = format!("`{uri}` is not a result reference");
            RuntimeError::refused(ErrorCode::BadId, text)
        })?;
        let stored = self.store.find_result(execution_id, result_id).await?;
        let stored = stored
            .ok_or_else(|| RuntimeError::refused(ErrorCode::NotFound, "there is no such result"))?;
        let is_intact = sha256(&stored.bytes) == stored.sha256;
        let value = serde_json::from_slice(&stored.bytes).ok();
        value.filter(|_| is_intact).ok_or_else(|| {
            tracing::error!(%execution_id, %result_id, "a stored result is damaged");
            RuntimeError::refused(ErrorCode::DigestMismatch, "the stored result is damaged")
        })
    }
}

/// Parses `noetl://execution/<execution>/result/<name>/<result>`.
fn parse_result_uri(uri: &str) -> Option<(ExecutionId, ResultId)> {
    let rest = uri.strip_prefix("noetl://execution/")?;
    let (execution, rest) = rest.split_once("/result/")?;
    let (_, result) = rest.rsplit_once('/')?;
    let execution = ExecutionId::new(execution.parse().ok()?).ok()?;
    let result = ResultId::new(result.parse().ok()?).ok()?;
    Some((execution, result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_result_uri() {
        let parsed = parse_result_uri("noetl://execution/7/result/load/9").unwrap();
        assert_eq!((parsed.0.get(), parsed.1.get()), (7, 9));
        for wrong in ["", "noetl://execution/7/result/9", "noetl://execution/x/result/load/9"] {
            assert_eq!(parse_result_uri(wrong), None, "{wrong}");
        }
    }
}
