//! What a worker runs tasks with.

use async_trait::async_trait;
use noetl_playbook::model::ToolKind;
use noetl_tools::platform::PlatformHandle;
use noetl_tools::{Call, CancellationToken, Outcome, Toolbox};

/// What a worker runs tasks with: the toolbox of the house, or another.
#[async_trait]
pub trait Tools: Send + Sync {
    /// The kinds that it can run.
    fn kinds(&self) -> &[ToolKind];

    /// Runs one call, which may ask the control plane for something. It ends soon after `cancel`,
    /// and when it is dropped.
    async fn call(
        &self,
        platform: PlatformHandle,
        call: Call,
        cancel: CancellationToken,
    ) -> Outcome;

    /// Frees what is kept for a command that has ended.
    fn forget(&self, _command: &str) {}

    /// Frees what is held between calls.
    async fn shutdown(&self);
}

#[async_trait]
impl Tools for Toolbox {
    fn kinds(&self) -> &[ToolKind] {
        Self::kinds(self)
    }

    async fn call(
        &self,
        platform: PlatformHandle,
        call: Call,
        cancel: CancellationToken,
    ) -> Outcome {
        self.call_on(platform, call, cancel).await
    }

    fn forget(&self, command: &str) {
        Self::forget(self, command);
    }

    async fn shutdown(&self) {
        Self::shutdown(self).await;
    }
}
