//! A small worker: it renders, rules and reports as a real one does, with tools that are played.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noetl_api::WorkerApi as _;
use noetl_api::command::{
    CommandReport, FrameReport, HeartbeatRequest, HeldLease, LeaseRequest, LeasedCommand,
    NextLease, ReportRequest, ReportResult, ReportStatus, ReportVerdict, RetriedTask, RowError,
    TaskReport, TaskStatus,
};
use noetl_playbook::carried::Carried;
use noetl_playbook::shift::{
    self, Ahead, CallSpec, Do, Finished, Job, MAX_DATA, MAX_TASK_RUNS, Moment, Shift,
};
use noetl_playbook::template::TemplateLimits;
use noetl_server::Runtime;
use noetl_testkit::sim::{Call, SplitMix};
use noetl_types::limits::LeaseBatch;
use noetl_types::{CommandId, Json, Millis, PoolName, TaskErrorKind, Text, WorkerId};
use tokio::task::JoinSet;

use crate::line::Line;
use crate::tools::answer;
use crate::weather::{draw, up_to};
use crate::world::World;

/// How long a worker waits for an answer that may take a while.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long it waits for work.
const POLL: Duration = Duration::from_secs(3);
/// How often it sends a report.
const TRIES: u32 = 8;

type Held = Mutex<BTreeMap<(CommandId, u32), HeldLease>>;

/// Attempts that were made again and that no server is known to have heard of.
#[derive(Default)]
struct Untold {
    retries: Vec<RetriedTask>,
    /// How many there were before them.
    before: u32,
}

/// One of the hands of a worker.
struct Hand {
    world: Arc<World>,
    worker: WorkerId,
    line: Line,
    held: Arc<Held>,
    chance: Mutex<SplitMix>,
}

/// Works for ever; a future that is dropped is a worker that died.
pub(crate) async fn work_for_ever(world: Arc<World>, number: usize, life: u32) {
    let worker = WorkerId::new(format!("w{number}")).expect("a name");
    let held: Arc<Held> = Arc::default();
    let mut tasks = JoinSet::new();
    for hand in 0..world.weather.slots {
        let name = format!("w{number}.{life}.{hand}");
        let hand = Hand {
            line: Line::new(&world, name.as_str()),
            chance: Mutex::new(draw(world.seed, &format!("hand {name}"))),
            world: Arc::clone(&world),
            worker: worker.clone(),
            held: Arc::clone(&held),
        };
        tasks.spawn(async move { hand.take_and_do().await });
    }
    let line = Line::new(&world, format!("w{number}.{life}.heart"));
    tasks.spawn(async move { beat(&world, &worker, &line, &held).await });
    while tasks.join_next().await.is_some() {}
}

/// Keeps the leases of all hands.
async fn beat(world: &World, worker: &WorkerId, line: &Line, held: &Held) {
    let pace = Duration::from_millis(world.weather.lease.as_ms() / 3);
    loop {
        tokio::time::sleep(pace).await;
        let leases: Vec<HeldLease> = locked(held).values().cloned().collect();
        if leases.is_empty() {
            continue;
        }
        let request = HeartbeatRequest {
            worker_id: worker.clone(),
            leases: leases.clone(),
            extend_ms: None,
        };
        let what = format!("keep {}", leases.len());
        let ask = move |runtime: Runtime| {
            let request = request.clone();
            async move { runtime.keep(request).await }
        };
        let Some(Ok(answer)) = line.ask(what, pace, ask).await else {
            continue;
        };
        for (lease, kept) in leases.iter().zip(&answer.leases) {
            if !kept.ok {
                world
                    .trace
                    .note(format_args!("{worker} has lost {}", kept.command_id));
                locked(held).remove(&(lease.command_id, lease.attempt));
            }
        }
    }
}

fn locked(held: &Held) -> MutexGuard<'_, BTreeMap<(CommandId, u32), HeldLease>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pool() -> PoolName {
    PoolName::new("shared").expect("a pool")
}

impl Hand {
    fn chance(&self) -> MutexGuard<'_, SplitMix> {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take_and_do(&self) {
        loop {
            let mut commands: VecDeque<LeasedCommand> = self.lease().await.into();
            self.hold(commands.iter());
            while let Some(command) = commands.pop_front() {
                let next = self.carry_out(&command).await;
                locked(&self.held).remove(&(command.command_id, command.attempt));
                self.hold(next.iter());
                commands.extend(next);
            }
        }
    }

    fn hold<'c>(&self, commands: impl Iterator<Item = &'c LeasedCommand>) {
        for command in commands {
            let lease = HeldLease {
                execution_id: command.execution_id,
                command_id: command.command_id,
                lease_token: command.lease_token,
                attempt: command.attempt,
            };
            locked(&self.held).insert((command.command_id, command.attempt), lease);
        }
    }

    async fn lease(&self) -> Vec<LeasedCommand> {
        let request = LeaseRequest {
            worker_id: self.worker.clone(),
            pool: pool(),
            max: LeaseBatch::clamped(1 + i64::from(self.chance().percent(50))),
            wait_ms: u64::try_from(POLL.as_millis()).unwrap_or_default(),
            kinds: None,
            lease_ms: None,
        };
        let ask = move |runtime: Runtime| {
            let request = request.clone();
            async move { runtime.lease(request).await }
        };
        if let Some(Ok(answer)) = self.line.ask("lease", PATIENCE, ask).await {
            self.got(&answer.commands);
            return answer.commands;
        }
        let pause = up_to(&mut self.chance(), 200);
        tokio::time::sleep(pause + Duration::from_millis(10)).await;
        Vec::new()
    }

    fn got(&self, commands: &[LeasedCommand]) {
        for command in commands {
            let (id, attempt) = (command.command_id, command.attempt);
            let step = &command.node_name;
            self.world
                .trace
                .note(format_args!("{} has {id}/{attempt} {step}", self.worker));
        }
    }

    /// Does the work of a command and reports it; what to do next.
    async fn carry_out(&self, command: &LeasedCommand) -> Vec<LeasedCommand> {
        let mut untold = Untold::default();
        let Some(finished) = self.work(command, &mut untold).await else {
            return Vec::new();
        };
        let key = (command.command_id, command.attempt);
        let is_held = locked(&self.held).contains_key(&key);
        // One that has slept does not know that its lease is gone, and reports all the same.
        if !is_held && self.chance().percent(50) {
            return Vec::new();
        }
        let mut report = report(command, finished);
        report.retries.splice(0..0, untold.retries);
        report.retries_before = untold.before;
        self.report(report).await
    }

    /// Says how far it is, once. Whoever hears no answer does not know whether it was heard.
    async fn say(&self, command: &LeasedCommand, untold: &mut Untold) {
        let said = CommandReport {
            status: ReportStatus::Progress,
            retries: untold.retries.clone(),
            retries_before: untold.before,
            ..blank(command)
        };
        let request = ReportRequest {
            worker_id: self.worker.clone(),
            reports: vec![said],
            lease: None,
        };
        let ask = move |runtime: Runtime| {
            let request = request.clone();
            async move { runtime.report(request).await }
        };
        let what = format!("say {}/{}", command.command_id, command.attempt);
        let answer = self.line.ask(what, PATIENCE, ask).await;
        let Some(told) = answer
            .and_then(Result::ok)
            .and_then(|mut answer| answer.results.pop())
        else {
            return;
        };
        if told.status == ReportVerdict::Accepted {
            untold.before += u32::try_from(untold.retries.len()).expect("few attempts");
            untold.retries.clear();
        }
    }

    async fn report(&self, report: CommandReport) -> Vec<LeasedCommand> {
        let (command, attempt) = (report.command_id, report.attempt);
        let next = NextLease {
            pool: pool(),
            max: LeaseBatch::clamped(1 + i64::from(self.chance().percent(50))),
            wait_ms: 0,
            kinds: None,
            lease_ms: None,
        };
        let request = ReportRequest {
            worker_id: self.worker.clone(),
            reports: vec![report],
            lease: (!self.chance().percent(20)).then_some(next),
        };
        for _ in 0..TRIES {
            let request = request.clone();
            let ask = move |runtime: Runtime| {
                let request = request.clone();
                async move { runtime.report(request).await }
            };
            let what = format!("report {command}/{attempt}");
            if let Some(Ok(mut answer)) = self.line.ask(what, PATIENCE, ask).await {
                let told = answer.results.pop().expect("an answer to each report");
                if self.is_settled(&told, attempt) {
                    self.got(&answer.commands);
                    return answer.commands;
                }
            }
            let pause = up_to(&mut self.chance(), 300);
            tokio::time::sleep(pause + Duration::from_millis(20)).await;
        }
        Vec::new()
    }

    /// Takes note of what a server says to a report; whether it need not be sent again.
    fn is_settled(&self, told: &ReportResult, attempt: u32) -> bool {
        let (command, status) = (told.command_id, told.status);
        let code = told.code;
        self.world.trace.note(format_args!(
            "{} is told {status:?} {code:?} of {command}/{attempt}",
            self.worker
        ));
        match status {
            ReportVerdict::Accepted => {
                self.world.accepted(command, attempt);
                true
            }
            ReportVerdict::Duplicate | ReportVerdict::Ignored => true,
            ReportVerdict::Rejected => {
                if !code.is_some_and(noetl_types::ErrorCode::is_retryable) {
                    let detail = told.detail.as_deref().unwrap_or_default();
                    self.world.violated(format!(
                        "a report of {command} is rejected: {code:?} {detail}"
                    ));
                }
                false
            }
        }
    }

    /// The work of a command; nothing where what it needs cannot be had.
    async fn work(&self, command: &LeasedCommand, untold: &mut Untold) -> Option<Finished> {
        let book = self.world.book(command.meta.catalog_id);
        let carried = match command.context.get("context_ref") {
            Some(reference) => {
                let uri = reference.get("ref").and_then(Json::as_str)?;
                Carried::from_json(self.fetch(uri).await?.as_map())
            }
            None => Carried::from_json(Some(&command.context)),
        };
        let job = Job {
            playbook: Arc::clone(book.plan.playbook()),
            step: Text::from(&command.node_name),
            execution_id: command.execution_id,
            command_id: Some(command.command_id),
            worker_id: Some(self.worker.clone()),
            idempotency_key: command.idempotency_key.clone(),
            carried: carried.expect("a context"),
            iteration: command.meta.index.zip(command.meta.collection_size),
            frame: command.meta.frame_max_rows,
            issued_at: command.meta.issued_at,
            limits: TemplateLimits::default(),
            max_data: MAX_DATA,
            max_task_runs: MAX_TASK_RUNS,
        };
        let mut shift = Shift::new(job).expect("a command of the playbook");
        let moment = Moment {
            now: None,
            dice: 0.5,
        };
        loop {
            shift = match shift.next(moment) {
                Do::Call(spec, calling) => calling.called(self.call(*spec, command).await),
                Do::Wait(delay, mut shift) => {
                    untold
                        .retries
                        .extend(shift.take_retries().into_iter().map(retried));
                    if self.chance().percent(60) {
                        self.say(command, untold).await;
                    }
                    tokio::time::sleep(delay.into()).await;
                    shift
                }
                Do::Unlock(spec, _) => unreachable!("no book here has the entry {}", spec.name),
                Do::Fetch(wanted, fetching) => {
                    fetching.fetched(Ok(self.fetch(&wanted.uri).await?))
                }
                Do::Done(finished) => return Some(*finished),
            }
        }
    }

    async fn call(&self, spec: CallSpec, command: &LeasedCommand) -> shift::Answer {
        let time = {
            let mut chance = self.chance();
            let is_slow = !self.world.is_calm() && chance.percent(4);
            up_to(&mut chance, if is_slow { 4_000 } else { 60 })
        };
        tokio::time::sleep(time).await;
        let (config, input) = (Json::from(spec.config), Json::from(spec.input));
        let call = Call {
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
        let play = self.world.book(command.meta.catalog_id).tools.play(&call);
        answer(play, &call, command.meta.frame_max_rows)
    }

    /// A payload that is kept elsewhere, however often it has to be asked for.
    async fn fetch(&self, uri: &str) -> Option<Json> {
        for _ in 0..TRIES {
            let wanted = uri.to_owned();
            let ask = move |runtime: Runtime| {
                let wanted = wanted.clone();
                async move { runtime.resolve(&wanted).await }
            };
            if let Some(Ok(payload)) = self.line.ask("resolve", PATIENCE, ask).await {
                return Some(payload);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        None
    }
}

fn report(command: &LeasedCommand, finished: Finished) -> CommandReport {
    let (status, onward) = match (&finished.error, finished.ahead) {
        (Some(_), _) => (ReportStatus::Failed, None),
        (None, Ahead::Nothing) => (ReportStatus::Completed, None),
        (None, Ahead::Segment(onward)) => (ReportStatus::Completed, Some(onward.to_json())),
        (None, Ahead::Callback) => (ReportStatus::Parked, None),
    };
    let has_data = status != ReportStatus::Failed || !finished.data.is_null();
    let tasks = finished.tasks.into_iter().map(|task| TaskReport {
        label: task.label,
        status: match task.status {
            shift::TaskStatus::Ok => TaskStatus::Ok,
            shift::TaskStatus::Error => TaskStatus::Error,
        },
        attempts: task.attempts,
        duration_ms: task.duration.map(Millis::as_ms),
        stdout: task.stdout,
        stderr: task.stderr,
    });
    let frame = finished.frame.map(|frame| FrameReport {
        rows: frame.rows,
        done: frame.done,
        failed: frame.failed,
        bytes: frame.bytes,
        errors: frame
            .errors
            .into_iter()
            .map(|failed| RowError {
                row: failed.row,
                error: failed.error,
            })
            .collect(),
    });
    CommandReport {
        status,
        result: has_data.then_some(finished.data),
        labels: finished.labels,
        onward: onward.map(Json::from),
        set: finished.set,
        error: finished.error,
        tasks: tasks.collect(),
        frame,
        task_attempt: finished.attempt,
        retries: finished.retries.into_iter().map(retried).collect(),
        ..blank(command)
    }
}

fn retried(retry: shift::RetriedCall) -> RetriedTask {
    RetriedTask {
        error: retry.error,
        attempt: retry.attempt,
        retry_in_ms: retry.retry_in,
        at: retry.at,
    }
}

/// A report that says nothing yet.
fn blank(command: &LeasedCommand) -> CommandReport {
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

/// Whether an error means that a worker was lost: then chance has decided what comes of the run.
pub(crate) fn is_loss(kind: TaskErrorKind) -> bool {
    matches!(kind, TaskErrorKind::Lost)
}
