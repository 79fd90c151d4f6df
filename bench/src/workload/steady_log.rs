//! A log of any length whose state stays small: one object that changes repeatedly.

use noetl_server::{Clock as _, SystemClock};
use noetl_store::{ProjectOutcome, ProjectionBatch, ProjectionScope, Store, project_events};
use noetl_types::record::{ProjectedEvent, ProjectionContext, parse_projected_event};
use noetl_types::{EventId, ExecutionId, Json, OrganizationId, TenantId, Timestamp};

use crate::error::BenchError;

/// Events per write.
const WRITE_BATCH_EVENTS: usize = 1_000;

/// Machine number in the id of the first log, so that no other run has the same id: the product
/// assigns low numbers to its processes.
const FIRST_MACHINE_NUMBER: i64 = 1_000;

/// Bits of an id below its machine number.
const MACHINE_SHIFT_BITS: u32 = 12;

/// Bits of an id below its time.
const TIME_SHIFT_BITS: u32 = 22;

/// Start of the time of ids, in Unix milliseconds.
const ID_EPOCH_UNIX_MS: i64 = 1_704_067_200_000;

/// Writes a numbered log as a projector does, and returns its execution id.
pub(super) async fn write_steady_log(
    store: &dyn Store,
    number: i64,
    events: u32,
) -> Result<ExecutionId, BenchError> {
    let now = SystemClock.now();
    let base = (now.as_unix_ms() - ID_EPOCH_UNIX_MS) << TIME_SHIFT_BITS;
    let machine = (FIRST_MACHINE_NUMBER + number) << MACHINE_SHIFT_BITS;
    let execution_id = ExecutionId::new(base | machine).map_err(harness_error)?;
    let mut batch = Vec::with_capacity(WRITE_BATCH_EVENTS);
    for index in 1..=events {
        let event_id = EventId::new(base + i64::from(index)).map_err(harness_error)?;
        let name = match index {
            last if last == events => "playbook.completed",
            1 => "step.enter",
            _ => "sensor.updated",
        };
        batch.push(sensor_event(execution_id, event_id, name, now)?);
        if batch.len() == WRITE_BATCH_EVENTS || index == events {
            write_batch(store, std::mem::take(&mut batch), now).await?;
        }
    }
    Ok(execution_id)
}

fn sensor_event(
    execution_id: ExecutionId,
    event_id: EventId,
    name: &str,
    now: Timestamp,
) -> Result<ProjectedEvent, BenchError> {
    let attributes =
        Json::object([("value", Json::from(event_id.get())), ("unit", Json::from("celsius"))]);
    let object = Json::object([
        ("type", Json::from("sensor")),
        ("id", Json::from("1")),
        ("attributes", attributes),
    ]);
    let event = Json::object([
        ("execution_id", Json::from(execution_id.get())),
        ("event_id", Json::from(event_id.get())),
        ("event_type", Json::from(name)),
        ("node_name", Json::from("measure")),
        ("meta", Json::object([("business_object", object)])),
    ]);
    let context = ProjectionContext {
        now,
        tenant_id: TenantId::default(),
        organization_id: OrganizationId::default(),
    };
    parse_projected_event(&event, &context).map_err(|rejection| harness_error(rejection.message))
}

async fn write_batch(
    store: &dyn Store,
    events: Vec<ProjectedEvent>,
    now: Timestamp,
) -> Result<(), BenchError> {
    let batch =
        ProjectionBatch { events, scope: ProjectionScope::ExecutionOwner, now, use_outbox: false };
    let outcomes = project_events(store, batch).await?;
    match outcomes.iter().find(|outcome| **outcome != ProjectOutcome::Projected) {
        Some(outcome) => Err(harness_error(format!("an event was not written: {outcome:?}"))),
        None => Ok(()),
    }
}

fn harness_error(text: impl std::fmt::Display) -> BenchError {
    BenchError::Harness(text.to_string())
}
