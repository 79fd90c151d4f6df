//! The runtime, as the configuration wants it.

use std::sync::Arc;

use noetl_server::{Runtime, Settings, SystemClock};
use noetl_store::Store;
use noetl_types::{Millis, Text};

use super::error::StartError;
use crate::config::table::{
    CLASSIC_CLAIM_MAX, COMMAND_LEASE, MACHINE_ID, OFFLINE_AFTER, PUBLIC_URL, SERVER_NAME,
    SHARD_COUNT, SHARD_INDEX, SNAPSHOT_EVERY,
};
use crate::config::{Config, ConfigError};

/// Begins to drive what a store holds. `url` is where the server is reached, where there is one and
/// the user names no other.
pub(crate) async fn open_runtime(
    store: Arc<dyn Store>,
    config: &Config,
    url: Option<&str>,
) -> Result<Runtime, crate::error::Error> {
    let settings = settings(config, url)?;
    let runtime = Runtime::open(store, Arc::new(SystemClock), settings).await;
    Ok(runtime.map_err(StartError::Runtime)?)
}

/// Looks at what a store holds, and drives nothing.
pub(crate) fn reading_runtime(
    store: Arc<dyn Store>,
    config: &Config,
) -> Result<Runtime, ConfigError> {
    let settings = settings(config, None)?;
    Ok(Runtime::open_to_read(
        store,
        Arc::new(SystemClock),
        settings,
    ))
}

fn settings(config: &Config, url: Option<&str>) -> Result<Settings, ConfigError> {
    let public_url = match config.get(&PUBLIC_URL)? {
        Some(public_url) => Some(Text::from(public_url)),
        None => url.map(Text::from),
    };
    Ok(Settings {
        server_name: Text::from(config.value(&SERVER_NAME)?),
        public_url,
        machine_id: config.get(&MACHINE_ID)?,
        lease: Millis::from_secs(config.value(&COMMAND_LEASE)?.into()),
        worker_offline: Millis::from_secs(config.value(&OFFLINE_AFTER)?.into()),
        classic_claim_max: Millis::from_secs(config.value(&CLASSIC_CLAIM_MAX)?.into()),
        shard_count: config.value(&SHARD_COUNT)?,
        shard_index: config.value(&SHARD_INDEX)?,
        snapshot_every: config.value(&SNAPSHOT_EVERY)?,
        ..Settings::default()
    })
}
