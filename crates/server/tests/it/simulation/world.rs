//! One simulated world: servers, workers and users over one store, from the first message to the
//! final checks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noetl_api::execute::ExecuteRequest;
use noetl_api::execution::{CancelRequest, ControlRequest};
use noetl_server::{CallContext, ControlPlane, StartRequest};
use noetl_store::prelude::*;
use noetl_store::{Execution, ExecutionFilter, SqliteStore};
use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, CommandId, Digest, ExecutionId, Json, TenantId};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::simulation::check;
use crate::simulation::fault_plan::{FaultPlan, random_duration, seeded_rng};
use crate::simulation::playbooks::{self, SimPlaybook};
use crate::simulation::server::SimServer;
use crate::simulation::server_link::ServerLink;
use crate::simulation::trace::SimTrace;
use crate::simulation::users;
use crate::simulation::worker::run_worker;

/// State that all simulated processes share.
pub(crate) struct SimWorld {
    pub(crate) seed: u64,
    pub(crate) fault_plan: FaultPlan,
    pub(crate) started_at: Instant,
    pub(crate) trace: SimTrace,
    pub(crate) memory: Arc<SqliteStore>,
    pub(crate) servers: Vec<SimServer>,
    pub(crate) playbooks: Vec<SimPlaybook>,
    faults_stopped: AtomicBool,
    acknowledged: Mutex<AcknowledgedEffects>,
}

/// Effects that a server acknowledged to a client.
#[derive(Default)]
pub(crate) struct AcknowledgedEffects {
    /// Attempts whose results were accepted.
    pub(crate) accepted: BTreeMap<CommandId, BTreeSet<u32>>,
    /// Executions that were started.
    pub(crate) started: BTreeSet<ExecutionId>,
    /// Executions that were cancelled.
    pub(crate) cancelled: BTreeSet<ExecutionId>,
    /// Violated invariants.
    violations: Vec<String>,
}

/// Result of one simulation.
pub(crate) struct SimulationReport {
    pub(crate) digest: Digest,
    pub(crate) trace: SimTrace,
    pub(crate) executions: usize,
    /// Executions whose outcome was compared with the expected one.
    pub(crate) compared: usize,
    pub(crate) violations: Vec<String>,
}

/// Maximum time until all runs end after faults have stopped.
const COMPLETION_TIMEOUT: Duration = Duration::from_mins(5);
/// Time for late messages to arrive and follow-ups to complete.
const SETTLE_DURATION: Duration = Duration::from_secs(10);

impl SimWorld {
    /// True if the servers share a database, as several servers do.
    pub(crate) fn has_database_clock(&self) -> bool {
        self.fault_plan.servers > 1
    }

    pub(crate) fn has_stopped_faults(&self) -> bool {
        self.faults_stopped.load(Ordering::Relaxed)
    }

    pub(crate) fn lock_acknowledged(&self) -> MutexGuard<'_, AcknowledgedEffects> {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find_playbook(&self, id: CatalogId) -> &SimPlaybook {
        let playbook = self.playbooks.iter().find(|playbook| playbook.catalog_id == id);
        playbook.expect("a generated playbook")
    }

    pub(crate) fn record_accepted(&self, command: CommandId, attempt: u32) {
        self.lock_acknowledged().accepted.entry(command).or_default().insert(attempt);
    }

    pub(crate) fn record_violation(&self, violation: String) {
        self.trace.record(format_args!("VIOLATION {violation}"));
        self.lock_acknowledged().violations.push(violation);
    }

    pub(crate) async fn list_executions(&self) -> Vec<Execution> {
        let filter = ExecutionFilter {
            tenant_id: TenantId::default(),
            status: None,
            path: None,
            parent_execution_id: None,
            after: None,
            limit: PageLimit::MAX,
        };
        let page = self.memory.list_executions(filter).await;
        page.expect("the model does not fail").executions
    }

    async fn have_all_ended(&self) -> bool {
        let executions = self.list_executions().await;
        executions.iter().all(|execution| execution.view.status.is_terminal())
    }
}

/// Runs the simulation of a seed.
pub(crate) async fn run_simulation(seed: u64) -> SimulationReport {
    let fault_plan = FaultPlan::from_seed(seed);
    let world = Arc::new(SimWorld {
        started_at: Instant::now(),
        trace: SimTrace::start_trace(),
        memory: Arc::new(SqliteStore::in_memory().expect("a store")),
        servers: (0..fault_plan.servers).map(SimServer::new).collect(),
        playbooks: playbooks::generate_playbooks(seed),
        faults_stopped: AtomicBool::new(false),
        acknowledged: Mutex::default(),
        fault_plan,
        seed,
    });
    for playbook in &world.playbooks {
        playbook.register_in_catalog(&world.memory).await;
    }
    let mut tasks = JoinSet::new();
    for server in 0..world.fault_plan.servers {
        let world = Arc::clone(&world);
        tasks.spawn(async move { run_faulty_server(&world, server).await });
    }
    for worker in 0..world.fault_plan.workers {
        let world = Arc::clone(&world);
        tasks.spawn(async move { run_faulty_worker(&world, worker).await });
    }
    let mut user_tasks = JoinSet::new();
    for user in 0..=seeded_rng(seed, "people").number_below(3) {
        let world = Arc::clone(&world);
        user_tasks.spawn(async move { run_user(&world, user).await });
    }
    let user_world = Arc::clone(&world);
    tasks.spawn(async move { users::answer_waits_loop(&user_world).await });
    tokio::time::sleep(world.fault_plan.fault_duration).await;
    world.trace.record("faults stopped");
    world.faults_stopped.store(true, Ordering::Relaxed);
    while user_tasks.join_next().await.is_some() {}
    let stopped_at = Instant::now();
    while !world.have_all_ended().await && stopped_at.elapsed() < COMPLETION_TIMEOUT {
        users::resume_paused(&world).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // Work that was planned before the clock was set back is due when the clock has caught up.
    tokio::time::sleep(SETTLE_DURATION + world.fault_plan.clocks.setback()).await;
    finish_simulation(&world).await
}

async fn finish_simulation(world: &SimWorld) -> SimulationReport {
    let report = check::check_world(world).await;
    for violation in report.violations {
        world.record_violation(violation);
    }
    SimulationReport {
        digest: world.trace.digest(),
        trace: world.trace.clone(),
        executions: report.executions,
        compared: report.compared,
        violations: std::mem::take(&mut world.lock_acknowledged().violations),
    }
}

/// Runs a server that crashes and is suspended at random.
async fn run_faulty_server(world: &Arc<SimWorld>, number: usize) {
    let server = &world.servers[number];
    let mut rng = seeded_rng(world.seed, &format!("fate of server {number}"));
    server.start(world).await;
    let Some(max_ms) = world.fault_plan.accident_ms else {
        return;
    };
    loop {
        tokio::time::sleep(random_duration(&mut rng, max_ms)).await;
        if world.has_stopped_faults() {
            return;
        }
        let duration = random_duration(&mut rng, 2_500);
        if rng.draw_percent(50) {
            server.crash(world);
            tokio::time::sleep(duration).await;
            server.start(world).await;
        } else {
            server.suspend(world, duration);
            tokio::time::sleep(duration).await;
        }
    }
}

/// Runs a worker that crashes at random.
async fn run_faulty_worker(world: &Arc<SimWorld>, number: usize) {
    let mut rng = seeded_rng(world.seed, &format!("fate of worker {number}"));
    for incarnation in 1.. {
        let work = run_worker(Arc::clone(world), number, incarnation);
        let Some(max_ms) = world.fault_plan.accident_ms.filter(|_| !world.has_stopped_faults())
        else {
            return work.await;
        };
        let lifetime = Duration::from_millis(300) + random_duration(&mut rng, 2 * max_ms);
        if tokio::time::timeout(lifetime, work).await.is_err() {
            world.trace.record(format_args!("w{number} crashes"));
        }
        tokio::time::sleep(random_duration(&mut rng, 500)).await;
    }
}

/// Starts an execution as a user, and may cancel or pause it.
async fn run_user(world: &Arc<SimWorld>, number: usize) {
    let link = ServerLink::new(world, format!("p{number}"));
    let mut rng = seeded_rng(world.seed, &format!("person {number}"));
    tokio::time::sleep(random_duration(&mut rng, 800)).await;
    let playbooks: Vec<&SimPlaybook> =
        world.playbooks.iter().filter(|playbook| playbook.path.as_str() != "child").collect();
    let playbook = rng.pick_item(&playbooks).expect("a playbook");
    // With a key, repeated requests start it once.
    let key = rng.draw_percent(50).then(|| format!("key of p{number}"));
    let request = ExecuteRequest {
        path: Some(playbook.path.clone()),
        labels: key.as_ref().map(|key| Json::object([("key", Json::from(key.as_str()))])),
        ..ExecuteRequest::default()
    };
    let description = format!("execute {} {key:?}", playbook.path);
    let execution_id = loop {
        let args = (request.clone(), key.clone());
        let call = move |services: ControlPlane| {
            let (request, key) = args.clone();
            async move {
                let mut start = StartRequest::from(request);
                if let Some(key) = key {
                    start = start.with_idempotency_key(&key)?;
                }
                services.executions.start(CallContext::server(), start).await
            }
        };
        if let Some(Ok(answer)) =
            link.send_request(&description, Duration::from_secs(10), call).await
        {
            break answer.answer.execution_id;
        }
        tokio::time::sleep(random_duration(&mut rng, 300)).await;
    };
    world.trace.record(format_args!("p{number} has started {execution_id}"));
    world.lock_acknowledged().started.insert(execution_id);
    if rng.draw_percent(10) {
        tokio::time::sleep(random_duration(&mut rng, 1_500)).await;
        cancel_execution(world, &link, execution_id).await;
    } else if rng.draw_percent(15) {
        tokio::time::sleep(random_duration(&mut rng, 1_500)).await;
        let call = move |services: ControlPlane| async move {
            services
                .executions
                .pause_execution(
                    CallContext::server(),
                    execution_id,
                    None,
                    ControlRequest::default(),
                )
                .await
        };
        // It is resumed after faults have stopped, since a late pause may arrive last.
        drop(
            link.send_request(format!("pause {execution_id}"), Duration::from_secs(5), call).await,
        );
    }
}

async fn cancel_execution(world: &SimWorld, link: &ServerLink, execution_id: ExecutionId) {
    for _ in 0..5 {
        let call = move |services: ControlPlane| {
            let request = CancelRequest::default();
            async move {
                services
                    .executions
                    .cancel_execution(CallContext::server(), execution_id, None, request)
                    .await
            }
        };
        let description = format!("cancel {execution_id}");
        if let Some(Ok(_)) = link.send_request(description, Duration::from_secs(10), call).await {
            world.trace.record(format_args!("{execution_id} is cancelled"));
            world.lock_acknowledged().cancelled.insert(execution_id);
            return;
        }
    }
}
