//! A minimal worker: it renders templates, applies policies and reports as a real worker does, with
//! simulated tools.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noetl_api::command::{
    CommandReport, HeartbeatRequest, HeldLease, LeaseRequest, LeasedCommand, NextLease,
    ReportDisposition, ReportRequest, ReportResult, ReportStatus, RetriedTask,
};
use noetl_playbook::command_context::CommandContext;
use noetl_playbook::command_machine::{
    CallSpec, CommandMachine, CommandSpec, MAX_TASK_DATA, MAX_TASK_RUNS, MachineAction,
    MachineInput, MachineOutcome, NextStage, ToolResult,
};
use noetl_playbook::template::TemplateLimits;
use noetl_server::{CallContext, ControlPlane};
use noetl_testkit::sim::{SimulatedCall, SplitMix};
use noetl_types::limits::LeaseBatchSize;
use noetl_types::{CommandId, Json, PoolName, TaskErrorKind, Text, WorkerId};
use tokio::task::JoinSet;

use crate::simulation::fault_plan::{random_duration, seeded_rng};
use crate::simulation::server_link::ServerLink;
use crate::simulation::tools::to_tool_answer;
use crate::simulation::world::SimWorld;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum wait of a lease request.
const LEASE_WAIT: Duration = Duration::from_secs(3);
const MAX_SEND_ATTEMPTS: u32 = 8;

type HeldLeases = Mutex<BTreeMap<(CommandId, u32), HeldLease>>;

/// Retried attempts that no server has acknowledged yet.
#[derive(Default)]
struct UnreportedRetries {
    retries: Vec<RetriedTask>,
    /// Number of retries acknowledged before these.
    reported_count: u32,
}

/// One concurrency slot of a worker.
struct WorkerSlot {
    world: Arc<SimWorld>,
    worker: WorkerId,
    link: ServerLink,
    held_leases: Arc<HeldLeases>,
    rng: Mutex<SplitMix>,
}

/// Runs a worker forever. Dropping the future crashes the worker.
pub(crate) async fn run_worker(world: Arc<SimWorld>, number: usize, incarnation: u32) {
    let worker = WorkerId::new(format!("w{number}")).expect("a name");
    let held_leases: Arc<HeldLeases> = Arc::default();
    let mut tasks = JoinSet::new();
    for slot in 0..world.fault_plan.slots {
        let name = format!("w{number}.{incarnation}.{slot}");
        let slot = WorkerSlot {
            link: ServerLink::new(&world, name.as_str()),
            rng: Mutex::new(seeded_rng(world.seed, &format!("hand {name}"))),
            world: Arc::clone(&world),
            worker: worker.clone(),
            held_leases: Arc::clone(&held_leases),
        };
        tasks.spawn(async move { slot.work_loop().await });
    }
    let link = ServerLink::new(&world, format!("w{number}.{incarnation}.heart"));
    tasks.spawn(async move { heartbeat_loop(&world, &worker, &link, &held_leases).await });
    while tasks.join_next().await.is_some() {}
}

/// Renews the leases of all slots.
async fn heartbeat_loop(
    world: &SimWorld,
    worker: &WorkerId,
    link: &ServerLink,
    held_leases: &HeldLeases,
) {
    let interval = Duration::from_millis(world.fault_plan.lease.as_ms() / 3);
    loop {
        tokio::time::sleep(interval).await;
        let leases: Vec<HeldLease> = lock_leases(held_leases).values().cloned().collect();
        if leases.is_empty() {
            continue;
        }
        let request = HeartbeatRequest {
            worker_id: worker.clone(),
            leases: leases.clone(),
            extend_ms: None,
            wait_ms: 0,
        };
        let description = format!("renew {}", leases.len());
        let call = move |services: ControlPlane| {
            let request = request.clone();
            async move { services.leases.renew_leases(CallContext::server(), request).await }
        };
        let Some(Ok(answer)) = link.send_request(description, interval, call).await else {
            continue;
        };
        for (lease, renewal) in leases.iter().zip(&answer.leases) {
            if !renewal.ok {
                world
                    .trace
                    .record(format_args!("{worker} lost its lease of {}", renewal.command_id));
                lock_leases(held_leases).remove(&(lease.command_id, lease.attempt));
            }
        }
    }
}

fn lock_leases(held_leases: &HeldLeases) -> MutexGuard<'_, BTreeMap<(CommandId, u32), HeldLease>> {
    held_leases.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shared_pool() -> PoolName {
    PoolName::new("shared").expect("a pool")
}

impl WorkerSlot {
    fn lock_rng(&self) -> MutexGuard<'_, SplitMix> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn work_loop(&self) {
        loop {
            let mut commands: VecDeque<LeasedCommand> = self.lease_commands().await.into();
            self.add_leases(commands.iter());
            while let Some(command) = commands.pop_front() {
                let next = self.execute_and_report(&command).await;
                lock_leases(&self.held_leases).remove(&(command.command_id, command.attempt));
                self.add_leases(next.iter());
                commands.extend(next);
            }
        }
    }

    fn add_leases<'c>(&self, commands: impl Iterator<Item = &'c LeasedCommand>) {
        for command in commands {
            let lease = HeldLease {
                execution_id: command.execution_id,
                command_id: command.command_id,
                lease_token: command.lease_token,
                attempt: command.attempt,
            };
            lock_leases(&self.held_leases).insert((command.command_id, command.attempt), lease);
        }
    }

    async fn lease_commands(&self) -> Vec<LeasedCommand> {
        let request = LeaseRequest {
            worker_id: self.worker.clone(),
            pool: shared_pool(),
            max: LeaseBatchSize::clamped(1 + i64::from(self.lock_rng().draw_percent(50))),
            wait_ms: u64::try_from(LEASE_WAIT.as_millis()).unwrap_or_default(),
            kinds: None,
            lease_ms: None,
        };
        let call = move |services: ControlPlane| {
            let request = request.clone();
            async move { services.leases.lease_commands(CallContext::server(), request).await }
        };
        if let Some(Ok(answer)) = self.link.send_request("lease", REQUEST_TIMEOUT, call).await {
            self.trace_commands(&answer.commands);
            return answer.commands;
        }
        let pause = random_duration(&mut self.lock_rng(), 200);
        tokio::time::sleep(pause + Duration::from_millis(10)).await;
        Vec::new()
    }

    fn trace_commands(&self, commands: &[LeasedCommand]) {
        for command in commands {
            let (id, attempt) = (command.command_id, command.attempt);
            let step = &command.node_name;
            self.world.trace.record(format_args!("{} has {id}/{attempt} {step}", self.worker));
        }
    }

    /// Executes a command and reports it. Returns the next commands.
    async fn execute_and_report(&self, command: &LeasedCommand) -> Vec<LeasedCommand> {
        let mut unreported = UnreportedRetries::default();
        let Some(outcome) = self.execute_command(command, &mut unreported).await else {
            return Vec::new();
        };
        let key = (command.command_id, command.attempt);
        let is_held = lock_leases(&self.held_leases).contains_key(&key);
        // A suspended worker does not notice that its lease expired, and may still report.
        if !is_held && self.lock_rng().draw_percent(50) {
            return Vec::new();
        }
        let mut report = build_command_report(command, outcome);
        report.retries.splice(0..0, unreported.retries);
        report.retries_before = unreported.reported_count;
        self.send_report(report).await
    }

    /// Reports progress once. Without an answer, the worker does not know whether the report
    /// arrived.
    async fn report_progress(&self, command: &LeasedCommand, unreported: &mut UnreportedRetries) {
        let report = CommandReport {
            status: ReportStatus::Progress,
            retries: unreported.retries.clone(),
            retries_before: unreported.reported_count,
            ..empty_report(command)
        };
        let request = ReportRequest {
            worker_id: self.worker.clone(),
            reports: vec![report],
            lease: None,
            outputs: Vec::new(),
        };
        let call = move |services: ControlPlane| {
            let request = request.clone();
            async move { services.reports.process_reports(CallContext::server(), request).await }
        };
        let description = format!("progress {}/{}", command.command_id, command.attempt);
        let answer = self.link.send_request(description, REQUEST_TIMEOUT, call).await;
        let Some(result) = answer.and_then(Result::ok).and_then(|mut answer| answer.results.pop())
        else {
            return;
        };
        if result.status == ReportDisposition::Accepted {
            unreported.reported_count +=
                u32::try_from(unreported.retries.len()).expect("few attempts");
            unreported.retries.clear();
        }
    }

    async fn send_report(&self, report: CommandReport) -> Vec<LeasedCommand> {
        let (command, attempt) = (report.command_id, report.attempt);
        let next = NextLease {
            pool: shared_pool(),
            max: LeaseBatchSize::clamped(1 + i64::from(self.lock_rng().draw_percent(50))),
            wait_ms: 0,
            kinds: None,
            lease_ms: None,
        };
        let request = ReportRequest {
            worker_id: self.worker.clone(),
            reports: vec![report],
            lease: (!self.lock_rng().draw_percent(20)).then_some(next),
            outputs: Vec::new(),
        };
        for _ in 0..MAX_SEND_ATTEMPTS {
            let request = request.clone();
            let call = move |services: ControlPlane| {
                let request = request.clone();
                async move { services.reports.process_reports(CallContext::server(), request).await }
            };
            let description = format!("report {command}/{attempt}");
            if let Some(Ok(mut answer)) =
                self.link.send_request(description, REQUEST_TIMEOUT, call).await
            {
                let result = answer.results.pop().expect("an answer to each report");
                if self.is_report_settled(&result, attempt) {
                    self.trace_commands(&answer.commands);
                    return answer.commands;
                }
            }
            let pause = random_duration(&mut self.lock_rng(), 300);
            tokio::time::sleep(pause + Duration::from_millis(20)).await;
        }
        Vec::new()
    }

    /// Records the result of a report. Returns false if the report must be sent again.
    fn is_report_settled(&self, result: &ReportResult, attempt: u32) -> bool {
        let (command, status) = (result.command_id, result.status);
        let code = result.code;
        self.world.trace.record(format_args!(
            "{} gets {status:?} {code:?} for {command}/{attempt}",
            self.worker
        ));
        match status {
            ReportDisposition::Accepted => {
                self.world.record_accepted(command, attempt);
                true
            }
            ReportDisposition::Duplicate | ReportDisposition::Ignored => true,
            ReportDisposition::Rejected => {
                if !code.is_some_and(noetl_types::ErrorCode::is_retryable) {
                    let detail = result.detail.as_deref().unwrap_or_default();
                    self.world.record_violation(format!(
                        "a report of {command} is rejected: {code:?} {detail}"
                    ));
                }
                false
            }
        }
    }

    /// Executes a command. Returns `None` if a payload is unavailable.
    async fn execute_command(
        &self,
        command: &LeasedCommand,
        unreported: &mut UnreportedRetries,
    ) -> Option<MachineOutcome> {
        let playbook = self.world.find_playbook(command.meta.catalog_id);
        let context = match command.context.get("context_ref") {
            Some(reference) => {
                let uri = reference.get("ref").and_then(Json::as_str)?;
                CommandContext::from_json(self.fetch_payload(uri).await?.as_map())
            }
            None => CommandContext::from_json(Some(&command.context)),
        };
        let spec = CommandSpec {
            playbook: Arc::clone(playbook.plan.playbook()),
            step: Text::from(&command.node_name),
            execution_id: command.execution_id,
            command_id: Some(command.command_id),
            worker_id: Some(self.worker.clone()),
            idempotency_key: command.idempotency_key.clone(),
            context: context.expect("a context"),
            iteration: command.meta.index.zip(command.meta.collection_size),
            frame_max_rows: command.meta.frame_max_rows,
            issued_at: command.meta.issued_at,
            limits: TemplateLimits::default(),
            budget: None,
            max_data: MAX_TASK_DATA,
            max_task_runs: MAX_TASK_RUNS,
        };
        let mut machine = CommandMachine::new(spec).expect("a command of the playbook");
        let input = MachineInput { now: None, random_fraction: 0.5 };
        loop {
            machine = match machine.next(input) {
                MachineAction::Call(call_spec, pending_call) => {
                    pending_call.complete_call(self.call_tool(*call_spec, command).await)
                }
                MachineAction::Wait(delay, mut machine) => {
                    unreported.retries.extend(machine.take_retries());
                    if self.lock_rng().draw_percent(60) {
                        self.report_progress(command, unreported).await;
                    }
                    tokio::time::sleep(delay.into()).await;
                    machine
                }
                MachineAction::ResolveSecret(secret_spec, _) => {
                    unreachable!("no playbook has the keychain entry {}", secret_spec.name)
                }
                MachineAction::Fetch(payload, pending_fetch) => {
                    pending_fetch.complete_fetch(Ok(self.fetch_payload(&payload.uri).await?))
                }
                MachineAction::Done(outcome) => return Some(*outcome),
            }
        }
    }

    async fn call_tool(&self, spec: CallSpec, command: &LeasedCommand) -> ToolResult {
        let delay = {
            let mut rng = self.lock_rng();
            let is_slow = !self.world.has_stopped_faults() && rng.draw_percent(4);
            random_duration(&mut rng, if is_slow { 4_000 } else { 60 })
        };
        tokio::time::sleep(delay).await;
        let (config, input) = (Json::from(spec.config), Json::from(spec.input));
        let call = SimulatedCall {
            step: command.node_name.as_str(),
            label: &spec.label,
            kind: spec.kind,
            run: command.meta.run,
            index: command.meta.index,
            attempt: spec.attempt,
            command_attempt: command.attempt,
            config: &config,
            input: &input,
        };
        let behavior = self.world.find_playbook(command.meta.catalog_id).tools.play_call(&call);
        to_tool_answer(behavior, &call, command.meta.frame_max_rows)
    }

    /// Fetches an externally stored payload, with retries.
    async fn fetch_payload(&self, uri: &str) -> Option<Json> {
        for _ in 0..MAX_SEND_ATTEMPTS {
            let uri = uri.to_owned();
            let call = move |services: ControlPlane| {
                let uri = uri.clone();
                async move { services.results.resolve_result(CallContext::server(), &uri).await }
            };
            if let Some(Ok(payload)) =
                self.link.send_request("resolve", REQUEST_TIMEOUT, call).await
            {
                return Some(payload);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        None
    }
}

fn build_command_report(command: &LeasedCommand, outcome: MachineOutcome) -> CommandReport {
    let (status, onward) = match (&outcome.error, outcome.next_stage) {
        (Some(_), _) => (ReportStatus::Failed, None),
        (None, NextStage::End) => (ReportStatus::Completed, None),
        (None, NextStage::Segment(continuation)) => {
            (ReportStatus::Completed, Some(continuation.to_json()))
        }
        (None, NextStage::Callback) => (ReportStatus::Suspended, None),
    };
    let has_data = status != ReportStatus::Failed || !outcome.data.is_null();
    CommandReport {
        status,
        result: has_data.then_some(outcome.data),
        labels: outcome.labels,
        onward: onward.map(Json::from),
        set: outcome.set,
        error: outcome.error,
        tasks: outcome.tasks,
        frame: outcome.frame,
        task_attempt: outcome.attempt,
        retries: outcome.retries,
        ..empty_report(command)
    }
}

/// A progress report without content.
fn empty_report(command: &LeasedCommand) -> CommandReport {
    CommandReport {
        execution_id: command.execution_id,
        command_id: command.command_id,
        attempt: command.attempt,
        lease_token: command.lease_token,
        status: ReportStatus::Progress,
        result: None,
        labels: None,
        onward: None,
        set: noetl_types::JsonMap::new(),
        error: None,
        tasks: Vec::new(),
        frame: None,
        task_attempt: 1,
        retries: Vec::new(),
        retries_before: 0,
        claimed_at: Some(command.claimed_at),
        lease_until: Some(command.lease_until),
        started_at: Some(command.claimed_at),
        finished_at: None,
    }
}

/// True if the error means that the worker was lost. The outcome of such a run is random.
pub(crate) fn is_worker_loss(kind: TaskErrorKind) -> bool {
    matches!(kind, TaskErrorKind::Lost)
}
