//! Waits of an execution: open work in its fold, with details from the queue.

use std::collections::BTreeMap;

use noetl_api::explain::{MAX_LISTED_HOLDERS, WaitCondition, WaitConditionKind};
use noetl_engine::{
    DecisionContext, EmptyCache, ExecutionState, ReportedRetries, SlotHolder, SlotRequest,
    requested_slots,
};
use noetl_playbook::command_context::EmptyPayloads;
use noetl_store::{Command, CommandFilter, Execution, RuntimeKind, Slot, SlotSelector, SlotState};
use noetl_types::id::HighWaterMark;
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, CommandStatus, IdGenerator, Json, MachineId, PoolName, Text, Timestamp,
};

use super::suspended;
use crate::access::CallContext;
use crate::error::Result;
use crate::services::Queries;
use crate::services::catalog::Definition;
use crate::services::follow_ups::slots::slot_key;
use crate::services::workers::own_worker_name;

/// Maximum commands of an execution that are examined.
const MAX_EXAMINED_COMMANDS: usize = 5_000;

impl Queries {
    /// Returns the waits of an execution, the most blocking kinds first.
    pub(crate) async fn waiting_on(
        &self,
        ctx: &CallContext,
        row: &Execution,
        definition: &Definition,
        state: &ExecutionState,
    ) -> Result<Vec<WaitCondition>> {
        let mut list = pause_wait(state);
        let pools = self.load_pool_facts(ctx).await?;
        let rows = self.open_queue_commands(ctx, row).await?;
        for (id, command) in state.commands() {
            let step = Text::from(definition.plan.step(command.step).name.as_str());
            let wait = match command.suspended_task() {
                Some(task) => Some((suspended::suspended_task_wait(task), String::new())),
                None if command.is_on_server => {
                    let detail = "is about to run on the server";
                    Some((new_wait(WaitConditionKind::Command, None, detail), String::new()))
                }
                None => rows.get(&id).and_then(|row| {
                    self.queued_command_wait(ctx, row, command.reported_retries(), &pools)
                }),
            };
            if let Some((wait, key)) = wait {
                let step = Some(step);
                list.add_wait(&key, WaitCondition { step, ..wait });
            }
        }
        add_join_waits(definition, state, &mut list);
        for request in self.waiting_slots(definition, state) {
            let wait = self.slot_wait(row, request).await?;
            list.add_wait("", wait);
        }
        Ok(list.into_sorted_waits())
    }

    /// Returns the open commands of an execution in the queue.
    async fn open_queue_commands(
        &self,
        ctx: &CallContext,
        row: &Execution,
    ) -> Result<BTreeMap<CommandId, Command>> {
        let mut filter = CommandFilter::open_in_execution(ctx.tenant().clone(), row.execution_id);
        let mut open = BTreeMap::new();
        loop {
            let page = self.infra.store().list_commands(filter.clone()).await?;
            let commands = page.commands.into_iter();
            open.extend(commands.map(|command| (command.command_id, command)));
            filter.after = match page.next {
                Some(next) if open.len() < MAX_EXAMINED_COMMANDS => Some(next),
                _ => return Ok(open),
            };
        }
    }

    /// Returns the wait of a queued command and a grouping key. Returns `None` if the command waits
    /// because the execution is paused, which is reported once.
    fn queued_command_wait(
        &self,
        ctx: &CallContext,
        command: &Command,
        retries: Option<&ReportedRetries>,
        pools: &PoolFacts,
    ) -> Option<(WaitCondition, String)> {
        let now = self.infra.now();
        let since = Some(command.command_id.time());
        if command.status.is_leased() {
            return Some(leased_command_wait(command, retries, now));
        }
        if command.held || command.status != CommandStatus::Pending {
            return None;
        }
        if let Some(until) = command.not_before.filter(|until| *until > now) {
            let next = command.attempt.saturating_add(1);
            let detail = format!("waits for attempt {next} of {}", command.max_attempts.get());
            let wait = WaitCondition {
                until: Some(until),
                since,
                ..new_wait(WaitConditionKind::Retry, None, &detail)
            };
            return Some((wait, command.attempt.to_string()));
        }
        // Facts about queues of other tenants are not available here.
        let pool = command.pool.pool_for_tenant(ctx.tenant());
        let detail = pools.describe_pool(pool.as_ref().unwrap_or(&command.pool));
        let wait = WaitCondition { since, ..new_wait(WaitConditionKind::Pool, None, &detail) };
        Some((wait, command.pool.to_string()))
    }

    /// Returns the workers and the load of each pool of the tenant.
    async fn load_pool_facts(&self, ctx: &CallContext) -> Result<PoolFacts> {
        let mut facts = PoolFacts::default();
        for worker in self.infra.store().list_runtimes(RuntimeKind::WorkerPool).await? {
            if own_worker_name(ctx.tenant(), &worker.name).is_none() {
                continue;
            }
            let silence = self.infra.now().duration_since(worker.heartbeat);
            let detail = worker.detail.unwrap_or_default();
            let labels = detail.get("labels");
            let pool = labels.and_then(|labels| labels.get("pool_name")?.as_str());
            let pool = pool.unwrap_or(PoolName::shared().as_str()).to_owned();
            let pool = facts.pools.entry(pool).or_default();
            if silence > self.infra.settings.worker_offline_after {
                pool.offline += 1;
                continue;
            }
            pool.active += 1;
            pool.capacity += detail.get("capacity").and_then(Json::as_u64).unwrap_or(0);
        }
        for count in self.infra.store().pool_counts().await? {
            let Some(pool) = count.pool.pool_for_tenant(ctx.tenant()) else {
                continue;
            };
            let pool = facts.pools.entry(pool.to_string()).or_default();
            pool.in_flight = count.leased;
            pool.pending = count.pending;
        }
        Ok(facts)
    }

    /// Returns the slots that an execution waits for. Slots whose keys require a fetch are omitted.
    fn waiting_slots(&self, definition: &Definition, state: &ExecutionState) -> Vec<SlotRequest> {
        if !definition.plan.uses_slots() || state.is_ended() {
            return Vec::new();
        }
        // The decisions made here are discarded, and so are the ids they use.
        let mut ids = IdGenerator::new(MachineId::MIN, HighWaterMark::NONE);
        let mut context = DecisionContext {
            now: self.infra.now(),
            ids: &mut ids,
            payloads: &EmptyPayloads,
            caches: &EmptyCache,
        };
        requested_slots(state, &definition.plan, &mut context).unwrap_or_default()
    }

    async fn slot_wait(&self, row: &Execution, request: SlotRequest) -> Result<WaitCondition> {
        let selector = SlotSelector::Key {
            tenant_id: row.facts.tenant_id.clone(),
            key: slot_key(&request.slot.key),
        };
        let slots = self.infra.store().list_slots(selector, PageLimit::MAX).await?;
        let is_held = |slot: &&Slot| matches!(slot.state, SlotState::Held { .. });
        let mut holders: Vec<Text> = slots
            .iter()
            .filter(is_held)
            .map(|slot| Text::from(slot.id.execution_id.to_string()))
            .collect();
        holders.dedup();
        holders.truncate(MAX_LISTED_HOLDERS);
        let (key, limit) = (&request.slot.key, request.slot.limit);
        let detail = format!("waits for one of {limit} slots of `{key}`");
        let step = match request.holder {
            SlotHolder::Execution => None,
            SlotHolder::Step { step, .. } => Some(Text::from(step.as_str())),
        };
        let detail = if step.is_none() { format!("the run {detail}") } else { detail };
        Ok(WaitCondition {
            since: Some(request.since),
            holders,
            ..new_wait(WaitConditionKind::Limit, step, &detail)
        })
    }
}

/// Returns the waits at an earlier position, as far as the log contains them. The lease holders of
/// that time are not recorded.
pub(crate) fn past_waits(definition: &Definition, state: &ExecutionState) -> Vec<WaitCondition> {
    let mut list = pause_wait(state);
    for (_, command) in state.commands() {
        let step = Text::from(definition.plan.step(command.step).name.as_str());
        let wait = match command.suspended_task() {
            Some(task) => suspended::suspended_task_wait(task),
            None => new_wait(WaitConditionKind::Command, None, "was issued and had not ended"),
        };
        let step = Some(step);
        list.add_wait("", WaitCondition { step, ..wait });
    }
    add_join_waits(definition, state, &mut list);
    list.into_sorted_waits()
}

fn pause_wait(state: &ExecutionState) -> WaitList {
    let mut list = WaitList::default();
    if state.is_paused() {
        let detail = "the run is paused; no command is leased until it is resumed";
        list.add_wait("", new_wait(WaitConditionKind::Paused, None, detail));
    }
    list
}

fn new_wait(kind: WaitConditionKind, step: Option<Text>, detail: &str) -> WaitCondition {
    WaitCondition {
        kind,
        step,
        count: 1,
        detail: Text::from_lossy(detail),
        since: None,
        until: None,
        holders: Vec::new(),
    }
}

/// Returns the wait of a leased command: for its worker, or for the next attempt of its task.
fn leased_command_wait(
    command: &Command,
    retries: Option<&ReportedRetries>,
    now: Timestamp,
) -> (WaitCondition, String) {
    let attempt = command.attempt;
    let max_attempts = command.max_attempts.get();
    let until = command.lease.map(|lease| lease.until);
    let is_lost = until.is_some_and(|until| until < now);
    let holders = command.worker.as_ref().map(Text::from);
    let holders = holders.into_iter().collect();
    if let Some(retries) = retries.filter(|retries| !is_lost && retries.next_at > now) {
        let detail = format!("failed and waits for attempt {}", retries.next);
        let wait = WaitCondition {
            since: Some(retries.failed_at),
            until: Some(retries.next_at),
            holders,
            ..new_wait(WaitConditionKind::Retry, None, &detail)
        };
        return (wait, detail);
    }
    let mut detail = if is_lost {
        format!(
            "was lost by its worker in attempt {attempt} of {max_attempts} and will be leased again"
        )
    } else if attempt > 1 {
        format!("is running, attempt {attempt} of {max_attempts}")
    } else {
        "is running".to_owned()
    };
    if let Some(retries) = retries.filter(|_| !is_lost) {
        let attempts = if retries.count == 1 { "attempt" } else { "attempts" };
        detail.push_str(&format!(", after {} failed {attempts}", retries.count));
    }
    let wait = WaitCondition {
        since: command.claimed_at,
        until,
        holders,
        ..new_wait(WaitConditionKind::Lease, None, &detail)
    };
    (wait, detail)
}

/// Adds the steps that wait for other steps which may still lead to them.
fn add_join_waits(definition: &Definition, state: &ExecutionState, list: &mut WaitList) {
    let plan = &definition.plan;
    for (step, waiting) in state.waiting_steps() {
        let blockers: Vec<Text> = state
            .blocking_steps(plan, step)
            .map(|other| Text::from(plan.step(other).name.as_str()))
            .collect();
        if blockers.is_empty() {
            continue;
        }
        let names: Vec<String> =
            blockers.iter().take(MAX_LISTED_HOLDERS).map(|name| format!("`{name}`")).collect();
        let detail = format!("waits for {}, which may still lead to it", names.join(", "));
        let step = Text::from(plan.step(step).name.as_str());
        let wait = WaitCondition {
            since: Some(waiting.since),
            holders: blockers.into_iter().take(MAX_LISTED_HOLDERS).collect(),
            ..new_wait(WaitConditionKind::Join, Some(step), &detail)
        };
        list.add_wait("", wait);
    }
}

/// Waits found so far. Equal waits are counted, because a loop may have thousands of them.
#[derive(Default)]
struct WaitList {
    by_key: BTreeMap<(WaitConditionKind, Option<Text>, String), WaitCondition>,
}

impl WaitList {
    fn add_wait(&mut self, key: &str, wait: WaitCondition) {
        let key = match wait.kind {
            // These kinds are always listed separately.
            WaitConditionKind::Child | WaitConditionKind::Signal | WaitConditionKind::Approval => {
                wait.detail.to_string()
            }
            _ => key.to_owned(),
        };
        let key = (wait.kind, wait.step.clone(), key);
        let Some(existing) = self.by_key.get_mut(&key) else {
            self.by_key.insert(key, wait);
            return;
        };
        existing.count += 1;
        existing.since = earliest_time(existing.since, wait.since);
        existing.until = earliest_time(existing.until, wait.until);
        for holder in wait.holders {
            if existing.holders.len() < MAX_LISTED_HOLDERS && !existing.holders.contains(&holder) {
                existing.holders.push(holder);
            }
        }
    }

    fn into_sorted_waits(self) -> Vec<WaitCondition> {
        let mut waits: Vec<WaitCondition> = self.by_key.into_values().collect();
        waits.sort_by_key(|wait| (wait.kind, wait.since));
        waits
    }
}

fn earliest_time(left: Option<Timestamp>, right: Option<Timestamp>) -> Option<Timestamp> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.min(right)),
        (one, other) => one.or(other),
    }
}

/// Workers and load of each pool.
#[derive(Debug, Default)]
struct PoolFacts {
    pools: BTreeMap<String, PoolFact>,
}

#[derive(Debug, Default)]
struct PoolFact {
    active: u64,
    offline: u64,
    capacity: u64,
    in_flight: u64,
    pending: u64,
}

impl PoolFacts {
    fn describe_pool(&self, pool: &PoolName) -> String {
        let empty = PoolFact::default();
        let fact = self.pools.get(pool.as_str()).unwrap_or(&empty);
        let text = format!("waits for a worker of pool `{pool}`");
        match (fact.active, fact.offline) {
            (0, 0) => format!("{text}, which has none"),
            (0, offline) => format!("{text}, which has only {offline} offline"),
            (active, _) if fact.capacity > 0 && fact.in_flight >= fact.capacity => format!(
                "{text}, whose {active} are busy with {} commands, {} in the queue",
                fact.in_flight, fact.pending
            ),
            (active, _) => format!("{text}, which has {active}"),
        }
    }
}
