//! The kind `container`: an image, run to its end by the engine of the machine.
//!
//! Owns the life of a container around its call. What a config means as a command line is said in
//! [`order`], what the engine reports in [`engine`].

mod engine;
mod order;
mod removals;
mod volumes;

use std::process::ExitStatus;
use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind, sha256};

use self::engine::{Ended, Engine};
use self::order::Order;
use self::removals::Removals;
use crate::call::{Call, Outcome};
use crate::config::Config;
use crate::process::Written;
use crate::program::{exit_code, failure, private_folder};
use crate::settings::Settings;
use crate::tool::{Scope, Tool};

/// The code with which the program of an engine says that it failed itself.
const ENGINE_FAILED: i32 = 125;

/// Runs containers.
#[derive(Debug)]
pub(crate) struct Container {
    settings: Arc<Settings>,
    removals: Arc<Removals>,
}

impl Container {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self {
            settings,
            removals: Arc::default(),
        }
    }

    async fn work(&self, call: &Call, scope: &Scope) -> Result<Outcome, TaskError> {
        refuse_what_needs_kubernetes(Config(&call.config))?;
        let order = Order::read(call, &self.settings)?;
        let engine = Arc::new(Engine::find(&self.settings)?);
        let folder = private_folder(&self.settings)?;
        let name = name_of(call);
        self.removals.wait_for(&name).await;
        // A worker that was lost may have left it running.
        engine.remove(&name, folder.path()).await?;
        let removal = self.removals.promise(&engine, &name);
        let program = engine.program(&order, &name, folder.path(), call.timeout);
        let (status, written) = program.run(&self.settings, scope).await?;
        let ended = if status.success() {
            None
        } else {
            engine.ended(&name, folder.path()).await
        };
        drop(removal);
        self.removals.wait_for(&name).await;
        Ok(outcome(status, &written, ended.as_ref()))
    }
}

#[async_trait]
impl Tool for Container {
    async fn run(&self, call: &Call, scope: &Scope) -> Outcome {
        match self.work(call, scope).await {
            Ok(outcome) => outcome,
            Err(error) => error.into(),
        }
    }

    async fn shutdown(&self) {
        self.removals.wait_for_all().await;
    }
}

/// The name of the container of a call: the same over retries and lost workers, so that what an
/// earlier attempt left is found, and different from that of any other call.
fn name_of(call: &Call) -> String {
    let digest = sha256(&call.idempotency_key).to_string();
    let short: String = digest.chars().take(32).collect();
    format!("noetl-{short}")
}

fn refuse_what_needs_kubernetes(config: Config<'_>) -> Result<(), TaskError> {
    let unsupported = |message: &str| Err(TaskError::new(TaskErrorKind::Unsupported, message));
    match config.text("runtime")? {
        None | Some("local") => {}
        Some("kubernetes") => {
            return unsupported(
                "containers on Kubernetes need a build with feature 'kubernetes'; use runtime: local",
            );
        }
        Some(word) => {
            return Err(crate::config::unreadable(
                "runtime",
                &format!("is '{word}', not local or kubernetes"),
            ));
        }
    }
    if config.flag("callback")?.unwrap_or(false) {
        return unsupported(
            "a container that calls back runs on Kubernetes; one of runtime: local is run to its end",
        );
    }
    Ok(())
}

fn outcome(status: ExitStatus, written: &Written, ended: Option<&Ended>) -> Outcome {
    let mut data = JsonMap::from([("exit_code".into(), Json::from(exit_code(status)))]);
    written.put_into(&mut data);
    let error = (!status.success()).then(|| failed(status, written, ended));
    Outcome {
        data: data.into(),
        error,
        ..Outcome::default()
    }
}

fn failed(status: ExitStatus, written: &Written, ended: Option<&Ended>) -> TaskError {
    let said = written.last_error_line();
    let said = said.as_deref();
    match ended {
        Some(ended) if ended.out_of_memory => TaskError {
            details: Some(Json::object([("reason", Json::from("OOMKilled"))])),
            ..failure("the container ran out of memory and", status, said)
        },
        // The engine has no container to tell of: it never began.
        None if status.code() == Some(ENGINE_FAILED) => engine::refusal(status, said),
        Some(_) | None => failure("the container", status, said),
    }
}
