//! What an execution waits for: what is open in its fold, and what the queue knows of it.

use std::collections::BTreeMap;

use noetl_api::explain::{MAX_HOLDERS, WaitingKind, WaitingOn};
use noetl_engine::{Moment, NoCaches, Retries, SlotHolder, SlotWant, State, wanted_slots};
use noetl_playbook::carried::NoPayloads;
use noetl_store::{Command, CommandFilter, Execution, RuntimeKind, Slot, SlotChoice, SlotState};
use noetl_types::id::HighWater;
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, CommandStatus, IdGenerator, Json, MachineId, PoolName, Text, Timestamp,
};

use super::parked;
use crate::runtime::{Definition, Runtime, RuntimeError, slot_key};

/// Commands of an execution that are looked at.
const MAX_COMMANDS: usize = 5_000;

impl Runtime {
    /// What an execution waits for, what hinders it most first.
    pub(super) async fn waiting_on(
        &self,
        row: &Execution,
        definition: &Definition,
        state: &State,
    ) -> Result<Vec<WaitingOn>, RuntimeError> {
        let mut found = paused(state);
        let pools = self.pool_facts().await?;
        let rows = self.open_commands(row).await?;
        for (id, command) in state.commands() {
            let step = Text::from(definition.plan.step(command.step).name.as_str());
            let waits = match command.parked() {
                Some(parked) => Some((parked::told(parked), String::new())),
                None if command.is_on_server => {
                    let detail = "is about to be carried out by the server";
                    Some((entry(WaitingKind::Command, None, detail), String::new()))
                }
                None => rows
                    .get(&id)
                    .and_then(|row| self.in_queue(row, command.retries(), &pools)),
            };
            if let Some((waits, key)) = waits {
                let step = Some(step);
                found.add(&key, WaitingOn { step, ..waits });
            }
        }
        joins(definition, state, &mut found);
        for want in self.slots_wanted(definition, state) {
            let waits = self.slot(row, want).await?;
            found.add("", waits);
        }
        Ok(found.in_order())
    }

    /// The open commands of an execution, as the queue has them.
    async fn open_commands(
        &self,
        row: &Execution,
    ) -> Result<BTreeMap<CommandId, Command>, RuntimeError> {
        let mut filter = CommandFilter::open_of(self.tenant().clone(), row.execution_id);
        let mut open = BTreeMap::new();
        loop {
            let page = self.store().commands(filter.clone()).await?;
            let commands = page.commands.into_iter();
            open.extend(commands.map(|command| (command.command_id, command)));
            filter.after = match page.next {
                Some(next) if open.len() < MAX_COMMANDS => Some(next),
                _ => return Ok(open),
            };
        }
    }

    /// What a command in the queue waits for, with what it has in common with others; nothing where
    /// it waits because the execution is paused, which is told once.
    fn in_queue(
        &self,
        command: &Command,
        retries: Option<&Retries>,
        pools: &PoolFacts,
    ) -> Option<(WaitingOn, String)> {
        let now = self.now();
        let since = Some(command.command_id.time());
        if command.status.is_leased() {
            return Some(leased(command, retries, now));
        }
        if command.held || command.status != CommandStatus::Pending {
            return None;
        }
        if let Some(until) = command.not_before.filter(|until| *until > now) {
            let next = command.attempt.saturating_add(1);
            let detail = format!("waits for attempt {next} of {}", command.max_attempts.get());
            let waits = WaitingOn {
                until: Some(until),
                since,
                ..entry(WaitingKind::Retry, None, &detail)
            };
            return Some((waits, command.attempt.to_string()));
        }
        // Of another tenant's queue nothing is known here.
        let pool = command.pool.of_tenant(self.tenant());
        let detail = pools.told(pool.as_ref().unwrap_or(&command.pool));
        let waits = WaitingOn {
            since,
            ..entry(WaitingKind::Pool, None, &detail)
        };
        Some((waits, command.pool.to_string()))
    }

    /// Who works for each pool of the tenant, and how busy they are.
    async fn pool_facts(&self) -> Result<PoolFacts, RuntimeError> {
        let mut facts = PoolFacts::default();
        for worker in self.store().runtimes(RuntimeKind::WorkerPool).await? {
            if self.own_name(&worker.name).is_none() {
                continue;
            }
            let silence = self.now().since(worker.heartbeat);
            let detail = worker.detail.unwrap_or_default();
            let labels = detail.get("labels");
            let pool = labels.and_then(|labels| labels.get("pool_name")?.as_str());
            let pool = pool.unwrap_or(PoolName::shared().as_str()).to_owned();
            let pool = facts.pools.entry(pool).or_default();
            if silence > self.settings().worker_offline {
                pool.offline += 1;
                continue;
            }
            pool.active += 1;
            pool.capacity += detail.get("capacity").and_then(Json::as_u64).unwrap_or(0);
        }
        for count in self.store().pool_counts().await? {
            let Some(pool) = count.pool.of_tenant(self.tenant()) else {
                continue;
            };
            let pool = facts.pools.entry(pool.to_string()).or_default();
            pool.in_flight = count.leased;
            pool.pending = count.pending;
        }
        Ok(facts)
    }

    /// The slots that an execution waits for. What would have to be fetched first is not known.
    fn slots_wanted(&self, definition: &Definition, state: &State) -> Vec<SlotWant> {
        if !definition.plan.uses_slots() || state.is_ended() {
            return Vec::new();
        }
        // Whatever is decided here is thrown away, and so are the ids that it takes.
        let mut ids = IdGenerator::new(MachineId::MIN, HighWater::NONE);
        let mut moment = Moment {
            now: self.now(),
            ids: &mut ids,
            payloads: &NoPayloads,
            caches: &NoCaches,
        };
        wanted_slots(state, &definition.plan, &mut moment).unwrap_or_default()
    }

    async fn slot(&self, row: &Execution, want: SlotWant) -> Result<WaitingOn, RuntimeError> {
        let choice = SlotChoice::Key {
            tenant_id: row.facts.tenant_id.clone(),
            key: slot_key(&want.slot.key),
        };
        let slots = self.store().slots(choice, PageLimit::MAX).await?;
        let held = |slot: &&Slot| matches!(slot.state, SlotState::Held { .. });
        let mut holders: Vec<Text> = slots
            .iter()
            .filter(held)
            .map(|slot| Text::from(slot.id.execution_id.to_string()))
            .collect();
        holders.dedup();
        holders.truncate(MAX_HOLDERS);
        let (key, limit) = (&want.slot.key, want.slot.limit);
        let detail = format!("waits for one of {limit} slots of `{key}`");
        let step = match want.holder {
            SlotHolder::Run => None,
            SlotHolder::Step { step, .. } => Some(Text::from(step.as_str())),
        };
        let detail = if step.is_none() {
            format!("the run {detail}")
        } else {
            detail
        };
        Ok(WaitingOn {
            since: Some(want.since),
            holders,
            ..entry(WaitingKind::Limit, step, &detail)
        })
    }
}

/// What an execution waited for at a moment that is over, as far as its log tells: who had a command
/// then is known to nobody any more.
pub(super) fn then(definition: &Definition, state: &State) -> Vec<WaitingOn> {
    let mut found = paused(state);
    for (_, command) in state.commands() {
        let step = Text::from(definition.plan.step(command.step).name.as_str());
        let waits = match command.parked() {
            Some(parked) => parked::told(parked),
            None => entry(WaitingKind::Command, None, "was issued and not done yet"),
        };
        let step = Some(step);
        found.add("", WaitingOn { step, ..waits });
    }
    joins(definition, state, &mut found);
    found.in_order()
}

fn paused(state: &State) -> Found {
    let mut found = Found::default();
    if state.is_paused() {
        let detail = "the run is paused: nothing is handed out until it is resumed";
        found.add("", entry(WaitingKind::Paused, None, detail));
    }
    found
}

fn entry(kind: WaitingKind, step: Option<Text>, detail: &str) -> WaitingOn {
    WaitingOn {
        kind,
        step,
        count: 1,
        detail: Text::lossy(detail),
        since: None,
        until: None,
        holders: Vec::new(),
    }
}

/// What a command waits for that a worker has: for its work, or for the next attempt of its task.
fn leased(command: &Command, retries: Option<&Retries>, now: Timestamp) -> (WaitingOn, String) {
    let attempt = command.attempt;
    let of = command.max_attempts.get();
    let until = command.lease.map(|lease| lease.until);
    let is_lost = until.is_some_and(|until| until < now);
    let holders = command.worker.as_ref().map(Text::from);
    let holders = holders.into_iter().collect();
    if let Some(retries) = retries.filter(|retries| !is_lost && retries.next_at > now) {
        let detail = format!("failed and waits for attempt {}", retries.next);
        let waits = WaitingOn {
            since: Some(retries.failed_at),
            until: Some(retries.next_at),
            holders,
            ..entry(WaitingKind::Retry, None, &detail)
        };
        return (waits, detail);
    }
    let mut detail = if is_lost {
        format!("was lost by its worker in attempt {attempt} of {of} and is taken back")
    } else if attempt > 1 {
        format!("is at work, attempt {attempt} of {of}")
    } else {
        "is at work".to_owned()
    };
    if let Some(retries) = retries.filter(|_| !is_lost) {
        let attempts = if retries.told == 1 {
            "attempt"
        } else {
            "attempts"
        };
        detail.push_str(&format!(", after {} failed {attempts}", retries.told));
    }
    let waits = WaitingOn {
        since: command.claimed_at,
        until,
        holders,
        ..entry(WaitingKind::Lease, None, &detail)
    };
    (waits, detail)
}

/// Steps that wait for others which may still lead to them.
fn joins(definition: &Definition, state: &State, found: &mut Found) {
    let plan = &definition.plan;
    for (step, waiting) in state.waiting() {
        let blockers: Vec<Text> = state
            .blockers(plan, step)
            .map(|other| Text::from(plan.step(other).name.as_str()))
            .collect();
        if blockers.is_empty() {
            continue;
        }
        let names: Vec<String> = blockers
            .iter()
            .take(MAX_HOLDERS)
            .map(|name| format!("`{name}`"))
            .collect();
        let detail = format!("waits for {}, which may still lead to it", names.join(", "));
        let step = Text::from(plan.step(step).name.as_str());
        let waits = WaitingOn {
            since: Some(waiting.since),
            holders: blockers.into_iter().take(MAX_HOLDERS).collect(),
            ..entry(WaitingKind::Join, Some(step), &detail)
        };
        found.add("", waits);
    }
}

/// What was found so far. What waits for the same is counted, since a loop may have thousands.
#[derive(Default)]
struct Found {
    by_key: BTreeMap<(WaitingKind, Option<Text>, String), WaitingOn>,
}

impl Found {
    fn add(&mut self, key: &str, waits: WaitingOn) {
        let key = match waits.kind {
            // These differ from each other, whatever they have in common.
            WaitingKind::Child | WaitingKind::Signal | WaitingKind::Approval => {
                waits.detail.to_string()
            }
            _ => key.to_owned(),
        };
        let key = (waits.kind, waits.step.clone(), key);
        let Some(known) = self.by_key.get_mut(&key) else {
            self.by_key.insert(key, waits);
            return;
        };
        known.count += 1;
        known.since = earliest(known.since, waits.since);
        known.until = earliest(known.until, waits.until);
        for holder in waits.holders {
            if known.holders.len() < MAX_HOLDERS && !known.holders.contains(&holder) {
                known.holders.push(holder);
            }
        }
    }

    fn in_order(self) -> Vec<WaitingOn> {
        let mut found: Vec<WaitingOn> = self.by_key.into_values().collect();
        found.sort_by_key(|waits| (waits.kind, waits.since));
        found
    }
}

fn earliest(left: Option<Timestamp>, right: Option<Timestamp>) -> Option<Timestamp> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.min(right)),
        (one, other) => one.or(other),
    }
}

/// Who works for each pool.
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
    fn told(&self, pool: &PoolName) -> String {
        let none = PoolFact::default();
        let fact = self.pools.get(pool.as_str()).unwrap_or(&none);
        let waits = format!("waits for a worker of pool `{pool}`");
        match (fact.active, fact.offline) {
            (0, 0) => format!("{waits}, which has none"),
            (0, gone) => format!("{waits}, whose {gone} were not heard of for too long"),
            (active, _) if fact.capacity > 0 && fact.in_flight >= fact.capacity => format!(
                "{waits}, whose {active} are busy with {} commands, {} in the queue",
                fact.in_flight, fact.pending
            ),
            (active, _) => format!("{waits}, which has {active}"),
        }
    }
}
