//! W5: memory of the idle product, and its start times.
//!
//! Memory is measured only for processes of the product: an embedded one shares it with its caller.

use std::time::Duration;

use super::{Figures, WorkloadContext};
use crate::error::BenchError;
use crate::machine::{MemoryUsage, tree_memory};
use crate::metric::Metric;
use crate::playbooks::one_step_playbook;

pub(super) async fn measure_idle_system(
    context: WorkloadContext<'_>,
) -> Result<(WorkloadContext<'_>, Figures), BenchError> {
    let mut figures = Figures::from([(Metric::FirstStartS, context.first_start_s)]);
    tokio::time::sleep(Duration::from_secs(context.scale.settle_s)).await;
    let names = [("server", Metric::IdleServerMib), ("worker", Metric::IdleWorkerMib)];
    record_memory(&context, &mut figures, names);
    for (_, pid) in context.site.database_processes() {
        figures.insert(Metric::IdlePostgresMib, tree_memory(pid).pss);
    }
    context.run_sequentially(&one_step_playbook()?, context.scale.w5_runs).await?;
    let names = [("server", Metric::UsedServerMib), ("worker", Metric::UsedWorkerMib)];
    record_memory(&context, &mut figures, names);
    let (context, ready_s) = context.restart_system(None).await?;
    figures.insert(Metric::SecondStartS, ready_s);
    Ok((context, figures))
}

fn record_memory(context: &WorkloadContext<'_>, figures: &mut Figures, names: [(&str, Metric); 2]) {
    for (name, pid) in context.system.system_processes() {
        let MemoryUsage { rss, .. } = tree_memory(pid);
        if let Some((_, metric)) = names.iter().find(|(expected, _)| *expected == name) {
            figures.insert(*metric, rss);
        }
    }
}
