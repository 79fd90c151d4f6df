//! `noetl db`: read-only commands do not modify the database.

use noetl_testkit::postgres::TestDatabase;

use crate::cli::run::isolated_command;
use crate::cli::support::{CLEAN_PLAYBOOK, CommandOutput, TestDir};

/// Makes the schema look outdated by deleting the record of the newest migration.
const REVERT_LAST_MIGRATION: &str =
    "DELETE FROM schema_migration WHERE version = (SELECT max(version) FROM schema_migration)";

fn run_isolated(dir: &TestDir, args: &[&str]) -> CommandOutput {
    isolated_command(dir, args).output().unwrap().into()
}

#[test]
fn missing_database_is_not_created() {
    let dir = TestDir::new("db_missing");
    for args in [&["db", "status"][..], &["db", "check"], &["db", "backup", "copy.db"]] {
        let missing = run_isolated(&dir, args);
        assert_eq!(missing.code, 3, "{}", missing.to_snapshot());
        assert!(missing.err.contains("there is no database at"), "{}", missing.err);
    }
    assert!(!dir.path("data/noetl.db").exists());
    assert!(!dir.path("copy.db").exists());
}

#[test]
fn outdated_sqlite_file_is_not_migrated() {
    let dir = TestDir::new("db_old");
    dir.write("clean.yaml", CLEAN_PLAYBOOK);
    assert_eq!(run_isolated(&dir, &["run", "clean.yaml"]).code, 0);
    let file = dir.path("data/noetl.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.execute(REVERT_LAST_MIGRATION, []).unwrap();
    let versions = || {
        let sql = "SELECT count(*) FROM schema_migration";
        connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let before = versions();
    let status = run_isolated(&dir, &["db", "status"]);
    assert_eq!(status.code, 0, "{}", status.to_snapshot());
    let expected = format!("schema {before} of {}", before + 1);
    assert!(status.out.contains(&expected), "{}", status.out);
    for args in [&["db", "check"][..], &["db", "backup", "copy.db"]] {
        let rejected = run_isolated(&dir, args);
        assert_eq!(rejected.code, 1, "{}", rejected.to_snapshot());
        assert!(rejected.err.contains("noetl db migrate"), "{}", rejected.err);
    }
    assert_eq!(versions(), before);
}

#[test]
fn outdated_postgres_database_is_not_migrated() {
    let dir = TestDir::new("db_old_postgres");
    let database = TestDatabase::new().unwrap();
    let run = |args: &[&str]| -> CommandOutput {
        let mut command = isolated_command(&dir, args);
        command.env("NOETL_DSN", database.connection_config());
        command.output().unwrap().into()
    };
    // The database is empty and stays empty.
    let status = run(&["db", "status"]);
    assert!(status.out.contains("schema 0 of "), "{}", status.to_snapshot());
    assert_eq!(run(&["db", "check"]).code, 1);
    let no_schema = "DO $$ BEGIN ASSERT to_regnamespace('noetl') IS NULL; END $$";
    database.run_statement(no_schema).unwrap();
    let migrated = run(&["db", "migrate"]);
    assert_eq!(migrated.code, 0, "{}", migrated.to_snapshot());
    for args in [&["db", "status"][..], &["db", "check"]] {
        let output = run(args);
        assert_eq!(output.code, 0, "{}", output.to_snapshot());
    }
    database.run_statement(&REVERT_LAST_MIGRATION.replace("schema_", "noetl.schema_")).unwrap();
    let status = run(&["db", "status"]);
    assert_eq!(status.code, 0, "{}", status.to_snapshot());
    assert!(status.out.contains("noetl db migrate"), "{}", status.out);
    let rejected = run(&["db", "check"]);
    assert_eq!(rejected.code, 1, "{}", rejected.to_snapshot());
    assert!(rejected.err.contains("noetl db migrate"), "{}", rejected.err);
    // The migration is still missing.
    let not_migrated =
        "DO $$ BEGIN ASSERT (SELECT max(version) = count(*) FROM noetl.schema_migration); END $$";
    database.run_statement(not_migrated).unwrap();
    let status_again = run(&["db", "status"]);
    assert_eq!(status_again.out, status.out);
}

/// Problems of the owner role are reported before any change, and its address is never printed.
#[test]
fn unusable_owner_role_is_reported() {
    let dir = TestDir::new("db_owner");
    let database = TestDatabase::with_roles().unwrap();
    let [owner, server] = database.role_configs();
    let run = |args: &[&str], dsn: &str, owner: &str| -> CommandOutput {
        let mut command = isolated_command(&dir, args);
        command.env("NOETL_DSN", dsn).env("NOETL_OWNER_DSN", owner);
        command.output().unwrap().into()
    };
    let [owner_name, server_name] = database.role_names();
    let unknown_role = server.replace(&server_name, "nobody_at_all");
    let missing = run(&["db", "migrate"], &unknown_role, &owner);
    assert_eq!(missing.code, 1, "{}", missing.to_snapshot());
    let expected = "CREATE ROLE nobody_at_all LOGIN";
    assert!(missing.err.contains(expected), "{}", missing.err);
    let lock = format!("ALTER ROLE {owner_name} NOLOGIN");
    database.run_statement(&lock).unwrap();
    let locked_out = run(&["db", "migrate"], &server, &owner);
    assert_eq!(locked_out.code, 1, "{}", locked_out.to_snapshot());
    for expected in ["as the owner of the tables", "NOETL_OWNER_DSN"] {
        assert!(locked_out.err.contains(expected), "{}", locked_out.err);
    }
    let no_schema = "DO $$ BEGIN ASSERT to_regnamespace('noetl') IS NULL; END $$";
    database.run_statement(no_schema).unwrap();
    let secret = format!("{owner} password=geheim");
    let config = run(&["config", "show", "--origin"], &server, &secret);
    assert!(config.out.contains("NOETL_OWNER_DSN = "), "{}", config.out);
    assert!(!config.to_snapshot().contains("geheim"), "{}", config.to_snapshot());
    // The owner's address is set without the address of a database.
    let mut without_dsn = isolated_command(&dir, &["db", "status"]);
    without_dsn.env("NOETL_OWNER_DSN", &owner);
    let without_dsn: CommandOutput = without_dsn.output().unwrap().into();
    assert_eq!(without_dsn.code, 2, "{}", without_dsn.to_snapshot());
    assert!(without_dsn.err.contains("NOETL_DSN"), "{}", without_dsn.err);
}

/// An edited event is named in the text and in the JSON document.
#[test]
fn check_names_edited_run_and_event() {
    let dir = TestDir::new("db_edited");
    dir.write("clean.yaml", CLEAN_PLAYBOOK);
    assert_eq!(run_isolated(&dir, &["run", "clean.yaml"]).code, 0);
    let unanchored = run_isolated(&dir, &["db", "anchor"]);
    assert_eq!(unanchored.code, 3, "{}", unanchored.to_snapshot());
    for unknown in ["12", "no-such-file", "1:zz"] {
        let refused = run_isolated(&dir, &["db", "check", "--anchor", unknown]);
        assert_eq!(refused.code, 3, "{}", refused.to_snapshot());
    }
    let connection = rusqlite::Connection::open(dir.path("data/noetl.db")).unwrap();
    connection.execute("UPDATE event SET node_name = 'x' WHERE seq = 3", []).unwrap();
    let id: i64 =
        connection.query_row("SELECT execution_id FROM execution", [], |row| row.get(0)).unwrap();
    let found = run_isolated(&dir, &["db", "check"]);
    assert_eq!(found.code, 1, "{}", found.to_snapshot());
    assert!(found.out.contains(&format!("execution {id}: event 3 (")), "{}", found.to_snapshot());
    let found = run_isolated(&dir, &["db", "check", "--run", &id.to_string(), "-o", "json"]);
    assert_eq!(found.code, 1, "{}", found.to_snapshot());
    let document: serde_json::Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!(document["found"][0]["kind"], "modified_event", "{document}");
    assert_eq!(document["found"][0]["seq"], 3, "{document}");
    let missing = run_isolated(&dir, &["db", "check", "--run", "77"]);
    assert_eq!(missing.code, 3, "{}", missing.to_snapshot());
}
