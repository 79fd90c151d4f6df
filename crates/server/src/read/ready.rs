//! Whether this server can work.

use std::time::Duration;

use noetl_api::health::{Health, Ready};
use noetl_types::{ExecutionId, Text};

use crate::runtime::{Runtime, RuntimeError};

/// How long the store may take to answer a question that costs it next to nothing.
const PATIENCE: Duration = Duration::from_secs(2);

impl Runtime {
    /// Looks at what no request can do without.
    pub async fn ready(&self) -> Ready {
        let store = self.store_answers().await;
        let machine_id = if self.has_machine_id() {
            Ok(())
        } else {
            Err("the lease of the machine id has run out".into())
        };
        let mut ready = Ready::of([("store", store), ("machine_id", machine_id)]);
        // What was looked at and is no worry is well.
        ready = ready.and("partitions", Health::Ok, Ok(()));
        if self.settings().outbox {
            ready = ready.and("outbox", Health::Ok, Ok(()));
        }
        for worry in self.worries() {
            ready = ready.and(worry.what, worry.health, Err(worry.reason));
        }
        // Everything goes on without these, a little later.
        let beside = [
            ("nats", self.messaging_trouble()),
            ("stream", self.stream_health()),
        ];
        beside
            .into_iter()
            .fold(ready, |ready, (name, found)| match found {
                Some(found) => ready.and(name, Health::Degraded, found),
                None => ready,
            })
    }

    async fn store_answers(&self) -> Result<(), Text> {
        // The lowest id is a lookup by key that finds nothing, on every store.
        let Ok(lowest) = ExecutionId::new(1) else {
            return Ok(());
        };
        match tokio::time::timeout(PATIENCE, self.store().execution(lowest)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => {
                // Telling the problem also tells the operator's log.
                let problem = RuntimeError::from(error).into_problem();
                Err(problem.detail)
            }
            Err(_) => Err("the store does not answer".into()),
        }
    }
}
