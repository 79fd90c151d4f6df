//! W2: how many runs a second end when many clients each wait for their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Figures, Lab};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::playbooks::one_step;
use crate::system::run_to_end;

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Figures, BenchError> {
    let playbook = one_step()?;
    lab.one_by_one(&playbook, lab.scale.warm_up).await?;
    let playbook = Arc::new(playbook);
    let wanted = lab.scale.w2_runs;
    let taken = Arc::new(AtomicU32::new(0));
    let before = lab.ledger.count();
    let began = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..lab.scale.w2_clients {
        let (system, ledger) = (Arc::clone(&lab.system), Arc::clone(&lab.ledger));
        let (playbook, taken) = (Arc::clone(&playbook), Arc::clone(&taken));
        clients.spawn(async move {
            while taken.fetch_add(1, Ordering::Relaxed) < wanted {
                run_to_end(&*system, &ledger, &playbook).await?;
            }
            Ok::<_, BenchError>(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.map_err(|error| BenchError::Harness(format!("a client failed: {error}")))??;
    }
    let took = began.elapsed().as_secs_f64();
    let done = lab.ledger.count() - before;
    if done != u64::from(wanted) {
        let text = format!("{done} of {wanted} runs ended");
        return Err(BenchError::Harness(text));
    }
    let rate = f64::from(wanted) / took;
    Ok(Figures::from([(Metric::RunsPerS, rate)]))
}
