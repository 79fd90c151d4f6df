//! W2: completed runs per second with many clients, each of which waits for its own run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Figures, WorkloadContext};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::playbooks::one_step_playbook;
use crate::system::run_and_time;

pub(super) async fn measure_throughput(
    context: &WorkloadContext<'_>,
) -> Result<Figures, BenchError> {
    let playbook = one_step_playbook()?;
    context.run_sequentially(&playbook, context.scale.warm_up).await?;
    let playbook = Arc::new(playbook);
    let runs = context.scale.w2_runs;
    let next_run = Arc::new(AtomicU32::new(0));
    let before = context.ledger.run_count();
    let started = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..context.scale.w2_clients {
        let (system, ledger) = (Arc::clone(&context.system), Arc::clone(&context.ledger));
        let (playbook, next_run) = (Arc::clone(&playbook), Arc::clone(&next_run));
        clients.spawn(async move {
            while next_run.fetch_add(1, Ordering::Relaxed) < runs {
                run_and_time(&*system, &ledger, &playbook).await?;
            }
            Ok::<_, BenchError>(())
        });
    }
    while let Some(result) = clients.join_next().await {
        result.map_err(|error| BenchError::Harness(format!("a client failed: {error}")))??;
    }
    let took = started.elapsed().as_secs_f64();
    let completed = context.ledger.run_count() - before;
    if completed != u64::from(runs) {
        let text = format!("{completed} of {runs} runs ended");
        return Err(BenchError::Harness(text));
    }
    let rate = f64::from(runs) / took;
    Ok(Figures::from([(Metric::RunsPerS, rate)]))
}
