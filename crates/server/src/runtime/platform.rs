//! What the platform runs for itself: playbooks that ship with it, on workers of pool `system`.
//!
//! Every server looks, and none relies on another: who starts a run looks for an open one first, and
//! names the run that it comes after, or the firing of the day, as a key under which there is no second
//! run.

use std::collections::BTreeMap;
use std::time::Duration;

use noetl_api::catalog::RegisterRequest;
use noetl_api::execute::{Dedup, ExecuteAnswer, ExecuteRequest};
use noetl_bus::nats::ConsumerPlan;
use noetl_store::{Execution, ExecutionFilter};
use noetl_types::limits::PageLimit;
use noetl_types::{
    ErrorCode, ExecutionId, ExecutionStatus, Json, PlaybookPath, TenantId, Timestamp,
};

use super::Runtime;
use super::error::RuntimeError;
use super::start::{DUPLICATE, Launch};
use super::stream::STREAM;

/// Publishes the outbox.
pub(super) const PUBLISHER: &str = "system/outbox_publisher";
/// Lets read models follow the stream.
const PROJECTOR: &str = "system/projector";
/// Drops what is old.
const CLEANUP: &str = "system/scheduled_cleanup";

/// The playbooks that ship with the platform.
const SHIPPED: [&str; 3] = [
    include_str!("../../../../playbooks/system/outbox_publisher.yaml"),
    include_str!("../../../../playbooks/system/projector.yaml"),
    include_str!("../../../../playbooks/system/scheduled_cleanup.yaml"),
];

/// How often it is looked whether there is something to do.
const LOOK: Duration = Duration::from_secs(1);
/// How long to wait after something went wrong.
const BREATH: Duration = Duration::from_secs(5);

/// Who reads the stream for the projector. What fails is given out again for some minutes, and is then
/// left: the server has told of it each time, and a run that is gone for good would come back for ever.
const FOLLOWER: ConsumerPlan = ConsumerPlan {
    name: "noetl_projector",
    ack_wait: Duration::from_mins(1),
    max_deliver: 20,
};

/// For how long a run has one successor, however many servers look.
const SUCCESSION_SECS: i64 = 3600;

/// How many successors one look follows. The next look goes on from there.
const MOST_SUCCESSORS: usize = 64;

/// When the daily cleanup is due: 03:17 UTC, in milliseconds of the day.
const CLEANUP_AT_MS: i64 = (3 * 60 + 17) * 60_000;
/// A firing that is missed by more than this is left out.
const CLEANUP_GRACE_MS: i64 = 15 * 60_000;
const DAY_MS: i64 = 86_400_000;

/// What one server remembers from look to look.
#[derive(Debug, Default)]
struct Looks {
    /// The firing of the cleanup that was seen to.
    fired: Option<i64>,
    /// Of each playbook, the last known successor of the run that seems to be the newest.
    successors: BTreeMap<&'static str, Successor>,
}

#[derive(Debug)]
struct Successor {
    of: Option<ExecutionId>,
    run: ExecutionId,
}

impl Runtime {
    /// Registers what ships with the platform, and starts it whenever there is something to do.
    pub(super) fn run_platform(&self) {
        let runtime = self.clone();
        self.core.tasks.spawn(async move {
            while let Err(error) = runtime.register_shipped().await {
                tracing::warn!(%error, "the platform's own playbooks are not registered yet");
                if !runtime.core.pause(BREATH).await {
                    return;
                }
            }
            let mut looks = Looks::default();
            loop {
                let worked = runtime.look_after_platform(&mut looks).await;
                let pause = if worked.is_ok() { LOOK } else { BREATH };
                if let Err(error) = worked {
                    tracing::warn!(%error, "the platform's own playbooks do not start");
                }
                if !runtime.core.pause(pause).await {
                    return;
                }
            }
        });
    }

    /// Registers what ships with the platform; the same again is fine.
    pub async fn register_shipped(&self) -> Result<(), RuntimeError> {
        for content in SHIPPED {
            let request = RegisterRequest {
                content: content.to_owned(),
                resource_type: None,
                dry_run: false,
            };
            self.register_any_definition(request).await?;
        }
        Ok(())
    }

    async fn look_after_platform(&self, looks: &mut Looks) -> Result<(), RuntimeError> {
        if self.settings().outbox
            // A count takes longer the more there is to publish, so it goes last.
            && !self.is_running(PUBLISHER).await?
            && self.store().outbox_pending(self.now()).await? > 0
        {
            self.launch_next(PUBLISHER, looks).await?;
        }
        // A run of it waits for messages some minutes long, so that there is one all the time.
        if self.core.has_stream() && !self.is_running(PROJECTOR).await? && self.can_follow().await?
        {
            self.launch_next(PROJECTOR, looks).await?;
        }
        self.fire_cleanup(&mut looks.fired).await
    }

    async fn fire_cleanup(&self, fired: &mut Option<i64>) -> Result<(), RuntimeError> {
        let Some(due) = cleanup_due(self.now()).filter(|due| *fired != Some(*due)) else {
            return Ok(());
        };
        if !self.is_running(CLEANUP).await? {
            let days = Json::from(self.settings().auto_purge_days);
            let payload = Json::object([("event_retention_days", days)]);
            let key = Dedup {
                key: format!("{CLEANUP}:{due}").into(),
                window_secs: Some(DAY_MS / 1000),
            };
            self.launch_shipped(CLEANUP, Some(payload), Some(key))
                .await?;
        }
        *fired = Some(due);
        Ok(())
    }

    /// Whether the stream is there for read models to follow. Who reads it is made where missing.
    async fn can_follow(&self) -> Result<bool, RuntimeError> {
        let Some(messaging) = &self.core.messaging else {
            return Ok(false);
        };
        let made = messaging.link().ensure_consumer(STREAM, &FOLLOWER).await;
        made.map_err(|error| RuntimeError::refused(ErrorCode::Upstream, error.to_string()))
    }

    async fn is_running(&self, path: &str) -> Result<bool, RuntimeError> {
        for status in [ExecutionStatus::Running, ExecutionStatus::Pending] {
            if self.newest(path, Some(status)).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The newest run of a playbook that ships with the platform.
    async fn newest(
        &self,
        path: &str,
        status: Option<ExecutionStatus>,
    ) -> Result<Option<Execution>, RuntimeError> {
        let filter = ExecutionFilter {
            tenant_id: TenantId::default(),
            status,
            path: Some(shipped(path)?),
            parent_execution_id: None,
            after: None,
            limit: PageLimit::MIN,
        };
        let page = self.store().executions(filter).await?;
        Ok(page.executions.into_iter().next())
    }

    /// Starts the run that comes after the last one. Of all servers that look at the same time one
    /// does: they name the same run before it.
    ///
    /// The clock of each server dates the runs that it starts, so one that seems to be the newest may
    /// have successors already: it is they that the next one comes after.
    async fn launch_next(&self, path: &'static str, looks: &mut Looks) -> Result<(), RuntimeError> {
        let newest = self.newest(path, None).await?;
        let of = newest.as_ref().map(|newest| newest.execution_id);
        let mut before = match looks.successors.get(path) {
            Some(known) if known.of == of => self.store().execution(known.run).await?,
            Some(_) | None => newest,
        };
        for _ in 0..MOST_SUCCESSORS {
            if before.as_ref().is_some_and(|before| !self.is_past(before)) {
                return Ok(());
            }
            let name = before.map_or(0, |before| before.execution_id.get());
            let key = Dedup {
                key: format!("{path}:{name}").into(),
                window_secs: Some(SUCCESSION_SECS),
            };
            let begun = self.launch_shipped(path, None, Some(key)).await?;
            if begun.status != DUPLICATE {
                return Ok(());
            }
            let run = begun.execution_id;
            looks.successors.insert(path, Successor { of, run });
            before = self.store().execution(run).await?;
        }
        Ok(())
    }

    /// Whether the next run may come: this one has ended, and if it failed, there was a breath.
    fn is_past(&self, run: &Execution) -> bool {
        let failed_at = match run.view.status {
            ExecutionStatus::Failed => run.view.ended_at,
            status => return status.is_terminal(),
        };
        failed_at.is_none_or(|at| Duration::from(self.now().since(at)) >= BREATH)
    }

    async fn launch_shipped(
        &self,
        path: &str,
        payload: Option<Json>,
        dedup: Option<Dedup>,
    ) -> Result<ExecuteAnswer, RuntimeError> {
        let request = ExecuteRequest {
            path: Some(shipped(path)?),
            payload,
            dedup,
            ..ExecuteRequest::default()
        };
        let launch = Launch {
            // That another server was faster is no message that came twice.
            is_quiet: true,
            ..Launch::default()
        };
        let begun = self.launch(request, launch).await?;
        let (execution_id, status) = (begun.execution_id, &begun.status);
        tracing::debug!(%execution_id, path, %status, "asked for");
        Ok(begun)
    }
}

fn shipped(path: &str) -> Result<PlaybookPath, RuntimeError> {
    PlaybookPath::new(path)
        .map_err(|error| RuntimeError::refused(ErrorCode::Internal, error.to_string()))
}

/// The firing of the cleanup that is due now, as its time; none where the last one is long over.
fn cleanup_due(now: Timestamp) -> Option<i64> {
    let now = now.as_unix_ms();
    let due = (now - CLEANUP_AT_MS).div_euclid(DAY_MS) * DAY_MS + CLEANUP_AT_MS;
    (now - due <= CLEANUP_GRACE_MS).then_some(due)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noetl_api::execution::CancelRequest;
    use noetl_store::{LogPage, MemoryStore, Store};
    use noetl_types::{StoredEvent, Version};

    use super::*;
    use crate::clock::Clock;
    use crate::runtime::Settings;

    /// A clock that stands where it is put.
    struct Stopped(Timestamp);

    impl Clock for Stopped {
        fn now(&self) -> Timestamp {
            self.0
        }
    }

    async fn server_on(store: &Arc<dyn Store>, now: &str) -> Runtime {
        let clock = Arc::new(Stopped(Timestamp::parse(now).unwrap()));
        let opened = Runtime::open(Arc::clone(store), clock, Settings::default());
        opened.await.unwrap()
    }

    /// Servers on one store, each with the playbooks of the platform.
    async fn servers(count: usize, now: &str) -> (Arc<dyn Store>, Vec<Runtime>) {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let mut servers = Vec::new();
        for _ in 0..count {
            servers.push(server_on(&store, now).await);
        }
        servers[0].register_shipped().await.unwrap();
        (store, servers)
    }

    async fn runs(runtime: &Runtime, path: &str) -> Vec<Execution> {
        let filter = ExecutionFilter {
            tenant_id: TenantId::default(),
            status: None,
            path: Some(shipped(path).unwrap()),
            parent_execution_id: None,
            after: None,
            limit: PageLimit::MAX,
        };
        runtime.store().executions(filter).await.unwrap().executions
    }

    async fn cancel(runtime: &Runtime, run: &Execution) {
        let request = CancelRequest::default();
        let cancelled = runtime.cancel(run.execution_id, None, request);
        cancelled.await.unwrap();
    }

    /// A look of a server that remembers none.
    async fn launch(runtime: &Runtime, path: &'static str) -> Result<(), RuntimeError> {
        runtime.launch_next(path, &mut Looks::default()).await
    }

    #[tokio::test]
    async fn a_clock_that_is_ahead_holds_nothing_up() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let ahead = server_on(&store, "2026-11-05T12:10:00Z").await;
        let behind = server_on(&store, "2026-11-05T12:00:00Z").await;
        ahead.register_shipped().await.unwrap();
        launch(&ahead, PUBLISHER).await.unwrap();
        let mut remembering = Looks::default();
        // Each of them seems to be older than the first, and is followed by one all the same.
        for round in 1..=MOST_SUCCESSORS + 3 {
            let found = runs(&behind, PUBLISHER).await;
            assert_eq!(found.len(), round);
            let mut open = found.iter().filter(|run| !run.view.status.is_terminal());
            let open = open.next().unwrap();
            cancel(&behind, open).await;
            // A look is no message that came twice, so no log tells of one.
            let log = store.events(open.execution_id, Version::EMPTY, LogPage::MAX);
            let log = log.await.unwrap();
            let is_note = |event: &StoredEvent| {
                let name = &event.record.event.event_type;
                name.as_str().contains("deduplicated")
            };
            assert!(!log.iter().any(is_note));
            behind
                .launch_next(PUBLISHER, &mut remembering)
                .await
                .unwrap();
            // A look while it runs changes nothing.
            launch(&ahead, PUBLISHER).await.unwrap();
        }
        // Who remembers nothing of so many gets there by and by.
        let open = |runs: Vec<Execution>| {
            let open = runs.into_iter().find(|run| !run.view.status.is_terminal());
            open.unwrap()
        };
        cancel(&behind, &open(runs(&behind, PUBLISHER).await)).await;
        let mut fresh = Looks::default();
        for _ in 0..2 {
            ahead.launch_next(PUBLISHER, &mut fresh).await.unwrap();
        }
        assert!(ahead.is_running(PUBLISHER).await.unwrap());
    }

    #[tokio::test]
    async fn servers_that_look_at_once_start_a_run_once() {
        let (_store, servers) = servers(3, "2026-11-05T12:00:00Z").await;
        for round in 1..=3 {
            let (first, second, third) = tokio::join!(
                launch(&servers[0], PROJECTOR),
                launch(&servers[1], PROJECTOR),
                launch(&servers[2], PROJECTOR),
            );
            first.and(second).and(third).unwrap();
            // Nor does who comes late.
            launch(&servers[2], PROJECTOR).await.unwrap();
            let runs = runs(&servers[0], PROJECTOR).await;
            assert_eq!(runs.len(), round);
            assert!(servers[0].is_running(PROJECTOR).await.unwrap());
            // The next one comes after it.
            cancel(&servers[0], &runs[0]).await;
            assert!(!servers[1].is_running(PROJECTOR).await.unwrap());
        }
    }

    #[tokio::test]
    async fn a_day_has_one_cleanup_however_many_servers_look_and_whenever() {
        let (_store, servers) = servers(3, "2026-11-05T03:17:30Z").await;
        let (mut one, mut two) = (Looks::default(), Looks::default());
        let (first, second) = tokio::join!(
            servers[0].look_after_platform(&mut one),
            servers[1].look_after_platform(&mut two),
        );
        first.and(second).unwrap();
        let found = runs(&servers[0], CLEANUP).await;
        assert_eq!(found.len(), 1);
        // It is over when the last server looks, and when the first one begins anew.
        cancel(&servers[0], &found[0]).await;
        for server in [&servers[2], &servers[0]] {
            let mut looks = Looks::default();
            server.look_after_platform(&mut looks).await.unwrap();
        }
        assert_eq!(runs(&servers[0], CLEANUP).await.len(), 1);
    }

    #[test]
    fn the_cleanup_is_due_once_a_day_at_the_same_time() {
        let due = |text: &str| {
            let due = cleanup_due(Timestamp::parse(text).unwrap())?;
            Some(Timestamp::from_unix_ms(due).unwrap().to_string())
        };
        assert_eq!(due("2026-11-05T03:16:59Z"), None);
        let first = due("2026-11-05T03:17:00Z");
        assert_eq!(first.as_deref(), Some("2026-11-05T03:17:00Z"));
        assert_eq!(due("2026-11-05T03:32:00Z"), first);
        assert_eq!(due("2026-11-05T03:32:01Z"), None);
        assert_eq!(due("2026-11-05T23:59:59Z"), None);
        let next = due("2026-11-06T03:20:00Z");
        assert_eq!(next.as_deref(), Some("2026-11-06T03:17:00Z"));
    }
}
