//! The kind `container`: runs an image to its end with the container engine of the host.
//!
//! Owns the lifecycle of the container of a call. [`arguments`] builds the command line from a
//! config, [`engine`] interprets the engine's reports.

mod arguments;
mod engine;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind, sha256};
use tokio::runtime::Handle;
use tokio::sync::watch;

use self::arguments::RunArguments;
use self::engine::ContainerEngine;
use crate::call::{ToolCall, ToolOutcome};
use crate::config::{Config, invalid_value};
use crate::program::{CapturedOutput, create_private_dir, exit_code, exit_error};
use crate::settings::Settings;
use crate::tool::{CallContext, Tool};

/// Exit code with which the engine's client reports its own failure.
const ENGINE_FAILED_EXIT_CODE: i32 = 125;

#[derive(Debug)]
pub(crate) struct ContainerTool {
    settings: Arc<Settings>,
    removals: Arc<PendingRemovals>,
}

impl ContainerTool {
    pub(crate) fn new(settings: &Arc<Settings>) -> Self {
        Self { settings: Arc::clone(settings), removals: Arc::default() }
    }
}

#[async_trait]
impl Tool for ContainerTool {
    async fn run(&self, call: &ToolCall, context: &CallContext) -> Result<ToolOutcome, TaskError> {
        reject_kubernetes_options(Config(&call.config))?;
        let arguments = RunArguments::from_call(call, &self.settings)?;
        let engine = Arc::new(ContainerEngine::find_installed(&self.settings)?);
        let private_dir = create_private_dir(&self.settings)?;
        let name = container_name(call);
        self.removals.wait_for_name(&name).await;
        // A lost worker may have left a container with this name.
        engine.remove(&name, private_dir.path()).await?;
        let removal_guard = RemovalGuard {
            engine: Arc::clone(&engine),
            name: name.clone(),
            removals: Arc::clone(&self.removals),
        };
        let program = engine.program(&arguments, &name, private_dir.path(), call.timeout);
        let (status, output) = program.run(&self.settings, context).await?;
        let mut error = None;
        if !status.success() {
            let out_of_memory = engine.ran_out_of_memory(&name, private_dir.path()).await;
            error = Some(container_error(status, &output, out_of_memory));
        }
        drop(removal_guard);
        self.removals.wait_for_name(&name).await;
        let mut data = JsonMap::from([("exit_code".into(), Json::from(exit_code(status)))]);
        output.insert_into(&mut data);
        Ok(ToolOutcome { data: data.into(), error, ..ToolOutcome::default() })
    }

    async fn shutdown(&self) {
        self.removals.wait_for_all().await;
    }
}

/// Returns the container name of a call. All attempts of a call have the same name, even after the
/// loss of a worker, so that the container of an earlier attempt is found. Other calls have other
/// names.
fn container_name(call: &ToolCall) -> String {
    format!("noetl-{:.32}", sha256(&call.idempotency_key).to_string())
}

fn reject_kubernetes_options(config: Config<'_>) -> Result<(), TaskError> {
    let unsupported = |message: &str| Err(TaskError::new(TaskErrorKind::Unsupported, message));
    match config.text("runtime")? {
        None | Some("local") => {}
        Some("kubernetes") => {
            return unsupported(
                "this worker does not run containers on Kubernetes; use runtime: local",
            );
        }
        Some(runtime) => {
            let problem = format!("is '{runtime}'; it must be local or kubernetes");
            return Err(invalid_value("runtime", &problem));
        }
    }
    if config.flag("callback")?.unwrap_or(false) {
        return unsupported(
            "'callback' requires runtime: kubernetes; a local container runs to its end",
        );
    }
    Ok(())
}

fn container_error(
    status: ExitStatus,
    output: &CapturedOutput,
    out_of_memory: Option<bool>,
) -> TaskError {
    let last_line = output.last_error_line();
    let last_line = last_line.as_deref();
    match out_of_memory {
        Some(true) => TaskError {
            details: Some(Json::object([("reason", Json::from("OOMKilled"))])),
            ..exit_error("the container ran out of memory and", status, last_line)
        },
        // The engine has no state for the container, so it never started.
        None if status.code() == Some(ENGINE_FAILED_EXIT_CODE) => {
            engine::engine_error(status, last_line)
        }
        Some(false) | None => exit_error("the container", status, last_line),
    }
}

/// Names of containers that are being removed.
///
/// Ending the engine's client does not end its container, so every call removes its own, no matter
/// how the call ends. A dropped call cannot wait for the removal, so the next call that uses the
/// name waits instead.
#[derive(Debug, Default)]
struct PendingRemovals(watch::Sender<BTreeSet<String>>);

impl PendingRemovals {
    /// Waits until no removal of this name is in progress. Otherwise it would remove the next
    /// container that has the name.
    async fn wait_for_name(&self, name: &str) {
        // The sender lives as long as this value, so the wait cannot fail.
        self.0.subscribe().wait_for(|names| !names.contains(name)).await.ok();
    }

    async fn wait_for_all(&self) {
        self.0.subscribe().wait_for(BTreeSet::is_empty).await.ok();
    }
}

/// Guard for the container of a call in progress. Dropping it removes the container.
#[derive(Debug)]
struct RemovalGuard {
    engine: Arc<ContainerEngine>,
    name: String,
    removals: Arc<PendingRemovals>,
}

impl Drop for RemovalGuard {
    fn drop(&mut self) {
        // Without a runtime the process is ending, and the next attempt removes the container.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (engine, removals) = (Arc::clone(&self.engine), Arc::clone(&self.removals));
        let name = std::mem::take(&mut self.name);
        removals.0.send_modify(|names| {
            names.insert(name.clone());
        });
        let completion = CompletionGuard { name, removals };
        runtime.spawn(async move {
            if let Err(error) = engine.remove(&completion.name, Path::new("/")).await {
                tracing::warn!(
                    container = completion.name,
                    "a container could not be removed: {}",
                    error.message
                );
            }
        });
    }
}

/// Marks a removal as done when it is dropped, even if it was aborted.
struct CompletionGuard {
    name: String,
    removals: Arc<PendingRemovals>,
}

impl Drop for CompletionGuard {
    fn drop(&mut self) {
        self.removals.0.send_modify(|names| {
            names.remove(&self.name);
        });
    }
}
