//! Two roles: one owns the tables, the other works with them and cannot change the log.

use std::sync::Arc;

use noetl_testkit::postgres::Database;
use noetl_types::{FeedPosition, Timestamp, Version};
use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use super::outlets::{ELSEWHERE, august, before_november};
use super::{bench_of, options, refusal_of};
use crate::postgres::{PostgresOptions, PostgresStore};
use crate::suite::Bench;
use crate::suite::fixture::{Run, at};
use crate::suite::{outlet_suite, store_suite};
use crate::{
    FeedLimit, LogEpoch, LogPage, LogWall, Outlets as _, Pinned, Store as _, StoreError,
    Upkeep as _, purge,
};

fn two_roles(database: &Database) -> PostgresOptions {
    let [owner, server] = database.configs_of_roles();
    PostgresOptions {
        config: server,
        owner: Some(owner),
        ..options(database)
    }
}

async fn open(database: &Database) -> PostgresStore {
    PostgresStore::open(&two_roles(database)).await.unwrap()
}

/// A connection of the role that the server has, without the server.
async fn as_server(database: &Database) -> Client {
    let [_, server] = database.configs_of_roles();
    let (client, connection) = tokio_postgres::connect(&server, NoTls).await.unwrap();
    tokio::spawn(connection);
    let schema = "SET search_path = noetl";
    client.batch_execute(schema).await.unwrap();
    client
}

async fn bench() -> Bench {
    let database = Arc::new(Database::with_roles().unwrap());
    let options = two_roles(&database);
    bench_of(database, &options).await
}

mod suite {
    use super::bench;
    use super::{outlet_suite, store_suite};

    store_suite!(bench);
    outlet_suite!(bench);
}

/// Whether the wall around the log stands, as those who ask are told.
async fn leak(store: &PostgresStore) -> Option<String> {
    let missing = store.missing_walls().await.unwrap();
    let leak = missing
        .iter()
        .find(|missing| missing.wall == LogWall::AppendOnly);
    leak.map(|missing| missing.why.to_string())
}

/// What would change events, or lead to it, on a table or view of the log.
fn changes(table: &str, role: &str) -> Vec<String> {
    let made = "FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()";
    let mut changes = vec![
        format!("UPDATE {table} SET status = 'x'"),
        format!("UPDATE {table} SET status = status WHERE false"),
        format!("DELETE FROM {table}"),
        format!("DELETE FROM {table} WHERE false"),
        format!(
            "DROP {} {table}",
            if table == "event_log" {
                "VIEW"
            } else {
                "TABLE"
            }
        ),
        format!("ALTER TABLE {table} OWNER TO {role}"),
        format!("ALTER TABLE {table} RENAME TO other"),
    ];
    if table != "event_log" {
        changes.extend([
            format!("TRUNCATE {table}"),
            format!("SELECT FROM {table} FOR UPDATE"),
            format!("CREATE TRIGGER t BEFORE UPDATE ON {table} {made}"),
            format!("ALTER TABLE {table} ALTER status DROP NOT NULL"),
        ]);
    }
    changes
}

async fn is_shut(client: &Client, table: &str, role: &str) {
    // Who may give nothing is warned, not refused.
    let give = format!("GRANT ALL ON {table} TO {role}");
    let _ = client.batch_execute(&give).await;
    for change in changes(table, role) {
        let refused = client.batch_execute(&change).await.unwrap_err();
        let code = refused.code();
        assert_eq!(
            code,
            Some(&SqlState::INSUFFICIENT_PRIVILEGE),
            "{change}: {refused}"
        );
    }
}

/// Whatever the server does, what was written stays: in the present month, in those that were made
/// ahead, in one that an append needed, and in one that came later.
#[tokio::test]
async fn p7_the_server_adds_to_the_log_and_changes_nothing_of_it() {
    let database = Database::with_roles().unwrap();
    let store = open(&database).await;
    let mut run = Run::started(&store, 1).await;
    let step = run.step();
    run.write(&store, step).await.unwrap();
    let old = august(&store).await;
    store.keep_months(at("12:00:00"), 5).await.unwrap();
    let [_, server] = database.roles();
    let client = as_server(&database).await;
    let tables = [
        "event",
        "event_log",
        "event_y2026m08",
        "event_y2026m11",
        "event_y2026m12",
    ];
    for table in tables.into_iter().chain(["event_y2027m04"]) {
        is_shut(&client, table, &server).await;
        // It may be read all the same.
        let read = format!("SELECT FROM {table}");
        client.query(&read, &[]).await.unwrap();
    }
    let others = [
        "CREATE TABLE beside (n int)".to_owned(),
        "DROP SCHEMA noetl CASCADE".to_owned(),
        "UPDATE schema_migration SET version = 0".to_owned(),
        "UPDATE audit SET outcome = 'ok'".to_owned(),
        "DELETE FROM audit".to_owned(),
        "TRUNCATE audit".to_owned(),
        "INSERT INTO event_log (execution_id) VALUES (1)".to_owned(),
        "CREATE TRIGGER t BEFORE DELETE ON execution FOR EACH ROW \
         EXECUTE FUNCTION suppress_redundant_updates_trigger()"
            .to_owned(),
        format!("SET ROLE {}", database.roles()[0]),
    ];
    for change in others {
        let refused = client.batch_execute(&change).await.unwrap_err();
        let code = refused.code();
        assert_eq!(
            code,
            Some(&SqlState::INSUFFICIENT_PRIVILEGE),
            "{change}: {refused}"
        );
    }
    assert_eq!(leak(&store).await, None);
    for run in [&run, &old] {
        let events = store
            .events(run.id, Version::EMPTY, LogPage::MAX)
            .await
            .unwrap();
        assert_eq!(events.len(), 2);
        noetl_types::record::verify_chain(&events).unwrap();
    }
}

/// Months are dropped by the owner, whose connection goes when that is done.
#[tokio::test]
async fn p7_retention_drops_months_as_their_owner() {
    let database = Database::with_roles().unwrap();
    let store = open(&database).await;
    let old = august(&store).await;
    let asked = before_november(&store).await;
    let done = purge(&store, &asked).await.unwrap();
    let names: Vec<_> = done
        .dropped
        .iter()
        .map(|old| old.part.name.as_str())
        .collect();
    assert_eq!(names, ["event_y2026m08"]);
    assert!(store.is_gone(old.id).await.unwrap());
    // Its connection is as short as its work.
    let client = super::raw(&database).await;
    let owners = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1";
    let [owner, _] = database.roles();
    let mut left = 1;
    while left > 0 {
        tokio::task::yield_now().await;
        let row = client.query_one(owners, &[&owner]).await.unwrap();
        left = row.get::<_, i64>(0);
    }
}

/// What somebody gave the role beyond its due is told, and taken back at the next start.
#[tokio::test]
async fn p7_rights_that_somebody_gave_are_told_and_taken_back() {
    let database = Database::with_roles().unwrap();
    let store = open(&database).await;
    let [owner, server] = database.roles();
    for given in [
        "UPDATE ON noetl.event",
        "UPDATE (error) ON noetl.event_y2026m11",
        "DELETE ON noetl.event_y2026m12",
        "TRUNCATE ON noetl.event",
        "UPDATE ON noetl.event_log",
        "TRIGGER ON noetl.execution",
        "CREATE ON SCHEMA noetl",
    ] {
        assert_eq!(leak(&store).await, None, "{given}");
        let give = format!("SET ROLE {owner}; GRANT {given} TO {server}");
        database.run(&give).unwrap();
        let told = leak(&store).await;
        let role = format!("the role {server} may ");
        assert!(told.is_some_and(|why| why.starts_with(&role)), "{given}");
        drop(open(&database).await);
    }
    assert_eq!(leak(&store).await, None);
    // What all roles are given is not this one's to lose: it is told for as long as it lasts.
    let give = format!("SET ROLE {owner}; GRANT DELETE ON noetl.event TO PUBLIC");
    database.run(&give).unwrap();
    let store = open(&database).await;
    assert_eq!(
        leak(&store).await,
        Some(format!("the role {server} may DELETE event"))
    );
}

/// Privileges that are usually everybody's may have been taken from everybody.
#[tokio::test]
async fn p7_nothing_needs_what_is_given_to_everybody() {
    let database = Database::with_roles().unwrap();
    let [owner, server] = database.roles();
    let harden = format!(
        "ALTER DEFAULT PRIVILEGES FOR ROLE {owner} REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
         ALTER DEFAULT PRIVILEGES FOR ROLE {owner} REVOKE USAGE ON TYPES FROM PUBLIC;
         ALTER DEFAULT PRIVILEGES FOR ROLE {owner} GRANT ALL ON TABLES TO {server}"
    );
    database.run(&harden).unwrap();
    let store = open(&database).await;
    let mut run = Run::started(&store, 1).await;
    let step = run.step();
    run.write(&store, step).await.unwrap();
    august(&store).await;
    assert_eq!(leak(&store).await, None);
    is_shut(&as_server(&database).await, "event_y2026m08", &server).await;
}

/// Tables of a server that had no owner beside it: whoever may act for it works on, and the wall does
/// not stand until they are handed over.
#[tokio::test]
async fn p7_a_server_that_owns_the_log_is_told_of() {
    let database = Database::with_roles().unwrap();
    let [owner, server] = database.roles();
    let name = database.name();
    let let_in = format!("GRANT CREATE ON DATABASE {name} TO {server}");
    database.run(&let_in).unwrap();
    let alone = PostgresOptions {
        owner: None,
        ..two_roles(&database)
    };
    let owns = Some(format!("the role {server} owns it"));
    let store = PostgresStore::open(&alone).await.unwrap();
    Run::started(&store, 1).await;
    assert_eq!(leak(&store).await, owns);
    let refused = PostgresStore::open(&two_roles(&database))
        .await
        .unwrap_err();
    let told = refusal_of(&refused);
    let fix = format!("REASSIGN OWNED BY {server} TO {owner}");
    assert!(told.ends_with(&fix), "{told}");
    let mighty = PostgresOptions {
        owner: Some(database.config()),
        ..two_roles(&database)
    };
    let store = PostgresStore::open(&mighty).await.unwrap();
    assert_eq!(leak(&store).await, owns);
    database.run(&fix).unwrap();
    let store = open(&database).await;
    assert_eq!(leak(&store).await, None);
    Run::started(&store, 2).await;
    // A superuser is held by nothing.
    let store = super::open(&database).await;
    assert_eq!(
        leak(&store).await.unwrap(),
        "the role postgres is a superuser"
    );
}

#[tokio::test]
async fn p7_what_is_wrong_with_the_roles_is_named() {
    let database = Database::with_roles().unwrap();
    let [owner, server] = database.roles();
    let usual = || two_roles(&database);
    let refused = |options: PostgresOptions| async move {
        let refused = PostgresStore::open(&options).await.unwrap_err();
        refusal_of(&refused)
    };
    let missing = PostgresOptions {
        config: usual().config.replace(&server, "nobody_at_all"),
        ..usual()
    };
    let told = refused(missing).await;
    assert!(told.ends_with("CREATE ROLE nobody_at_all LOGIN"), "{told}");
    let elsewhere = Database::new().unwrap();
    let elsewhere = PostgresOptions {
        owner: Some(elsewhere.config()),
        ..usual()
    };
    let told = refused(elsewhere).await;
    assert!(told.contains("another database"), "{told}");
    database
        .run(&format!("ALTER ROLE {owner} NOLOGIN"))
        .unwrap();
    let told = refused(usual()).await;
    assert!(told.starts_with("as the owner of the tables"), "{told}");
    // Nothing was made meanwhile.
    let nothing = "DO $$ BEGIN ASSERT to_regnamespace('noetl') IS NULL; END $$";
    database.run(nothing).unwrap();
}

/// Who keeps the owner away from servers altogether migrates by hand. A server then works on tables that
/// are up to date, and leaves old months to whoever may drop them.
#[tokio::test]
async fn p7_tables_that_are_up_to_date_need_no_owner() {
    let database = Database::with_roles().unwrap();
    let store = open(&database).await;
    let old = august(&store).await;
    drop(store);
    let alone = PostgresOptions {
        owner: None,
        ..two_roles(&database)
    };
    let store = PostgresStore::open(&alone).await.unwrap();
    assert_eq!(leak(&store).await, None);
    Run::started(&store, 1).await;
    store.keep_months(at("12:00:00"), 2).await.unwrap();
    let none_made = store.keep_months(at("12:00:00"), 9).await;
    assert!(
        matches!(none_made, Err(StoreError::Fatal { .. })),
        "{none_made:?}"
    );
    // At the turn of a month there is still room, though less than there should be.
    for (now, is_room) in [
        ("2026-12-01", true),
        ("2027-01-31", true),
        ("2027-02-01", false),
    ] {
        let later = PostgresOptions {
            now: Timestamp::parse(&format!("{now}T00:00:00Z")).unwrap(),
            ..alone.clone()
        };
        let opened = PostgresStore::open(&later).await;
        assert_eq!(opened.is_ok(), is_room, "{now}: {opened:?}");
    }
    let done = purge(&store, &before_november(&store).await).await.unwrap();
    assert_eq!(done.dropped, []);
    let kept = done.skipped[0].pinned.as_ref();
    assert!(matches!(kept, Some(Pinned::Refused(_))), "{kept:?}");
    assert!(store.execution(old.id).await.unwrap().is_some());
    // Tables of an earlier release are not for it to change.
    let earlier = "DELETE FROM noetl.schema_migration
        WHERE version = (SELECT max(version) FROM noetl.schema_migration)";
    database.run(earlier).unwrap();
    let refused = PostgresStore::open(&alone).await.unwrap_err();
    let told = refusal_of(&refused);
    assert!(told.starts_with("the tables are not up to date"), "{told}");
}

#[tokio::test]
async fn p7_servers_that_start_together_are_given_their_rights_once() {
    let database = Database::with_roles().unwrap();
    let mut starts = JoinSet::new();
    for _ in 0..6 {
        let options = two_roles(&database);
        starts.spawn(async move { PostgresStore::open(&options).await.map(drop) });
    }
    for result in starts.join_all().await {
        result.unwrap();
    }
}

/// A restored log is indexed and begins its new life by its owner.
#[tokio::test]
async fn p7_a_restored_log_begins_a_new_life_by_its_owner() {
    let database = Database::with_roles().unwrap();
    let mut run = {
        let store = open(&database).await;
        Run::started(&store, 1).await
    };
    database.run(ELSEWHERE).unwrap();
    let store = open(&database).await;
    assert_eq!(store.log_epoch().await.unwrap(), LogEpoch::FIRST.next());
    let step = run.step();
    run.write(&store, step).await.unwrap();
    let mut after = FeedPosition::default();
    let mut found = 0;
    while found < 2 {
        let batch = store.feed(after, FeedLimit::MAX).await.unwrap();
        after = batch.next;
        found += batch.events.len();
        tokio::task::yield_now().await;
    }
    assert_eq!(leak(&store).await, None);
}
