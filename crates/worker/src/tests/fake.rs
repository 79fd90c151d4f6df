//! A server and tools that do as they are told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use noetl_api::catalog::CatalogItem;
use noetl_api::command::{
    CommandMeta, CommandReport, HeartbeatAnswer, HeartbeatRequest, KeptLease, LeaseAnswer,
    LeaseRequest, LeasedCommand, ReportAnswer, ReportRequest, ReportResult, ReportStatus,
    ReportVerdict,
};
use noetl_api::credential::{CredentialView, CredentialWish};
use noetl_api::execute::{ExecuteAnswer, ExecuteRequest};
use noetl_api::result::{KeptResult, PutResult};
use noetl_api::runtime::{PoolHeartbeatAnswer, RegisterWorker, RuntimeView, WorkerName};
use noetl_api::{ApiError, LeaseToken, WorkerApi};
use noetl_playbook::model::ToolKind;
use noetl_tools::platform::{PlatformHandle, ResultRef};
use noetl_tools::{Call, CancellationToken, Outcome};
use noetl_types::{
    CatalogId, CommandId, ErrorCode, EventId, ExecutionId, Json, JsonMap, Millis, PoolName,
    RuntimeId, Seq, TaskErrorKind, Timestamp, WorkerId, sha256,
};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::{Settings, Tools};

const PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: example }
workload: { city: none }
keychain:
  - { name: api, kind: bearer, auth: api_main }
  - { name: db, kind: credential, auth: db_main, map: { user: db_user } }
workflow:
  - { step: ok, tool: { kind: shell, command: ok } }
  - { step: nap, tool: { kind: shell, command: nap } }
  - { step: long, tool: { kind: shell, command: long } }
  - { step: hang, tool: { kind: shell, command: hang } }
  - { step: boom, tool: { kind: shell, command: boom } }
  - { step: flaky, tool: { kind: shell, command: flaky, spec: { policy: { rules: [{ when: '{{ output.error.retryable }}', then: { do: retry, attempts: 3, delay: 5 } }] } } } }
  - { step: twitchy, tool: { kind: shell, command: flaky, spec: { policy: { rules: [{ when: '{{ output.error.retryable }}', then: { do: retry, attempts: 3, delay: 0.1 } }] } } } }
  - { step: fetch, tool: { kind: shell, command: fetch } }
  - { step: leak, tool: { kind: shell, command: leak, auth: db_main, input: { t: '{{ keychain.api.token | upper }}', u: '{{ keychain.db.user }}' }, set: { ctx.t: '{{ keychain.api.token }}' } } }
  - { step: leak_and_fail, tool: { kind: shell, command: leak and fail, auth: db_main } }
  - { step: leak_sides, tool: { kind: transfer, source: { type: http, url: 'http://h', auth: api_main }, target: { type: postgres, table: t, auth: { source: credential, key: db_main } } } }
  - { step: reads, tool: { kind: shell, command: 'say {{ city }}' } }
";

pub(super) fn settings(slots: u32) -> Settings {
    let pool = PoolName::new("default").unwrap();
    Settings {
        max_concurrent: slots,
        clock: Arc::new(time),
        ..Settings::new(WorkerId::new("w1").unwrap(), pool)
    }
}

fn time() -> Timestamp {
    Timestamp::parse("2026-01-01T00:00:00Z").unwrap()
}

/// A command whose key is `7:<id>`.
pub(super) fn command(id: i64, step: &str) -> LeasedCommand {
    LeasedCommand {
        execution_id: ExecutionId::new(7).unwrap(),
        event_id: EventId::new(id).unwrap(),
        command_id: CommandId::new(id).unwrap(),
        attempt: 1,
        lease_token: LeaseToken::from_bytes([1; 16]),
        claimed_at: time(),
        lease_until: time().saturating_add(Millis::from_secs(30)),
        deadline_at: None,
        idempotency_key: format!("7:{id}").into(),
        node_id: step.parse().unwrap(),
        node_name: step.parse().unwrap(),
        action: "shell".into(),
        context: JsonMap::new(),
        meta: CommandMeta {
            catalog_id: CatalogId::new(5).unwrap(),
            seq: Seq::new(3).unwrap(),
            issued_at: time(),
            run: 1,
            index: None,
            collection_size: None,
            frame_max_rows: None,
            attempts: 1,
            max_attempts: 3,
            trace: None,
        },
    }
}

/// What a server has seen, and how it is to behave.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a test switches each of them by itself"
)]
pub(super) struct Seen {
    queue: VecDeque<LeasedCommand>,
    /// Work that only the answers to reports bring.
    pub(super) follow_up: VecDeque<LeasedCommand>,
    taken: Vec<CommandReport>,
    /// What commands said while they were at work.
    pub(super) said: Vec<CommandReport>,
    /// How many answers to that get lost, though it was heard.
    pub(super) answers_to_lose: u32,
    /// What it answers to that; that it was heard where nothing is said.
    pub(super) answers_what_is_said: Option<(ReportVerdict, Option<ErrorCode>)>,
    pub(super) registrations: u32,
    pub(super) goodbyes: u32,
    pub(super) heartbeats: u32,
    pub(super) definitions: u32,
    pub(super) resolved: u32,
    pub(super) polls_with_work: u32,
    pub(super) report_batches: Vec<usize>,
    /// How many commands each report asked for.
    pub(super) asks_after_report: Vec<Option<u32>>,
    reports_under_way: u32,
    pub(super) peak_reports: u32,
    /// Commands that the worker has or has asked for.
    promised: u32,
    pub(super) peak_promised: u32,
    pub(super) turned_away: u32,

    pub(super) is_away: bool,
    pub(super) is_forbidden: bool,
    /// Whether the worker has to register first.
    pub(super) is_known: bool,
    pub(super) wants_drain: bool,
    /// Sends more work than it was asked for.
    pub(super) is_generous: bool,
    /// Says nothing of reports.
    pub(super) is_silent: bool,
    pub(super) report_delay: Duration,
    pub(super) heartbeat_delay: Duration,
    pub(super) cancelled: BTreeSet<i64>,
    pub(super) lost: BTreeSet<i64>,
    pub(super) too_large: BTreeSet<i64>,
    pub(super) verdicts: BTreeMap<i64, (ReportVerdict, Option<ErrorCode>)>,
    pub(super) payloads: BTreeMap<String, Json>,
    pub(super) credentials: BTreeMap<String, CredentialView>,
    pub(super) wishes: Vec<CredentialWish>,
    /// What was put and started, with the keys.
    pub(super) kept: Vec<(PutResult, String)>,
    pub(super) started: Vec<(ExecuteRequest, String)>,
    /// What it refuses to put and to start with.
    pub(super) refuses_errands: Option<ErrorCode>,
}

impl Seen {
    fn check(&mut self) -> Result<(), ApiError> {
        if self.is_away {
            self.turned_away += 1;
            return Err(ApiError::Unreachable("gone fishing".into()));
        }
        Ok(())
    }

    fn check_errand(&mut self) -> Result<(), ApiError> {
        self.check()?;
        match self.refuses_errands {
            Some(code) => Err(ApiError::refused(code, "no")),
            None => Ok(()),
        }
    }

    fn promise(&mut self, commands: u32) {
        self.promised += commands;
        self.peak_promised = self.peak_promised.max(self.promised);
    }

    fn take(&mut self, max: u32) -> Vec<LeasedCommand> {
        let max = if self.is_generous {
            usize::MAX
        } else {
            max as usize
        };
        let count = max.min(self.queue.len());
        self.queue.drain(..count).collect()
    }

    /// Hears how far commands are.
    fn hear(&mut self, said: Vec<CommandReport>) -> Result<ReportAnswer, ApiError> {
        self.check()?;
        let (status, code) = self
            .answers_what_is_said
            .unwrap_or((ReportVerdict::Accepted, None));
        let results = said.iter().map(|report| ReportResult {
            command_id: report.command_id,
            status,
            seq: None,
            code,
            detail: None,
        });
        let results = results.collect();
        self.said.extend(said);
        if self.answers_to_lose > 0 {
            self.answers_to_lose -= 1;
            return Err(ApiError::Unreachable("the line broke".into()));
        }
        Ok(ReportAnswer {
            results,
            commands: Vec::new(),
        })
    }

    fn result(&mut self, report: &CommandReport) -> ReportResult {
        let id = report.command_id.get();
        let verdict = self.verdicts.remove(&id);
        let (status, code) = verdict.unwrap_or((ReportVerdict::Accepted, None));
        ReportResult {
            command_id: report.command_id,
            status,
            seq: None,
            code,
            detail: None,
        }
    }
}

/// A server that does as it is told.
#[derive(Default)]
pub(super) struct FakeServer {
    seen: Mutex<Seen>,
    work: Notify,
}

impl FakeServer {
    pub(super) fn see<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().unwrap())
    }

    pub(super) fn offer(&self, commands: impl IntoIterator<Item = LeasedCommand>) {
        self.see(|seen| seen.queue.extend(commands));
        self.work.notify_one();
    }

    /// The reports that reached it, in order.
    pub(super) fn taken(&self) -> Vec<CommandReport> {
        self.see(|seen| seen.taken.clone())
    }

    pub(super) fn reported_ids(&self) -> Vec<i64> {
        let taken = self.taken();
        taken.iter().map(|report| report.command_id.get()).collect()
    }
}

#[async_trait]
impl WorkerApi for FakeServer {
    async fn register(&self, worker: RegisterWorker) -> Result<RuntimeView, ApiError> {
        self.see(|seen| {
            seen.check()?;
            if seen.is_forbidden {
                return Err(ApiError::refused(ErrorCode::Forbidden, "no"));
            }
            seen.registrations += 1;
            seen.is_known = true;
            Ok(RuntimeView {
                runtime_id: RuntimeId::new(1).unwrap(),
                name: worker.name,
                kind: "worker_pool".into(),
                uri: None,
                status: "active".into(),
                labels: Json::from(worker.labels),
                capacity: worker.capacity,
                heartbeat: time(),
                created_at: time(),
            })
        })
    }

    async fn pool_heartbeat(&self, _: WorkerName) -> Result<PoolHeartbeatAnswer, ApiError> {
        self.see(|seen| {
            seen.check()?;
            if !seen.is_known {
                return Err(ApiError::refused(ErrorCode::NotFound, "who are you?"));
            }
            Ok(PoolHeartbeatAnswer {
                drain: seen.wants_drain,
                ..PoolHeartbeatAnswer::default()
            })
        })
    }

    async fn deregister(&self, _: WorkerName) -> Result<(), ApiError> {
        self.see(|seen| seen.goodbyes += 1);
        Ok(())
    }

    async fn lease(&self, request: LeaseRequest) -> Result<LeaseAnswer, ApiError> {
        let max = request.max.get();
        self.see(|seen| {
            seen.check()?;
            seen.promise(max);
            Ok::<_, ApiError>(())
        })?;
        let wait = async {
            loop {
                let commands = self.see(|seen| seen.take(max));
                if !commands.is_empty() {
                    return commands;
                }
                self.work.notified().await;
            }
        };
        let commands = timeout(Duration::from_millis(request.wait_ms), wait).await;
        let commands = commands.unwrap_or_default();
        self.see(|seen| {
            seen.polls_with_work += u32::from(!commands.is_empty());
            let given = u32::try_from(commands.len()).unwrap();
            seen.promised -= max.saturating_sub(given);
        });
        Ok(LeaseAnswer {
            commands,
            poll_after_ms: 0,
        })
    }

    async fn heartbeat(&self, request: HeartbeatRequest) -> Result<HeartbeatAnswer, ApiError> {
        let delay = self.see(|seen| {
            seen.check()?;
            seen.heartbeats += 1;
            Ok::<_, ApiError>(seen.heartbeat_delay)
        })?;
        sleep(delay).await;
        self.see(|seen| {
            let leases = request.leases.iter().map(|lease| {
                let id = lease.command_id.get();
                KeptLease {
                    command_id: lease.command_id,
                    ok: !seen.lost.contains(&id),
                    lease_until: None,
                    cancel: seen.cancelled.contains(&id).then_some(true),
                    code: None,
                }
            });
            Ok(HeartbeatAnswer {
                leases: leases.collect(),
            })
        })
    }

    async fn report(&self, request: ReportRequest) -> Result<ReportAnswer, ApiError> {
        let is_said = |report: &CommandReport| report.status == ReportStatus::Progress;
        if request.reports.iter().all(is_said) {
            return self.see(|seen| seen.hear(request.reports));
        }
        let delay = self.see(|seen| {
            seen.check()?;
            seen.reports_under_way += 1;
            seen.peak_reports = seen.peak_reports.max(seen.reports_under_way);
            Ok::<_, ApiError>(seen.report_delay)
        })?;
        sleep(delay).await;
        let wanted = request.lease.map(|lease| lease.max.get());
        self.see(|seen| {
            seen.reports_under_way -= 1;
            let is_refused = |report: &CommandReport| {
                report.result.is_some() && seen.too_large.contains(&report.command_id.get())
            };
            if request.reports.iter().any(is_refused) {
                return Err(ApiError::refused(ErrorCode::TooLarge, "too much"));
            }
            seen.asks_after_report.push(wanted);
            seen.report_batches.push(request.reports.len());
            let results = request.reports.iter().map(|report| seen.result(report));
            let results: Vec<ReportResult> = results.collect();
            // What is to be sent again keeps its slot.
            let is_again = |code: Option<ErrorCode>| code.is_some_and(ErrorCode::is_retryable);
            let settled = results.iter().filter(|result| !is_again(result.code));
            let wanted = wanted.map(|wanted| wanted.min(u32::try_from(settled.count()).unwrap()));
            seen.promised = seen
                .promised
                .saturating_sub(u32::try_from(results.len()).unwrap());
            seen.taken.extend(request.reports);
            let count = seen
                .follow_up
                .len()
                .min(wanted.unwrap_or_default() as usize);
            let mut commands: Vec<_> = seen.follow_up.drain(..count).collect();
            if commands.is_empty() && !seen.is_silent {
                commands = seen.take(wanted.unwrap_or_default());
            }
            seen.promise(u32::try_from(commands.len()).unwrap());
            Ok(ReportAnswer {
                results: if seen.is_silent { Vec::new() } else { results },
                commands,
            })
        })
    }

    async fn definition(&self, catalog_id: CatalogId) -> Result<CatalogItem, ApiError> {
        self.see(|seen| seen.definitions += 1);
        // Long enough for all that ask to ask together.
        sleep(Duration::from_secs(1)).await;
        Ok(CatalogItem {
            catalog_id,
            path: "example".parse().unwrap(),
            kind: "playbook".into(),
            version: 1,
            content: PLAYBOOK.into(),
            sha256: sha256(PLAYBOOK).to_string().into(),
            created_at: time(),
        })
    }

    async fn resolve(&self, reference: &str) -> Result<Json, ApiError> {
        self.see(|seen| {
            seen.check()?;
            seen.resolved += 1;
            let payload = seen.payloads.get(reference).cloned();
            payload.ok_or_else(|| ApiError::refused(ErrorCode::NotFound, "no such payload"))
        })
    }

    async fn put_result(
        &self,
        execution_id: ExecutionId,
        result: PutResult,
        key: &str,
    ) -> Result<KeptResult, ApiError> {
        self.see(|seen| {
            seen.check_errand()?;
            let bytes = noetl_types::json::to_canonical(&result.data);
            let kept = KeptResult {
                reference: format!("noetl://execution/{execution_id}/result/{}/1", result.name)
                    .into(),
                store: "kv".into(),
                scope: result.scope.clone(),
                bytes: bytes.len() as u64,
                sha256: sha256(&bytes).to_string().into(),
                expires_at: None,
            };
            seen.kept.push((result, key.to_owned()));
            Ok(kept)
        })
    }

    async fn credential(&self, wish: CredentialWish) -> Result<CredentialView, ApiError> {
        self.see(|seen| {
            seen.check()?;
            seen.wishes.push(wish.clone());
            let found = seen.credentials.get(&*wish.name).cloned();
            found.ok_or_else(|| ApiError::refused(ErrorCode::NotFound, "there is none"))
        })
    }

    async fn start(&self, request: ExecuteRequest, key: &str) -> Result<ExecuteAnswer, ApiError> {
        self.see(|seen| {
            seen.check_errand()?;
            let path = request.path.clone();
            seen.started.push((request, key.to_owned()));
            Ok(ExecuteAnswer {
                execution_id: ExecutionId::new(99).unwrap(),
                status: "started".into(),
                commands_generated: 1,
                path: path.unwrap_or_else(|| "by/id".parse().unwrap()),
                version: 3,
                catalog_id: CatalogId::new(5).unwrap(),
                outcome: None,
            })
        })
    }
}

/// Tools that do what the command says.
#[derive(Default)]
pub(super) struct FakeTools {
    running: Arc<AtomicUsize>,
    peak: AtomicUsize,
}

/// Counts a call as running until it is over or dropped.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FakeTools {
    pub(super) fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    pub(super) fn peak(&self) -> usize {
        self.peak.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Tools for FakeTools {
    fn kinds(&self) -> &[ToolKind] {
        &[ToolKind::Shell]
    }

    async fn call(
        &self,
        platform: PlatformHandle,
        call: Call,
        cancel: CancellationToken,
    ) -> Outcome {
        let before = self.running.fetch_add(1, Ordering::SeqCst);
        self.peak.fetch_max(before + 1, Ordering::SeqCst);
        let _running = Running(Arc::clone(&self.running));
        if call.kind == ToolKind::Transfer {
            let side = |name| call.config.get(name).cloned().unwrap_or_default();
            let sides = ["source", "target"].map(|name| (name, side(name)));
            return Outcome::ok(Json::object(sides));
        }
        let command = call.config.get("command").and_then(Json::as_str).unwrap();
        match command {
            "nap" => sleep(Duration::from_millis(10)).await,
            "long" => sleep(Duration::from_mins(1)).await,
            "hang" => cancel.cancelled().await,
            "boom" => panic!("a tool must not"),
            "flaky" if call.attempt < 3 => {
                return Outcome::error(TaskErrorKind::Connection, "no line");
            }
            "ok" | "flaky" => {}
            // Tells whatever it was given, as a careless tool does.
            "leak" => {
                let auth = call.config.get("auth").cloned().unwrap_or_default();
                let seen = format!("{auth} {}", Json::from(call.input));
                return Outcome::ok(Json::object([("seen", Json::from(seen)), ("auth", auth)]));
            }
            "leak and fail" => {
                let auth = call.config.get("auth").cloned().unwrap_or_default();
                return Outcome::error(
                    TaskErrorKind::Connection,
                    format!("cannot log in with {auth}"),
                );
            }
            "fetch" => {
                let uri = "noetl://execution/7/result/a/1".into();
                let wanted = ResultRef { uri, sha256: None };
                return match platform.unwrap().fetch(wanted).await {
                    Ok(data) => Outcome::ok(data),
                    Err(error) => error.into(),
                };
            }
            other => return Outcome::ok(other.trim_start_matches("say ")),
        }
        Outcome::ok(call.idempotency_key)
    }

    async fn shutdown(&self) {}
}
