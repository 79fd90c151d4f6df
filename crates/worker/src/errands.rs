//! What the worker does for its tools at the server: fetches and keeps results, starts runs.
//!
//! A tool knows nothing of the wire; what the server refuses becomes an error of a task here.

use std::sync::Arc;

use async_trait::async_trait;
use noetl_api::execute::{ExecuteRequest, Version};
use noetl_api::result::PutResult;
use noetl_api::{ApiError, WorkerApi};
use noetl_playbook::shift::Wanted;
use noetl_tools::platform::{
    Child, ChildDefinition, KeptResult, NewResult, Playbooks, ResultRef, Results, StartedChild,
};
use noetl_types::redact::Hidden;
use noetl_types::{ErrorCode, ExecutionId, Json, TaskError, TaskErrorKind};

use crate::library::{Library, unavailable};

/// What the worker does for its tools.
pub(crate) struct Errands {
    api: Arc<dyn WorkerApi>,
    library: Arc<Library>,
    /// What must not be seen of what is sent.
    hidden: Hidden,
}

impl Errands {
    pub(crate) fn new(api: Arc<dyn WorkerApi>, library: Arc<Library>) -> Self {
        Self {
            api,
            library,
            hidden: Hidden::default(),
        }
    }

    /// The same for a command that has secrets.
    pub(crate) fn hiding(&self, hidden: Hidden) -> Self {
        Self {
            api: Arc::clone(&self.api),
            library: Arc::clone(&self.library),
            hidden,
        }
    }
}

#[async_trait]
impl Results for Errands {
    async fn fetch(&self, reference: ResultRef) -> Result<Json, TaskError> {
        let ResultRef { uri, sha256 } = reference;
        self.library.payload(Wanted { uri, sha256 }).await
    }

    async fn put(&self, result: NewResult) -> Result<KeptResult, TaskError> {
        let execution_id = execution_id(&result.execution_id)?;
        let key = result.idempotency_key;
        let secrets = self.hidden.known();
        let name = secrets.hidden_in(&result.name).unwrap_or(result.name);
        let wish = PutResult {
            source_step: Some(result.step.into()),
            ..PutResult::new(name, secrets.hide(result.data))
        };
        let kept = self
            .library
            .patiently(|| self.api.put_result(execution_id, wish.clone(), &key))
            .await
            .map_err(|error| match error.code() {
                Some(ErrorCode::TooLarge) => {
                    TaskError::new(TaskErrorKind::Limit, error.to_string())
                }
                Some(ErrorCode::Quota | ErrorCode::DiskFull) => {
                    TaskError::new(TaskErrorKind::StorageQuota, error.to_string())
                }
                Some(ErrorCode::NotSupported) => {
                    TaskError::new(TaskErrorKind::Unsupported, error.to_string())
                }
                Some(_) | None => unavailable("the result is not kept", &error),
            })?;
        Ok(KeptResult {
            uri: kept.reference.to_string(),
            bytes: kept.bytes,
            sha256: kept.sha256.to_string(),
        })
    }
}

#[async_trait]
impl Playbooks for Errands {
    async fn start(&self, child: Child) -> Result<StartedChild, TaskError> {
        let key = child.idempotency_key;
        let mut wish = ExecuteRequest {
            payload: Some(self.hidden.known().hide(child.payload)),
            parent_execution_id: Some(execution_id(&child.parent_execution_id)?),
            ..ExecuteRequest::default()
        };
        match child.definition {
            ChildDefinition::Id(id) => {
                let id = id.parse();
                wish.catalog_id = Some(id.map_err(|error| unfit("catalog_id", &error))?);
            }
            ChildDefinition::Path { path, version } => {
                let path = path.parse();
                wish.path = Some(path.map_err(|error| unfit("path", &error))?);
                wish.version = version.map(|version| Version::Word(version.into()));
            }
        }
        let started = self
            .library
            .patiently(|| self.api.start(wish.clone(), &key))
            .await
            .map_err(|error| not_started(&error))?;
        Ok(StartedChild {
            execution_id: started.execution_id.to_string(),
            path: started.path.to_string(),
        })
    }
}

fn execution_id(text: &str) -> Result<ExecutionId, TaskError> {
    text.parse().map_err(|error| unfit("execution_id", &error))
}

fn unfit(key: &str, error: &dyn std::fmt::Display) -> TaskError {
    TaskError::new(TaskErrorKind::Schema, format!("'{key}': {error}"))
}

fn not_started(error: &ApiError) -> TaskError {
    let mut refused = unavailable("the playbook is not started", error);
    // Only results are stored anywhere; whatever else keeps a playbook from starting is its own.
    if refused.kind == TaskErrorKind::StorageAccess {
        refused.kind = TaskErrorKind::Child;
    }
    refused
}
