//! The workloads, one file each. All of them do the same on every store and in every shape.

mod backlog;
mod fan_out;
mod idle;
mod latency;
mod outbox;
mod python;
mod replay;
mod sequence;
mod steady;
mod stream;
mod throughput;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::broker::Broker;
use crate::error::BenchError;
use crate::gauge::{Gauge, Shares};
use crate::ledger::Ledger;
use crate::metric::Metric;
use crate::outlets::Outlets;
use crate::scale::Scale;
use crate::site::Site;
use crate::system::{Shape, System, launch, run_to_end};

pub(crate) use outbox::BATCHES;

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Single runs of one step, one at a time.
    W1,
    /// Runs of one step from many clients.
    W2,
    /// Runs of ten steps, one at a time.
    W3,
    /// Fan-out and join; and what an iteration of a long loop costs.
    W4,
    /// Memory when idle, and cold starts.
    W5,
    /// Python steps, against the start of a bare interpreter.
    W6,
    /// Replays of logs of three lengths, whole and as of some place.
    W7,
    /// How soon a consumer has an event.
    W8,
    /// How fast a backlog goes to a broker.
    W9,
    /// How fast the outbox is emptied, and how soon it is counted.
    W10,
}

impl Workload {
    /// All of them, in the order in which they are run: the system is still fresh for the first.
    pub const ALL: [Self; 10] = [
        Self::W5,
        Self::W1,
        Self::W3,
        Self::W2,
        Self::W8,
        Self::W9,
        Self::W10,
        Self::W4,
        Self::W6,
        Self::W7,
    ];

    /// How it is called.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::W1 => "w1",
            Self::W2 => "w2",
            Self::W3 => "w3",
            Self::W4 => "w4",
            Self::W5 => "w5",
            Self::W6 => "w6",
            Self::W7 => "w7",
            Self::W8 => "w8",
            Self::W9 => "w9",
            Self::W10 => "w10",
        }
    }

    /// Whether it is run where the outlets are so. What has nothing to do with them is not repeated.
    pub(crate) const fn is_with(self, outlets: Outlets) -> bool {
        match self {
            Self::W1 | Self::W2 | Self::W3 | Self::W4 => true,
            Self::W5 | Self::W6 | Self::W7 => matches!(outlets, Outlets::Off),
            Self::W8 | Self::W9 | Self::W10 => matches!(outlets, Outlets::On),
        }
    }
}

/// The figures of a workload.
pub(crate) type Figures = BTreeMap<Metric, f64>;

/// What a workload gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Which workload.
    pub workload: Workload,
    /// What came out.
    pub figures: BTreeMap<Metric, f64>,
    /// Who used the processors meanwhile, in percent of one core.
    pub cpu: Shares,
    /// Runs that were started, those that only warm up included.
    pub runs: u64,
    /// How often the store waited for the disk meanwhile, where that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits: Option<u64>,
}

/// A running system, and all that a workload needs besides.
pub(crate) struct Lab<'a> {
    pub(crate) shape: &'a Shape,
    pub(crate) site: &'a Site,
    pub(crate) scale: &'a Scale,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) system: Arc<dyn System>,
    /// Where its events go, where its outlets are on.
    broker: Option<Arc<Broker>>,
    /// Where the peers are installed.
    pub(crate) peers_home: Option<&'a Path>,
    /// How long the first start took.
    pub(crate) first_start_s: f64,
}

impl<'a> Lab<'a> {
    /// Starts a system on a fresh site.
    pub(crate) async fn open(
        shape: &'a Shape,
        site: &'a Site,
        scale: &'a Scale,
        outlets: Outlets,
        peers_home: Option<&'a Path>,
    ) -> Result<Self, BenchError> {
        let ledger = Arc::new(Ledger::default());
        let broker = match outlets {
            Outlets::Off => None,
            Outlets::On => Some(Arc::new(Broker::start().await?)),
        };
        let launched = launch(shape, site, broker.as_deref(), &ledger).await?;
        Ok(Self {
            shape,
            site,
            scale,
            ledger,
            system: launched.system,
            broker,
            peers_home,
            first_start_s: launched.ready_s,
        })
    }

    /// Stops the system, and gives what must be in its log.
    pub(crate) async fn close(self) -> Result<Arc<Ledger>, BenchError> {
        self.system.stop().await?;
        Ok(self.ledger)
    }

    /// Measures one workload. After one that starts the system anew, the lab is another one; after
    /// one that failed there is none, and what it had is torn down.
    pub(crate) async fn measure(
        self,
        workload: Workload,
    ) -> Result<(Self, Measurement), BenchError> {
        match workload {
            Workload::W5 => self.measure_idle().await,
            Workload::W9 => self.measure_backlog().await,
            running => {
                let measurement = self.measure_running(running).await?;
                Ok((self, measurement))
            }
        }
    }

    async fn measure_running(&self, workload: Workload) -> Result<Measurement, BenchError> {
        let runs = self.ledger.count();
        let commits = self.system.commits();
        let gauge = Gauge::begin(self.processes());
        let figures = match workload {
            Workload::W1 => latency::measure(self).await?,
            Workload::W2 => throughput::measure(self).await?,
            Workload::W3 => sequence::measure(self).await?,
            Workload::W4 => fan_out::measure(self).await?,
            Workload::W5 | Workload::W9 => Figures::new(),
            Workload::W6 => python::measure(self).await?,
            Workload::W7 => replay::measure(self).await?,
            Workload::W8 => stream::measure(self).await?,
            Workload::W10 => outbox::measure(self).await?,
        };
        let cpu = gauge.read();
        let after = self.system.commits();
        Ok(Measurement {
            workload,
            figures,
            cpu,
            runs: self.ledger.count() - runs,
            commits: after.zip(commits).map(|(after, before)| after - before),
        })
    }

    /// No system runs all the time, so neither commits nor shares of processors can be told.
    async fn measure_idle(self) -> Result<(Self, Measurement), BenchError> {
        let runs = self.ledger.count();
        let (lab, figures) = idle::measure(self).await?;
        let measurement = Measurement {
            workload: Workload::W5,
            figures,
            cpu: Shares::new(),
            runs: lab.ledger.count() - runs,
            commits: None,
        };
        Ok((lab, measurement))
    }

    /// The system is another one afterwards, so its commits cannot be told.
    async fn measure_backlog(self) -> Result<(Self, Measurement), BenchError> {
        let runs = self.ledger.count();
        let (lab, figures, cpu) = backlog::measure(self).await?;
        let measurement = Measurement {
            workload: Workload::W9,
            figures,
            cpu,
            runs: lab.ledger.count() - runs,
            commits: None,
        };
        Ok((lab, measurement))
    }

    /// The same lab with a new system on the store of the old one, and how long its start took.
    async fn restart(self, broker: Option<Arc<Broker>>) -> Result<(Self, f64), BenchError> {
        let Self { system, .. } = self;
        system.stop().await?;
        let launched = launch(self.shape, self.site, broker.as_deref(), &self.ledger).await?;
        let lab = Self {
            system: launched.system,
            broker,
            ..self
        };
        Ok((lab, launched.ready_s))
    }

    /// Where events go.
    fn broker(&self) -> Result<&Broker, BenchError> {
        let broker = self.broker.as_deref();
        broker.ok_or_else(|| BenchError::Harness("the outlets are off".to_owned()))
    }

    /// The processes of the system and of its database.
    fn processes(&self) -> Vec<(&'static str, u32)> {
        let mut processes = self.system.processes();
        processes.extend(self.site.processes());
        processes
    }

    /// Runs a playbook some times, one after the other, and gives the milliseconds of each.
    async fn one_by_one(
        &self,
        playbook: &crate::playbooks::Playbook,
        runs: u32,
    ) -> Result<Vec<f64>, BenchError> {
        let mut times = Vec::new();
        for _ in 0..runs {
            let took = run_to_end(&*self.system, &self.ledger, playbook).await?;
            times.push(crate::stats::ms(took));
        }
        Ok(times)
    }
}

/// A percentile of times that must be there.
fn at(times: &[f64], percent: u32) -> Result<f64, BenchError> {
    crate::stats::percentile(times, percent)
        .ok_or_else(|| BenchError::Harness("a workload without runs".to_owned()))
}
