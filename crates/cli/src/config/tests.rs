mod deploy;

use std::fs;
use std::path::PathBuf;

use super::table::{
    BOOTSTRAP_TOKEN, COMMAND_LEASE_SECS, DSN, EGRESS, HOST, PORT, SCHEMA, SETTINGS_TABLE, STORE,
};
use super::{Config, GivenSettings, SettingOrigin};
use crate::io::Env;

fn env_from(variables: &[(&str, &str)]) -> Env {
    variables.iter().copied().collect()
}

fn given_flags(flags: &[(&'static str, &'static str, &str)]) -> GivenSettings {
    let mut given = GivenSettings::default();
    for (setting, flag, text) in flags {
        given.flags.insert(setting, (flag, (*text).to_owned()));
    }
    given
}

fn load_error(given: &GivenSettings, variables: &[(&str, &str)]) -> String {
    Config::load(given, &env_from(variables)).unwrap_err().to_string()
}

#[test]
fn flag_overrides_environment_file_and_default() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("noetl.toml");
    fs::write(&path, "port = 3\nhost = '127.0.0.3'\nschema = 'three'\n").unwrap();
    let file = path.to_str().unwrap();
    let variables = [("NOETL_CONFIG", file), ("NOETL_PORT", "2"), ("NOETL_HOST", "127.0.0.2")];
    let config =
        Config::load(&given_flags(&[("NOETL_PORT", "port", "1")]), &env_from(&variables)).unwrap();
    let table = [
        (config.value(&PORT).unwrap().to_string(), &PORT.info),
        (config.value(&HOST).unwrap().to_string(), &HOST.info),
        (config.value(&SCHEMA).unwrap(), &SCHEMA.info),
        (config.value(&COMMAND_LEASE_SECS).unwrap().to_string(), &COMMAND_LEASE_SECS.info),
    ]
    .map(|(value, info)| (value, config.text_and_origin(info).1));
    assert_eq!(
        table,
        [
            ("1".to_owned(), SettingOrigin::Flag("port")),
            ("127.0.0.2".to_owned(), SettingOrigin::Environment("NOETL_HOST".into())),
            ("three".to_owned(), SettingOrigin::File(file.into())),
            ("30".to_owned(), SettingOrigin::Default),
        ]
    );
    assert!(config.warnings.is_empty());
}

#[test]
fn config_flag_overrides_config_variable() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("named.toml");
    fs::write(&path, "port = 9\negress_allow = ['10.0.0.0/8', 'db:5432']\n").unwrap();
    let given = GivenSettings { file: Some(path), ..GivenSettings::default() };
    let config = Config::load(&given, &env_from(&[("NOETL_CONFIG", "/nowhere.toml")])).unwrap();
    assert_eq!(config.value(&PORT).unwrap(), 9);
    assert!(config.get(&EGRESS).unwrap().is_some());
}

#[test]
fn file_variable_supplies_the_value() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dsn");
    fs::write(&path, "postgres://u:p@h/d\n").unwrap();
    let file = path.to_str().unwrap();
    let config =
        Config::load(&GivenSettings::default(), &env_from(&[("NOETL_DSN_FILE", file)])).unwrap();
    assert_eq!(config.get(&DSN).unwrap().unwrap(), "postgres://u:p@h/d");
    assert!(config.warnings.is_empty());
    let twice = [("NOETL_DSN_FILE", file), ("NOETL_DSN", "x")];
    assert_eq!(
        load_error(&GivenSettings::default(), &twice),
        "both NOETL_DSN and NOETL_DSN_FILE are set"
    );
}

#[test]
fn secret_files_are_collected() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let (dsn, pool) = (file("dsn", "postgres://u:p@h/d"), file("pool", "p"));
    let secret = file("secret.toml", "port = 1\ntoken = 'x'\n");
    let plain = file("plain.toml", "port = 1\n");
    let secret_files = |file: &PathBuf, variables: &[(&str, &str)]| {
        let given = GivenSettings { file: Some(file.clone()), ..GivenSettings::default() };
        let config = Config::load(&given, &env_from(variables)).unwrap();
        config.secret_files().to_vec()
    };
    let variables = [
        ("NOETL_DSN_FILE", dsn.to_str().unwrap()),
        ("WORKER_POOL_NAME_FILE", pool.to_str().unwrap()),
    ];
    assert_eq!(secret_files(&plain, &variables), [dsn]);
    // The file contains a secret even if the environment overrides it.
    assert_eq!(secret_files(&secret, &[("NOETL_TOKEN", "y")]), [secret]);
}

#[test]
fn errors_name_the_origin() {
    let none = GivenSettings::default();
    insta::assert_snapshot!(load_error(&none, &[("NOETL_PORT", "70000")]), @"NOETL_PORT is '70000': must be a number from 0 to 65535");
    insta::assert_snapshot!(load_error(&given_flags(&[("NOETL_PORT", "port", "x")]), &[]), @"--port is 'x': must be a number from 0 to 65535");
    insta::assert_snapshot!(load_error(&none, &[("NOETL_COMMAND_LEASE_SECS", "4")]), @"NOETL_COMMAND_LEASE_SECS is '4': must be a number from 5 to 3600");
    insta::assert_snapshot!(load_error(&none, &[("NOETL_STORE", "postgres://u:p@h/d")]), @"NOETL_STORE is invalid: must be just 'postgres'; set the address in NOETL_DSN, which is never printed");
    insta::assert_snapshot!(load_error(&none, &[("NOETL_DEV", "maybe")]), @"NOETL_DEV is 'maybe': must be true or false");
    insta::assert_snapshot!(load_error(&none, &[("NOETL_SCHEMA", "No-Etl")]), @"NOETL_SCHEMA is 'No-Etl': must contain only lower case letters, digits and _, at most 63");
    insta::assert_snapshot!(load_error(&none, &[("NOETL_PUBLIC_SERVER_URL", "http://u:p@h")]), @"NOETL_PUBLIC_SERVER_URL is invalid: must not contain a user name or a token");
    insta::assert_snapshot!(load_error(&none, &[("NOETL_LOG", "info,=,")]), @"NOETL_LOG is 'info,=,': must be a level or a filter such as 'info,noetl_server=debug' (invalid filter directive)");
    insta::assert_snapshot!(load_error(&none, &[("NOETL_EGRESS_ALLOW", "10.0.0.0/99")]), @"NOETL_EGRESS_ALLOW is '10.0.0.0/99': '10.0.0.0/99' is not a host, host:port, address or address range");
}

#[test]
fn secret_values_are_not_printed() {
    let message = load_error(&GivenSettings::default(), &[("NOETL_TOKEN", "se\u{7}cret")]);
    assert_eq!(message, "NOETL_TOKEN is invalid: must be a single line of text");
    // Without a name, with a comma in the key, and with an unsupported scheme.
    for invalid in [
        "https://mcp.x/mcp?key=SECRET",
        "search=https://mcp.x/mcp?key=a,SECRET",
        "search=ftp://mcp.x/mcp?key=SECRET",
    ] {
        let message = load_error(&GivenSettings::default(), &[("NOETL_MCP_SERVERS", invalid)]);
        assert!(message.starts_with("NOETL_MCP_SERVERS is invalid: "));
        assert!(!message.contains("SECRET"), "{message}");
    }
}

#[test]
fn unknown_key_is_an_error_with_suggestion() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("noetl.toml");
    fs::write(&path, "prot = 1\n").unwrap();
    let given = GivenSettings { file: Some(path), ..GivenSettings::default() };
    let error = Config::load(&given, &Env::default()).unwrap_err();
    assert!(error.to_string().starts_with("'prot' in "), "{error}");
    assert_eq!(error.help_text().unwrap(), "did you mean 'port'?");
}

#[test]
fn unknown_variable_warns_except_kubernetes_ones() {
    let variables = [
        ("NOETL_STROE", "memory"),
        ("NOETL_PORT", "tcp://10.0.0.1:8082"),
        ("NOETL_PORT_8082_TCP", "tcp://10.0.0.1:8082"),
        ("NOETL_SERVICE_HOST", "10.0.0.1"),
        ("OTHER", "x"),
    ];
    let config = Config::load(&GivenSettings::default(), &env_from(&variables)).unwrap();
    assert_eq!(config.value(&PORT).unwrap(), 8082);
    assert!(!config.is_given(&STORE));
    insta::assert_snapshot!(config.warnings.join("\n"), @r"
    NOETL_PORT is ignored: 'tcp://10.0.0.1:8082' looks like a service variable set by Kubernetes
    NOETL_STROE is not a setting and has no effect; did you mean NOETL_STORE?
    ");
}

/// Settings of earlier releases are accepted. Only values other than the old default cause a
/// warning.
#[test]
fn obsolete_settings_warn() {
    let variables =
        [("NOETL_RUNTIME_SWEEP_INTERVAL", "5"), ("NOETL_AUTO_RECREATE_RUNTIME", "false")];
    let config = Config::load(&GivenSettings::default(), &env_from(&variables)).unwrap();
    insta::assert_snapshot!(config.warnings.join("\n"), @r"
    NOETL_RUNTIME_SWEEP_INTERVAL: No effect: the status of a worker is determined when it is queried
    NOETL_AUTO_RECREATE_RUNTIME: No effect: a process that is no longer registered registers itself again
    ");
    let variables =
        [("NOETL_RUNTIME_SWEEP_INTERVAL", "30"), ("NOETL_AUTO_RECREATE_RUNTIME", "true")];
    let config = Config::load(&GivenSettings::default(), &env_from(&variables)).unwrap();
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn setting_table_is_consistent() {
    let mut names: Vec<&str> = SETTINGS_TABLE.iter().map(|setting| setting.info().name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), SETTINGS_TABLE.len());
    for setting in SETTINGS_TABLE {
        let info = setting.info();
        if let super::SettingDefault::Value(text) = info.default {
            assert_eq!(setting.validate(text), Ok(()), "{}", info.name);
        }
        assert!(
            !(info.is_secret && info.flag.is_some()),
            "{} as a flag would be visible in process lists",
            info.name
        );
    }
}

/// Ids have ten bits for the machine id.
#[test]
fn rejects_machine_id_out_of_range() {
    for invalid in ["1024", "-1", "host"] {
        let text = load_error(&GivenSettings::default(), &[("NOETL_SERVER_MACHINE_ID", invalid)]);
        assert!(text.starts_with("NOETL_SERVER_MACHINE_ID is "), "{text}");
    }
    for valid in ["0", "1023"] {
        Config::load(&GivenSettings::default(), &env_from(&[("NOETL_SERVER_MACHINE_ID", valid)]))
            .unwrap();
    }
}

#[test]
fn rejects_invalid_stream_settings() {
    for (name, invalid) in [
        ("NOETL_EVENT_STREAM_BATCH", "0"),
        ("NOETL_EVENT_STREAM_BATCH", "1001"),
        ("NOETL_EVENT_STREAM_BATCH", "18446744073709551615"),
        ("NOETL_EVENT_STREAM_POLL_MS", "5"),
        ("NOETL_EVENT_STREAM_DEDUP_SECS", "2m"),
        ("NOETL_EVENT_STREAM_RETENTION_SECS", "59"),
        ("NOETL_EVENT_STREAM_ENABLED", "perhaps"),
        ("NOETL_EVENT_STREAM_BACKFILL", "maybe"),
        ("NOETL_NATS_URL", "http://localhost"),
        ("NATS_URL", "nats://"),
    ] {
        let text = load_error(&GivenSettings::default(), &[(name, invalid)]);
        assert!(text.starts_with(&format!("{name} is ")), "{text}");
    }
}

#[test]
fn rejects_out_of_range_limits() {
    for (name, invalid) in [
        ("NOETL_MAX_LIVE_EXECUTIONS", "0"),
        ("NOETL_MAX_LIVE_EXECUTIONS", "4294967296"),
        ("NOETL_MAX_ATTEMPTS", "0"),
        ("NOETL_MAX_ATTEMPTS", "101"),
        ("NOETL_INLINE_MAX_BYTES", "1023"),
        ("NOETL_INLINE_MAX_BYTES", "2MiB"),
        ("NOETL_BODY_MAX_BYTES", "63KiB"),
        ("NOETL_BODY_MAX_BYTES", "65MiB"),
        ("NOETL_RESULT_MAX_BYTES", "64KB"),
        ("NOETL_RESULT_MAX_BYTES", "1GiB"),
        ("POSTGRES_MIN_CONNECTIONS", "1001"),
        ("NOETL_PG_STATEMENT_CACHE_CAPACITY", "10001"),
        ("NOETL_RUNTIME_SWEEP_INTERVAL", "0"),
        ("NOETL_AUTO_RECREATE_RUNTIME", "sometimes"),
        ("NOETL_DEBUG", "2"),
        ("NOETL_DISABLE_METRICS", "-"),
        ("NOETL_UNSAFE_DURABILITY", "perhaps"),
        ("NOETL_SQL_CONSOLE", "open"),
    ] {
        let text = load_error(&GivenSettings::default(), &[(name, invalid)]);
        assert!(text.starts_with(&format!("{name} is '{invalid}'")), "{text}");
    }
    let size = load_error(&GivenSettings::default(), &[("NOETL_INLINE_MAX_BYTES", "x")]);
    insta::assert_snapshot!(size, @"NOETL_INLINE_MAX_BYTES is 'x': must be a size from 1KiB to 1MiB, or a number of bytes");
}

#[test]
fn bootstrap_token_is_read_from_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("first");
    fs::write(&path, "noetl_a_b\n").unwrap();
    let variables = [("NOETL_BOOTSTRAP_TOKEN_FILE", path.to_str().unwrap())];
    let config = Config::load(&GivenSettings::default(), &env_from(&variables)).unwrap();
    let token = config.get(&BOOTSTRAP_TOKEN).unwrap();
    assert_eq!(token.as_deref(), Some("noetl_a_b"));
}

#[test]
fn schema_contains_every_setting() {
    let schema = super::config_schema();
    let properties = schema["properties"].as_object().unwrap();
    for setting in SETTINGS_TABLE {
        let key = setting.info().file_key();
        assert!(properties.contains_key(&key), "{key}");
    }
    let port = &properties["port"];
    assert_eq!(port["default"], "8082");
    assert_eq!(port["x-variable"], "NOETL_PORT");
    assert_eq!(properties["token"]["writeOnly"], true);
    assert_eq!(properties["token"]["x-otherwise"], "none");
}
