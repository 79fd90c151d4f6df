//! W7: replay rate of a log through the public API, and the cost of the state at the end and in the
//! middle of logs of growing length.
//!
//! There are two kinds of logs. The state of a loop has an entry for each of its commands, so the
//! response itself grows with the log. The state of an object that changes repeatedly has one entry
//! for any length, so only the cost of computing it can grow. The first replay of a log finds no
//! snapshot. It may create some, from which later reads continue.

use std::sync::Arc;

use noetl_api::replay::{ReplayCutoff, ReplayQuery, ReplayResponse};
use noetl_engine::replay::ReplayState;
use noetl_store::{LogPageLimit, Store};
use noetl_types::{ExecutionId, ExecutionVersion, OrganizationId, StoredEvent, TenantId};
use tokio::time::Instant;

use super::steady_log::write_steady_log;
use super::{Figures, WorkloadContext, require_percentile};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::playbooks::fan_out_playbook;
use crate::stats::to_ms;
use crate::system::run_with_id;

/// Maximum concurrent iterations.
const MAX_IN_FLIGHT: u32 = 500;

/// Number of replays from memory.
const FOLD_REPEATS: usize = 3;

/// Metrics of the log of a loop: at its end, in its middle.
const GROWING_LOG_METRICS: [[Metric; 2]; 3] = [
    [Metric::EndShortMs, Metric::AsOfShortMs],
    [Metric::EndMediumMs, Metric::AsOfMediumMs],
    [Metric::EndLongMs, Metric::AsOfLongMs],
];

/// Metrics of the log of an object: at its end, in its middle, and at a position that was not read
/// before.
const STEADY_LOG_METRICS: [([Metric; 2], Metric); 3] = [
    ([Metric::SteadyEndShortMs, Metric::SteadyMiddleShortMs], Metric::SteadyFirstShortMs),
    ([Metric::SteadyEndMediumMs, Metric::SteadyMiddleMediumMs], Metric::SteadyFirstMediumMs),
    ([Metric::SteadyEndLongMs, Metric::SteadyMiddleLongMs], Metric::SteadyFirstLongMs),
];

pub(super) async fn measure_replay(context: &WorkloadContext<'_>) -> Result<Figures, BenchError> {
    let mut figures = Figures::new();
    for (iterations, metrics) in context.scale.w7_iterations.into_iter().zip(GROWING_LOG_METRICS) {
        let playbook = fan_out_playbook(iterations, MAX_IN_FLIGHT)?;
        context.system.register_playbook(&playbook).await?;
        let (id, _) = run_with_id(&*context.system, &context.ledger, &playbook).await?;
        // The longest log comes last, so its rates are reported.
        let (events, rate) = replay_whole_log(context, id).await?;
        figures.insert(Metric::ReplayEventsPerS, rate);
        if let Some(store) = context.system.store() {
            figures.insert(Metric::FoldEventsPerS, measure_fold_rate(&store, id).await?);
        }
        measure_reads(context, id, events, metrics, &mut figures).await?;
    }
    let Some(store) = context.system.store() else {
        return Ok(figures);
    };
    let steady = context.scale.w7_events.into_iter().zip(STEADY_LOG_METRICS);
    for (number, (length, (metrics, first_read_metric))) in (1..).zip(steady) {
        let id = write_steady_log(&*store, number, length).await?;
        context.ledger.record_run(id, 0);
        let (events, rate) = replay_whole_log(context, id).await?;
        figures.insert(Metric::SteadyEventsPerS, rate);
        let (_, took) = replay_at(context, id, events / 7 * 5).await?;
        figures.insert(first_read_metric, took);
        measure_reads(context, id, events, metrics, &mut figures).await?;
    }
    Ok(figures)
}

/// Returns the number of events of a log, and the events per second of its first replay.
async fn replay_whole_log(
    context: &WorkloadContext<'_>,
    id: ExecutionId,
) -> Result<(i64, f64), BenchError> {
    let (response, took) = timed_replay(context, &ReplayQuery::new(id)).await?;
    let events = response.state.event_count;
    Ok((events, event_count(events)? / (took / 1e3)))
}

async fn measure_reads(
    context: &WorkloadContext<'_>,
    id: ExecutionId,
    events: i64,
    metrics: [Metric; 2],
    figures: &mut Figures,
) -> Result<(), BenchError> {
    for (position, metric) in [events, events / 2].into_iter().zip(metrics) {
        let mut times = Vec::new();
        for _ in 0..context.scale.w7_looks {
            times.push(replay_at(context, id, position).await?.1);
        }
        figures.insert(metric, require_percentile(&times, 50)?);
    }
    Ok(())
}

/// Returns the state at a position.
async fn replay_at(
    context: &WorkloadContext<'_>,
    id: ExecutionId,
    position: i64,
) -> Result<(ReplayResponse, f64), BenchError> {
    let query = ReplayQuery { cutoff: ReplayCutoff::Position(position), ..ReplayQuery::new(id) };
    let (response, took) = timed_replay(context, &query).await?;
    if response.state.event_count != position || response.checksum.is_none() {
        let text = format!("the replay of {id} does not match the query");
        return Err(BenchError::Harness(text));
    }
    Ok((response, took))
}

async fn timed_replay(
    context: &WorkloadContext<'_>,
    query: &ReplayQuery,
) -> Result<(ReplayResponse, f64), BenchError> {
    let started = Instant::now();
    let response = context.system.replay_run(query).await?;
    Ok((response, to_ms(started.elapsed())))
}

/// Returns the events per second that are replayed from memory, with checksums.
async fn measure_fold_rate(store: &Arc<dyn Store>, id: ExecutionId) -> Result<f64, BenchError> {
    let mut events: Vec<StoredEvent> = Vec::new();
    loop {
        let after = events.last().map_or(ExecutionVersion::EMPTY, |event| event.record.seq.into());
        let page = store.read_events(id, after, LogPageLimit::MAX).await?;
        if page.is_empty() {
            break;
        }
        events.extend(page);
    }
    let count = event_count(i64::try_from(events.len()).unwrap_or(i64::MAX))?;
    let times = tokio::task::spawn_blocking(move || time_folds(&events, id)).await;
    let times = times.map_err(|error| BenchError::Harness(error.to_string()))??;
    Ok(count * 1e3 / require_percentile(&times, 50)?)
}

fn time_folds(events: &[StoredEvent], id: ExecutionId) -> Result<Vec<f64>, BenchError> {
    let mut times = Vec::new();
    for _ in 0..FOLD_REPEATS {
        let started = Instant::now();
        let mut state = ReplayState::new(TenantId::default(), OrganizationId::default(), id);
        for event in events {
            let applied = state.apply(&event.record);
            applied.map_err(|error| BenchError::Harness(error.to_string()))?;
        }
        std::hint::black_box(state.checksums());
        times.push(to_ms(started.elapsed()));
    }
    Ok(times)
}

fn event_count(events: i64) -> Result<f64, BenchError> {
    u32::try_from(events)
        .map(f64::from)
        .map_err(|_| BenchError::Harness(format!("a log of {events} events")))
}
