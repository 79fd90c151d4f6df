//! One world: servers, workers and people over one store, from the first message to the last check.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noetl_api::execute::ExecuteRequest;
use noetl_api::execution::{CancelRequest, SteerRequest};
use noetl_server::Runtime;
use noetl_store::{Execution, ExecutionFilter, MemoryStore, Store as _};
use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, CommandId, Digest, ExecutionId, Json, TenantId};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::books::{self, Book};
use crate::check;
use crate::crowd;
use crate::line::Line;
use crate::server::Server;
use crate::trace::Trace;
use crate::weather::{Weather, draw, up_to};
use crate::worker::work_for_ever;

/// What all share.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) weather: Weather,
    pub(crate) began: Instant,
    pub(crate) trace: Trace,
    pub(crate) memory: Arc<MemoryStore>,
    pub(crate) servers: Vec<Server>,
    pub(crate) books: Vec<Book>,
    is_calm: AtomicBool,
    told: Mutex<Told>,
}

/// What somebody was told and may rely on.
#[derive(Default)]
pub(crate) struct Told {
    /// Attempts whose results count.
    pub(crate) accepted: BTreeMap<CommandId, BTreeSet<u32>>,
    /// Executions that have begun.
    pub(crate) started: BTreeSet<ExecutionId>,
    /// Executions that were cancelled.
    pub(crate) cancelled: BTreeSet<ExecutionId>,
    /// What must not have happened.
    violations: Vec<String>,
}

/// What came of a world.
pub(crate) struct Report {
    pub(crate) digest: Digest,
    pub(crate) trace: Trace,
    pub(crate) executions: usize,
    /// Executions that came to what was expected of them.
    pub(crate) compared: usize,
    pub(crate) violations: Vec<String>,
}

/// The longest that runs may take once nothing goes wrong any more.
const PATIENCE: Duration = Duration::from_mins(5);
/// After which what is late has arrived, and what is owed is done.
const ECHO: Duration = Duration::from_secs(10);

impl World {
    pub(crate) fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }

    pub(crate) fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn book(&self, id: CatalogId) -> &Book {
        let book = self.books.iter().find(|book| book.catalog_id == id);
        book.expect("only these are run")
    }

    pub(crate) fn accepted(&self, command: CommandId, attempt: u32) {
        self.told()
            .accepted
            .entry(command)
            .or_default()
            .insert(attempt);
    }

    pub(crate) fn violated(&self, what: String) {
        self.trace.note(format_args!("VIOLATION {what}"));
        self.told().violations.push(what);
    }

    /// All executions there are.
    pub(crate) async fn executions(&self) -> Vec<Execution> {
        let filter = ExecutionFilter {
            tenant_id: TenantId::default(),
            status: None,
            path: None,
            parent_execution_id: None,
            after: None,
            limit: PageLimit::MAX,
        };
        let page = self.memory.executions(filter).await;
        page.expect("the model does not fail").executions
    }

    async fn have_all_ended(&self) -> bool {
        let executions = self.executions().await;
        executions
            .iter()
            .all(|execution| execution.view.status.is_terminal())
    }
}

/// Lives through the world of a seed.
pub(crate) async fn live(seed: u64) -> Report {
    let weather = Weather::of(seed);
    let world = Arc::new(World {
        began: Instant::now(),
        trace: Trace::begin(),
        memory: Arc::new(MemoryStore::new()),
        servers: (0..weather.servers).map(Server::new).collect(),
        books: books::of(seed),
        is_calm: AtomicBool::new(false),
        told: Mutex::default(),
        weather,
        seed,
    });
    for book in &world.books {
        book.register(&world.memory).await;
    }
    let mut tasks = JoinSet::new();
    for server in 0..world.weather.servers {
        let world = Arc::clone(&world);
        tasks.spawn(async move { keep_server(&world, server).await });
    }
    for worker in 0..world.weather.workers {
        let world = Arc::clone(&world);
        tasks.spawn(async move { keep_worker(&world, worker).await });
    }
    let mut people = JoinSet::new();
    for person in 0..=draw(seed, "people").below(3) {
        let world = Arc::clone(&world);
        people.spawn(async move { use_it(&world, person).await });
    }
    let audience = Arc::clone(&world);
    tasks.spawn(async move { crowd::speak(&audience).await });
    tokio::time::sleep(world.weather.storm).await;
    world.trace.note("the storm is over");
    world.is_calm.store(true, Ordering::Relaxed);
    while people.join_next().await.is_some() {}
    let calm = Instant::now();
    while !world.have_all_ended().await && calm.elapsed() < PATIENCE {
        crowd::let_go_on(&world).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    tokio::time::sleep(ECHO).await;
    finish(&world).await
}

async fn finish(world: &World) -> Report {
    let checked = check::all(world).await;
    for what in checked.violations {
        world.violated(what);
    }
    Report {
        digest: world.trace.digest(),
        trace: world.trace.clone(),
        executions: checked.executions,
        compared: checked.compared,
        violations: std::mem::take(&mut world.told().violations),
    }
}

/// Keeps a server up, except when it dies or sleeps.
async fn keep_server(world: &Arc<World>, number: usize) {
    let server = &world.servers[number];
    let mut chance = draw(world.seed, &format!("fate of server {number}"));
    server.start(world).await;
    let Some(most) = world.weather.accident_ms else {
        return;
    };
    loop {
        tokio::time::sleep(up_to(&mut chance, most)).await;
        if world.is_calm() {
            return;
        }
        let time = up_to(&mut chance, 2_500);
        if chance.percent(50) {
            server.crash(world);
            tokio::time::sleep(time).await;
            server.start(world).await;
        } else {
            server.stall(world, time);
            tokio::time::sleep(time).await;
        }
    }
}

/// Keeps a worker at work, except when it dies.
async fn keep_worker(world: &Arc<World>, number: usize) {
    let mut chance = draw(world.seed, &format!("fate of worker {number}"));
    for life in 1.. {
        let work = work_for_ever(Arc::clone(world), number, life);
        let Some(most) = world.weather.accident_ms.filter(|_| !world.is_calm()) else {
            return work.await;
        };
        let life = Duration::from_millis(300) + up_to(&mut chance, 2 * most);
        if tokio::time::timeout(life, work).await.is_err() {
            world.trace.note(format_args!("w{number} dies"));
        }
        tokio::time::sleep(up_to(&mut chance, 500)).await;
    }
}

/// Somebody starts an execution, and may change their mind.
async fn use_it(world: &Arc<World>, number: usize) {
    let line = Line::new(world, format!("p{number}"));
    let mut chance = draw(world.seed, &format!("person {number}"));
    tokio::time::sleep(up_to(&mut chance, 800)).await;
    let books: Vec<&Book> = world
        .books
        .iter()
        .filter(|book| book.path.as_str() != "child")
        .collect();
    let book = chance.pick(&books).expect("a book");
    // Under a key it begins once, however often it is asked for.
    let key = chance.percent(50).then(|| format!("key of p{number}"));
    let request = ExecuteRequest {
        path: Some(book.path.clone()),
        labels: key
            .as_ref()
            .map(|key| Json::object([("key", Json::from(key.as_str()))])),
        ..ExecuteRequest::default()
    };
    let what = format!("execute {} {key:?}", book.path);
    let execution_id = loop {
        let wish = (request.clone(), key.clone());
        let ask = move |runtime: Runtime| {
            let (request, key) = wish.clone();
            async move {
                match key {
                    Some(key) => runtime.execute_once(request, &key).await,
                    None => runtime.execute(request).await,
                }
            }
        };
        if let Some(Ok(answer)) = line.ask(&what, Duration::from_secs(10), ask).await {
            break answer.execution_id;
        }
        tokio::time::sleep(up_to(&mut chance, 300)).await;
    };
    world
        .trace
        .note(format_args!("p{number} has started {execution_id}"));
    world.told().started.insert(execution_id);
    if chance.percent(10) {
        tokio::time::sleep(up_to(&mut chance, 1_500)).await;
        cancel(world, &line, execution_id).await;
    } else if chance.percent(15) {
        tokio::time::sleep(up_to(&mut chance, 1_500)).await;
        let ask = move |runtime: Runtime| async move {
            runtime
                .pause(execution_id, None, SteerRequest::default())
                .await
        };
        // It goes on when the storm is over: a pause that is delivered late may come last.
        drop(
            line.ask(format!("pause {execution_id}"), Duration::from_secs(5), ask)
                .await,
        );
    }
}

async fn cancel(world: &World, line: &Line, execution_id: ExecutionId) {
    for _ in 0..5 {
        let ask = move |runtime: Runtime| {
            let request = CancelRequest::default();
            async move { runtime.cancel(execution_id, None, request).await }
        };
        let what = format!("cancel {execution_id}");
        if let Some(Ok(_)) = line.ask(what, Duration::from_secs(10), ask).await {
            world
                .trace
                .note(format_args!("{execution_id} is cancelled"));
            world.told().cancelled.insert(execution_id);
            return;
        }
    }
}
