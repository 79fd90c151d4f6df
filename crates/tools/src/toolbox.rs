//! The tools that a worker has, and the one place where time and cancellation apply to them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use noetl_playbook::model::ToolKind;
use noetl_types::{Millis, TaskErrorKind, Text};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::call::{Call, Outcome};
use crate::http::Http;
use crate::noop::Noop;
use crate::python::Python;
use crate::settings::Settings;
use crate::shell::Shell;
use crate::tool::{Scope, Tool};

/// How long a cancelled process may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// The kinds of this build.
const KINDS: [ToolKind; 4] = [
    ToolKind::Noop,
    ToolKind::Python,
    ToolKind::Shell,
    ToolKind::Http,
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
    pub fn new(settings: Settings) -> Self {
        let settings = Arc::new(settings);
        Self {
            noop: Noop,
            python: Python::new(Arc::clone(&settings)),
            shell: Shell::new(Arc::clone(&settings)),
            http: Http::new(&settings),
        }
    }

    /// The kinds that it can run.
    pub fn kinds(&self) -> &[ToolKind] {
        &KINDS
    }

    /// Runs one call. It ends within the call's timeout, counted from when the tool gets to it,
    /// and soon after `cancel`.
    ///
    /// A dropped future stops the call as a timeout does.
    pub async fn call(&self, call: Call, cancel: CancellationToken) -> Outcome {
        let mut outcome = match self.tool(call.kind) {
            Some(tool) => run(tool, &call, &cancel).await,
            None => Outcome::error(
                TaskErrorKind::Unsupported,
                format!("this worker cannot run tasks of kind '{}'", call.kind),
            ),
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
    }

    fn tool(&self, kind: ToolKind) -> Option<&dyn Tool> {
        match kind {
            ToolKind::Noop => Some(&self.noop),
            ToolKind::Python => Some(&self.python),
            ToolKind::Shell => Some(&self.shell),
            ToolKind::Http => Some(&self.http),
            ToolKind::Postgres
            | ToolKind::Sqlite
            | ToolKind::Duckdb
            | ToolKind::Ducklake
            | ToolKind::Playbook
            | ToolKind::Workbook
            | ToolKind::Nats
            | ToolKind::Artifact
            | ToolKind::ResultFetch
            | ToolKind::Rhai
            | ToolKind::Transfer
            | ToolKind::Mcp
            | ToolKind::Container
            | ToolKind::Script
            | ToolKind::Subscription
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

async fn run(tool: &dyn Tool, call: &Call, cancel: &CancellationToken) -> Outcome {
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
    let scope = Scope::default();
    let mut work = pin!(tool.run(call, &scope));
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
