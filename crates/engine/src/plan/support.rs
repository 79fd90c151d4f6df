//! Constructs of the language that this engine does not run.

use noetl_playbook::model::{LoopSource, Playbook, Step, Task, ToolKind};
use noetl_types::StepName;

/// A construct that this engine does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Construct {
    /// A tool that waits for signals.
    Wait,
    /// A tool that waits for a person.
    Approval,
    /// A tool that waits for a time.
    Sleep,
    /// A tool that calls another playbook.
    SubPlaybook,
    /// A container that reports its end by itself.
    ContainerCallback,
    /// A loop over frames of claimed rows.
    CursorLoop,
    /// A step that takes over earlier results.
    StepCache,
    /// A bound on runs with the same key.
    KeyedConcurrency,
    /// A step that runs when the run is about to end.
    FinalStep,
}

impl Construct {
    /// What a person calls it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Wait => "kind: wait",
            Self::Approval => "kind: approval",
            Self::Sleep => "kind: sleep",
            Self::SubPlaybook => "kind: playbook",
            Self::ContainerCallback => "kind: container with a callback",
            Self::CursorLoop => "loop.cursor",
            Self::StepCache => "spec.cache",
            Self::KeyedConcurrency => "concurrency",
            Self::FinalStep => "executor.spec.final_step",
        }
    }
}

/// The first construct of a playbook that cannot be run, and its step.
pub(super) fn first_unsupported(playbook: &Playbook) -> Option<(Construct, Option<StepName>)> {
    if playbook.concurrency.is_some() {
        return Some((Construct::KeyedConcurrency, None));
    }
    if playbook.executor.spec.final_step.is_some() {
        return Some((Construct::FinalStep, None));
    }
    playbook.workflow.iter().find_map(|step| {
        let construct = of_step(step)?;
        Some((construct, StepName::new(step.name.value.clone()).ok()))
    })
}

fn of_step(step: &Step) -> Option<Construct> {
    if step.concurrency.is_some() {
        return Some(Construct::KeyedConcurrency);
    }
    if step.spec.cache.is_some() {
        return Some(Construct::StepCache);
    }
    if let Some(looping) = &step.looping
        && matches!(looping.source, LoopSource::Cursor(_))
    {
        return Some(Construct::CursorLoop);
    }
    step.tool.tasks().iter().find_map(of_task)
}

fn of_task(task: &Task) -> Option<Construct> {
    match task.kind.value {
        ToolKind::Wait => Some(Construct::Wait),
        ToolKind::Approval => Some(Construct::Approval),
        ToolKind::Sleep => Some(Construct::Sleep),
        ToolKind::Playbook => Some(Construct::SubPlaybook),
        ToolKind::Container => {
            let callback = task.config.get("callback")?.value.as_const();
            let is_off = callback.is_some_and(|value| value.as_bool() == Some(false));
            (!is_off).then_some(Construct::ContainerCallback)
        }
        ToolKind::Noop
        | ToolKind::Python
        | ToolKind::Shell
        | ToolKind::Http
        | ToolKind::Postgres
        | ToolKind::Sqlite
        | ToolKind::Duckdb
        | ToolKind::Ducklake
        | ToolKind::Workbook
        | ToolKind::Nats
        | ToolKind::Artifact
        | ToolKind::ResultFetch
        | ToolKind::Rhai
        | ToolKind::Transfer
        | ToolKind::Mcp
        | ToolKind::Script
        | ToolKind::Subscription
        | ToolKind::Snowflake
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
