//! Workloads, one file each. All of them do the same on every store and in every shape.

mod backlog;
mod fan_out;
mod idle;
mod latency;
mod outbox;
mod python;
mod replay;
mod sequence;
mod steady_log;
mod stream;
mod throughput;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::broker::BenchBroker;
use crate::cpu_sampler::{CpuSampler, CpuShares};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::publishing::PublishingMode;
use crate::run_ledger::RunLedger;
use crate::scale::WorkloadScale;
use crate::store_site::StoreSite;
use crate::system::{SystemShape, SystemUnderTest, launch_system, run_and_time};

pub(crate) use outbox::CLAIM_BATCH_SIZES;

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
    /// Fan-out and join, and the cost per iteration of a long loop
    W4,
    /// Memory when idle, and cold starts
    W5,
    /// Python steps, compared with the start of a bare interpreter
    W6,
    /// Replays of logs of three lengths, whole and at a position
    W7,
    /// Latency from the store to a consumer
    W8,
    /// Publishing rate of a backlog
    W9,
    /// Rate at which the outbox is emptied, and the cost of counting it
    W10,
}

impl Workload {
    /// All workloads in order of execution. Idle comes first, while the system is fresh.
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

    /// Name on the command line.
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

    /// True if it runs in this publishing mode. Workloads that do not depend on the mode run once.
    pub(crate) const fn applies_to(self, publishing: PublishingMode) -> bool {
        match self {
            Self::W1 | Self::W2 | Self::W3 | Self::W4 => true,
            Self::W5 | Self::W6 | Self::W7 => matches!(publishing, PublishingMode::Off),
            Self::W8 | Self::W9 | Self::W10 => matches!(publishing, PublishingMode::On),
        }
    }
}

/// Figures of a workload.
pub(crate) type Figures = BTreeMap<Metric, f64>;

/// Result of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    pub workload: Workload,
    pub figures: BTreeMap<Metric, f64>,
    /// CPU usage by process, in percent of one core.
    pub cpu: CpuShares,
    /// Number of started runs, including warm-up.
    pub runs: u64,
    /// Number of commits that waited for the disk, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits: Option<u64>,
}

/// A running system, with everything that a workload needs.
pub(crate) struct WorkloadContext<'a> {
    pub(crate) shape: &'a SystemShape,
    pub(crate) site: &'a StoreSite,
    pub(crate) scale: &'a WorkloadScale,
    pub(crate) ledger: Arc<RunLedger>,
    pub(crate) system: Arc<dyn SystemUnderTest>,
    /// Destination of its events, if publishing is on.
    broker: Option<Arc<BenchBroker>>,
    /// Installation folder of the peers.
    pub(crate) peers_home: Option<&'a Path>,
    /// Time of the first start.
    pub(crate) first_start_s: f64,
}

impl<'a> WorkloadContext<'a> {
    /// Starts a system on a fresh store.
    pub(crate) async fn open(
        shape: &'a SystemShape,
        site: &'a StoreSite,
        scale: &'a WorkloadScale,
        publishing: PublishingMode,
        peers_home: Option<&'a Path>,
    ) -> Result<Self, BenchError> {
        let ledger = Arc::new(RunLedger::default());
        let broker = match publishing {
            PublishingMode::Off => None,
            PublishingMode::On => Some(Arc::new(BenchBroker::start().await?)),
        };
        let launched = launch_system(shape, site, broker.as_deref(), &ledger).await?;
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

    /// Stops the system, and returns the runs that must be in its log.
    pub(crate) async fn close(self) -> Result<Arc<RunLedger>, BenchError> {
        self.system.stop().await?;
        Ok(self.ledger)
    }

    /// Measures one workload. A workload that restarts the system returns a new context. If a
    /// workload fails, the context and its system are dropped.
    pub(crate) async fn measure_workload(
        self,
        workload: Workload,
    ) -> Result<(Self, Measurement), BenchError> {
        match workload {
            Workload::W5 => self.measure_idle().await,
            Workload::W9 => self.measure_backlog().await,
            other => {
                let measurement = self.measure_running(other).await?;
                Ok((self, measurement))
            }
        }
    }

    async fn measure_running(&self, workload: Workload) -> Result<Measurement, BenchError> {
        let runs = self.ledger.run_count();
        let commits = self.system.commit_count();
        let sampler = CpuSampler::start_sampling(self.all_processes());
        let figures = match workload {
            Workload::W1 => latency::measure_latency(self).await?,
            Workload::W2 => throughput::measure_throughput(self).await?,
            Workload::W3 => sequence::measure_sequence(self).await?,
            Workload::W4 => fan_out::measure_fan_out(self).await?,
            Workload::W5 | Workload::W9 => Figures::new(),
            Workload::W6 => python::measure_python_steps(self).await?,
            Workload::W7 => replay::measure_replay(self).await?,
            Workload::W8 => stream::measure_stream_latency(self).await?,
            Workload::W10 => outbox::measure_outbox(self).await?,
        };
        let cpu = sampler.read_shares();
        let after = self.system.commit_count();
        Ok(Measurement {
            workload,
            figures,
            cpu,
            runs: self.ledger.run_count() - runs,
            commits: after.zip(commits).map(|(after, before)| after - before),
        })
    }

    /// The system restarts during this workload, so neither commits nor CPU shares are known.
    async fn measure_idle(self) -> Result<(Self, Measurement), BenchError> {
        let runs = self.ledger.run_count();
        let (context, figures) = idle::measure_idle_system(self).await?;
        let measurement = Measurement {
            workload: Workload::W5,
            figures,
            cpu: CpuShares::new(),
            runs: context.ledger.run_count() - runs,
            commits: None,
        };
        Ok((context, measurement))
    }

    /// The system restarts during this workload, so its commits are not known.
    async fn measure_backlog(self) -> Result<(Self, Measurement), BenchError> {
        let runs = self.ledger.run_count();
        let (context, figures, cpu) = backlog::measure_backlog_rate(self).await?;
        let measurement = Measurement {
            workload: Workload::W9,
            figures,
            cpu,
            runs: context.ledger.run_count() - runs,
            commits: None,
        };
        Ok((context, measurement))
    }

    /// Restarts the system on the same store. Returns the new context and the start time.
    async fn restart_system(
        self,
        broker: Option<Arc<BenchBroker>>,
    ) -> Result<(Self, f64), BenchError> {
        let Self { system, .. } = self;
        system.stop().await?;
        let launched =
            launch_system(self.shape, self.site, broker.as_deref(), &self.ledger).await?;
        let context = Self { system: launched.system, broker, ..self };
        Ok((context, launched.ready_s))
    }

    /// Returns the broker, or an error if publishing is off.
    fn broker(&self) -> Result<&BenchBroker, BenchError> {
        let broker = self.broker.as_deref();
        broker.ok_or_else(|| BenchError::Harness("publishing is off".to_owned()))
    }

    /// Processes of the system and of its database.
    fn all_processes(&self) -> Vec<(&'static str, u32)> {
        let mut processes = self.system.system_processes();
        processes.extend(self.site.database_processes());
        processes
    }

    /// Runs a playbook several times in sequence, and returns the milliseconds of each run.
    async fn run_sequentially(
        &self,
        playbook: &crate::playbooks::BenchPlaybook,
        runs: u32,
    ) -> Result<Vec<f64>, BenchError> {
        let mut times = Vec::new();
        for _ in 0..runs {
            let took = run_and_time(&*self.system, &self.ledger, playbook).await?;
            times.push(crate::stats::to_ms(took));
        }
        Ok(times)
    }
}

/// Returns a percentile of times, or an error if there are none.
fn require_percentile(times: &[f64], percent: u32) -> Result<f64, BenchError> {
    crate::stats::percentile(times, percent)
        .ok_or_else(|| BenchError::Harness("a workload without runs".to_owned()))
}
