use std::fs;
use std::path::PathBuf;

use super::table::{BOOTSTRAP_TOKEN, COMMAND_LEASE, DSN, EGRESS, HOST, PORT, SCHEMA, STORE, TABLE};
use super::{Config, ConfigError, Given, Origin};
use crate::io::Env;

fn env(variables: &[(&str, &str)]) -> Env {
    variables.iter().copied().collect()
}

fn flags(flags: &[(&'static str, &'static str, &str)]) -> Given {
    let mut given = Given::default();
    for (setting, flag, text) in flags {
        given.flags.insert(setting, (flag, (*text).to_owned()));
    }
    given
}

fn refused(given: &Given, variables: &[(&str, &str)]) -> String {
    Config::load(given, &env(variables))
        .unwrap_err()
        .to_string()
}

#[test]
fn a_flag_goes_before_the_environment_before_the_file_before_the_default() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("noetl.toml");
    fs::write(&path, "port = 3\nhost = '127.0.0.3'\nschema = 'three'\n").unwrap();
    let file = path.to_str().unwrap();
    let variables = [
        ("NOETL_CONFIG", file),
        ("NOETL_PORT", "2"),
        ("NOETL_HOST", "127.0.0.2"),
    ];
    let config = Config::load(&flags(&[("NOETL_PORT", "port", "1")]), &env(&variables)).unwrap();
    let table = [
        (config.value(&PORT).unwrap().to_string(), &PORT.facts),
        (config.value(&HOST).unwrap().to_string(), &HOST.facts),
        (config.value(&SCHEMA).unwrap(), &SCHEMA.facts),
        (
            config.value(&COMMAND_LEASE).unwrap().to_string(),
            &COMMAND_LEASE.facts,
        ),
    ]
    .map(|(value, facts)| (value, config.shown(facts).1));
    assert_eq!(
        table,
        [
            ("1".to_owned(), Origin::Flag("port")),
            (
                "127.0.0.2".to_owned(),
                Origin::Environment("NOETL_HOST".into())
            ),
            ("three".to_owned(), Origin::File(file.into())),
            ("30".to_owned(), Origin::Default),
        ]
    );
    assert!(config.warnings.is_empty());
}

#[test]
fn the_file_that_a_flag_names_goes_before_that_of_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("named.toml");
    fs::write(
        &path,
        "port = 9\negress_allow = ['10.0.0.0/8', 'db:5432']\n",
    )
    .unwrap();
    let given = Given {
        file: Some(path),
        ..Given::default()
    };
    let config = Config::load(&given, &env(&[("NOETL_CONFIG", "/nowhere.toml")])).unwrap();
    assert_eq!(config.value(&PORT).unwrap(), 9);
    assert!(config.get(&EGRESS).unwrap().is_some());
}

#[test]
fn a_value_may_come_from_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dsn");
    fs::write(&path, "postgres://u:p@h/d\n").unwrap();
    let file = path.to_str().unwrap();
    let config = Config::load(&Given::default(), &env(&[("NOETL_DSN_FILE", file)])).unwrap();
    assert_eq!(config.get(&DSN).unwrap().unwrap(), "postgres://u:p@h/d");
    assert!(config.warnings.is_empty());
    let twice = [("NOETL_DSN_FILE", file), ("NOETL_DSN", "x")];
    assert_eq!(
        refused(&Given::default(), &twice),
        "both NOETL_DSN and NOETL_DSN_FILE are set"
    );
}

#[test]
fn files_that_hold_secrets_are_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let (dsn, pool) = (file("dsn", "postgres://u:p@h/d"), file("pool", "p"));
    let secret = file("secret.toml", "port = 1\ntoken = 'x'\n");
    let plain = file("plain.toml", "port = 1\n");
    let remembered = |file: &PathBuf, variables: &[(&str, &str)]| {
        let given = Given {
            file: Some(file.clone()),
            ..Given::default()
        };
        let config = Config::load(&given, &env(variables)).unwrap();
        config.secret_files().to_vec()
    };
    let variables = [
        ("NOETL_DSN_FILE", dsn.to_str().unwrap()),
        ("WORKER_POOL_NAME_FILE", pool.to_str().unwrap()),
    ];
    assert_eq!(remembered(&plain, &variables), [dsn]);
    // It is in the file, whoever goes before it.
    assert_eq!(remembered(&secret, &[("NOETL_TOKEN", "y")]), [secret]);
}

#[test]
fn what_is_wrong_is_named_by_where_it_was_given() {
    let none = Given::default();
    insta::assert_snapshot!(refused(&none, &[("NOETL_PORT", "70000")]), @"NOETL_PORT is '70000': it has to be a number from 0 to 65535");
    insta::assert_snapshot!(refused(&flags(&[("NOETL_PORT", "port", "x")]), &[]), @"--port is 'x': it has to be a number from 0 to 65535");
    insta::assert_snapshot!(refused(&none, &[("NOETL_COMMAND_LEASE_SECS", "4")]), @"NOETL_COMMAND_LEASE_SECS is '4': it has to be a number from 5 to 3600");
    insta::assert_snapshot!(refused(&none, &[("NOETL_STORE", "postgres://u:p@h/d")]), @"NOETL_STORE is not usable: it has to be just 'postgres'; the address goes into NOETL_DSN, which nobody prints");
    insta::assert_snapshot!(refused(&none, &[("NOETL_DEV", "maybe")]), @"NOETL_DEV is 'maybe': it has to be true or false");
    insta::assert_snapshot!(refused(&none, &[("NOETL_SCHEMA", "No-Etl")]), @"NOETL_SCHEMA is 'No-Etl': it has to be lower case letters, digits and _, at most 63");
    insta::assert_snapshot!(refused(&none, &[("NOETL_PUBLIC_SERVER_URL", "http://u:p@h")]), @"NOETL_PUBLIC_SERVER_URL is not usable: a user name or a token does not belong into an address");
    insta::assert_snapshot!(refused(&none, &[("NOETL_LOG", "info,=,")]), @"NOETL_LOG is 'info,=,': it has to be a level or a filter such as 'info,noetl_server=debug' (invalid filter directive)");
    insta::assert_snapshot!(refused(&none, &[("NOETL_EGRESS_ALLOW", "10.0.0.0/99")]), @"NOETL_EGRESS_ALLOW is '10.0.0.0/99': '10.0.0.0/99' is neither a host, a host and port, nor a range of addresses");
}

#[test]
fn a_secret_is_not_told() {
    let told = refused(&Given::default(), &[("NOETL_TOKEN", "se\u{7}cret")]);
    assert_eq!(
        told,
        "NOETL_TOKEN is not usable: it has to be a text of one line"
    );
    // Without its name, with a comma in its key, and by another scheme.
    for wrong in [
        "https://mcp.x/mcp?key=SECRET",
        "search=https://mcp.x/mcp?key=a,SECRET",
        "search=ftp://mcp.x/mcp?key=SECRET",
    ] {
        let told = refused(&Given::default(), &[("NOETL_MCP_SERVERS", wrong)]);
        assert!(told.starts_with("NOETL_MCP_SERVERS is not usable: "));
        assert!(!told.contains("SECRET"), "{told}");
    }
}

#[test]
fn an_unknown_key_is_an_error_with_the_nearest_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("noetl.toml");
    fs::write(&path, "prot = 1\n").unwrap();
    let given = Given {
        file: Some(path),
        ..Given::default()
    };
    let error = Config::load(&given, &Env::default()).unwrap_err();
    assert!(matches!(&error, ConfigError::UnknownKey { key, .. } if key == "prot"));
    assert_eq!(error.help().unwrap(), "did you mean 'port'?");
}

#[test]
fn an_unknown_variable_is_a_warning_and_what_kubernetes_injects_is_none() {
    let variables = [
        ("NOETL_STROE", "memory"),
        ("NOETL_PORT", "tcp://10.0.0.1:8082"),
        ("NOETL_PORT_8082_TCP", "tcp://10.0.0.1:8082"),
        ("NOETL_SERVICE_HOST", "10.0.0.1"),
        ("OTHER", "x"),
    ];
    let config = Config::load(&Given::default(), &env(&variables)).unwrap();
    assert_eq!(config.value(&PORT).unwrap(), 8082);
    assert!(!config.is_given(&STORE));
    insta::assert_snapshot!(config.warnings.join("\n"), @r"
    NOETL_PORT is ignored: 'tcp://10.0.0.1:8082' looks like what Kubernetes sets for a service
    NOETL_STROE is not a setting and has no effect; did you mean NOETL_STORE?
    ");
}

/// A deployment of an earlier release may give what it had there; only who wants something else by it is
/// told.
#[test]
fn what_has_no_effect_any_more_is_told() {
    let variables = [
        ("NOETL_RUNTIME_SWEEP_INTERVAL", "5"),
        ("NOETL_AUTO_RECREATE_RUNTIME", "false"),
    ];
    let config = Config::load(&Given::default(), &env(&variables)).unwrap();
    insta::assert_snapshot!(config.warnings.join("\n"), @r"
    NOETL_RUNTIME_SWEEP_INTERVAL: No effect: whether a worker is gone is found out whenever somebody asks
    NOETL_AUTO_RECREATE_RUNTIME: No effect: a process that nobody knows any more registers again by itself
    ");
    let variables = [
        ("NOETL_RUNTIME_SWEEP_INTERVAL", "30"),
        ("NOETL_AUTO_RECREATE_RUNTIME", "true"),
    ];
    let config = Config::load(&Given::default(), &env(&variables)).unwrap();
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn the_table_agrees_with_itself() {
    let mut names: Vec<&str> = TABLE.iter().map(|setting| setting.facts().name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), TABLE.len());
    for setting in TABLE {
        let facts = setting.facts();
        if let super::SettingDefault::Value(text) = facts.default {
            assert_eq!(setting.check(text), Ok(()), "{}", facts.name);
        }
        assert!(
            !(facts.secret && facts.flag.is_some()),
            "{} as a flag is in every list of processes",
            facts.name
        );
    }
}

/// Ids have ten bits for it.
#[test]
fn a_number_of_a_machine_that_ids_have_no_room_for_refuses_to_start() {
    for wrong in ["1024", "-1", "host"] {
        let text = refused(&Given::default(), &[("NOETL_SERVER_MACHINE_ID", wrong)]);
        assert!(text.starts_with("NOETL_SERVER_MACHINE_ID is "), "{text}");
    }
    for right in ["0", "1023"] {
        Config::load(
            &Given::default(),
            &env(&[("NOETL_SERVER_MACHINE_ID", right)]),
        )
        .unwrap();
    }
}

#[test]
fn t16_numbers_of_the_stream_that_make_no_sense_refuse_to_start() {
    for (name, wrong) in [
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
        let text = refused(&Given::default(), &[(name, wrong)]);
        assert!(text.starts_with(&format!("{name} is ")), "{text}");
    }
}

#[test]
fn bounds_that_make_no_sense_refuse_to_start() {
    for (name, wrong) in [
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
        let text = refused(&Given::default(), &[(name, wrong)]);
        assert!(text.starts_with(&format!("{name} is '{wrong}'")), "{text}");
    }
    let size = refused(&Given::default(), &[("NOETL_INLINE_MAX_BYTES", "x")]);
    insta::assert_snapshot!(size, @"NOETL_INLINE_MAX_BYTES is 'x': it has to be a size from 1KiB to 1MiB, or a number of bytes");
}

#[test]
fn the_first_token_may_be_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("first");
    fs::write(&path, "noetl_a_b\n").unwrap();
    let variables = [("NOETL_BOOTSTRAP_TOKEN_FILE", path.to_str().unwrap())];
    let config = Config::load(&Given::default(), &env(&variables)).unwrap();
    let token = config.get(&BOOTSTRAP_TOKEN).unwrap();
    assert_eq!(token.as_deref(), Some("noetl_a_b"));
}
