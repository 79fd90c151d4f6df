//! The kind `nats`: keys, objects and streams of a NATS server.
//!
//! Owns connections, which later calls share, and the way of values there and back. Servers are
//! reached through the same guard as those of `http`.

mod fault;
mod keys;
mod line;
mod objects;
mod streams;
mod target;
mod value;

use std::sync::Arc;

use async_nats::jetstream::Context;
use async_trait::async_trait;
use noetl_types::{Json, TaskError, TaskErrorKind};

pub(crate) use self::fault::failed;
pub(crate) use self::line::Lines;
pub(crate) use self::streams::{Fetch, acknowledge, fetch, long_enough};
pub(crate) use self::target::Target;
use crate::call::{Call, Outcome};
use crate::config::{Config, missing, printed, wrong};
use crate::settings::Settings;
use crate::tool::{Scope, Tool};

/// Talks to NATS servers.
pub(crate) struct Nats {
    settings: Arc<Settings>,
    lines: Arc<Lines>,
}

/// What one call is about.
struct Talk<'t> {
    jetstream: Context,
    call: &'t Call,
    config: Config<'t>,
    settings: &'t Settings,
}

impl Nats {
    pub(crate) fn new(settings: Arc<Settings>, lines: Arc<Lines>) -> Self {
        Self { settings, lines }
    }

    async fn work(&self, call: &Call) -> Result<Json, TaskError> {
        let config = Config(&call.config);
        let operation = required(config, "operation")?;
        let target = Target::read(config, &self.settings)?;
        let jetstream = self.lines.open(&target, &self.settings).await?;
        let talk = Talk {
            jetstream,
            call,
            config,
            settings: &self.settings,
        };
        match operation {
            "kv_get" => talk.kv_get().await,
            "kv_put" => talk.kv_put().await,
            "kv_delete" => talk.kv_delete().await,
            "kv_purge" => talk.kv_purge().await,
            "kv_keys" => talk.kv_keys().await,
            "object_get" => talk.object_get().await,
            "object_put" => talk.object_put().await,
            "object_delete" => talk.object_delete().await,
            "object_list" => talk.object_list().await,
            "object_info" => talk.object_info().await,
            "js_publish" => talk.js_publish().await,
            "js_consume" => talk.js_consume().await,
            "js_get_msg" => talk.js_get_msg().await,
            "js_stream_info" => talk.js_stream_info().await,
            other => Err(TaskError::new(
                TaskErrorKind::Schema,
                format!("'{other}' is no operation of NATS"),
            )),
        }
    }
}

#[async_trait]
impl Tool for Nats {
    async fn run(&self, call: &Call, _scope: &Scope) -> Outcome {
        match self.work(call).await {
            Ok(data) => Outcome::ok(data),
            Err(error) => error.into(),
        }
    }

    async fn shutdown(&self) {
        self.lines.close();
    }
}

/// A text that has to be there.
pub(crate) fn required<'c>(config: Config<'c>, key: &str) -> Result<&'c str, TaskError> {
    let text = config.text(key)?.filter(|text| !text.is_empty());
    text.ok_or_else(|| missing(&format!("'{key}'")))
}

/// A whole number within bounds, which a template may have printed.
pub(crate) fn number(
    config: Config<'_>,
    key: &str,
    bounds: std::ops::RangeInclusive<u64>,
) -> Result<Option<u64>, TaskError> {
    let Some(value) = config.get(key) else {
        return Ok(None);
    };
    let read = printed(value).and_then(|text| text.trim().parse().ok());
    let read = read.filter(|number| bounds.contains(number));
    read.map(Some).ok_or_else(|| {
        let expected = format!("a number from {} to {}", bounds.start(), bounds.end());
        wrong(key, &expected, value)
    })
}

/// What every success begins with.
fn success<const N: usize>(fields: [(&'static str, Json); N]) -> Json {
    let status = ("status", Json::from("success"));
    Json::object(std::iter::once(status).chain(fields))
}
