//! Services with the settings of the configuration.

use std::sync::Arc;

use noetl_engine::PlanDefaults;
use noetl_server::{
    ControlPlane, NatsConnectionSettings, NatsSettings, OutboxSetting, Settings, StreamSettings,
    SystemClock,
};
use noetl_store::Store;
use noetl_types::limits::MaxAttempts;
use noetl_types::{Millis, Text};

pub(crate) use super::keys::KeyFile;
use super::keys::load_keys;
use super::store::StoreLocation;
use crate::config::table::{
    ANCHOR_FILE, ANCHOR_SECS, AUTO_PURGE_DAYS, CLASSIC_CLAIM_MAX_SECS, COMMAND_LEASE_SECS,
    COMMAND_RETENTION_DAYS, DISABLE_METRICS, INLINE_MAX, INTERNAL_TOKEN, MACHINE_ID, MAX_ATTEMPTS,
    MAX_BROADCASTS, MAX_DEFINITIONS, MAX_DESCENDANTS, MAX_LIVE, MAX_TOKENS, NATS_BARE_SUBJECT,
    NATS_COMMAND_TOKENS, NATS_PASSWORD, NATS_TOKEN, NATS_URL, NATS_URL_ALIAS, NATS_USER,
    OUTBOX_ENABLED, OUTBOX_KEEP_HOURS, OUTBOX_LEASE_SECS, OUTBOX_MAX_ATTEMPTS,
    PARTITIONS_AHEAD_MONTHS, PUBLIC_URL, RESULT_MAX, SECRET_AUDIT_REQUIRED, SERVER_NAME,
    SHARD_COUNT, SHARD_INDEX, SNAPSHOT_INTERVAL_EVENTS, STREAM_BACKFILL, STREAM_BATCH,
    STREAM_DEDUP_SECS, STREAM_ENABLED, STREAM_POLL_MS, STREAM_RETENTION_SECS, TENANT_WEIGHTS,
    TRACES, UNSAFE_NATS, VERIFY_HOURS, WORKER_OFFLINE_SECS,
};
use crate::config::{Config, invalid_value_error};
use crate::error::{Error, Result};

/// Server in front of a runtime.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerEndpoint<'u> {
    /// Address of the server, unless the configuration sets a public one.
    pub(crate) url: &'u str,
    /// True if callers need tokens.
    pub(crate) requires_tokens: bool,
}

/// Opens a runtime that executes runs, with or without a server.
pub(crate) async fn open_runtime(
    store: Arc<dyn Store>,
    location: &StoreLocation,
    config: &Config,
    endpoint: Option<ServerEndpoint<'_>>,
    key_file: KeyFile,
) -> Result<ControlPlane> {
    let settings = Settings {
        keys: load_keys(config, location, key_file)?,
        ..runtime_settings(config, endpoint)?
    };
    let runtime = ControlPlane::open(store, Arc::new(SystemClock), settings).await;
    runtime.map_err(|error| Error::from_chain(&error))
}

/// Opens a runtime that only reads the store.
pub(crate) fn open_read_only_runtime(
    store: Arc<dyn Store>,
    config: &Config,
) -> Result<ControlPlane> {
    let settings = runtime_settings(config, None)?;
    Ok(ControlPlane::open_read_only(store, Arc::new(SystemClock), settings))
}

/// Opens a runtime that only reads the store, and has the keys to verify it.
pub(crate) fn open_verifying_runtime(
    store: Arc<dyn Store>,
    location: &StoreLocation,
    config: &Config,
) -> Result<ControlPlane> {
    let keys = load_keys(config, location, KeyFile::Optional)?;
    let settings = Settings { keys, ..runtime_settings(config, None)? };
    Ok(ControlPlane::open_read_only(store, Arc::new(SystemClock), settings))
}

fn runtime_settings(config: &Config, endpoint: Option<ServerEndpoint<'_>>) -> Result<Settings> {
    let public_url = match config.get(&PUBLIC_URL)? {
        Some(public_url) => Some(Text::from(public_url)),
        None => endpoint.map(|endpoint| Text::from(endpoint.url)),
    };
    let (is_server, has_token) = (endpoint.is_some(), config.get(&INTERNAL_TOKEN)?.is_some());
    let requires_tokens = endpoint.is_some_and(|endpoint| endpoint.requires_tokens);
    // Without required tokens, command notifications need none either.
    let notify_with_command_token =
        requires_tokens && config.get(&NATS_COMMAND_TOKENS)?.unwrap_or(true);
    Ok(Settings {
        server_name: Text::from(config.value(&SERVER_NAME)?),
        trace_endpoint: config.get(&TRACES)?.map(Text::from),
        public_url,
        notify_with_command_token,
        machine_id: config.get(&MACHINE_ID)?,
        lease_duration: Millis::from_secs(config.value(&COMMAND_LEASE_SECS)?.into()),
        worker_offline_after: Millis::from_secs(config.value(&WORKER_OFFLINE_SECS)?.into()),
        max_classic_claim: Millis::from_secs(config.value(&CLASSIC_CLAIM_MAX_SECS)?.into()),
        shard_count: config.value(&SHARD_COUNT)?,
        shard_index: config.value(&SHARD_INDEX)?,
        defaults: PlanDefaults {
            inline_max: config.value(&INLINE_MAX)?,
            max_attempts: MaxAttempts::clamped(config.value(&MAX_ATTEMPTS)?.into()),
        },
        max_result_size: config.value(&RESULT_MAX)?,
        metrics: !config.value(&DISABLE_METRICS)?,
        max_live_executions: config.value(&MAX_LIVE)?,
        max_live_descendants: config.value(&MAX_DESCENDANTS)?,
        max_tokens: config.value(&MAX_TOKENS)?,
        max_definitions: config.value(&MAX_DEFINITIONS)?,
        max_broadcasts: config.value(&MAX_BROADCASTS)?,
        tenant_weights: config.get(&TENANT_WEIGHTS)?.unwrap_or_default(),
        snapshot_min_events: config.value(&SNAPSHOT_INTERVAL_EVENTS)?,
        partitions_ahead: config.value(&PARTITIONS_AHEAD_MONTHS)?,
        // Without a publisher, rows would only accumulate: in a server whose internal API is
        // disabled. A local run does as the servers of its database do.
        outbox: match config.get(&OUTBOX_ENABLED)?.unwrap_or(has_token) {
            _ if !is_server => OutboxSetting::AsInstalled,
            true => OutboxSetting::Enabled,
            false => OutboxSetting::Disabled,
        },
        platform: is_server && has_token,
        outbox_lease: Millis::from_secs(config.value(&OUTBOX_LEASE_SECS)?.into()),
        outbox_max_attempts: config.value(&OUTBOX_MAX_ATTEMPTS)?,
        outbox_retention: Millis::from_secs(u64::from(config.value(&OUTBOX_KEEP_HOURS)?) * 3600),
        command_retention_days: config.value(&COMMAND_RETENTION_DAYS)?,
        auto_purge_days: config.value(&AUTO_PURGE_DAYS)?,
        anchor_interval: if is_server {
            Millis::from_secs(config.value(&ANCHOR_SECS)?.into())
        } else {
            Millis::ZERO
        },
        anchor_file: config.get(&ANCHOR_FILE)?,
        verify_interval: if is_server {
            Millis::from_secs(u64::from(config.value(&VERIFY_HOURS)?) * 3600)
        } else {
            Millis::ZERO
        },
        secret_audit_required: config.value(&SECRET_AUDIT_REQUIRED)?,
        nats: nats_settings(config, notify_with_command_token)?,
        ..Settings::default()
    })
}

/// NATS settings, if an address is configured.
fn nats_settings(config: &Config, sends_command_tokens: bool) -> Result<Option<NatsSettings>> {
    let is_streaming = config.value(&STREAM_ENABLED)?;
    let (dedup, retention) =
        (config.value(&STREAM_DEDUP_SECS)?, config.value(&STREAM_RETENTION_SECS)?);
    if dedup > retention {
        let fault = format!(
            "must not exceed the retention of messages, which is {retention} by \
             NOETL_EVENT_STREAM_RETENTION_SECS; lower this value or raise the retention"
        );
        let name = STREAM_DEDUP_SECS.info.name;
        return Err(invalid_value_error(name, Some(&dedup.to_string()), &fault));
    }
    let Some(url) = config.get(&NATS_URL)?.or(config.get(&NATS_URL_ALIAS)?) else {
        if is_streaming {
            let fault = "requires a NATS server; set NOETL_NATS_URL";
            return Err(invalid_value_error(STREAM_ENABLED.info.name, Some("true"), fault));
        }
        return Ok(None);
    };
    let password = config.get(&NATS_PASSWORD)?.unwrap_or_default();
    let user = config.get(&NATS_USER)?.map(|user| (user, password));
    let stream = StreamSettings {
        batch: config.value(&STREAM_BATCH)?,
        poll_interval: Millis::from_ms(config.value(&STREAM_POLL_MS)?.into()),
        backfill: config.value(&STREAM_BACKFILL)?,
        duplicate_window: Millis::from_secs(dedup.into()),
        retention: Millis::from_secs(retention.into()),
    };
    let link = NatsConnectionSettings {
        url,
        user,
        token: config.get(&NATS_TOKEN)?,
        name: config.value(&SERVER_NAME)?,
    };
    let requires_auth = sends_command_tokens && !config.value(&UNSAFE_NATS)?;
    if requires_auth && !link.has_credentials() {
        let text = "command notifications contain command tokens, which every client of a NATS \
            server without authentication can read, and no credentials for NATS are set";
        return Err(Error::usage(text).with_help(
            "set NATS_USER and NATS_PASSWORD, or NATS_TOKEN; or, without workers of earlier \
             releases, set NOETL_NATS_COMMAND_TOKENS=off (NOETL_UNSAFE_NATS=true accepts the risk)",
        ));
    }
    Ok(Some(NatsSettings {
        link,
        requires_auth,
        bare_subject: config.value(&NATS_BARE_SUBJECT)?,
        stream: is_streaming.then_some(stream),
    }))
}

#[cfg(test)]
mod tests;
