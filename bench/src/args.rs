//! The command line.

use std::path::{Path, PathBuf};

use clap::Parser;

use crate::measurement::MeasurementPlan;
use crate::peers::PeerHarness;
use crate::progress::ProgressOutput;
use crate::publishing::PublishingMode;
use crate::scale::WorkloadScale;
use crate::store_site::StoreKind;
use crate::system::{ShapeKind, SystemShape};
use crate::workload::Workload;

/// Measures NoETL on both stores and in both shapes, next to its peers if they are installed
#[derive(Debug, Parser)]
#[command(name = "noetl-bench", version, max_term_width = 100)]
pub struct Args {
    /// Workloads to run
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Workload::ALL)]
    pub only: Vec<Workload>,
    /// Stores to run on
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [StoreKind::Sqlite, StoreKind::Postgres])]
    pub store: Vec<StoreKind>,
    /// Shapes to run in
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [ShapeKind::Embedded, ShapeKind::Processes])]
    pub shape: Vec<ShapeKind>,
    /// Publishing modes to run with: off, and on with the outbox and the stream to NATS
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [PublishingMode::Off, PublishingMode::On])]
    pub publishing: Vec<PublishingMode>,
    /// Rounds; each figure is the median over all rounds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub repeat: u32,
    /// Do a tenth of the work, to check that everything runs; the figures mean nothing
    #[arg(long)]
    pub quick: bool,
    /// Replay logs that are ten times as long
    #[arg(long, conflicts_with = "quick")]
    pub large: bool,
    /// Folder of the peers' harness, which has a program `run`
    #[arg(long, value_name = "DIR", env = "NOETL_BENCH_PEERS")]
    pub peers: Option<PathBuf>,
    /// Folder that the peers are installed in; enables the comparison of the outbox with pg-boss
    #[arg(long, value_name = "DIR", env = "PEERS_HOME")]
    pub peers_home: Option<PathBuf>,
    /// The `noetl` binary for the shape `processes`; built if not given
    #[arg(long, value_name = "PATH")]
    pub noetl: Option<PathBuf>,
    /// Also write all measurements to a JSON file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print the tables of such a file instead of measuring
    #[arg(long, value_name = "FILE")]
    pub show: Option<PathBuf>,
}

impl Args {
    /// True if the binary of the product is needed.
    pub fn needs_noetl(&self) -> bool {
        self.shape.contains(&ShapeKind::Processes)
    }

    /// Returns the measurement plan. `noetl` is the binary of the product, if needed.
    pub fn to_plan(&self, noetl: Option<&Path>) -> MeasurementPlan {
        let shapes = self.shape.iter().filter_map(|kind| match kind {
            ShapeKind::Embedded => Some(SystemShape::Embedded),
            ShapeKind::Processes => Some(SystemShape::Processes { noetl: noetl?.to_owned() }),
        });
        let peers = self.peers.clone().map(|folder| PeerHarness { folder, quick: self.quick });
        MeasurementPlan {
            workloads: self.only.clone(),
            stores: self.store.clone(),
            shapes: shapes.collect(),
            publishing_modes: self.publishing.clone(),
            scale: match (self.quick, self.large) {
                (true, _) => WorkloadScale::QUICK,
                (false, true) => WorkloadScale::LARGE,
                (false, false) => WorkloadScale::FULL,
            },
            rounds: self.repeat,
            peers,
            peers_home: self.peers_home.clone(),
            progress: ProgressOutput::Stderr,
        }
    }
}
