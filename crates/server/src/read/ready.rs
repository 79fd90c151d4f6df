//! Whether this server can work.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use noetl_api::health::{Health, Ready};
use noetl_store::RuntimeKind;
use noetl_types::{ExecutionId, Json, Text};

use crate::runtime::{Runtime, RuntimeError};

/// How long the store may take to answer a question that costs it next to nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// Walls that are told; what workers say of them is theirs to say.
const MOST_WALLS: usize = 32;
const LONGEST_WALL: usize = 300;

impl Runtime {
    /// Looks at what no request can do without.
    pub async fn ready(&self) -> Ready {
        // Together, since whoever probes waits for little more than one of them.
        let (store, tables, walls) = tokio::join!(
            self.store_answers(),
            self.tables_are_there(),
            tokio::time::timeout(PATIENCE, self.walls_missing()),
        );
        if store.is_err() {
            // What answers next may be another one.
            self.tables_seen().store(false, Ordering::Relaxed);
        }
        let machine_id = if self.has_machine_id() {
            Ok(())
        } else {
            Err("the lease of the machine id has run out".into())
        };
        let mut ready = Ready::of([("store", store), ("machine_id", machine_id)]);
        ready = match tables {
            Ok(()) => ready.and("migrations", Health::Ok, Ok(())),
            Err((health, reason)) => ready.and("migrations", health, Err(reason)),
        };
        // What was looked at and is no worry is well.
        ready = ready.and("partitions", Health::Ok, Ok(()));
        if self.settings().keys.is_some() {
            // With keys that do not open what is there no server starts.
            ready = ready.and("keys", Health::Ok, Ok(()));
        }
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
        let ready = beside
            .into_iter()
            .fold(ready, |ready, (name, found)| match found {
                Some(found) => ready.and(name, Health::Degraded, found),
                None => ready,
            });
        ready.with_walls(walls.ok().and_then(Result::ok).unwrap_or_default())
    }

    /// The walls that do not stand, each once: around the log, and around tasks those that workers which
    /// live could not raise.
    async fn walls_missing(&self) -> Result<Vec<Text>, RuntimeError> {
        let of_log = self.store().missing_walls().await?;
        let of_log = of_log.iter().map(|wall| Text::from(wall.to_string()));
        let workers = self.store().runtimes(RuntimeKind::WorkerPool).await?;
        let alive = workers
            .into_iter()
            .filter(|worker| self.now().since(worker.heartbeat) <= self.settings().worker_offline);
        let mut found = BTreeSet::new();
        for worker in alive {
            let detail = worker.detail.unwrap_or_default();
            let sandbox = detail
                .get("capabilities")
                .and_then(|told| told.get("sandbox"));
            let told = sandbox.and_then(|told| told.get("missing")?.as_list());
            let told = told.unwrap_or_default().iter().filter_map(Json::as_str);
            let short = told.filter(|wall| wall.len() <= LONGEST_WALL);
            found.extend(short.map(Text::from));
        }
        // However much workers say, the store's own are told.
        Ok(of_log.chain(found).take(MOST_WALLS).collect())
    }

    /// A store is migrated when it is opened; somebody may put another in its place afterwards. Only
    /// tables that are known to be missing stop the work: what lists them may merely be busy. Once all
    /// were there they are not asked for again while the store answers.
    async fn tables_are_there(&self) -> Result<(), (Health, Text)> {
        if self.tables_seen().load(Ordering::Relaxed) {
            return Ok(());
        }
        let tables = match tokio::time::timeout(PATIENCE, self.store().tables()).await {
            Ok(Ok(tables)) => tables,
            Ok(Err(error)) => {
                let reason = RuntimeError::from(error).into_problem().detail;
                return Err((Health::Degraded, reason));
            }
            Err(_) => {
                let reason = "the store does not say which tables it has".into();
                return Err((Health::Degraded, reason));
            }
        };
        let missing = tables.iter().filter(|(_, is_there)| !**is_there);
        let missing: Vec<&str> = missing.map(|(name, _)| &**name).collect();
        if !missing.is_empty() {
            let reason = format!("tables are missing: {}", missing.join(", "));
            return Err((Health::Failed, reason.into()));
        }
        self.tables_seen().store(true, Ordering::Relaxed);
        Ok(())
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
