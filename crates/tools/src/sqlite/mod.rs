//! The kind `sqlite`: statements on a SQLite file, or on a database in memory.
//!
//! Owns the databases in memory, which live as long as the command whose tasks use them. All work
//! is done on threads that may block.

mod fault;
mod open;
mod run;
mod stop;
pub(crate) mod table;
mod value;

pub(crate) use value::Params;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use noetl_types::{TaskError, TaskErrorKind};
use rusqlite::Connection;

use self::open::Place;
use self::run::Order;
use self::stop::Stop;
use crate::call::{Call, Outcome};
use crate::config::Config;
use crate::settings::Settings;
use crate::source::Sources;
use crate::sql::data;
use crate::tool::{Scope, Tool};

/// A connection that one thread at a time uses.
type Shared = Arc<Mutex<Connection>>;

/// Runs SQL on SQLite.
pub(crate) struct Sqlite {
    settings: Arc<Settings>,
    sources: Arc<Sources>,
    /// Databases in memory, by command.
    memory: Mutex<BTreeMap<String, Shared>>,
}

impl Sqlite {
    pub(crate) fn new(settings: Arc<Settings>, sources: Arc<Sources>) -> Self {
        Self {
            settings,
            sources,
            memory: Mutex::default(),
        }
    }

    /// Drops what was kept for a command.
    pub(crate) fn forget(&self, command: &str) {
        self.memory().remove(command);
    }

    /// A connection to the database that a config names.
    pub(crate) async fn connect(
        &self,
        config: Config<'_>,
        command: &str,
    ) -> Result<Shared, TaskError> {
        let place = Place::read(config, &self.settings)?;
        let is_kept = place.file.is_none() && !command.is_empty();
        if is_kept && let Some(shared) = self.memory().get(command) {
            return Ok(Arc::clone(shared));
        }
        let settings = Arc::clone(&self.settings);
        let connection = blocking(move || place.open(&settings)).await??;
        let shared = Arc::new(Mutex::new(connection));
        if is_kept {
            self.memory()
                .insert(command.to_owned(), Arc::clone(&shared));
        }
        Ok(shared)
    }

    fn memory(&self) -> MutexGuard<'_, BTreeMap<String, Shared>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn work(&self, call: &Call) -> Result<Outcome, TaskError> {
        let config = Config(&call.config);
        let order = Order::read(config, &self.sources, self.settings.payload_cap).await?;
        let shared = self.connect(config, &call.command).await?;
        let stop = Stop::default();
        let _stops = stop.on_drop();
        let (answers, error) = blocking(move || order.run(&mut locked(&shared), &stop)).await?;
        Ok(Outcome {
            data: data(&answers, error.as_ref()),
            error,
            ..Outcome::default()
        })
    }
}

fn locked(shared: &Shared) -> MutexGuard<'_, Connection> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs what blocks on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, TaskError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        let message = format!("the database's thread ended: {error}");
        TaskError::new(TaskErrorKind::Unknown, message)
    })
}

#[async_trait]
impl Tool for Sqlite {
    async fn run(&self, call: &Call, _scope: &Scope) -> Outcome {
        match self.work(call).await {
            Ok(outcome) => outcome,
            Err(error) => error.into(),
        }
    }

    async fn shutdown(&self) {
        self.memory().clear();
    }
}
