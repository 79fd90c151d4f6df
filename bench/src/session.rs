//! The order of things: rounds, and in each the peers, then our systems one after the other.

use std::path::PathBuf;

use noetl_server::{Clock as _, SystemClock};

use crate::document::{Document, Meta, Round, SystemResult};
use crate::error::BenchError;
use crate::machine::{cores, filesystem, is_volatile, kernel};
use crate::outlets::Outlets;
use crate::peers::Peers;
use crate::progress::Progress;
use crate::scale::Scale;
use crate::site::{Site, StoreKind};
use crate::system::Shape;
use crate::workload::{Lab, Workload};

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Which workloads.
    pub workloads: Vec<Workload>,
    /// On which databases.
    pub stores: Vec<StoreKind>,
    /// In which shapes.
    pub shapes: Vec<Shape>,
    /// With which outlets.
    pub outlets: Vec<Outlets>,
    /// How much.
    pub scale: Scale,
    /// How often, of which the median counts.
    pub rounds: u32,
    /// The peers, where they are wanted.
    pub peers: Option<Peers>,
    /// Where the peers are installed, for what is compared inside of a workload.
    pub peers_home: Option<PathBuf>,
    /// Where progress is told.
    pub progress: Progress,
}

/// Measures everything that was chosen.
pub async fn measure(choice: &Choice) -> Document {
    let kind = filesystem(&std::env::temp_dir());
    if is_volatile(&kind) {
        choice.progress.say(&format!(
            "warning: the temporary folder is {kind}, where a sync costs nothing; \
             set TMPDIR to a folder on a disk"
        ));
    }
    let mut document = Document {
        meta: meta(choice, kind),
        rounds: Vec::new(),
    };
    for number in 1..=choice.rounds {
        choice
            .progress
            .say(&format!("round {number} of {}", choice.rounds));
        document.rounds.push(round(choice).await);
    }
    document
}

fn meta(choice: &Choice, filesystem: String) -> Meta {
    Meta {
        date: SystemClock.now().to_string(),
        cores: cores(),
        kernel: kernel(),
        filesystem,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        optimised: !cfg!(debug_assertions),
        scale: choice.scale.clone(),
    }
}

async fn round(choice: &Choice) -> Round {
    let mut round = Round::default();
    if let Some(peers) = &choice.peers {
        choice.progress.say("peers");
        match peers.run(&choice.workloads).await {
            Ok(document) => round.peers = Some(document),
            Err(error) => {
                choice.progress.say(&format!("peers: {}", error.told()));
                round.peers_error = Some(error.told());
            }
        }
    }
    for store in &choice.stores {
        for shape in &choice.shapes {
            for outlets in &choice.outlets {
                let system = measure_system(*store, shape, *outlets, choice).await;
                round.systems.push(system);
            }
        }
    }
    round
}

/// Measures one system on a fresh store.
pub async fn measure_system(
    store: StoreKind,
    shape: &Shape,
    outlets: Outlets,
    choice: &Choice,
) -> SystemResult {
    let mut result = SystemResult {
        store,
        shape: shape.kind(),
        outlets,
        durability: std::collections::BTreeMap::new(),
        measurements: Vec::new(),
        checked_runs: 0,
        error: None,
    };
    if let Err(error) = try_system(shape, choice, &mut result).await {
        let (name, error) = (result.name(), error.told());
        choice.progress.say(&format!("{name}: FAILED: {error}"));
        result.error = Some(error);
    }
    result
}

async fn try_system(
    shape: &Shape,
    choice: &Choice,
    result: &mut SystemResult,
) -> Result<(), BenchError> {
    let name = result.name();
    let wanted = |workload: &Workload| {
        choice.workloads.contains(workload) && workload.is_with(result.outlets)
    };
    let wanted: Vec<_> = Workload::ALL.into_iter().filter(wanted).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let say = |text: &str| choice.progress.say(&format!("{name}: {text}"));
    let site = Site::new(result.store)?;
    say("start");
    let home = choice.peers_home.as_deref();
    let mut lab = Lab::open(shape, &site, &choice.scale, result.outlets, home).await?;
    result.durability = site.durability().await?;
    for workload in wanted {
        say(workload.as_str());
        let measurement;
        (lab, measurement) = lab.measure(workload).await?;
        result.measurements.push(measurement);
    }
    let ledger = lab.close().await?;
    say("check of the log");
    let opened = site.open().await?;
    ledger.check(&*opened.store).await?;
    result.checked_runs = ledger.count();
    Ok(())
}
