//! The tools that a worker has, and the one place where time and cancellation apply to them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use noetl_playbook::model::{Build, ToolKind};
use noetl_types::{Millis, TaskErrorKind, Text};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::artifact::Artifact;
use crate::call::{Call, Outcome};
use crate::container::Container;
use crate::http::{Http, Web};
use crate::mcp::Mcp;
use crate::nats::{Lines, Nats};
use crate::noop::Noop;
use crate::platform::PlatformHandle;
use crate::playbook::Playbook;
use crate::postgres::Postgres;
use crate::python::Python;
#[cfg(feature = "rhai")]
use crate::rhai::Rhai;
use crate::script::Script;
use crate::settings::{LARGEST_OUTPUT, Settings};
use crate::shell::Shell;
use crate::source::Sources;
use crate::sqlite::Sqlite;
use crate::subscription::Subscription;
use crate::tool::{Scope, Tool};
use crate::transfer::Transfer;

/// How long a cancelled process may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// The kinds of this build.
const KINDS: &[ToolKind] = &[
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

/// What a worker has to run tasks with.
///
/// It is made once and shared. Code of one call can leave traces in a warm python interpreter, so
/// give each trust domain a toolbox of its own.
pub struct Toolbox {
    noop: Noop,
    python: Python,
    shell: Shell,
    http: Http,
    mcp: Mcp,
    container: Container,
    script: Script,
    postgres: Postgres,
    sqlite: Arc<Sqlite>,
    transfer: Transfer,
    nats: Nats,
    subscription: Subscription,
    #[cfg(feature = "rhai")]
    rhai: Rhai,
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Toolbox")
            .field("kinds", &self.kinds())
            .finish_non_exhaustive()
    }
}

impl Toolbox {
    /// A toolbox. Nothing is started yet: interpreters and clients come with the first call.
    pub fn new(mut settings: Settings) -> Self {
        settings.output_cap = settings.output_cap.min(LARGEST_OUTPUT);
        let settings = Arc::new(settings);
        let web = Arc::new(Web::new(settings.egress.clone()));
        let sources = Arc::new(Sources::new(Arc::clone(&settings), Arc::clone(&web)));
        let sqlite = Arc::new(Sqlite::new(Arc::clone(&settings), Arc::clone(&sources)));
        let lines = Arc::new(Lines::default());
        Self {
            noop: Noop,
            python: Python::new(Arc::clone(&settings), Arc::clone(&sources)),
            shell: Shell::new(Arc::clone(&settings)),
            http: Http::new(Arc::clone(&web), settings.payload_cap),
            mcp: Mcp::new(Arc::clone(&settings), Arc::clone(&web)),
            container: Container::new(Arc::clone(&settings)),
            postgres: Postgres::new(Arc::clone(&settings), Arc::clone(&sources)),
            #[cfg(feature = "rhai")]
            rhai: Rhai::new(Arc::clone(&settings), Arc::clone(&web)),
            transfer: Transfer::new(Arc::clone(&settings), web, Arc::clone(&sqlite)),
            sqlite,
            nats: Nats::new(Arc::clone(&settings), Arc::clone(&lines)),
            subscription: Subscription::new(Arc::clone(&settings), lines),
            script: Script::new(settings, sources),
        }
    }

    /// The kinds that it can run.
    pub fn kinds(&self) -> &[ToolKind] {
        KINDS
    }

    /// Runs one call without a control plane; kinds that need one are not supported then.
    pub async fn call(&self, call: Call, cancel: CancellationToken) -> Outcome {
        self.call_on(None, call, cancel).await
    }

    /// Runs one call, which may ask the control plane for something. It ends within the call's
    /// timeout, counted from when the tool gets to it, and soon after `cancel`.
    ///
    /// A dropped future stops the call as a timeout does.
    pub async fn call_on(
        &self,
        platform: PlatformHandle,
        call: Call,
        cancel: CancellationToken,
    ) -> Outcome {
        let scope = Scope::new(platform);
        let mut outcome = match self.tool(call.kind) {
            Some(tool) => run(tool, &call, &scope, &cancel).await,
            None => Outcome::error(TaskErrorKind::Unsupported, lacking(call.kind)),
        };
        if let Some(error) = &mut outcome.error {
            error.task = Some(Text::from(call.label));
            error.attempt = Some(call.attempt);
        }
        outcome
    }

    /// Ends what is kept warm between calls. Calls under way are ended by their own tokens.
    pub async fn shutdown(&self) {
        self.python.shutdown().await;
        self.container.shutdown().await;
        self.postgres.shutdown().await;
        self.sqlite.shutdown().await;
        self.nats.shutdown().await;
    }

    /// Frees what tools keep for a command, such as a database in memory that its tasks share. Call
    /// it when a command has ended, however it did.
    pub fn forget(&self, command: &str) {
        self.sqlite.forget(command);
    }

    fn tool(&self, kind: ToolKind) -> Option<&dyn Tool> {
        match kind {
            ToolKind::Noop => Some(&self.noop),
            ToolKind::Python => Some(&self.python),
            ToolKind::Shell => Some(&self.shell),
            ToolKind::Http => Some(&self.http),
            ToolKind::Playbook => Some(&Playbook),
            ToolKind::Artifact | ToolKind::ResultFetch => Some(&Artifact),
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

async fn run(tool: &dyn Tool, call: &Call, scope: &Scope, cancel: &CancellationToken) -> Outcome {
    let place = async {
        match tool.places() {
            Some(places) => places.acquire().await.map(Some),
            None => Ok(None),
        }
    };
    let _place = tokio::select! {
        biased;
        () = cancel.cancelled() => return cancelled(Outcome::default()),
        place = place => match place {
            Ok(place) => place,
            // The places are closed: the toolbox is shutting down.
            Err(_) => return cancelled(Outcome::default()),
        },
    };
    let mut work = pin!(tool.run(call, scope));
    tokio::select! {
        biased;
        outcome = &mut work => return outcome,
        () = cancel.cancelled() => {}
        () = sleep(call.timeout) => return timed_out(call.timeout),
    }
    if scope.terminate()
        && let Ok(outcome) = timeout(GRACE, work).await
    {
        return cancelled(outcome);
    }
    cancelled(Outcome::default())
}

/// What to say of a kind that there is no tool for.
fn lacking(kind: ToolKind) -> String {
    match kind.spec().build {
        Build::Feature(feature) => format!(
            "tasks of kind '{kind}' need a build with feature '{feature}', which this worker lacks"
        ),
        Build::Reserved => format!("kind '{kind}' is reserved and cannot run"),
        Build::Core => format!("this worker cannot run tasks of kind '{kind}'"),
    }
}

/// The outcome of a call that was stopped; what it gave until then stays.
fn cancelled(outcome: Outcome) -> Outcome {
    let stopped = Outcome::error(TaskErrorKind::Cancelled, "the task was cancelled");
    Outcome {
        error: stopped.error,
        ..outcome
    }
}

fn timed_out(after: Duration) -> Outcome {
    let after = Millis::from(after);
    Outcome::error(
        TaskErrorKind::Timeout,
        format!("the task did not end within {after}"),
    )
}
