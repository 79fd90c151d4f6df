//! W9: how fast a backlog goes out, against a plain publisher of the same messages in the same minute.
//!
//! The system is started anew beside an empty broker, so that it publishes its whole log again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Figures, Lab};
use crate::broker::Broker;
use crate::error::BenchError;
use crate::gauge::{Gauge, Shares};
use crate::metric::Metric;
use crate::playbooks::fan_out;

/// Iterations that are open at once.
const IN_FLIGHT: u32 = 500;

/// How long a backlog may take.
const PATIENCE: Duration = Duration::from_mins(5);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(2);

pub(super) async fn measure(lab: Lab<'_>) -> Result<(Lab<'_>, Figures, Shares), BenchError> {
    let playbook = fan_out(lab.scale.w9_iterations, IN_FLIGHT)?;
    lab.system.register(&playbook).await?;
    lab.one_by_one(&playbook, 1).await?;
    let backlog = caught_up(&lab).await?;
    let fresh = Arc::new(Broker::start().await?);
    let gauge = Gauge::begin(lab.site.processes());
    let restart = lab.restart(Some(Arc::clone(&fresh)));
    let ((lab, _), rate) = tokio::try_join!(restart, drained(&fresh, backlog))?;
    let shares = gauge.read();
    let most = usize::try_from(lab.scale.w9_plain).unwrap_or(usize::MAX);
    let messages = fresh.read(most).await?;
    let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
    let took = Broker::start().await?.publish(messages).await?;
    let plain = f64::from(count) / took.as_secs_f64();
    let figures = Figures::from([
        (Metric::PublishPerS, rate),
        (Metric::PlainPublishPerS, plain),
        (Metric::PublishShare, 1e2 * rate / plain),
    ]);
    Ok((lab, figures, shares))
}

/// Waits until the broker has everything, and says how much that is.
async fn caught_up(lab: &Lab<'_>) -> Result<u64, BenchError> {
    let began = Instant::now();
    while lab.system.stream_lag().await? > 0 {
        if began.elapsed() > PATIENCE {
            return Err(BenchError::Harness("the stream stays behind".to_owned()));
        }
        sleep(PAUSE).await;
    }
    Ok(lab.broker()?.messages().await)
}

/// Messages per second from the first look that finds some until there are so many.
async fn drained(broker: &Broker, backlog: u64) -> Result<f64, BenchError> {
    let began = Instant::now();
    let mut first: Option<(Instant, u64)> = None;
    loop {
        let there = broker.messages().await;
        let now = Instant::now();
        if there > 0 {
            let (since, before) = *first.get_or_insert((now, there));
            if there >= backlog {
                let count = u32::try_from(there - before).unwrap_or(u32::MAX);
                // A backlog that was there at the first look tells nothing but that it was fast.
                let took = now.saturating_duration_since(since).max(PAUSE);
                return Ok(f64::from(count.max(1)) / took.as_secs_f64());
            }
        }
        if began.elapsed() > PATIENCE {
            let text = format!("the broker has {there} of {backlog} messages");
            return Err(BenchError::Harness(text));
        }
        sleep(PAUSE).await;
    }
}
