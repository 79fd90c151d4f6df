//! Receives command notifications of other servers, which mean that there is work in the store.

use std::sync::Arc;
use std::time::Duration;

use noetl_types::{PoolName, TenantId};
use serde::Deserialize;

use crate::runtime::Core;

/// Subjects of command notifications: of the default tenant and of the other tenants. The bare
/// subject only repeats them.
pub(in crate::runtime) const COMMAND_SUBJECTS: [&str; 2] =
    ["noetl.commands.>", "noetl.t.*.commands.>"];

/// Delay before a failed subscription is retried.
const RESUBSCRIBE_DELAY: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
struct ReceivedNotification {
    execution_pool: PoolName,
    #[serde(default)]
    tenant_id: TenantId,
}

impl Core {
    /// Wakes local pollers when another server has queued a command.
    pub(in crate::runtime) async fn listen_loop(self: Arc<Self>, subjects: &'static str) {
        let Some(messaging) = &self.messaging else {
            return;
        };
        loop {
            match messaging.link().subscribe(subjects).await {
                Ok(mut subscription) => loop {
                    let received = tokio::select! {
                        biased;
                        () = self.shutdown.cancelled() => return,
                        received = subscription.next() => received,
                    };
                    let Some(body) = received else { break };
                    // Other publishers may send any content on these subjects.
                    if let Ok(notification) = serde_json::from_slice::<ReceivedNotification>(&body)
                    {
                        let queue =
                            notification.execution_pool.tenant_queue(&notification.tenant_id);
                        self.matcher.add_backlog(&queue, 1);
                    }
                },
                Err(error) => {
                    tracing::warn!(%error, "subscribing to command notifications failed; retrying");
                }
            }
            if !self.sleep_unless_shutdown(RESUBSCRIBE_DELAY).await {
                return;
            }
        }
    }
}
