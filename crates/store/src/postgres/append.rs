//! Sending a group of appends: its parameters, its answer.

use std::collections::BTreeMap;

use noetl_types::{CommandId, FeedPosition, Version};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::block::Block;
use super::statement::Parts;
use crate::error::StoreError;
use crate::model::{AppendRefused, Appended, Fence, Holder, TimerChange};
use crate::row::{Cell, Rows, ToCell as _};

/// Statements that a connection keeps prepared; groups with yet other parts use the whole one.
const MAX_STATEMENTS: usize = 32;

/// The append statements that a connection has prepared.
#[derive(Debug, Default)]
pub(super) struct Statements(BTreeMap<Parts, Statement>);

impl Statements {
    /// The statement for some parts, and the parts that it really has.
    async fn get(
        &mut self,
        client: &Client,
        parts: Parts,
    ) -> Result<(Parts, Statement), tokio_postgres::Error> {
        let is_full = self.0.len() >= MAX_STATEMENTS && !self.0.contains_key(&parts);
        let parts = if is_full { Parts::ALL } else { parts };
        if let Some(statement) = self.0.get(&parts) {
            return Ok((parts, statement.clone()));
        }
        let statement = client.prepare(&parts.statement()).await?;
        self.0.insert(parts, statement.clone());
        Ok((parts, statement))
    }
}

/// The parameters of a group. No execution may be in it twice.
struct Group {
    blocks: [Option<Block>; 7],
    executions: Vec<i64>,
    commands: Vec<i64>,
}

impl Group {
    fn new(parts: Parts, items: &[&Rows]) -> Self {
        let mut group = Self {
            blocks: parts.blocks(),
            executions: Vec::new(),
            commands: Vec::new(),
        };
        for (number, item) in (0_i64..).zip(items) {
            group.add(&Cell::Int(number), item);
        }
        group
    }

    fn add(&mut self, number: &Cell, rows: &Rows) {
        let [items, events, fences, commands, patches, timers, results] = &mut self.blocks;
        let expected = [
            rows.expected.version.to_cell(),
            rows.expected.chain.to_cell(),
            rows.starts.to_cell(),
            rows.is_audit.to_cell(),
        ];
        push(items, number, expected.iter().chain(&rows.execution));
        self.executions.push(rows.execution_id.get());
        for event in &rows.events {
            push(events, number, event);
        }
        for (place, fence) in (0_i64..).zip(&rows.fences) {
            self.commands.push(fence.command_id.get());
            push(fences, number, &fence_row(place, fence));
        }
        for command in &rows.issued {
            push(commands, number, command);
        }
        for (command_id, patch) in &rows.patches {
            self.commands.push(*command_id);
            push(patches, number, patch);
        }
        for change in &rows.timers {
            let fire_at = match change {
                TimerChange::Arm { fire_at, .. } => fire_at.to_cell(),
                TimerChange::Disarm { .. } => Cell::Null,
            };
            let timer_id = change.timer_id().to_cell();
            let row = [rows.execution_id.to_cell(), timer_id, fire_at];
            push(timers, number, &row);
        }
        for result in &rows.results {
            push(results, number, result);
        }
    }

    fn params(&self, parts: Parts) -> Vec<&(dyn ToSql + Sync)> {
        let blocks = self.blocks.iter().flatten();
        let mut params: Vec<&(dyn ToSql + Sync)> = blocks.flat_map(Block::params).collect();
        params.push(&self.executions);
        if parts.touches() {
            params.push(&self.commands);
        }
        params
    }
}

/// Adds a row of an item. A block that is not there has no rows in the whole group.
fn push<'c>(
    block: &mut Option<Block>,
    number: &'c Cell,
    cells: impl IntoIterator<Item = &'c Cell>,
) {
    if let Some(block) = block {
        block.push(std::iter::once(number).chain(cells));
    }
}

/// Takes the statement about a lease apart; see [`super::statement::FENCE`].
pub(super) fn fence_row(place: i64, fence: &Fence) -> [Cell; 6] {
    let (token, worker, expired_by) = match &fence.holder {
        Holder::Token(token) => (Some(token), None, None),
        Holder::Worker(worker) => (None, Some(worker), None),
        Holder::ExpiredBy(time) => (None, None, Some(time)),
    };
    [
        Cell::Int(place),
        fence.command_id.to_cell(),
        fence.attempt.to_cell(),
        token.to_cell(),
        worker.to_cell(),
        expired_by.to_cell(),
    ]
}

/// Sends a group, and gives the verdict on each item of it.
pub(super) async fn append(
    client: &Client,
    statements: &mut Statements,
    items: &[&Rows],
) -> Result<Vec<Result<Appended, AppendRefused>>, tokio_postgres::Error> {
    let (parts, statement) = statements.get(client, Parts::of(items)).await?;
    let group = Group::new(parts, items);
    let answers = client.query(&statement, &group.params(parts)).await?;
    let unanswered = StoreError::fatal("the append statement gave no verdict");
    let mut verdicts = vec![Err(AppendRefused::Store(unanswered)); items.len()];
    for row in &answers {
        let number: i64 = row.try_get(0)?;
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        if let (Some(verdict), Some(item)) = (verdicts.get_mut(place), items.get(place)) {
            *verdict = read(row, item)?;
        }
    }
    Ok(verdicts)
}

fn read(row: &Row, item: &Rows) -> Result<Result<Appended, AppendRefused>, tokio_postgres::Error> {
    let verdict: &str = row.try_get(1)?;
    Ok(Err(match verdict {
        "accepted" => {
            let tx: i64 = row.try_get(4)?;
            let feed = FeedPosition {
                tx: u64::try_from(tx).unwrap_or_default(),
                position: row.try_get(5)?,
            };
            return Ok(Ok(Appended {
                head: item.head,
                feed,
            }));
        }
        "gone" => AppendRefused::Gone,
        "exists" => AppendRefused::AlreadyExists,
        "not found" => AppendRefused::NotFound,
        "ended" => AppendRefused::Terminal,
        "conflict" => AppendRefused::Conflict {
            actual: Version::new(row.try_get(2)?).unwrap_or_default(),
        },
        "fenced" => match CommandId::new(row.try_get(3)?) {
            Ok(command_id) => AppendRefused::Fenced { command_id },
            Err(error) => AppendRefused::Store(StoreError::fatal(error)),
        },
        other => AppendRefused::Store(StoreError::fatal(format!("odd verdict `{other}`"))),
    }))
}
