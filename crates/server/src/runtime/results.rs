//! Values that are kept beside the log.

use noetl_types::{ErrorCode, ExecutionId, Json, ResultId, sha256};

use super::Core;
use super::error::RuntimeError;

impl Core {
    /// A value that an event refers to.
    pub(crate) async fn fetch(&self, uri: &str) -> Result<Json, RuntimeError> {
        let (execution_id, result_id) = address(uri).ok_or_else(|| {
            let text = format!("`{uri}` is not the address of a result");
            RuntimeError::refused(ErrorCode::BadId, text)
        })?;
        let stored = self.store.result(execution_id, result_id).await?;
        let stored = stored
            .ok_or_else(|| RuntimeError::refused(ErrorCode::NotFound, "there is no such result"))?;
        let is_whole = sha256(&stored.bytes) == stored.sha256;
        let value = serde_json::from_slice(&stored.bytes).ok();
        value.filter(|_| is_whole).ok_or_else(|| {
            tracing::error!(%execution_id, %result_id, "a stored result is damaged");
            RuntimeError::refused(ErrorCode::DigestMismatch, "the stored result is damaged")
        })
    }
}

/// Reads `noetl://execution/<execution>/result/<name>/<result>`.
fn address(uri: &str) -> Option<(ExecutionId, ResultId)> {
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
    fn an_address_names_an_execution_and_a_result() {
        let found = address("noetl://execution/7/result/load/9").unwrap();
        assert_eq!((found.0.get(), found.1.get()), (7, 9));
        for wrong in [
            "",
            "noetl://execution/7/result/9",
            "noetl://execution/x/result/load/9",
        ] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }
}
