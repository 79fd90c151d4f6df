//! The kind `transfer`: rows from one system to another, piece by piece.
//!
//! A piece is written in one transaction. What fails leaves the pieces before it where they are, and
//! says how many rows they hold.

mod plan;
mod route;
mod source;
mod target;

use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use self::plan::{Into, Plan, System};
use self::source::Source;
use self::target::Opened;
use crate::call::{Call, Outcome};
use crate::config::Config;
use crate::http::{Http, Web};
use crate::settings::Settings;
use crate::sqlite::Sqlite;
use crate::tool::{Scope, Tool};

/// Moves rows.
pub(crate) struct Transfer {
    settings: Arc<Settings>,
    http: Http,
    /// Databases in memory are those of the command's other tasks.
    sqlite: Arc<Sqlite>,
}

/// How far a transfer got.
#[derive(Debug, Default)]
struct Progress {
    rows: usize,
    chunks: u64,
}

impl Transfer {
    pub(crate) fn new(settings: Arc<Settings>, web: Arc<Web>, sqlite: Arc<Sqlite>) -> Self {
        Self {
            http: Http::new(web, settings.payload_cap),
            settings,
            sqlite,
        }
    }

    async fn work(&self, call: &Call) -> Result<Outcome, TaskError> {
        let plan = Plan::read(Config(&call.config))?;
        if both_in_memory(&plan) {
            let message = "source and target are one database in memory; move rows with INSERT";
            return Err(TaskError::new(TaskErrorKind::Schema, message));
        }
        let mut progress = Progress::default();
        match self.pump(call, &plan, &mut progress).await {
            Ok(columns) => Ok(Outcome::ok(report(&plan, &progress, &columns))),
            Err(mut error) => {
                let mut details = error.details.as_ref().and_then(Json::as_map).cloned();
                let details = details.get_or_insert_default();
                details.extend(progress.fields());
                error.details = Some(std::mem::take(details).into());
                Ok(error.into())
            }
        }
    }

    async fn pump(
        &self,
        call: &Call,
        plan: &Plan<'_>,
        progress: &mut Progress,
    ) -> Result<Vec<Arc<str>>, TaskError> {
        let mut source = Source::open(self, call, plan).await?;
        let mut opened = Opened::open(self, call, plan, source.columns()).await?;
        loop {
            let rows = source.next(plan.chunk_size).await?;
            // A table is emptied even when there is nothing to put into it.
            if rows.is_empty() && opened.before.is_none() {
                break;
            }
            opened.write(self, &rows, progress.chunks).await?;
            if rows.is_empty() {
                break;
            }
            progress.rows += rows.len();
            progress.chunks += 1;
        }
        source.close();
        let names = opened.route.names.clone();
        opened.close();
        Ok(names)
    }
}

impl Progress {
    fn fields(&self) -> [(Arc<str>, Json); 2] {
        [
            ("rows_transferred".into(), Json::from(self.rows)),
            ("chunks_processed".into(), Json::from(self.chunks)),
        ]
    }
}

fn both_in_memory(plan: &Plan<'_>) -> bool {
    [plan.source, plan.target].iter().all(|side| {
        let name = ["database", "db_path", "path"]
            .into_iter()
            .find_map(|key| side.config.get(key));
        side.system == System::Sqlite && name.and_then(Json::as_str) == Some(":memory:")
    })
}

fn report(plan: &Plan<'_>, progress: &Progress, columns: &[Arc<str>]) -> JsonMap {
    let (source, target) = (plan.source.system.word(), plan.target.system.word());
    let table = match &plan.into {
        Into::Table(table) => Json::from(&**table),
        Into::Query(_) | Into::Itself => Json::Null,
    };
    let columns = columns.iter().map(|name| Json::from(&**name));
    let mut report = JsonMap::from([
        (
            "direction".into(),
            Json::from(format!("{source}_to_{target}")),
        ),
        ("source_type".into(), Json::from(source)),
        ("target_type".into(), Json::from(target)),
        ("mode".into(), Json::from(plan.mode.word())),
        ("target_table".into(), table),
        ("columns".into(), Json::list(columns)),
    ]);
    report.extend(progress.fields());
    report
}

#[async_trait]
impl Tool for Transfer {
    async fn run(&self, call: &Call, _scope: &Scope) -> Outcome {
        match self.work(call).await {
            Ok(outcome) => outcome,
            Err(error) => error.into(),
        }
    }
}
