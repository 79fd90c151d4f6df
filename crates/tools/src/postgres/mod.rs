//! The kind `postgres`: statements on a PostgreSQL server.
//!
//! Owns connections, their pools, and the way of values there and back. A call that is dropped is
//! cancelled on the server too.

mod bind;
mod decode;
mod fault;
mod link;
mod moment;
mod pool;
mod reader;
mod run;
pub(crate) mod table;
mod target;

use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, JsonMap, TaskError};

use self::pool::{Pools, Sharing};
use self::run::Order;
use self::target::Target;
use crate::call::{Call, Outcome};
use crate::config::Config;
use crate::settings::Settings;
use crate::source::Sources;
use crate::sql::{Room, data};
use crate::tool::{Scope, Tool};

/// Runs SQL on PostgreSQL.
pub(crate) struct Postgres {
    settings: Arc<Settings>,
    sources: Arc<Sources>,
    pools: Arc<Pools>,
}

impl Postgres {
    pub(crate) fn new(settings: Arc<Settings>, sources: Arc<Sources>) -> Self {
        Self {
            pools: Arc::new(Pools::new(Arc::clone(&settings))),
            settings,
            sources,
        }
    }

    async fn work(&self, call: &Call) -> Result<Outcome, TaskError> {
        let config = Config(&call.config);
        let order = Order::read(config, &self.sources).await?;
        let target = Target::read(config)?;
        let sharing = Sharing::read(config, &self.settings)?;
        let session = self.pools.take(&target, sharing).await?;
        let room = Room::new(self.settings.payload_cap);
        let (answers, error) = order.run(session.client(), room).await;
        let data = data(&answers, error.as_ref());
        // After anything but an error of the server's own, rows may still be on their way.
        if error.as_ref().is_none_or(|error| error.code.is_some()) {
            if order.leaves_no_traces() {
                session.give_back();
            } else {
                session.close();
            }
        }
        Ok(Outcome {
            data,
            extras: extras(error.as_ref()),
            error,
            ..Outcome::default()
        })
    }
}

/// What `output` says besides the data. It is there after a success too, so that a rule may ask.
fn extras(error: Option<&TaskError>) -> JsonMap {
    let pg = Json::object([("code", fault::sqlstate(error))]);
    JsonMap::from([("pg".into(), pg)])
}

#[async_trait]
impl Tool for Postgres {
    async fn run(&self, call: &Call, _scope: &Scope) -> Outcome {
        match self.work(call).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome {
                extras: extras(Some(&error)),
                ..error.into()
            },
        }
    }

    async fn shutdown(&self) {
        self.pools.close();
    }
}
