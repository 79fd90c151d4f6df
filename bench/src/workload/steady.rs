//! A log of any length whose state stays small: one thing that changes over and over.

use noetl_server::{Clock as _, SystemClock};
use noetl_store::{Copied, CopyBatch, CopyScope, Store, project};
use noetl_types::record::{Arrival, Projected, read_projected};
use noetl_types::{EventId, ExecutionId, Json, OrganizationId, TenantId, Timestamp};

use crate::error::BenchError;

/// Events that are written together.
const BATCH: usize = 1_000;

/// The machine that the id of the first log names, so that no other run has the same: the product
/// gives low numbers to its processes.
const MACHINE: i64 = 1_000;

/// Bits of an id below its machine.
const BELOW_MACHINE: u32 = 12;

/// Bits of an id below its time.
const BELOW_TIME: u32 = 22;

/// The beginning of the time of ids, in milliseconds of Unix.
const EPOCH: i64 = 1_704_067_200_000;

/// Writes the log of a number as a projector does, and says whose it is.
pub(super) async fn written(
    store: &dyn Store,
    number: i64,
    events: u32,
) -> Result<ExecutionId, BenchError> {
    let now = SystemClock.now();
    let base = (now.as_unix_ms() - EPOCH) << BELOW_TIME;
    let machine = (MACHINE + number) << BELOW_MACHINE;
    let execution_id = ExecutionId::new(base | machine).map_err(odd)?;
    let mut batch = Vec::with_capacity(BATCH);
    for place in 1..=events {
        let event_id = EventId::new(base + i64::from(place)).map_err(odd)?;
        let name = match place {
            last if last == events => "playbook.completed",
            1 => "step.enter",
            _ => "sensor.updated",
        };
        batch.push(event(execution_id, event_id, name, now)?);
        if batch.len() == BATCH || place == events {
            copy(store, std::mem::take(&mut batch), now).await?;
        }
    }
    Ok(execution_id)
}

fn event(
    execution_id: ExecutionId,
    event_id: EventId,
    name: &str,
    now: Timestamp,
) -> Result<Projected, BenchError> {
    let changes = Json::object([
        ("value", Json::from(event_id.get())),
        ("unit", Json::from("celsius")),
    ]);
    let thing = Json::object([
        ("type", Json::from("sensor")),
        ("id", Json::from("1")),
        ("attributes", changes),
    ]);
    let envelope = Json::object([
        ("execution_id", Json::from(execution_id.get())),
        ("event_id", Json::from(event_id.get())),
        ("event_type", Json::from(name)),
        ("node_name", Json::from("measure")),
        ("meta", Json::object([("business_object", thing)])),
    ]);
    let arrival = Arrival {
        now,
        tenant_id: TenantId::default(),
        organization_id: OrganizationId::default(),
    };
    read_projected(&envelope, &arrival).map_err(|refused| odd(refused.message))
}

async fn copy(store: &dyn Store, events: Vec<Projected>, now: Timestamp) -> Result<(), BenchError> {
    let batch = CopyBatch {
        events,
        scope: CopyScope::OfExecution,
        now,
        outbox: false,
    };
    let verdicts = project(store, batch).await?;
    match verdicts.iter().find(|it| **it != Copied::Projected) {
        Some(verdict) => Err(odd(format!("an event was not written: {verdict:?}"))),
        None => Ok(()),
    }
}

fn odd(text: impl std::fmt::Display) -> BenchError {
    BenchError::Harness(text.to_string())
}
