//! What a worker runs tasks with.

use async_trait::async_trait;
use noetl_playbook::model::ToolKind;
use noetl_tools::{Call, CancellationToken, Outcome, Toolbox};

/// What a worker runs tasks with: the toolbox of the house, or another.
#[async_trait]
pub trait Tools: Send + Sync {
    /// The kinds that it can run.
    fn kinds(&self) -> &[ToolKind];

    /// Runs one call. It ends soon after `cancel`, and when it is dropped.
    async fn call(&self, call: Call, cancel: CancellationToken) -> Outcome;

    /// Frees what is held between calls.
    async fn shutdown(&self);
}

#[async_trait]
impl Tools for Toolbox {
    fn kinds(&self) -> &[ToolKind] {
        Self::kinds(self)
    }

    async fn call(&self, call: Call, cancel: CancellationToken) -> Outcome {
        Self::call(self, call, cancel).await
    }

    async fn shutdown(&self) {
        Self::shutdown(self).await;
    }
}
