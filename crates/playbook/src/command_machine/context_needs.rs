//! Detection of tasks that read more than their templates show.

use crate::model::{Task, ToolKind};

/// Returns true if the code of a task may read names that no template shows.
pub fn needs_full_context(task: &Task) -> bool {
    match task.kind.value {
        ToolKind::Rhai => true,
        ToolKind::Python => match task.config.get("code").map(|code| code.value.as_const()) {
            // Code that is rendered by a template, or stored elsewhere, may read any name.
            None | Some(None) => true,
            Some(Some(code)) => code.as_str().is_none_or(mentions_context),
        },
        ToolKind::Noop
        | ToolKind::Shell
        | ToolKind::Http
        | ToolKind::Postgres
        | ToolKind::Sqlite
        | ToolKind::Duckdb
        | ToolKind::Ducklake
        | ToolKind::Playbook
        | ToolKind::Workbook
        | ToolKind::Nats
        | ToolKind::Artifact
        | ToolKind::ResultFetch
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
        | ToolKind::TaskSequence => false,
    }
}

/// Returns true if Python code mentions one of the names that contain all others.
fn mentions_context(code: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| matches!(word, "context" | "variables"))
}
