//! All tools of a worker, and the single place that applies timeouts and cancellation to them.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use noetl_playbook::model::ToolKind;
use noetl_types::{Millis, TaskErrorKind, Text};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::artifact::ArtifactTool;
use crate::call::{ToolCall, ToolOutcome};
use crate::container::ContainerTool;
use crate::duckdb::DuckdbTool;
use crate::http::HttpTool;
use crate::mcp::McpTool;
use crate::nats::{Connections, NatsTool};
use crate::noop::NoopTool;
use crate::platform::PlatformHandle;
use crate::playbook::PlaybookTool;
use crate::postgres::PostgresTool;
use crate::python::PythonTool;
#[cfg(feature = "rhai")]
use crate::rhai::RhaiTool;
use crate::scratch::ScratchDir;
use crate::script::ScriptTool;
use crate::script_source::ScriptLoader;
use crate::settings::{MAX_OUTPUT_SIZE, Settings};
use crate::shell::ShellTool;
use crate::sqlite::SqliteTool;
use crate::subscription::SubscriptionTool;
use crate::tool::{CallContext, Tool};
use crate::transfer::TransferTool;

/// Time for a cancelled process to end before it is killed.
const TERMINATION_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// The tools with which a worker runs tasks.
///
/// Created once and shared by the calls of one tenant, the tenant of the worker's token. Calls share
/// the interpreters that their processes are forked from.
pub struct Toolbox {
    kinds: Vec<ToolKind>,
    tools: BTreeMap<ToolKind, Arc<dyn Tool>>,
    /// Deleted after the tools have ended.
    _scratch: Option<ScratchDir>,
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Toolbox").field("kinds", &self.kinds).finish_non_exhaustive()
    }
}

impl Toolbox {
    /// Creates a toolbox. Interpreters and clients are started by the first call that needs them.
    pub fn new(mut settings: Settings) -> Self {
        settings.output_cap = settings.output_cap.min(MAX_OUTPUT_SIZE);
        let parent = settings.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let scratch = ScratchDir::create(&parent);
        let scratch = scratch.map_err(|error| {
            tracing::warn!(%error, folder = %parent.display(), "no folder for files of tasks");
        });
        let scratch = scratch.ok();
        if let Some(scratch) = &scratch {
            settings.scratch = Some(scratch.path().to_owned());
        }
        let settings = &Arc::new(settings);
        let http = Arc::new(HttpTool::new(settings));
        let scripts = &Arc::new(ScriptLoader::new(settings, http.client()));
        let sqlite = Arc::new(SqliteTool::new(settings, scripts));
        let python = Arc::new(PythonTool::new(settings, scripts));
        let connections = &Arc::new(Connections::default());
        let tools = BTreeMap::from([
            (ToolKind::Noop, Arc::new(NoopTool) as Arc<dyn Tool>),
            (ToolKind::Duckdb, Arc::new(DuckdbTool::new(settings, scripts, &python))),
            (ToolKind::Python, python),
            (ToolKind::Shell, Arc::new(ShellTool::new(settings))),
            (ToolKind::Playbook, Arc::new(PlaybookTool)),
            (ToolKind::Artifact, Arc::new(ArtifactTool)),
            (ToolKind::ResultFetch, Arc::new(ArtifactTool)),
            (ToolKind::Mcp, Arc::new(McpTool::new(settings, http.client()))),
            (ToolKind::Container, Arc::new(ContainerTool::new(settings))),
            (ToolKind::Script, Arc::new(ScriptTool::new(settings, scripts))),
            (ToolKind::Postgres, Arc::new(PostgresTool::new(settings, scripts))),
            (ToolKind::Transfer, Arc::new(TransferTool::new(settings, &http, &sqlite))),
            (ToolKind::Sqlite, sqlite),
            (ToolKind::Nats, Arc::new(NatsTool::new(settings, connections))),
            (ToolKind::Subscription, Arc::new(SubscriptionTool::new(settings, connections))),
            #[cfg(feature = "rhai")]
            (ToolKind::Rhai, Arc::new(RhaiTool::new(settings, &http))),
            (ToolKind::Http, http),
        ]);
        Self { kinds: tools.keys().copied().collect(), tools, _scratch: scratch }
    }

    pub fn kinds(&self) -> &[ToolKind] {
        &self.kinds
    }

    /// Runs one call without a control plane. Kinds that need one are then unsupported.
    pub async fn call(&self, call: ToolCall, cancel: CancellationToken) -> ToolOutcome {
        self.call_with_platform(None, call, cancel).await
    }

    /// Runs one call, which may use the control plane. The call ends within its timeout, counted
    /// from when the tool starts to work on it, and soon after `cancel`.
    ///
    /// Dropping the future stops the call as a timeout does.
    pub async fn call_with_platform(
        &self,
        platform: PlatformHandle,
        call: ToolCall,
        cancel: CancellationToken,
    ) -> ToolOutcome {
        let context = CallContext::new(platform);
        let mut outcome = match self.tools.get(&call.kind) {
            Some(tool) => run_with_timeout(&**tool, &call, &context, &cancel).await,
            None => {
                ToolOutcome::error(TaskErrorKind::Unsupported, unsupported_kind_message(call.kind))
            }
        };
        if let Some(error) = &mut outcome.error {
            error.task = Some(Text::from(call.label));
            error.attempt = Some(call.attempt);
        }
        outcome
    }

    /// Ends everything that is kept warm between calls. Calls in progress are ended by their own
    /// tokens.
    pub async fn shutdown(&self) {
        for tool in self.tools.values() {
            tool.shutdown().await;
        }
    }

    /// Releases state that tools keep for a command, such as an in-memory database that its tasks
    /// share. Call it after a command has ended, whether it succeeded or not.
    pub fn release_command(&self, command: &str) {
        for tool in self.tools.values() {
            tool.release_command(command);
        }
    }
}

async fn run_with_timeout(
    tool: &dyn Tool,
    call: &ToolCall,
    context: &CallContext,
    cancel: &CancellationToken,
) -> ToolOutcome {
    let permit = async {
        match tool.call_permits() {
            Some(permits) => permits.acquire().await.map(Some),
            None => Ok(None),
        }
    };
    let _permit = tokio::select! {
        biased;
        () = cancel.cancelled() => return cancelled_outcome(ToolOutcome::default()),
        permit = permit => match permit {
            Ok(permit) => permit,
            // The semaphore is closed: the toolbox is shutting down.
            Err(_) => return cancelled_outcome(ToolOutcome::default()),
        },
    };
    let work = async { tool.run(call, context).await.unwrap_or_else(ToolOutcome::failed) };
    let mut work = pin!(work);
    tokio::select! {
        biased;
        outcome = &mut work => return outcome,
        () = cancel.cancelled() => {}
        () = sleep(call.timeout) => return timed_out_outcome(call.timeout),
    }
    if context.terminate_process()
        && let Ok(outcome) = timeout(TERMINATION_GRACE_PERIOD, work).await
    {
        return cancelled_outcome(outcome);
    }
    cancelled_outcome(ToolOutcome::default())
}

fn unsupported_kind_message(kind: ToolKind) -> String {
    match kind.spec().feature {
        Some(feature) => format!(
            "tasks of kind '{kind}' need a build with feature '{feature}', which this worker lacks"
        ),
        None => format!("this worker cannot run tasks of kind '{kind}'"),
    }
}

/// Outcome of a cancelled call. Keeps the data that it has produced so far.
fn cancelled_outcome(outcome: ToolOutcome) -> ToolOutcome {
    let stopped = ToolOutcome::error(TaskErrorKind::Cancelled, "the task was cancelled");
    ToolOutcome { error: stopped.error, ..outcome }
}

fn timed_out_outcome(after: Duration) -> ToolOutcome {
    let after = Millis::from(after);
    ToolOutcome::error(TaskErrorKind::Timeout, format!("the task did not end within {after}"))
}
