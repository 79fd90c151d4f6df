//! The tools that a worker runs tasks with.

use async_trait::async_trait;
use noetl_playbook::model::ToolKind;
use noetl_tools::platform::PlatformHandle;
use noetl_tools::{CancellationToken, ToolCall, ToolOutcome, Toolbox};

/// Runs tool calls: the standard [`Toolbox`], or another implementation.
#[async_trait]
pub trait ToolRunner: Send + Sync {
    /// The tool kinds that it can run.
    fn kinds(&self) -> &[ToolKind];

    /// Runs one call, which may use the control plane. It ends soon after `cancel` is cancelled,
    /// and when it is dropped.
    async fn call(
        &self,
        platform: PlatformHandle,
        call: ToolCall,
        cancel: CancellationToken,
    ) -> ToolOutcome;

    /// Frees the resources of a finished command.
    fn release_command(&self, _command: &str) {}

    /// Frees the resources that are held between calls.
    async fn shutdown(&self);
}

#[async_trait]
impl ToolRunner for Toolbox {
    fn kinds(&self) -> &[ToolKind] {
        Self::kinds(self)
    }

    async fn call(
        &self,
        platform: PlatformHandle,
        call: ToolCall,
        cancel: CancellationToken,
    ) -> ToolOutcome {
        self.call_with_platform(platform, call, cancel).await
    }

    fn release_command(&self, command: &str) {
        Self::release_command(self, command);
    }

    async fn shutdown(&self) {
        Self::shutdown(self).await;
    }
}
