//! `noetl db`: to look at a database changes nothing of it.

use noetl_testkit::postgres::Database;

use crate::run::at_home;
use crate::support::{CLEAN, Folder, Ran};

/// Takes the newest migration back, as far as anybody can tell who looks.
const OLDER: &str =
    "DELETE FROM schema_migration WHERE version = (SELECT max(version) FROM schema_migration)";

fn ran(folder: &Folder, args: &[&str]) -> Ran {
    at_home(folder, args).output().unwrap().into()
}

#[test]
fn a_database_that_is_not_there_is_not_made() {
    let folder = Folder::new("db_missing");
    for args in [
        &["db", "status"][..],
        &["db", "check"],
        &["db", "backup", "copy.db"],
    ] {
        let missing = ran(&folder, args);
        assert_eq!(missing.code, 3, "{}", missing.shown());
        assert!(
            missing.err.contains("there is no database at"),
            "{}",
            missing.err
        );
    }
    assert!(!folder.path("data/noetl.db").exists());
    assert!(!folder.path("copy.db").exists());
}

#[test]
fn an_old_file_is_shown_and_stays_old() {
    let folder = Folder::new("db_old");
    folder.write("clean.yaml", CLEAN);
    assert_eq!(ran(&folder, &["run", "clean.yaml"]).code, 0);
    let file = folder.path("data/noetl.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.execute(OLDER, []).unwrap();
    let versions = || {
        let sql = "SELECT count(*) FROM schema_migration";
        connection
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    let before = versions();
    let status = ran(&folder, &["db", "status"]);
    assert_eq!(status.code, 0, "{}", status.shown());
    let told = format!("schema {before} of {}", before + 1);
    assert!(status.out.contains(&told), "{}", status.out);
    for args in [&["db", "check"][..], &["db", "backup", "copy.db"]] {
        let refused = ran(&folder, args);
        assert_eq!(refused.code, 1, "{}", refused.shown());
        assert!(refused.err.contains("noetl db migrate"), "{}", refused.err);
    }
    assert_eq!(versions(), before);
}

#[test]
fn an_old_database_of_a_server_is_shown_and_stays_old() {
    let folder = Folder::new("db_old_postgres");
    let database = Database::new().unwrap();
    let ran = |args: &[&str]| -> Ran {
        let mut command = at_home(&folder, args);
        command.env("NOETL_DSN", database.config());
        command.output().unwrap().into()
    };
    // Nothing is there, and nothing is made.
    let status = ran(&["db", "status"]);
    assert!(status.out.contains("schema 0 of "), "{}", status.shown());
    assert_eq!(ran(&["db", "check"]).code, 1);
    let nothing = "DO $$ BEGIN ASSERT to_regnamespace('noetl') IS NULL; END $$";
    database.run(nothing).unwrap();
    let migrated = ran(&["db", "migrate"]);
    assert_eq!(migrated.code, 0, "{}", migrated.shown());
    for args in [&["db", "status"][..], &["db", "check"]] {
        let looked = ran(args);
        assert_eq!(looked.code, 0, "{}", looked.shown());
    }
    database
        .run(&OLDER.replace("schema_", "noetl.schema_"))
        .unwrap();
    let status = ran(&["db", "status"]);
    assert_eq!(status.code, 0, "{}", status.shown());
    assert!(status.out.contains("noetl db migrate"), "{}", status.out);
    let refused = ran(&["db", "check"]);
    assert_eq!(refused.code, 1, "{}", refused.shown());
    assert!(refused.err.contains("noetl db migrate"), "{}", refused.err);
    // The server of this version would apply it again, and does not find it done.
    let still =
        "DO $$ BEGIN ASSERT (SELECT max(version) = count(*) FROM noetl.schema_migration); END $$";
    database.run(still).unwrap();
    let again = ran(&["db", "status"]);
    assert_eq!(again.out, status.out);
}

/// What is wrong with the role that owns the tables is told before anything is made, and its address is
/// told to nobody.
#[test]
fn an_owner_that_cannot_work_is_named() {
    let folder = Folder::new("db_owner");
    let database = Database::with_roles().unwrap();
    let [owner, server] = database.configs_of_roles();
    let ran = |args: &[&str], dsn: &str, owner: &str| -> Ran {
        let mut command = at_home(&folder, args);
        command.env("NOETL_DSN", dsn).env("NOETL_OWNER_DSN", owner);
        command.output().unwrap().into()
    };
    let [owner_name, server_name] = database.roles();
    let nobody = server.replace(&server_name, "nobody_at_all");
    let missing = ran(&["db", "migrate"], &nobody, &owner);
    assert_eq!(missing.code, 1, "{}", missing.shown());
    let told = "CREATE ROLE nobody_at_all LOGIN";
    assert!(missing.err.contains(told), "{}", missing.err);
    let lock = format!("ALTER ROLE {owner_name} NOLOGIN");
    database.run(&lock).unwrap();
    let shut = ran(&["db", "migrate"], &server, &owner);
    assert_eq!(shut.code, 1, "{}", shut.shown());
    for told in ["as the owner of the tables", "NOETL_OWNER_DSN"] {
        assert!(shut.err.contains(told), "{}", shut.err);
    }
    let nothing = "DO $$ BEGIN ASSERT to_regnamespace('noetl') IS NULL; END $$";
    database.run(nothing).unwrap();
    let secret = format!("{owner} password=geheim");
    let shown = ran(&["config", "show", "--origin"], &server, &secret);
    assert!(shown.out.contains("NOETL_OWNER_DSN = "), "{}", shown.out);
    assert!(!shown.shown().contains("geheim"), "{}", shown.shown());
    // It belongs to a database, and none is named.
    let mut alone = at_home(&folder, &["db", "status"]);
    alone.env("NOETL_OWNER_DSN", &owner);
    let alone: Ran = alone.output().unwrap().into();
    assert_eq!(alone.code, 2, "{}", alone.shown());
    assert!(alone.err.contains("NOETL_DSN"), "{}", alone.err);
}
