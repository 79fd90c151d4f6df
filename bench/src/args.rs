//! The command line.

use std::path::{Path, PathBuf};

use clap::Parser;

use crate::outlets::Outlets;
use crate::peers::Peers;
use crate::progress::Progress;
use crate::scale::Scale;
use crate::session::Choice;
use crate::site::StoreKind;
use crate::system::{Shape, ShapeKind};
use crate::workload::Workload;

/// Measures NoETL on both stores and in both shapes, beside its peers where they are installed
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
    /// Outlets to run with: without any, and with the outbox and the stream to NATS
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Outlets::Off, Outlets::On])]
    pub outlets: Vec<Outlets>,
    /// Rounds; each figure is the median of them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub repeat: u32,
    /// Do a tenth of the work: shows that everything runs, and measures nothing
    #[arg(long)]
    pub quick: bool,
    /// Replay logs that are ten times as long
    #[arg(long, conflicts_with = "quick")]
    pub large: bool,
    /// Folder of the peers' harness, which has a program `run`
    #[arg(long, value_name = "DIR", env = "NOETL_BENCH_PEERS")]
    pub peers: Option<PathBuf>,
    /// Folder that the peers are installed in; with it the outbox is measured beside pg-boss
    #[arg(long, value_name = "DIR", env = "PEERS_HOME")]
    pub peers_home: Option<PathBuf>,
    /// The `noetl` binary of the shape `processes`; built where it is not given
    #[arg(long, value_name = "PATH")]
    pub noetl: Option<PathBuf>,
    /// Also write everything measured to a file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print the tables of such a file, and measure nothing
    #[arg(long, value_name = "FILE")]
    pub show: Option<PathBuf>,
}

impl Args {
    /// Whether the binary of the product is needed.
    pub fn needs_noetl(&self) -> bool {
        self.shape.contains(&ShapeKind::Processes)
    }

    /// What is to be measured. `noetl` is the binary of the product, where it is needed.
    pub fn choice(&self, noetl: Option<&Path>) -> Choice {
        let shapes = self.shape.iter().filter_map(|kind| match kind {
            ShapeKind::Embedded => Some(Shape::Embedded),
            ShapeKind::Processes => Some(Shape::Processes {
                noetl: noetl?.to_owned(),
            }),
        });
        let peers = self.peers.clone().map(|folder| Peers {
            folder,
            quick: self.quick,
        });
        Choice {
            workloads: self.only.clone(),
            stores: self.store.clone(),
            shapes: shapes.collect(),
            outlets: self.outlets.clone(),
            scale: match (self.quick, self.large) {
                (true, _) => Scale::QUICK,
                (false, true) => Scale::LARGE,
                (false, false) => Scale::FULL,
            },
            rounds: self.repeat,
            peers,
            peers_home: self.peers_home.clone(),
            progress: Progress::Told,
        }
    }
}
