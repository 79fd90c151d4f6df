//! A house in which everything runs, and the cases that are tried in it.
//!
//! A case is written once and runs on both grounds: one server with one worker on a file, and two
//! servers with three workers on PostgreSQL. Cases of a town run at once, as the runs of many users
//! do, so each has playbooks and witnesses of its own.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use noetl_api::catalog::RegisterRequest;
use noetl_api::execute::ExecuteRequest;
use noetl_api::execution::{EventView, StatusView};
use noetl_api::query::EventsQuery;
use noetl_testkit::postgres::Database;
use noetl_types::json::parse;
use noetl_types::limits::PageLimit;
use noetl_types::{EventName, EventType, ExecutionId, ExecutionStatus, Json, PlaybookPath};
use tokio::task::JoinSet;

use crate::house::{Caller, House, until};
use crate::logs::sound;
use crate::process::Noetl;
use crate::wire::{Answer, Outside, get, post};

/// Everything that cases need.
pub(crate) struct Town {
    pub(crate) house: House,
    pub(crate) servers: Vec<Noetl>,
    workers: Vec<Noetl>,
    callers: Vec<Caller>,
    asked: AtomicUsize,
    /// A database for the playbooks, whatever the house itself stands on.
    pub(crate) tables: Database,
    pub(crate) outside: Outside,
}

impl Town {
    /// One server, one worker, one file; leases of so many seconds.
    pub(crate) async fn small(lease_secs: u32) -> Arc<Self> {
        let house = House::on_sqlite().with_leases_of(lease_secs);
        Self::of(house, 1, 1).await
    }

    /// Two servers and three workers on PostgreSQL.
    pub(crate) async fn large(lease_secs: u32) -> Arc<Self> {
        let house = House::on_postgres().with_leases_of(lease_secs);
        Self::of(house, 2, 3).await
    }

    async fn of(house: House, servers: usize, workers: usize) -> Arc<Self> {
        std::fs::create_dir(house.programs()).expect("a folder");
        let servers: Vec<Noetl> = (0..servers).map(|_| house.server()).collect();
        let worker = |number: usize| {
            let name = format!("w{number}");
            house.worker(&servers[number % servers.len()], &name)
        };
        let workers = (0..workers).map(worker).collect();
        Arc::new(Self {
            callers: servers.iter().map(Caller::of).collect(),
            servers,
            workers,
            asked: AtomicUsize::new(0),
            tables: Database::new().expect("a database"),
            outside: Outside::open().await,
            house,
        })
    }

    /// A caller of one of the servers, in turn.
    pub(crate) fn caller(&self) -> &Caller {
        let turn = self.asked.fetch_add(1, Ordering::Relaxed);
        &self.callers[turn % self.callers.len()]
    }

    /// A file of a case in the folder of the house.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.house.folder.path().join(name)
    }

    /// The lines of such a file.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.file(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Registers a playbook of the folder; gives its path in the catalog.
    pub(crate) async fn register(&self, name: &str) -> PlaybookPath {
        register(self.caller(), name).await
    }

    /// Registers and starts a playbook of the folder.
    pub(crate) async fn start(&self, name: &str, payload: &str) -> ExecutionId {
        let path = self.register(name).await;
        self.start_request(ExecuteRequest {
            path: Some(path),
            payload: Some(json(payload)),
            ..ExecuteRequest::default()
        })
        .await
    }

    pub(crate) async fn start_request(&self, request: ExecuteRequest) -> ExecutionId {
        let started = self.caller().0.execute(&request).await;
        started.expect("started").execution_id
    }

    /// Waits until a run ends.
    pub(crate) async fn ended(&self, run: ExecutionId) -> StatusView {
        let caller = self.caller();
        caller
            .until(run, |status| {
                status.completed || status.failed || status.is_cancelled
            })
            .await;
        caller.status(run).await
    }

    /// Waits until a run completes; gives what came out.
    pub(crate) async fn result(&self, run: ExecutionId) -> Json {
        let status = self.ended(run).await;
        assert_eq!(status.status, ExecutionStatus::Completed, "{status:?}");
        status.result.unwrap_or_default()
    }

    /// Runs a playbook of the folder, which must fail; gives why.
    pub(crate) async fn fails(&self, name: &str, payload: &str) -> (ExecutionId, String) {
        let run = self.start(name, payload).await;
        let status = self.ended(run).await;
        assert_eq!(status.status, ExecutionStatus::Failed, "{status:?}");
        (run, status.error.expect("a reason").to_string())
    }

    /// Events of a kind in the log of a run.
    pub(crate) async fn events(&self, run: ExecutionId, kind: EventType) -> Vec<EventView> {
        let query = EventsQuery {
            event_type: Some(EventName::from(kind)),
            limit: PageLimit::clamped(500),
            ..EventsQuery::default()
        };
        let page = self.caller().0.events(run, &query).await;
        page.expect("events").events
    }

    /// Waits until a step of a run waits for the world outside.
    pub(crate) async fn parked(&self, run: ExecutionId, step: &str) {
        let looking = async {
            loop {
                let issued = self.events(run, EventType::CommandIssued).await;
                if issued
                    .iter()
                    .any(|event| event.node_name.as_deref() == Some(step))
                {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let parked = tokio::time::timeout(Duration::from_mins(1), looking).await;
        assert!(parked.is_ok(), "{step} is never reached");
    }

    /// Posts to one of the servers.
    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        post(self.caller().0.base_url(), path, &json(body)).await
    }

    /// Asks one of the servers.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        get(self.caller().0.base_url(), path).await
    }

    /// Sends a signal to a run; tells whether it was waited for.
    pub(crate) async fn signal(&self, run: ExecutionId, body: &str) -> bool {
        let answer = self
            .post(&format!("/api/executions/{run}/signal"), body)
            .await;
        let delivered = answer.ok().get("delivered").and_then(Json::as_bool);
        delivered.expect("whether it was delivered")
    }

    /// Decides about an approval.
    pub(crate) async fn decide(&self, run: ExecutionId, body: &str) -> Answer {
        self.post(&format!("/api/executions/{run}/approve"), body)
            .await
    }

    /// Ends everything and looks at the logs of these runs.
    pub(crate) async fn close(self: Arc<Self>, runs: &[ExecutionId]) {
        let Self {
            house,
            servers,
            workers,
            tables,
            ..
        } = Arc::into_inner(self).expect("no case runs any more");
        drop((workers, servers));
        for run in runs {
            sound(&house, *run).await;
        }
        drop(tables);
    }
}

/// Where the playbooks of these tests are.
pub(crate) const PLAYBOOKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/system/playbooks");

/// Registers a playbook of that folder; its path in the catalog is its name in the folder.
pub(crate) async fn register(caller: &Caller, name: &str) -> PlaybookPath {
    let content = std::fs::read_to_string(format!("{PLAYBOOKS}/{name}.yaml"));
    let request = RegisterRequest {
        content: content.unwrap_or_else(|error| panic!("{name}: {error}")),
        resource_type: None,
        dry_run: false,
    };
    let registered = caller.0.catalog_register(&request).await;
    registered.unwrap_or_else(|error| panic!("{name}: {error}"));
    PlaybookPath::new(name).expect("a path")
}

/// Reads JSON of a test.
pub(crate) fn json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A text as JSON.
pub(crate) fn quoted(text: impl std::fmt::Display) -> String {
    Json::from(text.to_string()).to_string()
}

/// The runs that a case has started and seen to their end.
pub(crate) type Runs = Vec<ExecutionId>;

/// Cases that run at once in one town. Each tells of the runs whose logs are to be looked at.
pub(crate) struct Cases {
    town: Arc<Town>,
    running: JoinSet<(&'static str, Runs)>,
    names: std::collections::BTreeMap<tokio::task::Id, &'static str>,
}

impl Cases {
    pub(crate) fn of(town: Arc<Town>) -> Self {
        Self {
            town,
            running: JoinSet::new(),
            names: std::collections::BTreeMap::new(),
        }
    }

    /// Starts a case.
    pub(crate) fn case<F>(&mut self, name: &'static str, case: fn(Arc<Town>) -> F)
    where
        F: Future<Output = Runs> + Send + 'static,
    {
        let case = case(Arc::clone(&self.town));
        let handle = self.running.spawn(async move { (name, case.await) });
        self.names.insert(handle.id(), name);
    }

    /// Waits for all cases, tells which failed, and looks at the logs.
    pub(crate) async fn all_pass(mut self) {
        let mut runs = Vec::new();
        let mut failed = Vec::new();
        while let Some(ended) = self.running.join_next().await {
            match ended {
                Ok((_, more)) => runs.extend(more),
                Err(error) => failed.push(self.names[&error.id()]),
            }
        }
        assert!(failed.is_empty(), "these cases failed: {failed:?}");
        self.town.close(&runs).await;
    }
}

/// Waits until a file of the town has so many lines.
pub(crate) async fn until_lines(town: &Town, file: &str, lines: usize) {
    until(file, || town.lines(file).len() >= lines).await;
}
