//! Order of a session: rounds, and in each the peers, then our systems one after the other.

use std::path::PathBuf;

use noetl_server::{Clock as _, SystemClock};

use crate::document::{BenchDocument, MeasurementRound, SessionMeta, SystemResult};
use crate::error::BenchError;
use crate::machine::{core_count, filesystem_kind, is_volatile, kernel_release};
use crate::peers::PeerHarness;
use crate::progress::ProgressOutput;
use crate::publishing::PublishingMode;
use crate::scale::WorkloadScale;
use crate::store_site::{StoreKind, StoreSite};
use crate::system::SystemShape;
use crate::workload::{Workload, WorkloadContext};

/// Selection of measurements.
#[derive(Debug, Clone)]
pub struct MeasurementPlan {
    pub workloads: Vec<Workload>,
    pub stores: Vec<StoreKind>,
    pub shapes: Vec<SystemShape>,
    pub publishing_modes: Vec<PublishingMode>,
    pub scale: WorkloadScale,
    /// Number of rounds. The median counts.
    pub rounds: u32,
    /// Harness of the peers, if they are to be measured.
    pub peers: Option<PeerHarness>,
    /// Installation folder of the peers, for comparisons inside of a workload.
    pub peers_home: Option<PathBuf>,
    pub progress: ProgressOutput,
}

/// Measures everything that was selected.
pub async fn measure_all(plan: &MeasurementPlan) -> BenchDocument {
    let kind = filesystem_kind(&std::env::temp_dir());
    if is_volatile(&kind) {
        plan.progress.print_line(&format!(
            "warning: the temporary folder is {kind}, where a sync costs nothing; \
             set TMPDIR to a folder on a disk"
        ));
    }
    let mut document = BenchDocument { meta: session_meta(plan, kind), rounds: Vec::new() };
    for number in 1..=plan.rounds {
        plan.progress.print_line(&format!("round {number} of {}", plan.rounds));
        document.rounds.push(measure_round(plan).await);
    }
    document
}

fn session_meta(plan: &MeasurementPlan, filesystem: String) -> SessionMeta {
    SessionMeta {
        date: SystemClock.now().to_string(),
        cores: core_count(),
        kernel: kernel_release(),
        filesystem,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        optimised: !cfg!(debug_assertions),
        scale: plan.scale.clone(),
    }
}

async fn measure_round(plan: &MeasurementPlan) -> MeasurementRound {
    let mut round = MeasurementRound::default();
    if let Some(peers) = &plan.peers {
        plan.progress.print_line("peers");
        match peers.run(&plan.workloads).await {
            Ok(document) => round.peers = Some(document),
            Err(error) => {
                plan.progress.print_line(&format!("peers: {}", error.full_message()));
                round.peers_error = Some(error.full_message());
            }
        }
    }
    for store in &plan.stores {
        for shape in &plan.shapes {
            for mode in &plan.publishing_modes {
                let system = measure_system(*store, shape, *mode, plan).await;
                round.systems.push(system);
            }
        }
    }
    round
}

/// Measures one system on a fresh store.
pub async fn measure_system(
    store: StoreKind,
    shape: &SystemShape,
    publishing: PublishingMode,
    plan: &MeasurementPlan,
) -> SystemResult {
    let mut result = SystemResult {
        store,
        shape: shape.kind(),
        publishing,
        durability: std::collections::BTreeMap::new(),
        measurements: Vec::new(),
        checked_runs: 0,
        error: None,
    };
    if let Err(error) = try_measure_system(shape, plan, &mut result).await {
        let (name, error) = (result.display_name(), error.full_message());
        plan.progress.print_line(&format!("{name}: FAILED: {error}"));
        result.error = Some(error);
    }
    result
}

async fn try_measure_system(
    shape: &SystemShape,
    plan: &MeasurementPlan,
    result: &mut SystemResult,
) -> Result<(), BenchError> {
    let name = result.display_name();
    let is_selected = |workload: &Workload| {
        plan.workloads.contains(workload) && workload.applies_to(result.publishing)
    };
    let selected: Vec<_> = Workload::ALL.into_iter().filter(is_selected).collect();
    if selected.is_empty() {
        return Ok(());
    }
    let print = |text: &str| plan.progress.print_line(&format!("{name}: {text}"));
    let site = StoreSite::new(result.store)?;
    print("starting");
    let home = plan.peers_home.as_deref();
    let mut context =
        WorkloadContext::open(shape, &site, &plan.scale, result.publishing, home).await?;
    result.durability = site.read_durability().await?;
    for workload in selected {
        print(workload.as_str());
        let measurement;
        (context, measurement) = context.measure_workload(workload).await?;
        result.measurements.push(measurement);
    }
    let ledger = context.close().await?;
    print("checking the log");
    let open_store = site.open().await?;
    ledger.check_log(&*open_store.store).await?;
    result.checked_runs = ledger.run_count();
    Ok(())
}
