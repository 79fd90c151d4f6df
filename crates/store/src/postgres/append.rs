//! Encodes a group of appends as parameters, and decodes the verdicts on it.

use std::collections::BTreeMap;

use noetl_types::{CommandId, ExecutionVersion, FeedPosition};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::append_function::{APPEND, APPEND_WITH_COORDINATION};
use super::composite_rows::CompositeRows;
use super::coordination_params::{self, CoordinationParams};
use crate::error::StoreError;
use crate::model::{AppendError, AppendReceipt, Fence, LeaseCondition, TimerChange};
use crate::row::{AppendRows, Cell, ToCell as _};

/// Prepared append statements of a connection.
#[derive(Debug, Default)]
pub(super) struct AppendStatements {
    without_coordination: Option<Statement>,
    with_coordination: Option<Statement>,
}

impl AppendStatements {
    async fn get_or_prepare(
        &mut self,
        client: &Client,
        uses_coordination: bool,
    ) -> Result<Statement, tokio_postgres::Error> {
        let (prepared, call) = if uses_coordination {
            (&mut self.with_coordination, &APPEND_WITH_COORDINATION.call)
        } else {
            (&mut self.without_coordination, &APPEND.call)
        };
        if let Some(statement) = prepared {
            return Ok(statement.clone());
        }
        let statement = client.prepare(call).await?;
        Ok(prepared.insert(statement).clone())
    }
}

/// Parameters of a group, sorted by execution. Each execution occurs at most once.
struct GroupParams<'r> {
    items: CompositeRows<Vec<Cell>>,
    events: CompositeRows<&'r Vec<Cell>>,
    fences: CompositeRows<Vec<Cell>>,
    issued: CompositeRows<&'r Vec<Cell>>,
    patches: CompositeRows<&'r Vec<Cell>>,
    timers: CompositeRows<[Cell; 3]>,
    results: CompositeRows<&'r Vec<Cell>>,
    outbox: CompositeRows<&'r Vec<Cell>>,
    /// Ids of the commands that fences and patches refer to.
    command_ids: Vec<i64>,
    /// Changes of coordination tables, if any.
    coordination: Option<CoordinationParams>,
}

impl<'r> GroupParams<'r> {
    fn new(items: &[&'r AppendRows]) -> Self {
        let mut items = items.to_vec();
        items.sort_unstable_by_key(|rows| rows.execution_id);
        let each = || items.iter().copied();
        let fences = each().flat_map(encode_fences).collect();
        let patches = || each().flat_map(|rows| &rows.patches);
        let fenced = each().flat_map(|rows| &rows.fences);
        let fenced = fenced.map(|fence| fence.command_id.get());
        let touched = fenced.chain(patches().map(|(command_id, _)| *command_id));
        Self {
            command_ids: touched.collect(),
            coordination: CoordinationParams::from_items(&items),
            items: CompositeRows(each().map(encode_item).collect()),
            events: CompositeRows(each().flat_map(|rows| &rows.events).collect()),
            fences: CompositeRows(fences),
            issued: CompositeRows(each().flat_map(|rows| &rows.issued).collect()),
            patches: CompositeRows(patches().map(|(_, patch)| patch).collect()),
            timers: CompositeRows(each().flat_map(encode_timers).collect()),
            results: CompositeRows(each().flat_map(|rows| &rows.results).collect()),
            outbox: CompositeRows(each().flat_map(|rows| &rows.outbox).collect()),
        }
    }

    fn as_params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let common: [&(dyn ToSql + Sync); 9] = [
            &self.items, &self.events, &self.fences, &self.issued, &self.patches, &self.timers,
            &self.results, &self.outbox, &self.command_ids,
        ];
        let coordination = self.coordination.iter().flat_map(CoordinationParams::as_params);
        common.into_iter().chain(coordination).collect()
    }
}

fn encode_item(rows: &AppendRows) -> Vec<Cell> {
    let expected = [
        rows.expected.version.to_cell(),
        rows.expected.chain.to_cell(),
        rows.starts_execution.to_cell(),
        rows.is_audit.to_cell(),
    ];
    let execution = rows.execution.iter().cloned();
    expected.into_iter().chain(execution).collect()
}

fn encode_fences(rows: &AppendRows) -> impl Iterator<Item = Vec<Cell>> {
    let execution_id = rows.execution_id.to_cell();
    let fences = (0_i64..).zip(&rows.fences);
    fences.map(move |(index, fence)| {
        let fence = encode_fence(index, fence);
        std::iter::once(execution_id.clone()).chain(fence).collect()
    })
}

fn encode_timers(rows: &AppendRows) -> impl Iterator<Item = [Cell; 3]> {
    rows.timers.iter().map(|change| {
        let fire_at = match change {
            TimerChange::Arm { fire_at, .. } => fire_at.to_cell(),
            TimerChange::Disarm { .. } => Cell::Null,
        };
        let timer_id = change.timer_id().to_cell();
        [rows.execution_id.to_cell(), timer_id, fire_at]
    })
}

/// Encodes a fence as the columns of [`super::append_function::FENCE_COLUMNS`].
pub(super) fn encode_fence(index: i64, fence: &Fence) -> [Cell; 6] {
    let (token, worker, expired_by) = match &fence.condition {
        LeaseCondition::Token(token) => (Some(token), None, None),
        LeaseCondition::Worker(worker) => (None, Some(worker), None),
        LeaseCondition::ExpiredBy(time) => (None, None, Some(time)),
    };
    [
        Cell::Int(index),
        fence.command_id.to_cell(),
        fence.attempt.to_cell(),
        token.to_cell(),
        worker.to_cell(),
        expired_by.to_cell(),
    ]
}

/// Sends a group, and returns the verdict on each item.
pub(super) async fn append_group(
    client: &Client,
    prepared: &mut AppendStatements,
    items: &[&AppendRows],
) -> Result<Vec<Result<AppendReceipt, AppendError>>, tokio_postgres::Error> {
    let group = GroupParams::new(items);
    let statement = prepared.get_or_prepare(client, group.coordination.is_some()).await?;
    let rows = client.query(&statement, &group.as_params()).await?;
    let by_execution: BTreeMap<i64, &Row> = rows
        .iter()
        .map(|row| Ok((row.try_get(0)?, row)))
        .collect::<Result<_, tokio_postgres::Error>>()?;
    let verdict_of = |item: &&AppendRows| match by_execution.get(&item.execution_id.get()) {
        Some(row) => decode_verdict(row, item),
        None => Ok(Err(StoreError::fatal("the append returned no verdict").into())),
    };
    items.iter().map(verdict_of).collect()
}

fn decode_verdict(
    row: &Row,
    item: &AppendRows,
) -> Result<Result<AppendReceipt, AppendError>, tokio_postgres::Error> {
    let verdict: &str = row.try_get(1)?;
    Ok(Err(match verdict {
        "accepted" => {
            let tx: i64 = row.try_get(4)?;
            let feed = FeedPosition {
                tx: u64::try_from(tx).unwrap_or_default(),
                position: row.try_get(5)?,
            };
            return Ok(Ok(AppendReceipt { head: item.head, feed }));
        }
        "gone" => AppendError::Dropped,
        "exists" => AppendError::AlreadyExists,
        "not found" => AppendError::NotFound,
        "ended" => AppendError::Terminal,
        "conflict" => AppendError::Conflict {
            actual: ExecutionVersion::new(row.try_get(2)?).unwrap_or_default(),
        },
        "fenced" => match CommandId::new(row.try_get(3)?) {
            Ok(command_id) => AppendError::Fenced { command_id },
            Err(error) => AppendError::Store(StoreError::fatal(error)),
        },
        other => coordination_params::decode_refusal(other, row, item)?,
    }))
}
