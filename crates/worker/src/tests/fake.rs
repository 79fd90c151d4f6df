//! Fake server and fake tools with configurable behaviour.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use noetl_api::catalog::CatalogResource;
use noetl_api::command::{
    CommandMeta, CommandReport, HeartbeatRequest, HeartbeatResponse, HeldLease, LeaseRenewal,
    LeaseRequest, LeaseResponse, LeasedCommand, ReportDisposition, ReportRequest, ReportResponse,
    ReportResult, ReportStatus,
};
use noetl_api::credential::{CredentialRequest, CredentialView};
use noetl_api::execute::{ExecuteRequest, ExecuteResponse};
use noetl_api::output::{CommandOutput, OutputRequest, OutputResponse, OutputResult};
use noetl_api::result::{ResultPutRequest, ResultPutResponse};
use noetl_api::runtime::{PoolHeartbeatResponse, RegisterWorkerRequest, RuntimeView, WorkerName};
use noetl_api::{ApiError, WorkerApi};
use noetl_playbook::model::ToolKind;
use noetl_tools::platform::{OutputStream, PlatformHandle, ResultRef};
use noetl_tools::{CancellationToken, ToolCall, ToolOutcome};
use noetl_types::{
    CatalogId, CommandId, ErrorCode, EventId, ExecutionId, Json, JsonMap, LeaseToken, Millis,
    PoolName, RuntimeId, Seq, TaskErrorKind, Timestamp, WorkerId, sha256,
};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::{ToolRunner, WorkerSettings};

const TEST_PLAYBOOK: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: example }
workload: { city: none }
keychain:
  - { name: api, kind: bearer, auth: api_main }
  - { name: db, kind: credential, auth: db_main, map: { user: db_user } }
  - { name: fixed, kind: static, token: open-9177, data: { user: grace-hopper } }
workflow:
  - { step: ok, tool: { kind: shell, command: ok } }
  - { step: nap, tool: { kind: shell, command: nap } }
  - { step: long, tool: { kind: shell, command: long } }
  - { step: hang, tool: { kind: shell, command: hang } }
  - { step: boom, tool: { kind: shell, command: boom } }
  - { step: flaky, tool: { kind: shell, command: flaky, spec: { policy: { rules: [{ when: '{{ output.error.retryable }}', then: { do: retry, attempts: 3, delay: 5 } }] } } } }
  - { step: twitchy, tool: { kind: shell, command: flaky, spec: { policy: { rules: [{ when: '{{ output.error.retryable }}', then: { do: retry, attempts: 3, delay: 0.1 } }] } } } }
  - { step: print, tool: { kind: shell, command: print, auth: api_main } }
  - { step: print_slowly, tool: { kind: shell, command: print slowly, auth: api_main } }
  - { step: print_and_time_out, tool: { kind: shell, command: print and time out, auth: api_main } }
  - { step: print_endlessly, tool: { kind: shell, command: print endlessly } }
  - { step: fetch, tool: { kind: shell, command: fetch } }
  - { step: leak, tool: { kind: shell, command: leak, auth: db_main, input: { t: '{{ keychain.api.token | upper }}', u: '{{ keychain.db.user }}' }, set: { ctx.t: '{{ keychain.api.token }}' } } }
  - { step: leak_and_fail, tool: { kind: shell, command: leak and fail, auth: db_main } }
  - { step: leak_sides, tool: { kind: transfer, source: { type: http, url: 'http://h', auth: api_main }, target: { type: postgres, table: t, auth: { source: credential, key: db_main } } } }
  - { step: leak_fixed, tool: { kind: shell, command: leak, input: { t: '{{ keychain.fixed.token }}', u: '{{ keychain.fixed.user }}' } } }
  - { step: leak_members, tool: { kind: duckdb, command: leak, auth: { api: api_main, pg: { source: credential, key: db_main } } } }
  - { step: reads, tool: { kind: shell, command: 'say {{ city }}' } }
";

pub(super) fn test_settings(concurrency: u32) -> WorkerSettings {
    let pool = PoolName::new("default").unwrap();
    WorkerSettings {
        max_concurrent: concurrency,
        clock: Arc::new(start_time),
        ..WorkerSettings::new(WorkerId::new("w1").unwrap(), pool)
    }
}

fn start_time() -> Timestamp {
    Timestamp::parse("2026-01-01T00:00:00Z").unwrap()
}

/// A command with the idempotency key `7:<id>`.
pub(super) fn leased_command(id: i64, step: &str) -> LeasedCommand {
    LeasedCommand {
        execution_id: ExecutionId::new(7).unwrap(),
        event_id: EventId::new(id).unwrap(),
        command_id: CommandId::new(id).unwrap(),
        attempt: 1,
        lease_token: LeaseToken::from_bytes([1; 16]),
        claimed_at: start_time(),
        lease_until: start_time().saturating_add(Millis::from_secs(30)),
        deadline_at: None,
        idempotency_key: format!("7:{id}").into(),
        node_id: step.parse().unwrap(),
        node_name: step.parse().unwrap(),
        action: "shell".into(),
        context: JsonMap::new(),
        meta: CommandMeta {
            catalog_id: CatalogId::new(5).unwrap(),
            seq: Seq::new(3).unwrap(),
            issued_at: start_time(),
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

/// Recorded calls and configured behaviour of the fake server.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each test sets them independently")]
pub(super) struct FakeServerState {
    queue: VecDeque<LeasedCommand>,
    /// Commands that only responses to reports return.
    pub(super) follow_up: VecDeque<LeasedCommand>,
    final_reports: Vec<CommandReport>,
    /// Output that arrived while commands ran.
    pub(super) output_requests: Vec<OutputRequest>,
    /// Output that arrived with reports.
    pub(super) last_outputs: Vec<CommandOutput>,
    /// Received progress reports.
    pub(super) progress_reports: Vec<CommandReport>,
    /// Number of progress reports that are recorded but whose response is lost.
    pub(super) progress_responses_to_lose: u32,
    /// Response to progress reports. `None` means accepted.
    pub(super) progress_verdict: Option<(ReportDisposition, Option<ErrorCode>)>,
    pub(super) registrations: u32,
    pub(super) deregistrations: u32,
    pub(super) heartbeats: u32,
    pub(super) definition_fetches: u32,
    pub(super) payload_fetches: u32,
    pub(super) polls_with_work: u32,
    pub(super) report_batches: Vec<usize>,
    /// Number of commands that each report requested.
    pub(super) requested_with_reports: Vec<Option<u32>>,
    reports_in_flight: u32,
    pub(super) peak_reports: u32,
    /// Commands that the worker runs or has requested.
    outstanding: u32,
    pub(super) peak_outstanding: u32,
    pub(super) failed_calls: u32,

    pub(super) is_unreachable: bool,
    pub(super) is_forbidden: bool,
    /// True if the worker has registered.
    pub(super) is_registered: bool,
    pub(super) requests_drain: bool,
    /// Returns more commands than requested.
    pub(super) ignores_requested_max: bool,
    /// Returns no results for reports.
    pub(super) omits_report_results: bool,
    pub(super) report_delay: Duration,
    pub(super) heartbeat_delay: Duration,
    pub(super) cancelled_commands: BTreeSet<i64>,
    pub(super) lost_leases: BTreeSet<i64>,
    /// Requests to hold the response until a lease is lost.
    pub(super) watches: u32,
    /// Time that a worker is stalled when leased commands arrive.
    pub(super) stall: Duration,
    pub(super) too_large_results: BTreeSet<i64>,
    pub(super) verdicts: BTreeMap<i64, (ReportDisposition, Option<ErrorCode>)>,
    pub(super) payloads: BTreeMap<String, Json>,
    pub(super) credentials: BTreeMap<String, CredentialView>,
    pub(super) credential_requests: Vec<CredentialRequest>,
    /// Stored results with their idempotency keys.
    pub(super) stored_results: Vec<(ResultPutRequest, String)>,
    pub(super) started_executions: Vec<(ExecuteRequest, String)>,
    /// Error of calls that store results or start executions.
    pub(super) platform_error: Option<ErrorCode>,
}

impl FakeServerState {
    fn is_lost(&self, lease: &HeldLease) -> bool {
        let id = lease.command_id.get();
        self.lost_leases.contains(&id) || self.cancelled_commands.contains(&id)
    }

    fn check_reachable(&mut self) -> Result<(), ApiError> {
        if self.is_unreachable {
            self.failed_calls += 1;
            return Err(ApiError::Unreachable("server is down".into()));
        }
        Ok(())
    }

    fn check_platform_call(&mut self) -> Result<(), ApiError> {
        self.check_reachable()?;
        match self.platform_error {
            Some(code) => Err(ApiError::refused(code, "no")),
            None => Ok(()),
        }
    }

    fn add_outstanding(&mut self, commands: u32) {
        self.outstanding += commands;
        self.peak_outstanding = self.peak_outstanding.max(self.outstanding);
    }

    fn take_commands(&mut self, max: u32) -> Vec<LeasedCommand> {
        let max = if self.ignores_requested_max { usize::MAX } else { max as usize };
        let count = max.min(self.queue.len());
        self.queue.drain(..count).collect()
    }

    /// Records progress reports.
    fn record_progress(&mut self, reports: Vec<CommandReport>) -> Result<ReportResponse, ApiError> {
        self.check_reachable()?;
        let (status, code) = self.progress_verdict.unwrap_or((ReportDisposition::Accepted, None));
        let results = reports.iter().map(|report| ReportResult {
            command_id: report.command_id,
            status,
            seq: None,
            code,
            detail: None,
        });
        let results = results.collect();
        self.progress_reports.extend(reports);
        if self.progress_responses_to_lose > 0 {
            self.progress_responses_to_lose -= 1;
            return Err(ApiError::Unreachable("connection lost".into()));
        }
        Ok(ReportResponse { results, commands: Vec::new() })
    }

    fn report_result(&mut self, report: &CommandReport) -> ReportResult {
        let id = report.command_id.get();
        let verdict = self.verdicts.remove(&id);
        let (status, code) = verdict.unwrap_or((ReportDisposition::Accepted, None));
        ReportResult { command_id: report.command_id, status, seq: None, code, detail: None }
    }
}

#[derive(Default)]
pub(super) struct FakeServer {
    state: Mutex<FakeServerState>,
    work: Notify,
}

impl FakeServer {
    pub(super) fn with_state<T>(&self, access: impl FnOnce(&mut FakeServerState) -> T) -> T {
        access(&mut self.state.lock().unwrap())
    }

    pub(super) fn enqueue(&self, commands: impl IntoIterator<Item = LeasedCommand>) {
        self.with_state(|state| state.queue.extend(commands));
        self.work.notify_one();
    }

    /// Received final reports in order.
    pub(super) fn final_reports(&self) -> Vec<CommandReport> {
        self.with_state(|state| state.final_reports.clone())
    }

    pub(super) fn reported_ids(&self) -> Vec<i64> {
        let reports = self.final_reports();
        reports.iter().map(|report| report.command_id.get()).collect()
    }
}

#[async_trait]
impl WorkerApi for FakeServer {
    async fn register_worker(
        &self,
        worker: RegisterWorkerRequest,
    ) -> Result<RuntimeView, ApiError> {
        self.with_state(|state| {
            state.check_reachable()?;
            if state.is_forbidden {
                return Err(ApiError::refused(ErrorCode::Forbidden, "no"));
            }
            state.registrations += 1;
            state.is_registered = true;
            Ok(RuntimeView {
                runtime_id: RuntimeId::new(1).unwrap(),
                name: worker.name,
                kind: "worker_pool".into(),
                uri: None,
                status: "active".into(),
                labels: Json::from(worker.labels),
                capacity: worker.capacity,
                heartbeat: start_time(),
                created_at: start_time(),
            })
        })
    }

    async fn pool_heartbeat(&self, _: WorkerName) -> Result<PoolHeartbeatResponse, ApiError> {
        self.with_state(|state| {
            state.check_reachable()?;
            if !state.is_registered {
                return Err(ApiError::refused(ErrorCode::NotFound, "worker is not registered"));
            }
            Ok(PoolHeartbeatResponse {
                drain: state.requests_drain,
                ..PoolHeartbeatResponse::default()
            })
        })
    }

    async fn deregister_worker(&self, _: WorkerName) -> Result<(), ApiError> {
        self.with_state(|state| state.deregistrations += 1);
        Ok(())
    }

    async fn lease_commands(&self, request: LeaseRequest) -> Result<LeaseResponse, ApiError> {
        let max = request.max.get();
        self.with_state(|state| {
            state.check_reachable()?;
            state.add_outstanding(max);
            Ok::<_, ApiError>(())
        })?;
        let wait = async {
            loop {
                let commands = self.with_state(|state| state.take_commands(max));
                if !commands.is_empty() {
                    return commands;
                }
                self.work.notified().await;
            }
        };
        let received = Instant::now();
        let commands = timeout(Duration::from_millis(request.wait_ms), wait).await;
        let waited_ms = Millis::from(received.elapsed()).as_ms();
        let commands = commands.unwrap_or_default();
        self.with_state(|state| {
            state.polls_with_work += u32::from(!commands.is_empty());
            let count = u32::try_from(commands.len()).unwrap();
            state.outstanding -= max.saturating_sub(count);
        });
        sleep(self.with_state(|state| state.stall)).await;
        Ok(LeaseResponse { commands, poll_after_ms: 0, waited_ms })
    }

    async fn renew_leases(&self, request: HeartbeatRequest) -> Result<HeartbeatResponse, ApiError> {
        let delay = self.with_state(|state| {
            state.check_reachable()?;
            let is_watch = request.wait_ms > 0;
            state.heartbeats += u32::from(!is_watch);
            state.watches += u32::from(is_watch);
            Ok::<_, ApiError>(state.heartbeat_delay)
        })?;
        sleep(delay).await;
        let wait_until = Instant::now() + Duration::from_millis(request.wait_ms);
        while Instant::now() < wait_until
            && !self.with_state(|state| request.leases.iter().any(|lease| state.is_lost(lease)))
        {
            sleep(Duration::from_millis(100)).await;
        }
        self.with_state(|state| {
            let leases = request.leases.iter().map(|lease| {
                let id = lease.command_id.get();
                LeaseRenewal {
                    command_id: lease.command_id,
                    ok: !state.lost_leases.contains(&id),
                    lease_until: None,
                    cancel: state.cancelled_commands.contains(&id).then_some(true),
                    code: None,
                }
            });
            Ok(HeartbeatResponse { leases: leases.collect() })
        })
    }

    async fn report_commands(&self, request: ReportRequest) -> Result<ReportResponse, ApiError> {
        let is_progress = |report: &CommandReport| report.status == ReportStatus::Progress;
        if request.reports.iter().all(is_progress) {
            return self.with_state(|state| state.record_progress(request.reports));
        }
        let delay = self.with_state(|state| {
            state.check_reachable()?;
            state.reports_in_flight += 1;
            state.peak_reports = state.peak_reports.max(state.reports_in_flight);
            Ok::<_, ApiError>(state.report_delay)
        })?;
        sleep(delay).await;
        let requested = request.lease.map(|lease| lease.max.get());
        self.with_state(|state| {
            state.reports_in_flight -= 1;
            let is_too_large = |report: &CommandReport| {
                report.result.is_some()
                    && state.too_large_results.contains(&report.command_id.get())
            };
            if request.reports.iter().any(is_too_large) {
                return Err(ApiError::refused(ErrorCode::TooLarge, "too much"));
            }
            state.requested_with_reports.push(requested);
            state.report_batches.push(request.reports.len());
            let results = request.reports.iter().map(|report| state.report_result(report));
            let results: Vec<ReportResult> = results.collect();
            // A report that will be retried keeps its permit.
            let is_retried = |code: Option<ErrorCode>| code.is_some_and(ErrorCode::is_retryable);
            let finished = results.iter().filter(|result| !is_retried(result.code));
            let requested =
                requested.map(|requested| requested.min(u32::try_from(finished.count()).unwrap()));
            state.outstanding =
                state.outstanding.saturating_sub(u32::try_from(results.len()).unwrap());
            state.last_outputs.extend(request.outputs);
            state.final_reports.extend(request.reports);
            let count = state.follow_up.len().min(requested.unwrap_or_default() as usize);
            let mut commands: Vec<_> = state.follow_up.drain(..count).collect();
            if commands.is_empty() && !state.omits_report_results {
                commands = state.take_commands(requested.unwrap_or_default());
            }
            state.add_outstanding(u32::try_from(commands.len()).unwrap());
            Ok(ReportResponse {
                results: if state.omits_report_results { Vec::new() } else { results },
                commands,
            })
        })
    }

    async fn send_output(&self, request: OutputRequest) -> Result<OutputResponse, ApiError> {
        self.with_state(|state| {
            state.check_reachable()?;
            let result = |output: &CommandOutput| OutputResult {
                command_id: output.command_id,
                ok: true,
                code: None,
            };
            let results = request.outputs.iter().map(result).collect();
            state.output_requests.push(request);
            Ok(OutputResponse { results })
        })
    }

    async fn fetch_definition(&self, catalog_id: CatalogId) -> Result<CatalogResource, ApiError> {
        self.with_state(|state| state.definition_fetches += 1);
        // Long enough for all commands to request it at the same time.
        sleep(Duration::from_secs(1)).await;
        Ok(CatalogResource {
            catalog_id,
            path: "example".parse().unwrap(),
            kind: "playbook".into(),
            version: 1,
            content: TEST_PLAYBOOK.into(),
            sha256: sha256(TEST_PLAYBOOK).to_string().into(),
            created_at: start_time(),
        })
    }

    async fn resolve_result(&self, reference: &str) -> Result<Json, ApiError> {
        self.with_state(|state| {
            state.check_reachable()?;
            state.payload_fetches += 1;
            let payload = state.payloads.get(reference).cloned();
            payload.ok_or_else(|| ApiError::refused(ErrorCode::NotFound, "no such payload"))
        })
    }

    async fn put_result(
        &self,
        execution_id: ExecutionId,
        result: ResultPutRequest,
        key: &str,
    ) -> Result<ResultPutResponse, ApiError> {
        self.with_state(|state| {
            state.check_platform_call()?;
            let bytes = noetl_types::json::to_canonical(&result.data);
            let stored = ResultPutResponse {
                reference: format!("noetl://execution/{execution_id}/result/{}/1", result.name)
                    .into(),
                store: "kv".into(),
                scope: result.scope.clone(),
                bytes: bytes.len() as u64,
                sha256: sha256(&bytes).to_string().into(),
                expires_at: None,
            };
            state.stored_results.push((result, key.to_owned()));
            Ok(stored)
        })
    }

    async fn fetch_credential(
        &self,
        request: CredentialRequest,
    ) -> Result<CredentialView, ApiError> {
        self.with_state(|state| {
            state.check_reachable()?;
            state.credential_requests.push(request.clone());
            let credential = state.credentials.get(&*request.name).cloned();
            credential.ok_or_else(|| ApiError::refused(ErrorCode::NotFound, "no such credential"))
        })
    }

    async fn start_execution(
        &self,
        request: ExecuteRequest,
        key: &str,
    ) -> Result<ExecuteResponse, ApiError> {
        self.with_state(|state| {
            state.check_platform_call()?;
            let path = request.path.clone();
            state.started_executions.push((request, key.to_owned()));
            Ok(ExecuteResponse {
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

/// Tools that behave as the command requests.
#[derive(Default)]
pub(super) struct FakeTools {
    running_count: Arc<AtomicUsize>,
    peak_count: AtomicUsize,
}

/// Counts a call as running until it ends or is dropped.
struct RunningCall(Arc<AtomicUsize>);

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FakeTools {
    pub(super) fn running_count(&self) -> usize {
        self.running_count.load(Ordering::SeqCst)
    }

    pub(super) fn peak_count(&self) -> usize {
        self.peak_count.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl ToolRunner for FakeTools {
    fn kinds(&self) -> &[ToolKind] {
        &[ToolKind::Shell]
    }

    async fn call(
        &self,
        platform: PlatformHandle,
        call: ToolCall,
        cancel: CancellationToken,
    ) -> ToolOutcome {
        let before = self.running_count.fetch_add(1, Ordering::SeqCst);
        self.peak_count.fetch_max(before + 1, Ordering::SeqCst);
        let _running_call = RunningCall(Arc::clone(&self.running_count));
        if call.kind == ToolKind::Transfer {
            let end_config = |name| call.config.get(name).cloned().unwrap_or_default();
            let ends = ["source", "target"].map(|name| (name, end_config(name)));
            return ToolOutcome::ok(Json::object(ends));
        }
        let command = call.config.get("command").and_then(Json::as_str).unwrap();
        match command {
            "nap" => sleep(Duration::from_millis(10)).await,
            "long" => sleep(Duration::from_mins(1)).await,
            "hang" => cancel.cancelled().await,
            "boom" => panic!("tools must not panic"),
            "flaky" if call.attempt < 3 => {
                return ToolOutcome::error(TaskErrorKind::Connection, "no connection");
            }
            "print" | "print slowly" | "print and time out" => {
                let platform = platform.unwrap();
                platform.write_output(OutputStream::Stdout, b"key: sesame-");
                platform.write_output(OutputStream::Stderr, b"to stderr\n");
                if command != "print" {
                    let is_slow = command == "print slowly";
                    sleep(Duration::from_millis(if is_slow { 3000 } else { 100 })).await;
                }
                platform.write_output(OutputStream::Stdout, b"opens-42\n");
                if command == "print and time out" {
                    return ToolOutcome::error(TaskErrorKind::Timeout, "too slow");
                }
            }
            "print endlessly" => {
                let platform = platform.unwrap();
                for _ in 0..200 {
                    for _ in 0..100 {
                        platform
                            .write_output(OutputStream::Stdout, &b"0123456789abcde\n".repeat(1024));
                    }
                    sleep(Duration::from_millis(100)).await;
                }
            }
            "ok" | "flaky" => {}
            // Returns everything it received, like a careless tool.
            "leak" => {
                let auth = call.config.get("auth").cloned().unwrap_or_default();
                let received = format!("{auth} {}", Json::from(call.input));
                return ToolOutcome::ok(Json::object([
                    ("seen", Json::from(received)),
                    ("auth", auth),
                ]));
            }
            "leak and fail" => {
                let auth = call.config.get("auth").cloned().unwrap_or_default();
                return ToolOutcome::error(
                    TaskErrorKind::Connection,
                    format!("cannot log in with {auth}"),
                );
            }
            "fetch" => {
                let uri = "noetl://execution/7/result/a/1".into();
                let reference = ResultRef { uri, sha256: None };
                return match platform.unwrap().fetch_result(reference).await {
                    Ok(data) => ToolOutcome::ok(data),
                    Err(error) => error.into(),
                };
            }
            other => return ToolOutcome::ok(other.trim_start_matches("say ")),
        }
        ToolOutcome::ok(call.idempotency_key)
    }

    async fn shutdown(&self) {}
}
