//! Servers on one database that never look by themselves: what they find they were told of.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use noetl_api::command::{CommandReport, LeaseRequest, LeasedCommand, ReportRequest, ReportStatus};
use noetl_api::execute::ExecuteRequest;
use noetl_bus::nats::LinkSettings;
use noetl_store::faulty::{Fault, FaultyStore, Method};
use noetl_store::postgres::PostgresOptions;
use noetl_store::{NewCatalogEntry, PostgresStore, Store};
use noetl_testkit::nats::Nats;
use noetl_testkit::postgres::Database;
use noetl_types::limits::LeaseBatch;
use noetl_types::{
    CatalogId, ExecutionStatus, Json, JsonMap, Millis, PlaybookPath, TenantId, Timestamp, Version,
    WorkerId, sha256,
};

use super::{Duration, ExecutionId, Hints, Line, Ordering, Places, PoolName};
use crate::clock::{Clock as _, SystemClock};
use crate::runtime::{NatsSettings, Runtime, Settings};

/// Long enough that it never decides a test that passes.
const LONG: Duration = Duration::from_mins(5);

const TWO: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: two}\nworkflow:\n  \
    - {step: start, tool: {kind: noop}, next: {arcs: [{step: end}]}}\n  \
    - {step: end, tool: {kind: noop}}\n";

/// How often what is told is looked at: once it might have been found without being told.
const ROUNDS: usize = 5;

struct House {
    store: Arc<PostgresStore>,
    database: Database,
}

impl House {
    async fn new() -> Self {
        let database = Database::new().unwrap();
        let options = PostgresOptions::new(database.config(), SystemClock.now());
        let store = PostgresStore::open(&options).await.unwrap();
        let entry = NewCatalogEntry {
            catalog_id: CatalogId::new(1).unwrap(),
            tenant_id: TenantId::default(),
            path: PlaybookPath::new("two").unwrap(),
            kind: "playbook".into(),
            content: TWO.into(),
            sha256: sha256(TWO),
            meta: None,
            now: Timestamp::from_unix_ms(0).unwrap(),
        };
        store.register(entry).await.unwrap();
        Self {
            store: Arc::new(store),
            database,
        }
    }

    async fn server(&self, nats: Option<&Nats>) -> Runtime {
        opened(Arc::clone(&self.store) as _, nats).await
    }

    /// A server that gets no line for as long as it is said so.
    async fn server_without(&self, is_cut: &Arc<AtomicBool>) -> Runtime {
        let is_cut = Arc::clone(is_cut);
        let plan = move |method| match method {
            Method::Line if is_cut.load(Ordering::Acquire) => Fault::Before,
            _ => Fault::None,
        };
        let store = FaultyStore::sharing(Arc::clone(&self.store), Box::new(plan));
        opened(Arc::new(store), None).await
    }

    /// Two servers that hear each other, and have told each other all there was to tell.
    async fn two(&self) -> [Runtime; 2] {
        let first = self.server(None).await;
        let second = self.server(None).await;
        introduced(&first, &second).await;
        [first, second]
    }

    /// The lines that are open.
    async fn lines(&self) -> usize {
        let config = self.database.config();
        let connected = tokio_postgres::connect(&config, tokio_postgres::NoTls).await;
        let (client, connection) = connected.unwrap();
        tokio::spawn(connection);
        let sql = "SELECT pid FROM pg_stat_activity
            WHERE application_name = 'noetl_hints_noetl' AND datname = current_database()";
        client.query(sql, &[]).await.unwrap().len()
    }

    /// Cuts every line.
    fn cut(&self) {
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = 'noetl_hints_noetl' AND datname = current_database()";
        self.database.run(sql).unwrap();
    }
}

async fn opened(store: Arc<dyn Store>, nats: Option<&Nats>) -> Runtime {
    let settings = Settings {
        sweep: Millis::from_hours(1),
        nats: nats.map(|nats| NatsSettings {
            link: LinkSettings {
                url: nats.url().into(),
                name: "test".into(),
                ..LinkSettings::default()
            },
            ..NatsSettings::default()
        }),
        ..Settings::default()
    };
    let opened = Runtime::open(store, Arc::new(SystemClock), settings).await;
    opened.unwrap()
}

/// Lets a server that was alone know of the second one now, and not with its next renewal.
async fn introduced(first: &Runtime, second: &Runtime) {
    first.core.ids.renew(first.now()).await.unwrap();
    until("both have a line", async || {
        is_on_line(first) && is_on_line(second)
    })
    .await;
    // Each tells the others to look everywhere, and the last to come is heard.
    until("they were introduced", async || {
        let have_told = counted(first, "sent") > 0 && counted(second, "sent") > 0;
        have_told && counted(first, "received") + counted(second, "received") > 0
    })
    .await;
}

fn is_on_line(runtime: &Runtime) -> bool {
    runtime.core.neighbours.are_told()
}

/// What a metric says.
fn counted(runtime: &Runtime, what: &str) -> u64 {
    let text = runtime.metrics().text().unwrap();
    let name = format!("noetl_notify_{what}_total ");
    let mut lines = text.lines();
    let found = lines.find_map(|line| line.strip_prefix(&name)).unwrap();
    found.parse().unwrap()
}

/// Waits until something is so, with much patience.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(LONG, wait).await;
    assert!(waited.is_ok(), "it never happened: {what}");
}

async fn start(runtime: &Runtime) -> ExecutionId {
    let request = ExecuteRequest {
        path: Some(PlaybookPath::new("two").unwrap()),
        ..ExecuteRequest::default()
    };
    runtime.execute(request).await.unwrap().execution_id
}

/// Takes the next command, however long it takes to come.
async fn take(runtime: &Runtime) -> LeasedCommand {
    let wait = async {
        loop {
            let request = LeaseRequest {
                worker_id: WorkerId::new("w").unwrap(),
                pool: PoolName::shared(),
                max: LeaseBatch::clamped(8),
                wait_ms: 30_000,
                kinds: None,
                lease_ms: None,
            };
            let leased = runtime.lease(request).await.unwrap();
            if let Some(command) = leased.commands.into_iter().next() {
                return command;
            }
        }
    };
    let taken = tokio::time::timeout(LONG, wait).await;
    taken.expect("there is a command")
}

/// A worker that waits at a server, and is at the desk already.
async fn waiting(runtime: &Runtime) -> tokio::task::JoinHandle<LeasedCommand> {
    let taking = runtime.clone();
    let waiting = tokio::spawn(async move { take(&taking).await });
    until("the worker waits", async || {
        runtime.core.desk.waiting(&PoolName::shared()) > 0
    })
    .await;
    waiting
}

async fn finish(runtime: &Runtime, command: &LeasedCommand) {
    let report = CommandReport {
        execution_id: command.execution_id,
        command_id: command.command_id,
        attempt: command.attempt,
        lease_token: command.lease_token,
        status: ReportStatus::Completed,
        result: Some(Json::Null),
        labels: None,
        onward: None,
        set: JsonMap::new(),
        error: None,
        tasks: Vec::new(),
        task_attempt: 1,
        retries: Vec::new(),
        retries_before: 0,
        frame: None,
        claimed_at: Some(command.claimed_at),
        lease_until: Some(command.lease_until),
        started_at: Some(command.claimed_at),
        finished_at: None,
    };
    let request = ReportRequest {
        worker_id: WorkerId::new("w").unwrap(),
        reports: vec![report],
        lease: None,
    };
    runtime.report(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_waits_at_one_server_gets_what_another_has_left() {
    let house = House::new().await;
    let [first, second] = house.two().await;
    for (here, there) in [(&first, &second), (&second, &first)] {
        let worker = waiting(there).await;
        let run = start(here).await;
        let command = worker.await.unwrap();
        assert_eq!(command.execution_id, run);
        finish(there, &command).await;
        let command = take(there).await;
        finish(there, &command).await;
    }
    assert!(counted(&first, "sent") > 1 && counted(&second, "received") > 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_follows_a_run_at_one_server_sees_what_another_appends() {
    let house = House::new().await;
    let [first, second] = house.two().await;
    for _ in 0..ROUNDS {
        let run = start(&first).await;
        let command = take(&first).await;
        let mut follower = second.follow(run, Version::EMPTY).await.unwrap();
        assert!(!follower.next(LONG).await.unwrap().unwrap().is_empty());
        let next = tokio::spawn(async move {
            let seen = tokio::time::timeout(LONG, follower.next(LONG * 2)).await;
            seen.expect("it is told").unwrap().unwrap()
        });
        until("it is followed", async || second.core.followers.has(run)).await;
        finish(&first, &command).await;
        assert!(!next.await.unwrap().is_empty());
        let command = take(&first).await;
        finish(&first, &command).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_at_one_server_hears_of_an_end_at_another() {
    let house = House::new().await;
    let [first, second] = house.two().await;
    for _ in 0..ROUNDS {
        let run = start(&first).await;
        let asking = first.clone();
        let end = tokio::spawn(async move {
            let end = tokio::time::timeout(LONG, asking.wait_for_end(run, LONG * 2)).await;
            end.expect("it is told").unwrap().unwrap()
        });
        until("it is waited for", async || first.core.followers.has(run)).await;
        for _ in 0..2 {
            let command = take(&second).await;
            finish(&second, &command).await;
        }
        assert_eq!(end.await.unwrap().status, ExecutionStatus::Completed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_all_events_at_one_server_hears_of_those_of_another() {
    let house = House::new().await;
    let [first, second] = house.two().await;
    let mut grown = second.core.appended.subscribe();
    grown.mark_unchanged();
    start(&first).await;
    let told = tokio::time::timeout(LONG, grown.changed()).await;
    told.expect("it is told").unwrap();
}

/// What is committed while one of two servers has no line is found when it has one again.
async fn a_cut_line_loses_nothing(is_of_the_worker: bool) {
    let house = House::new().await;
    let is_cut = Arc::new(AtomicBool::new(false));
    let whole = house.server(None).await;
    let torn = house.server_without(&is_cut).await;
    introduced(&whole, &torn).await;
    let (here, there) = if is_of_the_worker {
        (&whole, &torn)
    } else {
        (&torn, &whole)
    };
    is_cut.store(true, Ordering::Release);
    house.cut();
    until("the line is cut", async || !is_on_line(&torn)).await;
    // The other one has made its line anew, and all that followed from that is over.
    until("the other line is whole", async || house.lines().await == 1).await;
    let worker = waiting(there).await;
    let run = start(here).await;
    is_cut.store(false, Ordering::Release);
    assert_eq!(worker.await.unwrap().execution_id, run);
    until("the line is whole again", async || is_on_line(&torn)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_could_not_hear_looks_everywhere() {
    a_cut_line_loses_nothing(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_could_not_tell_lets_others_look_everywhere() {
    a_cut_line_loses_nothing(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_alone_has_no_line() {
    let house = House::new().await;
    let alone = house.server(None).await;
    let run = start(&alone).await;
    for _ in 0..2 {
        let command = take(&alone).await;
        finish(&alone, &command).await;
    }
    let end = alone.wait_for_end(run, LONG).await.unwrap().unwrap();
    assert_eq!(end.status, ExecutionStatus::Completed);
    assert!(!is_on_line(&alone));
    assert_eq!((counted(&alone, "sent"), house.lines().await), (0, 0));
    let text = alone.metrics().text().unwrap();
    let mut samples = text.lines();
    let is_of_lines = |line: &str| line.starts_with("noetl_notify_up");
    assert!(!samples.any(is_of_lines), "{text}");

    let other = house.server(None).await;
    introduced(&alone, &other).await;
    assert_eq!(house.lines().await, 2);
    other.close(LONG).await;
    alone.core.ids.renew(alone.now()).await.unwrap();
    until("it has hung up", async || house.lines().await == 0).await;
    assert!(!is_on_line(&alone));
}

/// What is told of a run until its log has grown.
async fn told_of(ear: &mut Box<dyn Line>, run: ExecutionId) -> Hints {
    let mut all = Hints::default();
    loop {
        let heard = tokio::time::timeout(LONG, ear.hear()).await;
        all.merge(heard.expect("it is told").unwrap());
        if matches!(&all.runs, Places::Named(runs) if runs.contains_key(&run)) {
            return all;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_are_told_by_nats_where_there_is_one() {
    let house = House::new().await;
    let nats = Nats::start().unwrap();
    let first = house.server(Some(&nats)).await;
    let second = house.server(None).await;
    introduced(&first, &second).await;
    until("NATS is reached", async || {
        first.reaches_nats() == Some(true)
    })
    .await;
    let mut ear = house.store.line().await.unwrap().unwrap();
    let run = start(&first).await;
    assert!(told_of(&mut ear, run).await.queues.is_empty());
    let run = start(&second).await;
    let queues = told_of(&mut ear, run).await.queues;
    assert_eq!(queues, Places::Named([(PoolName::shared(), 1)].into()));
}
