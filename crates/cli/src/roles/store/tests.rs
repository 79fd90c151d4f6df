use super::*;
use crate::config::GivenSettings;

#[test]
fn address_is_shown_without_secrets() {
    let addresses = [
        "postgres://u:p%40ss@db.example:5432/noetl?sslmode=require",
        "postgres://u:a@b@db/x",
        "postgresql:///noetl",
        "host=db port=5 user=u password='se cret' dbname=n",
    ]
    .map(redact_dsn);
    assert_eq!(addresses, ["db.example:5432/noetl", "db/x", "/noetl", "host=db port=5 dbname=n"]);
}

#[test]
fn pool_sizes_come_from_settings() {
    let options_for = |variables: &[(&str, &str)]| {
        let dsn = [("NOETL_DSN", "postgres://h/d")];
        let variables = dsn.iter().chain(variables).copied().collect();
        let config = Config::load(&GivenSettings::default(), &variables).unwrap();
        database_settings(&config).map(|database| database.options)
    };
    let defaulted = options_for(&[]).unwrap();
    assert_eq!(
        (
            defaulted.max_connections,
            defaulted.initial_connections,
            defaulted.max_prepared_statements
        ),
        (8, 0, 100)
    );
    assert!(!defaulted.unsafe_durability);
    let configured = options_for(&[
        ("POSTGRES_MAX_CONNECTIONS", "7"),
        ("POSTGRES_MIN_CONNECTIONS", "6"),
        ("NOETL_PG_STATEMENT_CACHE_CAPACITY", "0"),
        ("NOETL_UNSAFE_DURABILITY", "true"),
    ]);
    let configured = configured.unwrap();
    // Two of the connections are for writes.
    assert_eq!(
        (
            configured.max_connections,
            configured.initial_connections,
            configured.max_prepared_statements
        ),
        (5, 4, 0)
    );
    assert!(configured.unsafe_durability);
    let error = options_for(&[("POSTGRES_MIN_CONNECTIONS", "11")]).unwrap_err();
    assert!(error.to_string().contains("POSTGRES_MAX_CONNECTIONS"), "{error}");
}

#[test]
fn connection_string_values_are_quoted() {
    assert_eq!(quote_dsn_value(r"a'b\c"), r"'a\'b\\c'");
}

#[test]
fn secret_files_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for (name, text) in [
        ("token", "t"),
        ("owner", "postgres://o:p@h/d"),
        ("noetl.toml", "dsn = 'postgres://u:p@h/d'"),
    ] {
        fs::write(path(name), text).unwrap();
    }
    let text = |name: &str| path(name).display().to_string();
    let variables = [
        ("NOETL_DATA_DIR", text("data")),
        ("NOETL_STORE", "sqlite:beside.db".to_owned()),
        ("NOETL_TLS_KEY", text("tls.pem")),
        ("NOETL_TOKEN_FILE", text("token")),
        ("NOETL_OWNER_DSN_FILE", text("owner")),
        ("NOETL_CONFIG", text("noetl.toml")),
    ];
    let variables = variables.iter().map(|(name, value)| (*name, &**value));
    let config = Config::load(&GivenSettings::default(), &variables.collect()).unwrap();
    let with_directory = secret_paths(&config, SecretPathScope::Directory).unwrap();
    let files = secret_paths(&config, SecretPathScope::Files).unwrap();
    let key_file = std::path::absolute("beside.key").unwrap();
    let named_files = ["tls.pem", "token", "owner", "noetl.toml"].map(path);
    for path in named_files.into_iter().chain([key_file]) {
        assert!(with_directory.contains(&path), "{path:?} {with_directory:?}");
        assert!(files.contains(&path), "{path:?} {files:?}");
    }
    assert!(with_directory.contains(&path("data")) && !files.contains(&path("data")));
    for name in ["noetl.db", "noetl.db-wal", "noetl.key"] {
        assert!(files.contains(&path("data").join(name)), "{files:?}");
    }
    assert!(with_directory.iter().all(|path| path.is_absolute()), "{with_directory:?}");
}
