//! W5: what the product takes when nobody asks anything of it, and how soon it is there.
//!
//! Memory is told of processes of the product only: an embedded one shares it with its caller.

use std::time::Duration;

use super::{Figures, Lab};
use crate::error::BenchError;
use crate::machine::{Memory, tree_memory};
use crate::metric::Metric;
use crate::playbooks::one_step;

pub(super) async fn measure(lab: Lab<'_>) -> Result<(Lab<'_>, Figures), BenchError> {
    let mut figures = Figures::from([(Metric::FirstStartS, lab.first_start_s)]);
    tokio::time::sleep(Duration::from_secs(lab.scale.settle_s)).await;
    let names = [
        ("server", Metric::IdleServerMib),
        ("worker", Metric::IdleWorkerMib),
    ];
    note_memory(&lab, &mut figures, names);
    for (_, pid) in lab.site.processes() {
        figures.insert(Metric::IdlePostgresMib, tree_memory(pid).pss);
    }
    lab.one_by_one(&one_step()?, lab.scale.w5_runs).await?;
    let names = [
        ("server", Metric::UsedServerMib),
        ("worker", Metric::UsedWorkerMib),
    ];
    note_memory(&lab, &mut figures, names);
    let (lab, ready_s) = lab.restart(None).await?;
    figures.insert(Metric::SecondStartS, ready_s);
    Ok((lab, figures))
}

fn note_memory(lab: &Lab<'_>, figures: &mut Figures, names: [(&str, Metric); 2]) {
    for (name, pid) in lab.system.processes() {
        let Memory { rss, .. } = tree_memory(pid);
        if let Some((_, metric)) = names.iter().find(|(wanted, _)| *wanted == name) {
            figures.insert(*metric, rss);
        }
    }
}
