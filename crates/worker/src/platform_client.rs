//! The server operations that the worker offers to its tools: fetching and storing results, and
//! starting playbooks.
//!
//! Tools do not depend on the wire protocol. Refusals of the server become task errors here.

use std::sync::Arc;

use async_trait::async_trait;
use noetl_api::execute::{ExecuteRequest, VersionSelector};
use noetl_api::result::ResultPutRequest;
use noetl_api::{ApiError, WorkerApi};
use noetl_playbook::command_machine::PayloadRequest;
use noetl_tools::platform::{
    ChildDefinition, ChildRequest, NewResult, OutputSink, OutputStream, PlaybookLauncher,
    ResultReceipt, ResultRef, ResultStore, StartedChild,
};
use noetl_types::redact::SharedSecretSet;
use noetl_types::{ErrorCode, ExecutionId, Json, TaskError, TaskErrorKind};

use crate::definitions::{DefinitionCache, unavailable_error};
use crate::output::AttemptOutput;

/// Client of the server for tools.
pub(crate) struct PlatformClient {
    api: Arc<dyn WorkerApi>,
    definitions: Arc<DefinitionCache>,
    /// Secrets that are redacted from everything that is sent.
    secret_set: SharedSecretSet,
    /// Receives the output of the command's processes.
    output: Option<Arc<AttemptOutput>>,
}

impl OutputSink for PlatformClient {
    fn write_output(&self, stream: OutputStream, bytes: &[u8]) {
        if let Some(output) = &self.output {
            output.write(stream, bytes);
        }
    }
}

impl PlatformClient {
    pub(crate) fn new(api: Arc<dyn WorkerApi>, definitions: Arc<DefinitionCache>) -> Self {
        Self { api, definitions, secret_set: SharedSecretSet::default(), output: None }
    }

    /// Returns a client for a command that has secrets and output.
    pub(crate) fn for_command(
        &self,
        secret_set: SharedSecretSet,
        output: Option<Arc<AttemptOutput>>,
    ) -> Self {
        let (api, definitions) = (Arc::clone(&self.api), Arc::clone(&self.definitions));
        Self { api, definitions, secret_set, output }
    }
}

#[async_trait]
impl ResultStore for PlatformClient {
    async fn fetch_result(&self, reference: ResultRef) -> Result<Json, TaskError> {
        let ResultRef { uri, sha256 } = reference;
        self.definitions.get_payload(PayloadRequest { uri, sha256 }).await
    }

    async fn store_result(&self, result: NewResult) -> Result<ResultReceipt, TaskError> {
        let execution_id = parse_execution_id(&result.execution_id)?;
        let key = result.idempotency_key;
        let secrets = self.secret_set.current_secrets();
        let name = secrets.redact_text(&result.name).unwrap_or(result.name);
        let request = ResultPutRequest {
            source_step: Some(result.step.into()),
            ..ResultPutRequest::new(name, secrets.redact_json(result.data))
        };
        let stored = self
            .definitions
            .with_retries(|| self.api.put_result(execution_id, request.clone(), &key))
            .await
            .map_err(|error| match error.code() {
                Some(ErrorCode::TooLarge) => {
                    TaskError::new(TaskErrorKind::Limit, error.to_string())
                }
                Some(ErrorCode::QuotaExceeded | ErrorCode::DiskFull) => {
                    TaskError::new(TaskErrorKind::StorageQuota, error.to_string())
                }
                Some(ErrorCode::NotSupported) => {
                    TaskError::new(TaskErrorKind::Unsupported, error.to_string())
                }
                Some(_) | None => unavailable_error("the result was not stored", &error),
            })?;
        Ok(ResultReceipt {
            uri: stored.reference.to_string(),
            bytes: stored.bytes,
            sha256: stored.sha256.to_string(),
        })
    }
}

#[async_trait]
impl PlaybookLauncher for PlatformClient {
    async fn start_playbook(&self, child: ChildRequest) -> Result<StartedChild, TaskError> {
        let key = child.idempotency_key;
        let mut request = ExecuteRequest {
            payload: Some(self.secret_set.current_secrets().redact_json(child.payload)),
            parent_execution_id: Some(parse_execution_id(&child.parent_execution_id)?),
            ..ExecuteRequest::default()
        };
        match child.definition {
            ChildDefinition::Id(id) => {
                let id = id.parse();
                request.catalog_id =
                    Some(id.map_err(|error| invalid_field_error("catalog_id", &error))?);
            }
            ChildDefinition::Path { path, version } => {
                let path = path.parse();
                request.path = Some(path.map_err(|error| invalid_field_error("path", &error))?);
                request.version = version.map(|version| VersionSelector::Label(version.into()));
            }
        }
        let started = self
            .definitions
            .with_retries(|| self.api.start_execution(request.clone(), &key))
            .await
            .map_err(|error| start_error(&error))?;
        Ok(StartedChild {
            execution_id: started.execution_id.to_string(),
            path: started.path.to_string(),
        })
    }
}

fn parse_execution_id(text: &str) -> Result<ExecutionId, TaskError> {
    text.parse().map_err(|error| invalid_field_error("execution_id", &error))
}

fn invalid_field_error(key: &str, error: &dyn std::fmt::Display) -> TaskError {
    TaskError::new(TaskErrorKind::Schema, format!("'{key}': {error}"))
}

fn start_error(error: &ApiError) -> TaskError {
    let mut task_error = unavailable_error("the playbook was not started", error);
    // Only results are stored, so all other failures belong to the child playbook.
    if task_error.kind == TaskErrorKind::StorageAccess {
        task_error.kind = TaskErrorKind::Child;
    }
    task_error
}
