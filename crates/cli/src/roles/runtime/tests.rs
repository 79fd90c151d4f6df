use noetl_types::ByteSize;

use super::*;
use crate::config::GivenSettings;

#[test]
fn limits_come_from_settings() {
    let settings_for = |variables: &[(&str, &str)]| {
        let variables = variables.iter().copied().collect();
        let config = Config::load(&GivenSettings::default(), &variables).unwrap();
        runtime_settings(&config, None).unwrap()
    };
    let (defaulted, default) = (settings_for(&[]), Settings::default());
    assert_eq!(defaulted.defaults, default.defaults);
    assert_eq!(defaulted.max_live_executions, default.max_live_executions);
    assert_eq!(defaulted.max_live_descendants, default.max_live_descendants);
    assert_eq!(defaulted.tenant_weights, default.tenant_weights);
    assert_eq!(defaulted.max_tokens, default.max_tokens);
    assert_eq!(defaulted.max_definitions, default.max_definitions);
    assert_eq!(defaulted.max_broadcasts, default.max_broadcasts);
    assert_eq!((defaulted.max_result_size, defaulted.metrics), (default.max_result_size, true));
    let configured = settings_for(&[
        ("NOETL_MAX_LIVE_EXECUTIONS", "5"),
        ("NOETL_MAX_LIVE_DESCENDANTS", "6"),
        ("NOETL_TENANT_WEIGHTS", "acme=4, globex=2"),
        ("NOETL_MAX_ATTEMPTS", "4"),
        ("NOETL_INLINE_MAX_BYTES", "1024"),
        ("NOETL_RESULT_MAX_BYTES", "2MiB"),
        ("NOETL_DISABLE_METRICS", "true"),
    ]);
    assert_eq!(configured.max_live_executions, 5);
    assert_eq!(configured.max_live_descendants, 6);
    let weights =
        configured.tenant_weights.iter().map(|(tenant, weight)| (tenant.as_str(), *weight));
    assert!(weights.eq([("acme", 4), ("globex", 2)]));
    assert_eq!(configured.defaults.max_attempts.get(), 4);
    assert_eq!(configured.defaults.inline_max, ByteSize::from_kib(1));
    assert_eq!(configured.max_result_size, ByteSize::from_mib(2));
    assert!(!configured.metrics);
}

fn load_config(variables: &[(&str, &str)]) -> Config {
    Config::load(&GivenSettings::default(), &variables.iter().copied().collect()).unwrap()
}

#[test]
fn rejects_dedup_window_beyond_retention() {
    let error_for = |dedup, retention| {
        let variables = [
            ("NOETL_EVENT_STREAM_DEDUP_SECS", dedup),
            ("NOETL_EVENT_STREAM_RETENTION_SECS", retention),
        ];
        let settings = runtime_settings(&load_config(&variables), None);
        settings.err().map(|error| error.to_string())
    };
    assert_eq!(error_for("60", "60"), None);
    let text = error_for("61", "60").unwrap();
    assert!(text.starts_with("NOETL_EVENT_STREAM_DEDUP_SECS is '61'"), "{text}");
    assert!(text.contains("NOETL_EVENT_STREAM_RETENTION_SECS"), "{text}");
}

#[test]
fn outbox_requires_internal_token() {
    let outbox = |variables: &[(&str, &str)], endpoint| {
        let settings = runtime_settings(&load_config(variables), endpoint).unwrap();
        settings.outbox
    };
    let endpoint = Some(ServerEndpoint { url: "http://localhost:1", requires_tokens: true });
    let token = ("NOETL_INTERNAL_API_TOKEN", "platform-token");
    let enabled = |value| ("NOETL_OUTBOX_ENABLED", value);
    assert_eq!(outbox(&[], endpoint), OutboxSetting::Disabled);
    assert_eq!(outbox(&[token], endpoint), OutboxSetting::Enabled);
    assert_eq!(outbox(&[enabled("on")], endpoint), OutboxSetting::Enabled);
    assert_eq!(outbox(&[token, enabled("off")], endpoint), OutboxSetting::Disabled);
    // A local run does as the servers of its database do.
    assert_eq!(outbox(&[token], None), OutboxSetting::AsInstalled);
}

#[test]
fn command_tokens_require_nats_credentials() {
    let nats = ("NOETL_NATS_URL", "nats://127.0.0.1:4222");
    let server = ServerEndpoint { url: "http://localhost:1", requires_tokens: true };
    let settings = |variables: &[(&str, &str)], endpoint: ServerEndpoint<'_>| {
        runtime_settings(&load_config(variables), Some(endpoint))
            .map(|settings| settings.nats.map(|nats| nats.requires_auth))
    };
    let error = settings(&[nats], server).unwrap_err();
    assert!(error.to_string().contains("no credentials for NATS are set"), "{error}");
    let help = error.help_text().unwrap();
    assert!(help.contains("NOETL_NATS_COMMAND_TOKENS=off"), "{help}");
    for (variables, requires_auth) in [
        (&[nats, ("NOETL_NATS_COMMAND_TOKENS", "off")][..], false),
        (&[nats, ("NOETL_UNSAFE_NATS", "true")], false),
        (&[nats, ("NATS_USER", "noetl_server"), ("NATS_PASSWORD", "p")], true),
        (&[nats, ("NATS_TOKEN", "t")], true),
        (&[("NOETL_NATS_URL", "nats://u:p@127.0.0.1:4222")], true),
    ] {
        assert_eq!(settings(variables, server).unwrap(), Some(requires_auth), "{variables:?}");
    }
    let dev = ServerEndpoint { requires_tokens: false, ..server };
    assert_eq!(settings(&[nats], dev).unwrap(), Some(false));
}
