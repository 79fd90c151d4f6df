//! W9: publishing rate of a backlog, compared with a plain publisher of the same messages at the
//! same time.
//!
//! The system is restarted with an empty broker, so that it publishes its whole log again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Figures, WorkloadContext};
use crate::broker::BenchBroker;
use crate::cpu_sampler::{CpuSampler, CpuShares};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::playbooks::fan_out_playbook;

/// Maximum concurrent iterations.
const MAX_IN_FLIGHT: u32 = 500;

/// Maximum time to publish a backlog.
const BACKLOG_TIMEOUT: Duration = Duration::from_mins(5);

/// Poll interval.
const BACKLOG_POLL_INTERVAL: Duration = Duration::from_millis(2);

pub(super) async fn measure_backlog_rate(
    context: WorkloadContext<'_>,
) -> Result<(WorkloadContext<'_>, Figures, CpuShares), BenchError> {
    let playbook = fan_out_playbook(context.scale.w9_iterations, MAX_IN_FLIGHT)?;
    context.system.register_playbook(&playbook).await?;
    context.run_sequentially(&playbook, 1).await?;
    let backlog = wait_until_caught_up(&context).await?;
    let new_broker = Arc::new(BenchBroker::start().await?);
    let sampler = CpuSampler::start_sampling(context.site.database_processes());
    let restart = context.restart_system(Some(Arc::clone(&new_broker)));
    let ((context, _), rate) = tokio::try_join!(restart, measure_drain_rate(&new_broker, backlog))?;
    let shares = sampler.read_shares();
    let limit = usize::try_from(context.scale.w9_plain).unwrap_or(usize::MAX);
    let messages = new_broker.read_messages(limit).await?;
    let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
    let took = BenchBroker::start().await?.publish_all(messages).await?;
    let plain_rate = f64::from(count) / took.as_secs_f64();
    let figures = Figures::from([
        (Metric::PublishPerS, rate),
        (Metric::PlainPublishPerS, plain_rate),
        (Metric::PublishShare, 1e2 * rate / plain_rate),
    ]);
    Ok((context, figures, shares))
}

/// Waits until everything is published, and returns the number of messages.
async fn wait_until_caught_up(context: &WorkloadContext<'_>) -> Result<u64, BenchError> {
    let started = Instant::now();
    while context.system.stream_lag().await? > 0 {
        if started.elapsed() > BACKLOG_TIMEOUT {
            return Err(BenchError::Harness("the stream does not catch up".to_owned()));
        }
        sleep(BACKLOG_POLL_INTERVAL).await;
    }
    Ok(context.broker()?.message_count().await)
}

/// Returns the messages per second from the first poll that finds some until the backlog is
/// published.
async fn measure_drain_rate(broker: &BenchBroker, backlog: u64) -> Result<f64, BenchError> {
    let started = Instant::now();
    let mut first: Option<(Instant, u64)> = None;
    loop {
        let count = broker.message_count().await;
        let now = Instant::now();
        if count > 0 {
            let (since, before) = *first.get_or_insert((now, count));
            if count >= backlog {
                let published = u32::try_from(count - before).unwrap_or(u32::MAX);
                // A backlog that was published at the first poll is counted with the poll interval.
                let took = now.saturating_duration_since(since).max(BACKLOG_POLL_INTERVAL);
                return Ok(f64::from(published.max(1)) / took.as_secs_f64());
            }
        }
        if started.elapsed() > BACKLOG_TIMEOUT {
            let text = format!("the broker has {count} of {backlog} messages");
            return Err(BenchError::Harness(text));
        }
        sleep(BACKLOG_POLL_INTERVAL).await;
    }
}
