//! All tools of a worker, and the single place that applies timeouts and cancellation to them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use noetl_playbook::model::{BuildRequirement, ToolKind};
use noetl_types::{Millis, TaskErrorKind, Text};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::artifact::ArtifactTool;
use crate::call::{ToolCall, ToolOutcome};
use crate::container::ContainerTool;
use crate::http::{HttpClient, HttpTool};
use crate::mcp::McpTool;
use crate::nats::{Connections, NatsTool};
use crate::noop::NoopTool;
use crate::platform::PlatformHandle;
use crate::playbook::PlaybookTool;
use crate::postgres::PostgresTool;
use crate::python::PythonTool;
#[cfg(feature = "rhai")]
use crate::rhai::RhaiTool;
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

/// Tool kinds of this build.
const SUPPORTED_KINDS: &[ToolKind] = &[
    ToolKind::Noop,
    ToolKind::Python,
    ToolKind::Shell,
    ToolKind::Http,
    ToolKind::Playbook,
    ToolKind::Artifact,
    ToolKind::ResultFetch,
    ToolKind::Mcp,
    ToolKind::Container,
    ToolKind::Script,
    ToolKind::Postgres,
    ToolKind::Sqlite,
    ToolKind::Transfer,
    ToolKind::Nats,
    ToolKind::Subscription,
    #[cfg(feature = "rhai")]
    ToolKind::Rhai,
];

/// The tools with which a worker runs tasks.
///
/// Created once and shared. Code of one call can leave traces in a warm python interpreter, so use
/// a separate toolbox for each trust domain.
pub struct Toolbox {
    noop: NoopTool,
    python: PythonTool,
    shell: ShellTool,
    http: HttpTool,
    mcp: McpTool,
    container: ContainerTool,
    script: ScriptTool,
    postgres: PostgresTool,
    sqlite: Arc<SqliteTool>,
    transfer: TransferTool,
    nats: NatsTool,
    subscription: SubscriptionTool,
    #[cfg(feature = "rhai")]
    rhai: RhaiTool,
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Toolbox").field("kinds", &self.kinds()).finish_non_exhaustive()
    }
}

impl Toolbox {
    /// Creates a toolbox. Interpreters and clients are started by the first call that needs them.
    pub fn new(mut settings: Settings) -> Self {
        settings.output_cap = settings.output_cap.min(MAX_OUTPUT_SIZE);
        let settings = Arc::new(settings);
        let http_client = Arc::new(HttpClient::new(settings.egress.clone()));
        let sources = Arc::new(ScriptLoader::new(Arc::clone(&settings), Arc::clone(&http_client)));
        let sqlite = Arc::new(SqliteTool::new(Arc::clone(&settings), Arc::clone(&sources)));
        let connections = Arc::new(Connections::default());
        Self {
            noop: NoopTool,
            python: PythonTool::new(Arc::clone(&settings), Arc::clone(&sources)),
            shell: ShellTool::new(Arc::clone(&settings)),
            http: HttpTool::new(Arc::clone(&http_client), settings.payload_cap),
            mcp: McpTool::new(Arc::clone(&settings), Arc::clone(&http_client)),
            container: ContainerTool::new(Arc::clone(&settings)),
            postgres: PostgresTool::new(Arc::clone(&settings), Arc::clone(&sources)),
            #[cfg(feature = "rhai")]
            rhai: RhaiTool::new(Arc::clone(&settings), Arc::clone(&http_client)),
            transfer: TransferTool::new(Arc::clone(&settings), http_client, Arc::clone(&sqlite)),
            sqlite,
            nats: NatsTool::new(Arc::clone(&settings), Arc::clone(&connections)),
            subscription: SubscriptionTool::new(Arc::clone(&settings), connections),
            script: ScriptTool::new(settings, sources),
        }
    }

    /// Returns the kinds that it can run.
    pub fn kinds(&self) -> &[ToolKind] {
        SUPPORTED_KINDS
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
        let mut outcome = match self.find_tool(call.kind) {
            Some(tool) => run_with_timeout(tool, &call, &context, &cancel).await,
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
        self.python.shutdown().await;
        self.container.shutdown().await;
        self.postgres.shutdown().await;
        self.sqlite.shutdown().await;
        self.nats.shutdown().await;
    }

    /// Releases state that tools keep for a command, such as an in-memory database that its tasks
    /// share. Call it after a command has ended, whether it succeeded or not.
    pub fn release_command(&self, command: &str) {
        self.sqlite.release_command(command);
    }

    fn find_tool(&self, kind: ToolKind) -> Option<&dyn Tool> {
        match kind {
            ToolKind::Noop => Some(&self.noop),
            ToolKind::Python => Some(&self.python),
            ToolKind::Shell => Some(&self.shell),
            ToolKind::Http => Some(&self.http),
            ToolKind::Playbook => Some(&PlaybookTool),
            ToolKind::Artifact | ToolKind::ResultFetch => Some(&ArtifactTool),
            ToolKind::Mcp => Some(&self.mcp),
            ToolKind::Container => Some(&self.container),
            ToolKind::Script => Some(&self.script),
            ToolKind::Postgres => Some(&self.postgres),
            ToolKind::Sqlite => Some(&*self.sqlite),
            ToolKind::Transfer => Some(&self.transfer),
            ToolKind::Nats => Some(&self.nats),
            ToolKind::Subscription => Some(&self.subscription),
            #[cfg(feature = "rhai")]
            ToolKind::Rhai => Some(&self.rhai),
            #[cfg(not(feature = "rhai"))]
            ToolKind::Rhai => None,
            ToolKind::Duckdb
            | ToolKind::Ducklake
            | ToolKind::Workbook
            | ToolKind::Snowflake
            | ToolKind::Wait
            | ToolKind::Approval
            | ToolKind::Sleep
            | ToolKind::Gcs
            | ToolKind::Gateway
            | ToolKind::Secrets
            | ToolKind::Iterator
            | ToolKind::Playbooks
            | ToolKind::Agent
            | ToolKind::Wasm
            | ToolKind::Sink
            | ToolKind::Save
            | ToolKind::Auth
            | ToolKind::TaskSequence => None,
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
    let mut work = pin!(tool.run(call, context));
    tokio::select! {
        biased;
        outcome = &mut work => return outcome,
        () = cancel.cancelled() => {}
        () = sleep(call.timeout) => return timed_out_outcome(call.timeout),
    }
    if context.terminate_group()
        && let Ok(outcome) = timeout(TERMINATION_GRACE_PERIOD, work).await
    {
        return cancelled_outcome(outcome);
    }
    cancelled_outcome(ToolOutcome::default())
}

/// Error message for a kind that has no tool.
fn unsupported_kind_message(kind: ToolKind) -> String {
    match kind.spec().build {
        BuildRequirement::Feature(feature) => format!(
            "tasks of kind '{kind}' need a build with feature '{feature}', which this worker lacks"
        ),
        BuildRequirement::Reserved => format!("kind '{kind}' is reserved and cannot run"),
        BuildRequirement::Core => format!("this worker cannot run tasks of kind '{kind}'"),
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
