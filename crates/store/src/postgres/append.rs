//! Sending a group of appends: its parameters, its answer.

use std::collections::BTreeMap;

use noetl_types::{CommandId, FeedPosition, Version};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::function::{APPEND, APPEND_SHARED};
use super::record::Records;
use super::sharing::{self, Sharing};
use crate::error::StoreError;
use crate::model::{AppendRefused, Appended, Fence, Holder, TimerChange};
use crate::row::{Cell, Rows, ToCell as _};

/// The statements that append, as a connection has prepared them.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    plain: Option<Statement>,
    shared: Option<Statement>,
}

impl Prepared {
    async fn get(
        &mut self,
        client: &Client,
        shares: bool,
    ) -> Result<Statement, tokio_postgres::Error> {
        let (prepared, call) = if shares {
            (&mut self.shared, &APPEND_SHARED.call)
        } else {
            (&mut self.plain, &APPEND.call)
        };
        if let Some(statement) = prepared {
            return Ok(statement.clone());
        }
        let statement = client.prepare(call).await?;
        Ok(prepared.insert(statement).clone())
    }
}

/// The parameters of a group, in the order of its executions. No execution may be in it twice.
struct Group<'r> {
    items: Records<Vec<Cell>>,
    events: Records<&'r Vec<Cell>>,
    fences: Records<Vec<Cell>>,
    issued: Records<&'r Vec<Cell>>,
    patches: Records<&'r Vec<Cell>>,
    timers: Records<[Cell; 3]>,
    results: Records<&'r Vec<Cell>>,
    outgoing: Records<&'r Vec<Cell>>,
    /// The commands that fences and patches are about.
    touched: Vec<i64>,
    /// What the group does to what executions share, if anything.
    sharing: Option<Sharing>,
}

impl<'r> Group<'r> {
    fn new(items: &[&'r Rows]) -> Self {
        let mut items = items.to_vec();
        items.sort_unstable_by_key(|rows| rows.execution_id);
        let each = || items.iter().copied();
        let fences = each().flat_map(fence_rows).collect();
        let patches = || each().flat_map(|rows| &rows.patches);
        let fenced = each().flat_map(|rows| &rows.fences);
        let fenced = fenced.map(|fence| fence.command_id.get());
        let touched = fenced.chain(patches().map(|(command_id, _)| *command_id));
        Self {
            touched: touched.collect(),
            sharing: Sharing::of(&items),
            items: Records(each().map(item_row).collect()),
            events: Records(each().flat_map(|rows| &rows.events).collect()),
            fences: Records(fences),
            issued: Records(each().flat_map(|rows| &rows.issued).collect()),
            patches: Records(patches().map(|(_, patch)| patch).collect()),
            timers: Records(each().flat_map(timer_rows).collect()),
            results: Records(each().flat_map(|rows| &rows.results).collect()),
            outgoing: Records(each().flat_map(|rows| &rows.outbox).collect()),
        }
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let plain: [&(dyn ToSql + Sync); 9] = [
            &self.items,
            &self.events,
            &self.fences,
            &self.issued,
            &self.patches,
            &self.timers,
            &self.results,
            &self.outgoing,
            &self.touched,
        ];
        let shared = self.sharing.iter().flat_map(Sharing::params);
        plain.into_iter().chain(shared).collect()
    }
}

fn item_row(rows: &Rows) -> Vec<Cell> {
    let expected = [
        rows.expected.version.to_cell(),
        rows.expected.chain.to_cell(),
        rows.starts.to_cell(),
        rows.is_audit.to_cell(),
    ];
    let execution = rows.execution.iter().cloned();
    expected.into_iter().chain(execution).collect()
}

fn fence_rows(rows: &Rows) -> impl Iterator<Item = Vec<Cell>> {
    let execution_id = rows.execution_id.to_cell();
    let fences = (0_i64..).zip(&rows.fences);
    fences.map(move |(place, fence)| {
        let fence = fence_row(place, fence);
        std::iter::once(execution_id.clone()).chain(fence).collect()
    })
}

fn timer_rows(rows: &Rows) -> impl Iterator<Item = [Cell; 3]> {
    rows.timers.iter().map(|change| {
        let fire_at = match change {
            TimerChange::Arm { fire_at, .. } => fire_at.to_cell(),
            TimerChange::Disarm { .. } => Cell::Null,
        };
        let timer_id = change.timer_id().to_cell();
        [rows.execution_id.to_cell(), timer_id, fire_at]
    })
}

/// Takes the statement about a lease apart; see [`super::function::FENCE`].
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
    prepared: &mut Prepared,
    items: &[&Rows],
) -> Result<Vec<Result<Appended, AppendRefused>>, tokio_postgres::Error> {
    let group = Group::new(items);
    let statement = prepared.get(client, group.sharing.is_some()).await?;
    let answers = client.query(&statement, &group.params()).await?;
    let by_execution: BTreeMap<i64, &Row> = answers
        .iter()
        .map(|row| Ok((row.try_get(0)?, row)))
        .collect::<Result<_, tokio_postgres::Error>>()?;
    let verdict_on = |item: &&Rows| match by_execution.get(&item.execution_id.get()) {
        Some(row) => read(row, item),
        None => Ok(Err(StoreError::fatal("an append got no verdict").into())),
    };
    items.iter().map(verdict_on).collect()
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
        other => sharing::refusal(other, row, item)?,
    }))
}
