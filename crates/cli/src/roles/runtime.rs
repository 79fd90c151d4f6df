//! The runtime, as the configuration wants it.

use std::sync::Arc;

use noetl_engine::Defaults;
use noetl_server::{LinkSettings, NatsSettings, Runtime, Settings, StreamSettings, SystemClock};
use noetl_store::Store;
use noetl_types::limits::MaxAttempts;
use noetl_types::{Millis, Text};

use super::error::StartError;
use super::keys::keys;
use super::store::Place;
use crate::config::table::{
    AUTO_PURGE, CLASSIC_CLAIM_MAX, COMMAND_LEASE, DISABLE_METRICS, INLINE_MAX, INTERNAL_TOKEN,
    MACHINE_ID, MAX_ATTEMPTS, MAX_LIVE, NATS_BARE_SUBJECT, NATS_PASSWORD, NATS_TOKEN, NATS_URL,
    NATS_URL_ALIAS, NATS_USER, NOTIFY_CAPABILITY, OFFLINE_AFTER, OUTBOX, OUTBOX_KEEP, OUTBOX_LEASE,
    OUTBOX_MAX_ATTEMPTS, PARTITIONS_AHEAD, PUBLIC_URL, RESULT_MAX, SECRET_AUDIT_REQUIRED,
    SERVER_NAME, SHARD_COUNT, SHARD_INDEX, SNAPSHOT_EVERY, STREAM_BACKFILL, STREAM_BATCH,
    STREAM_DEDUP, STREAM_ENABLED, STREAM_POLL, STREAM_RETENTION, TRACES,
};
use crate::config::{Config, ConfigError};

/// The server in front of a runtime.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facade<'u> {
    /// Where it is reached, where the user names no other address.
    pub(crate) url: &'u str,
    /// Whether callers show tokens.
    pub(crate) wants_tokens: bool,
}

/// Begins to drive what a store holds, behind a server or alone.
pub(crate) async fn open_runtime(
    store: Arc<dyn Store>,
    place: &Place,
    config: &Config,
    facade: Option<Facade<'_>>,
) -> Result<Runtime, crate::error::Error> {
    let settings = Settings {
        keys: keys(config, place, facade.is_some())?,
        ..settings(config, facade)?
    };
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

fn settings(config: &Config, facade: Option<Facade<'_>>) -> Result<Settings, ConfigError> {
    let public_url = match config.get(&PUBLIC_URL)? {
        Some(public_url) => Some(Text::from(public_url)),
        None => facade.map(|facade| Text::from(facade.url)),
    };
    let (is_server, has_token) = (facade.is_some(), config.get(&INTERNAL_TOKEN)?.is_some());
    let wants_tokens = facade.is_some_and(|facade| facade.wants_tokens);
    Ok(Settings {
        server_name: Text::from(config.value(&SERVER_NAME)?),
        traces: config.get(&TRACES)?.map(Text::from),
        public_url,
        // Where nobody is asked for a token, an address need not stand for one.
        notify_capability: wants_tokens && config.get(&NOTIFY_CAPABILITY)?.unwrap_or(true),
        machine_id: config.get(&MACHINE_ID)?,
        lease: Millis::from_secs(config.value(&COMMAND_LEASE)?.into()),
        worker_offline: Millis::from_secs(config.value(&OFFLINE_AFTER)?.into()),
        classic_claim_max: Millis::from_secs(config.value(&CLASSIC_CLAIM_MAX)?.into()),
        shard_count: config.value(&SHARD_COUNT)?,
        shard_index: config.value(&SHARD_INDEX)?,
        defaults: Defaults {
            inline_max: config.value(&INLINE_MAX)?,
            max_attempts: MaxAttempts::clamped(config.value(&MAX_ATTEMPTS)?.into()),
        },
        result_max: config.value(&RESULT_MAX)?,
        metrics: !config.value(&DISABLE_METRICS)?,
        max_live_executions: config.value(&MAX_LIVE)?,
        snapshot_every: config.value(&SNAPSHOT_EVERY)?,
        partitions_ahead: config.value(&PARTITIONS_AHEAD)?,
        // Rows that nobody can claim would only pile up: in a run without a server, and in a server
        // whose internal API is closed.
        outbox: is_server && config.get(&OUTBOX)?.unwrap_or(has_token),
        platform: is_server && has_token,
        outbox_lease: Millis::from_secs(config.value(&OUTBOX_LEASE)?.into()),
        outbox_max_attempts: config.value(&OUTBOX_MAX_ATTEMPTS)?,
        outbox_keep: Millis::from_secs(u64::from(config.value(&OUTBOX_KEEP)?) * 3600),
        auto_purge_days: config.value(&AUTO_PURGE)?,
        secret_audit_required: config.value(&SECRET_AUDIT_REQUIRED)?,
        nats: nats(config)?,
        ..Settings::default()
    })
}

/// How NATS is used, where an address of it is given.
fn nats(config: &Config) -> Result<Option<NatsSettings>, ConfigError> {
    let is_streaming = config.value(&STREAM_ENABLED)?;
    let (dedup, retention) = (
        config.value(&STREAM_DEDUP)?,
        config.value(&STREAM_RETENTION)?,
    );
    if dedup > retention {
        return Err(ConfigError::Invalid {
            place: STREAM_DEDUP.facts.name.to_owned(),
            value: Some(dedup.to_string()),
            fault: format!(
                "a broker knows a message for no longer than it keeps it, which is {retention} by \
                 NOETL_EVENT_STREAM_RETENTION_SECS: lower the one, or raise the other"
            ),
        });
    }
    let url = match config.get(&NATS_URL)? {
        Some(url) => Some(url),
        None => config.get(&NATS_URL_ALIAS)?,
    };
    let Some(url) = url else {
        if is_streaming {
            return Err(ConfigError::Invalid {
                place: STREAM_ENABLED.facts.name.to_owned(),
                value: Some("true".to_owned()),
                fault: "it needs a NATS server: set NOETL_NATS_URL".to_owned(),
            });
        }
        return Ok(None);
    };
    let password = config.get(&NATS_PASSWORD)?.unwrap_or_default();
    let user = config.get(&NATS_USER)?.map(|user| (user, password));
    let stream = StreamSettings {
        batch: config.value(&STREAM_BATCH)?,
        poll: Millis::from_ms(config.value(&STREAM_POLL)?.into()),
        backfill: config.value(&STREAM_BACKFILL)?,
        duplicate_window: Millis::from_secs(dedup.into()),
        retention: Millis::from_secs(retention.into()),
    };
    Ok(Some(NatsSettings {
        link: LinkSettings {
            url,
            user,
            token: config.get(&NATS_TOKEN)?,
            name: config.value(&SERVER_NAME)?,
        },
        bare_subject: config.value(&NATS_BARE_SUBJECT)?,
        stream: is_streaming.then_some(stream),
    }))
}

#[cfg(test)]
mod tests {
    use noetl_types::ByteSize;

    use super::*;
    use crate::config::Given;

    #[test]
    fn bounds_are_as_somebody_says() {
        let of = |variables: &[(&str, &str)]| {
            let variables = variables.iter().copied().collect();
            let config = Config::load(&Given::default(), &variables).unwrap();
            settings(&config, None).unwrap()
        };
        let (usual, default) = (of(&[]), Settings::default());
        assert_eq!(usual.defaults, default.defaults);
        assert_eq!(usual.max_live_executions, default.max_live_executions);
        assert_eq!(
            (usual.result_max, usual.metrics),
            (default.result_max, true)
        );
        let said = of(&[
            ("NOETL_MAX_LIVE_EXECUTIONS", "5"),
            ("NOETL_MAX_ATTEMPTS", "4"),
            ("NOETL_INLINE_MAX_BYTES", "1024"),
            ("NOETL_RESULT_MAX_BYTES", "2MiB"),
            ("NOETL_DISABLE_METRICS", "true"),
        ]);
        assert_eq!(said.max_live_executions, 5);
        assert_eq!(said.defaults.max_attempts.get(), 4);
        assert_eq!(said.defaults.inline_max, ByteSize::from_kib(1));
        assert_eq!(said.result_max, ByteSize::from_mib(2));
        assert!(!said.metrics);
    }

    fn config(variables: &[(&str, &str)]) -> Config {
        Config::load(&Given::default(), &variables.iter().copied().collect()).unwrap()
    }

    #[test]
    fn a_broker_that_should_know_messages_which_it_does_not_keep_is_refused() {
        let refused = |dedup, retention| {
            let variables = [
                ("NOETL_EVENT_STREAM_DEDUP_SECS", dedup),
                ("NOETL_EVENT_STREAM_RETENTION_SECS", retention),
            ];
            let settings = settings(&config(&variables), None);
            settings.err().map(|error| error.to_string())
        };
        assert_eq!(refused("60", "60"), None);
        let text = refused("61", "60").unwrap();
        assert!(
            text.starts_with("NOETL_EVENT_STREAM_DEDUP_SECS is '61'"),
            "{text}"
        );
        assert!(text.contains("NOETL_EVENT_STREAM_RETENTION_SECS"), "{text}");
    }

    #[test]
    fn the_outbox_is_on_where_somebody_can_come_for_it() {
        let outbox = |variables: &[(&str, &str)], facade| {
            let settings = settings(&config(variables), facade).unwrap();
            settings.outbox
        };
        let facade = Some(Facade {
            url: "http://localhost:1",
            wants_tokens: true,
        });
        let token = ("NOETL_INTERNAL_API_TOKEN", "a word of the platform");
        let switched = |to| ("NOETL_OUTBOX_ENABLED", to);
        assert!(!outbox(&[], facade));
        assert!(outbox(&[token], facade));
        assert!(!outbox(&[token], None));
        assert!(outbox(&[switched("on")], facade));
        assert!(!outbox(&[token, switched("off")], facade));
    }
}
