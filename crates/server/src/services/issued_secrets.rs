//! Redaction of secrets that were issued for an execution from the reports about it.
//!
//! Workers of this release redact the secrets they resolve before they report. Workers of earlier
//! releases do not, and a secret that one worker left in shared state can be found by another.

use std::collections::BTreeMap;

use noetl_types::redact::{ExecutionSecretRegistry, SecretSet};
use noetl_types::{ExecutionId, Json};

use crate::error::{Result, RuntimeError};

/// Secrets that were issued to the workers of executions, as far as this process knows.
#[derive(Default)]
pub(crate) struct IssuedSecrets {
    by_execution: ExecutionSecretRegistry,
}

impl IssuedSecrets {
    /// Records a credential or keychain entry that was issued to a worker of an execution.
    pub(crate) fn record_issued_secret(
        &self,
        execution_id: ExecutionId,
        kind: Option<&str>,
        data: Option<&Json>,
    ) {
        if let Some(data) = data {
            self.by_execution.get_or_create(execution_id).add_credential(kind, data);
        }
    }

    /// Removes issued secrets, as far as this process knows them, from reported values. The search
    /// can take long, so it runs on a blocking thread and does not delay other requests.
    pub(crate) async fn redact_issued_secrets<T: Send + 'static>(
        &self,
        reported: Vec<(ExecutionId, T)>,
        redact: impl Fn(T, &SecretSet) -> T + Send + 'static,
    ) -> Result<Vec<T>> {
        let mut issued = BTreeMap::new();
        for (execution_id, _) in &reported {
            issued
                .entry(*execution_id)
                .or_insert_with(|| self.by_execution.secrets_for(*execution_id));
        }
        issued.retain(|_, secrets| !secrets.is_empty());
        if issued.is_empty() {
            return Ok(reported.into_iter().map(|(_, reported)| reported).collect());
        }
        let redact_value =
            move |(execution_id, reported): (ExecutionId, T)| match issued.get(&execution_id) {
                Some(secrets) => redact(reported, secrets),
                None => reported,
            };
        let redacting = tokio::task::spawn_blocking(move || {
            reported.into_iter().map(redact_value).collect::<Vec<T>>()
        });
        redacting.await.map_err(|error| {
            tracing::error!(%error, "the search for secrets failed");
            let text = "the report could not be searched for secrets";
            RuntimeError::internal(text)
        })
    }
}
