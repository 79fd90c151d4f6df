//! The append statement: its text, its parameters, its answer.

use std::sync::LazyLock;

use noetl_types::{CommandId, FeedPosition, Version};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::block::{Block, Shape};
use crate::error::StoreError;
use crate::model::{AppendRefused, Appended, CommandChange, Fence, Holder, TimerChange};
use crate::row::{
    COMMAND, Cell, EVENT, EXECUTION, EXECUTION_CHANGING, Kind, PATCH, Table, ToCell as _,
    command_row, event_row, execution_row, patch_row,
};
use crate::seal::Sealed;

const ITEM: &[(&str, Kind)] = &[("item", Kind::Int)];

static ITEMS: LazyLock<Shape> = LazyLock::new(|| {
    let head: &[(&str, Kind)] = &[
        ("expected", Kind::Int),
        ("expected_chain", Kind::Bytes),
        ("starts", Kind::Bool),
        ("is_audit", Kind::Bool),
    ];
    Shape::new(&[ITEM, head, EXECUTION.columns])
});

/// The statement about a lease, as columns.
pub(super) const FENCE: &[(&str, Kind)] = &[
    ("place", Kind::Int),
    ("command_id", Kind::Int),
    ("attempt", Kind::Int),
    ("token", Kind::Bytes),
    ("worker", Kind::Text),
    ("expired_by", Kind::Time),
];

static FENCES: LazyLock<Shape> = LazyLock::new(|| Shape::new(&[ITEM, FENCE]));
static EVENTS: LazyLock<Shape> = LazyLock::new(|| Shape::new(&[ITEM, EVENT.columns]));
static COMMANDS: LazyLock<Shape> = LazyLock::new(|| Shape::new(&[ITEM, COMMAND.columns]));
static PATCHES: LazyLock<Shape> = LazyLock::new(|| Shape::new(&[ITEM, PATCH.columns]));

static TIMERS: LazyLock<Shape> = LazyLock::new(|| {
    let timer: &[(&str, Kind)] = &[
        ("execution_id", Kind::Int),
        ("timer_id", Kind::Text),
        ("fire_at", Kind::Time),
    ];
    Shape::new(&[ITEM, timer])
});

static APPEND: LazyLock<String> = LazyLock::new(|| {
    let mut used = 0;
    let mut sql = include_str!("sql/append.sql").to_owned();
    for (name, shape) in [
        ("{item}", &ITEMS),
        ("{fence}", &FENCES),
        ("{event}", &EVENTS),
        ("{command}", &COMMANDS),
        ("{patch}", &PATCHES),
        ("{timer}", &TIMERS),
    ] {
        sql = sql.replace(name, &shape.unnest(&mut used));
    }
    let of = |table: &Table, prefix: &str| table.list_of(prefix);
    for (name, text) in [
        ("{executions}", format!("${}::bigint[]", used + 1)),
        ("{commands}", format!("${}::bigint[]", used + 2)),
        ("{execution_columns}", EXECUTION.list()),
        ("{item_execution_columns}", of(&EXECUTION, "item.")),
        ("{changing_columns}", EXECUTION_CHANGING.list()),
        ("{item_changing_columns}", of(&EXECUTION_CHANGING, "item.")),
        ("{event_columns}", EVENT.list()),
        ("{new_event_columns}", of(&EVENT, "new_event.")),
        ("{command_columns}", COMMAND.list()),
        ("{new_command_columns}", of(&COMMAND, "new_command.")),
    ] {
        sql = sql.replace(name, &text);
    }
    sql
});

pub(super) async fn prepare(client: &Client) -> Result<Statement, tokio_postgres::Error> {
    client.prepare(&APPEND).await
}

/// The parameters of a group. No execution may be in it twice.
struct Group {
    blocks: [Block; 6],
    executions: Vec<i64>,
    commands: Vec<i64>,
}

impl Group {
    fn new(items: &[&Sealed]) -> Self {
        let mut group = Self {
            blocks: [&ITEMS, &FENCES, &EVENTS, &COMMANDS, &PATCHES, &TIMERS]
                .map(|shape| shape.block()),
            executions: Vec::new(),
            commands: Vec::new(),
        };
        for (number, item) in (0_i64..).zip(items) {
            group.add(number, item);
        }
        group
    }

    fn add(&mut self, number: i64, sealed: &Sealed) {
        let append = &sealed.append;
        let execution_id = append.execution_id;
        let number = Cell::Int(number);
        let [items, fences, events, commands, patches, timers] = &mut self.blocks;
        let head = [
            number.clone(),
            append.expected.version.to_cell(),
            append.expected.chain.to_cell(),
            append.start.is_some().to_cell(),
            sealed.is_audit.to_cell(),
        ];
        items.push(head.into_iter().chain(execution_row(sealed)));
        self.executions.push(execution_id.get());
        for (place, fence) in (0_i64..).zip(&append.fences) {
            self.commands.push(fence.command_id.get());
            let cells = fence_row(place, fence);
            fences.push(std::iter::once(number.clone()).chain(cells));
        }
        for event in &sealed.events {
            events.push(std::iter::once(number.clone()).chain(event_row(event)));
        }
        for change in &append.commands {
            if let CommandChange::Issue(command) = change {
                let command = command.as_ref().clone().into_command(execution_id);
                commands.push(std::iter::once(number.clone()).chain(command_row(&command)));
            }
            if let Some(patch) = change.patch() {
                self.commands.push(patch.command_id.get());
                let cells = patch_row(execution_id, &patch);
                patches.push(std::iter::once(number.clone()).chain(cells));
            }
        }
        for change in &append.timers {
            let fire_at = match change {
                TimerChange::Arm { fire_at, .. } => fire_at.to_cell(),
                TimerChange::Disarm { .. } => Cell::Null,
            };
            let timer_id = change.timer_id().to_cell();
            timers.push([number.clone(), execution_id.to_cell(), timer_id, fire_at]);
        }
    }
}

/// Takes the statement about a lease apart; see [`FENCE`].
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
    statement: &Statement,
    items: &[&Sealed],
) -> Result<Vec<Result<Appended, AppendRefused>>, tokio_postgres::Error> {
    let group = Group::new(items);
    let mut params: Vec<&(dyn ToSql + Sync)> =
        group.blocks.iter().flat_map(Block::params).collect();
    params.push(&group.executions);
    params.push(&group.commands);
    let rows = client.query(statement, &params).await?;
    let unanswered = StoreError::fatal("the append statement gave no verdict");
    let mut verdicts = vec![Err(AppendRefused::Store(unanswered)); items.len()];
    for row in &rows {
        let number: i64 = row.try_get(0)?;
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        if let (Some(verdict), Some(item)) = (verdicts.get_mut(place), items.get(place)) {
            *verdict = read(row, item)?;
        }
    }
    Ok(verdicts)
}

fn read(
    row: &Row,
    item: &Sealed,
) -> Result<Result<Appended, AppendRefused>, tokio_postgres::Error> {
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
