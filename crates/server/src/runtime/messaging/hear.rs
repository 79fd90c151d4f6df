//! What other servers tell: there is work in the store.

use std::sync::Arc;
use std::time::Duration;

use noetl_types::{PoolName, TenantId};
use serde::Deserialize;

use crate::runtime::Core;

/// Where all pools are told of commands, those of the default tenant and those of others. The bare
/// subject only repeats what is said there.
pub(in crate::runtime) const SUBJECTS: [&str; 2] = ["noetl.commands.>", "noetl.t.*.commands.>"];

/// How long to wait before it is tried again to listen.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
struct Heard {
    execution_pool: PoolName,
    #[serde(default)]
    tenant_id: TenantId,
}

impl Core {
    /// Lets workers that wait here look into the store when another server has left something there.
    pub(in crate::runtime) async fn hear_for_ever(self: Arc<Self>, subjects: &'static str) {
        let Some(messaging) = &self.messaging else {
            return;
        };
        loop {
            match messaging.link().listen(subjects).await {
                Ok(mut listening) => loop {
                    let heard = tokio::select! {
                        biased;
                        () = self.shutdown.cancelled() => return,
                        heard = listening.next() => heard,
                    };
                    let Some(body) = heard else { break };
                    // Others may say there what they like.
                    if let Ok(heard) = serde_json::from_slice::<Heard>(&body) {
                        let queue = heard.execution_pool.within(&heard.tenant_id);
                        self.desk.left(&queue, 1);
                    }
                },
                Err(error) => tracing::warn!(%error, "other servers are not heard"),
            }
            if !self.pause(AGAIN).await {
                return;
            }
        }
    }
}
