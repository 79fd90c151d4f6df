//! W7: how fast a log is folded through the way that readers have, and what the state at the end and in
//! the middle of a log costs as logs get longer.
//!
//! There are two kinds of logs. That of a loop has an entry for each of its commands, so the answer
//! itself grows with the log. That of a thing which changes over and over has one entry however long it
//! is: there only the way to the answer can grow. The first replay of a log finds no snapshot; it may
//! leave some behind, which later looks go on from.

use std::sync::Arc;

use noetl_api::replay::{Cut, ReplayAnswer, ReplayQuery};
use noetl_engine::replay::ReplayState;
use noetl_store::{LogPage, Store};
use noetl_types::{ExecutionId, OrganizationId, StoredEvent, TenantId, Version};
use tokio::time::Instant;

use super::steady::written;
use super::{Figures, Lab, at};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::playbooks::fan_out;
use crate::stats::ms;
use crate::system::run_known;

/// Iterations that are open at once.
const IN_FLIGHT: u32 = 500;

/// How often a log is folded from memory.
const FOLDS: usize = 3;

/// What is told of the log of a loop: at its end, in its middle.
const GROWING: [[Metric; 2]; 3] = [
    [Metric::EndShortMs, Metric::AsOfShortMs],
    [Metric::EndMediumMs, Metric::AsOfMediumMs],
    [Metric::EndLongMs, Metric::AsOfLongMs],
];

/// What is told of the log of a thing: at its end, in its middle, and where nobody has looked before.
const STEADY: [([Metric; 2], Metric); 3] = [
    (
        [Metric::SteadyEndShortMs, Metric::SteadyMiddleShortMs],
        Metric::SteadyFirstShortMs,
    ),
    (
        [Metric::SteadyEndMediumMs, Metric::SteadyMiddleMediumMs],
        Metric::SteadyFirstMediumMs,
    ),
    (
        [Metric::SteadyEndLongMs, Metric::SteadyMiddleLongMs],
        Metric::SteadyFirstLongMs,
    ),
];

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Figures, BenchError> {
    let mut figures = Figures::new();
    for (iterations, metrics) in lab.scale.w7_iterations.into_iter().zip(GROWING) {
        let playbook = fan_out(iterations, IN_FLIGHT)?;
        lab.system.register(&playbook).await?;
        let (id, _) = run_known(&*lab.system, &lab.ledger, &playbook).await?;
        // The longest log comes last, so its rates are those that stay.
        let (events, rate) = whole(lab, id).await?;
        figures.insert(Metric::ReplayEventsPerS, rate);
        if let Some(store) = lab.system.store() {
            figures.insert(Metric::FoldEventsPerS, folded(&store, id).await?);
        }
        looks(lab, id, events, metrics, &mut figures).await?;
    }
    let Some(store) = lab.system.store() else {
        return Ok(figures);
    };
    let steady = lab.scale.w7_events.into_iter().zip(STEADY);
    for (number, (length, (metrics, first))) in (1..).zip(steady) {
        let id = written(&*store, number, length).await?;
        lab.ledger.note(id, 0);
        let (events, rate) = whole(lab, id).await?;
        figures.insert(Metric::SteadyEventsPerS, rate);
        let (_, took) = as_of(lab, id, events / 7 * 5).await?;
        figures.insert(first, took);
        looks(lab, id, events, metrics, &mut figures).await?;
    }
    Ok(figures)
}

/// The events of a log, and how many of them are folded per second by the first who asks.
async fn whole(lab: &Lab<'_>, id: ExecutionId) -> Result<(i64, f64), BenchError> {
    let (answer, took) = timed(lab, &ReplayQuery::new(id)).await?;
    let events = answer.state.event_count;
    Ok((events, counted(events)? / (took / 1e3)))
}

async fn looks(
    lab: &Lab<'_>,
    id: ExecutionId,
    events: i64,
    metrics: [Metric; 2],
    figures: &mut Figures,
) -> Result<(), BenchError> {
    for (place, metric) in [events, events / 2].into_iter().zip(metrics) {
        let mut times = Vec::new();
        for _ in 0..lab.scale.w7_looks {
            times.push(as_of(lab, id, place).await?.1);
        }
        figures.insert(metric, at(&times, 50)?);
    }
    Ok(())
}

/// The state as of a place.
async fn as_of(
    lab: &Lab<'_>,
    id: ExecutionId,
    place: i64,
) -> Result<(ReplayAnswer, f64), BenchError> {
    let query = ReplayQuery {
        cut: Cut::Position(place),
        ..ReplayQuery::new(id)
    };
    let (answer, took) = timed(lab, &query).await?;
    if answer.state.event_count != place || answer.checksum.is_none() {
        let text = format!("the replay of {id} is not what was asked for");
        return Err(BenchError::Harness(text));
    }
    Ok((answer, took))
}

async fn timed(lab: &Lab<'_>, query: &ReplayQuery) -> Result<(ReplayAnswer, f64), BenchError> {
    let began = Instant::now();
    let answer = lab.system.replay(query).await?;
    Ok((answer, ms(began.elapsed())))
}

/// Events per second that are folded and summed up where they are in memory already.
async fn folded(store: &Arc<dyn Store>, id: ExecutionId) -> Result<f64, BenchError> {
    let mut events: Vec<StoredEvent> = Vec::new();
    loop {
        let after = events
            .last()
            .map_or(Version::EMPTY, |it| it.record.seq.into());
        let page = store.events(id, after, LogPage::MAX).await?;
        if page.is_empty() {
            break;
        }
        events.extend(page);
    }
    let count = counted(i64::try_from(events.len()).unwrap_or(i64::MAX))?;
    let times = tokio::task::spawn_blocking(move || folds(&events, id)).await;
    let times = times.map_err(|error| BenchError::Harness(error.to_string()))??;
    Ok(count * 1e3 / at(&times, 50)?)
}

fn folds(events: &[StoredEvent], id: ExecutionId) -> Result<Vec<f64>, BenchError> {
    let mut times = Vec::new();
    for _ in 0..FOLDS {
        let began = Instant::now();
        let mut state = ReplayState::new(TenantId::default(), OrganizationId::default(), id);
        for event in events {
            let applied = state.apply(&event.record);
            applied.map_err(|error| BenchError::Harness(error.to_string()))?;
        }
        std::hint::black_box(state.checksums());
        times.push(ms(began.elapsed()));
    }
    Ok(times)
}

fn counted(events: i64) -> Result<f64, BenchError> {
    u32::try_from(events)
        .map(f64::from)
        .map_err(|_| BenchError::Harness(format!("a log of {events} events")))
}
