//! The kind `container`: runs an image to its end with the container engine of the host.
//!
//! Owns the lifecycle of the container of a call. [`arguments`] builds the command line from a
//! config, [`engine`] interprets the engine's reports.

mod arguments;
mod engine;
mod removals;
mod volumes;

use std::process::ExitStatus;
use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind, sha256};

use self::arguments::RunArguments;
use self::engine::{ContainerEngine, ContainerState};
use self::removals::PendingRemovals;
use crate::call::{ToolCall, ToolOutcome};
use crate::config::Config;
use crate::process::CapturedOutput;
use crate::program::{create_private_dir, exit_code, exit_error};
use crate::settings::Settings;
use crate::tool::{CallContext, Tool};

/// Exit code with which the engine's client reports its own failure.
const ENGINE_FAILED_EXIT_CODE: i32 = 125;

/// Runs containers.
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
        let removal_guard = self.removals.remove_on_drop(&engine, &name);
        let program = engine.program(&arguments, &name, private_dir.path(), call.timeout);
        let (status, output) = program.run(&self.settings, context).await?;
        let state = if status.success() {
            None
        } else {
            engine.inspect_state(&name, private_dir.path()).await
        };
        drop(removal_guard);
        self.removals.wait_for_name(&name).await;
        Ok(container_outcome(status, &output, state.as_ref()))
    }

    async fn shutdown(&self) {
        self.removals.wait_for_all().await;
    }
}

/// Returns the container name of a call. All attempts of a call have the same name, even after the
/// loss of a worker, so that the container of an earlier attempt is found. Other calls have other
/// names.
fn container_name(call: &ToolCall) -> String {
    let digest = sha256(&call.idempotency_key).to_string();
    let short: String = digest.chars().take(32).collect();
    format!("noetl-{short}")
}

fn reject_kubernetes_options(config: Config<'_>) -> Result<(), TaskError> {
    let unsupported = |message: &str| Err(TaskError::new(TaskErrorKind::Unsupported, message));
    match config.text("runtime")? {
        None | Some("local") => {}
        Some("kubernetes") => {
            return unsupported(
                "containers on Kubernetes need a build with feature 'kubernetes'; use runtime: local",
            );
        }
        Some(runtime) => {
            return Err(crate::config::invalid_value(
                "runtime",
                &format!("is '{runtime}'; it must be local or kubernetes"),
            ));
        }
    }
    if config.flag("callback")?.unwrap_or(false) {
        return unsupported(
            "'callback' requires runtime: kubernetes; a local container runs to its end",
        );
    }
    Ok(())
}

fn container_outcome(
    status: ExitStatus,
    output: &CapturedOutput,
    state: Option<&ContainerState>,
) -> ToolOutcome {
    let mut data = JsonMap::from([("exit_code".into(), Json::from(exit_code(status)))]);
    output.insert_into(&mut data);
    let error = (!status.success()).then(|| container_error(status, output, state));
    ToolOutcome { data: data.into(), error, ..ToolOutcome::default() }
}

fn container_error(
    status: ExitStatus,
    output: &CapturedOutput,
    state: Option<&ContainerState>,
) -> TaskError {
    let last_line = output.last_error_line();
    let last_line = last_line.as_deref();
    match state {
        Some(state) if state.out_of_memory => TaskError {
            details: Some(Json::object([("reason", Json::from("OOMKilled"))])),
            ..exit_error("the container ran out of memory and", status, last_line)
        },
        // The engine has no state for the container, so it never started.
        None if status.code() == Some(ENGINE_FAILED_EXIT_CODE) => {
            engine::engine_error(status, last_line)
        }
        Some(_) | None => exit_error("the container", status, last_line),
    }
}
