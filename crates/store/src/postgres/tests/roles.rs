//! Separate database roles: one owns the tables, the other is used by the server and cannot change
//! the log.

use std::sync::Arc;

use noetl_testkit::postgres::TestDatabase;
use noetl_types::{ExecutionVersion, FeedPosition, Timestamp};
use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use super::publishing::{MOVE_LOG_TO_OTHER_CLUSTER, purge_before_november, write_august_run};
use super::{create_fixture_with, fatal_message, test_options};
use crate::postgres::{PostgresOptions, PostgresStore};
use crate::prelude::*;
use crate::suite::StoreFixture;
use crate::suite::fixture::{TestExecution, test_time};
use crate::suite::{publishing_suite, store_suite};
use crate::{
    FeedLimit, LogEpoch, LogPageLimit, PinReason, PrivilegeCheck, StoreError, purge_old_data,
};

fn options_with_roles(database: &TestDatabase) -> PostgresOptions {
    let [owner, server] = database.role_configs();
    PostgresOptions { config: server, owner_config: Some(owner), ..test_options(database) }
}

async fn open_with_roles(database: &TestDatabase) -> PostgresStore {
    PostgresStore::open(&options_with_roles(database)).await.unwrap()
}

/// Connects with the server's role, without the store.
async fn connect_as_server(database: &TestDatabase) -> Client {
    let [_, server] = database.role_configs();
    let (client, connection) = tokio_postgres::connect(&server, NoTls).await.unwrap();
    tokio::spawn(connection);
    let schema = "SET search_path = noetl";
    client.batch_execute(schema).await.unwrap();
    client
}

async fn create_fixture() -> StoreFixture {
    let database = Arc::new(TestDatabase::with_roles().unwrap());
    let options = options_with_roles(&database);
    create_fixture_with(database, &options).await
}

mod suite {
    use super::create_fixture;
    use super::{publishing_suite, store_suite};

    store_suite!(create_fixture);
    publishing_suite!(create_fixture);
}

/// Returns the reason if the server's role can change the log.
async fn append_only_violation(store: &PostgresStore) -> Option<String> {
    let failed = store.list_failed_privilege_checks().await.unwrap();
    let violation = failed.iter().find(|failed| failed.check == PrivilegeCheck::AppendOnly);
    violation.map(|failed| failed.reason.to_string())
}

/// Statements that change events, or make it possible, on a table or view of the log.
fn forbidden_statements(table: &str, role: &str) -> Vec<String> {
    let trigger = "FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()";
    let mut changes = vec![
        format!("UPDATE {table} SET status = 'x'"),
        format!("UPDATE {table} SET status = status WHERE false"),
        format!("DELETE FROM {table}"),
        format!("DELETE FROM {table} WHERE false"),
        format!("DROP {} {table}", if table == "event_log" { "VIEW" } else { "TABLE" }),
        format!("ALTER TABLE {table} OWNER TO {role}"),
        format!("ALTER TABLE {table} RENAME TO other"),
    ];
    if table != "event_log" {
        changes.extend([
            format!("TRUNCATE {table}"),
            format!("SELECT FROM {table} FOR UPDATE"),
            format!("CREATE TRIGGER t BEFORE UPDATE ON {table} {trigger}"),
            format!("ALTER TABLE {table} ALTER status DROP NOT NULL"),
        ]);
    }
    changes
}

async fn assert_log_is_append_only(client: &Client, table: &str, role: &str) {
    // A role without grant option gets a warning, not an error.
    let grant = format!("GRANT ALL ON {table} TO {role}");
    let _ = client.batch_execute(&grant).await;
    for change in forbidden_statements(table, role) {
        let error = client.batch_execute(&change).await.unwrap_err();
        let code = error.code();
        assert_eq!(code, Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{change}: {error}");
    }
}

/// The server's role cannot change written events: in the current month, in those created ahead, in
/// one created by an append, and in one created later.
#[tokio::test]
async fn server_role_can_append_but_not_change_log() {
    let database = TestDatabase::with_roles().unwrap();
    let store = open_with_roles(&database).await;
    let mut run = TestExecution::create_started(&store, 1).await;
    let step = run.step_request();
    run.append_to(&store, step).await.unwrap();
    let old = write_august_run(&store).await;
    store.ensure_log_partitions(test_time("12:00:00"), 5).await.unwrap();
    let [_, server] = database.role_names();
    let client = connect_as_server(&database).await;
    let tables = ["event", "event_log", "event_y2026m08", "event_y2026m11", "event_y2026m12"];
    for table in tables.into_iter().chain(["event_y2027m04"]) {
        assert_log_is_append_only(&client, table, &server).await;
        // Reading is still permitted.
        let read = format!("SELECT FROM {table}");
        client.query(&read, &[]).await.unwrap();
    }
    let statements = [
        "CREATE TABLE beside (n int)".to_owned(),
        "DROP SCHEMA noetl CASCADE".to_owned(),
        "UPDATE schema_migration SET version = 0".to_owned(),
        "UPDATE audit SET outcome = 'ok'".to_owned(),
        "DELETE FROM audit".to_owned(),
        "TRUNCATE audit".to_owned(),
        "UPDATE anchor SET content = ''".to_owned(),
        "DELETE FROM anchor".to_owned(),
        "INSERT INTO event_log (execution_id) VALUES (1)".to_owned(),
        "CREATE TRIGGER t BEFORE DELETE ON execution FOR EACH ROW \
         EXECUTE FUNCTION suppress_redundant_updates_trigger()"
            .to_owned(),
        format!("SET ROLE {}", database.role_names()[0]),
    ];
    for statement in statements {
        let error = client.batch_execute(&statement).await.unwrap_err();
        let code = error.code();
        assert_eq!(code, Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{statement}: {error}");
    }
    assert_eq!(append_only_violation(&store).await, None);
    for run in [&run, &old] {
        let events =
            store.read_events(run.id, ExecutionVersion::EMPTY, LogPageLimit::MAX).await.unwrap();
        assert_eq!(events.len(), 2);
        noetl_types::record::verify_chain(&events).unwrap();
    }
}

/// Months are dropped through a connection of the owner, which is closed afterwards.
#[tokio::test]
async fn retention_drops_months_as_owner() {
    let database = TestDatabase::with_roles().unwrap();
    let store = open_with_roles(&database).await;
    let old = write_august_run(&store).await;
    let plan = purge_before_november(&store).await;
    let report = purge_old_data(&store, &plan, &()).await.unwrap();
    let names: Vec<_> = report.dropped.iter().map(|old| old.partition.name.as_str()).collect();
    assert_eq!(names, ["event_y2026m08"]);
    assert!(store.is_dropped(old.id).await.unwrap());
    // The connection of the owner is closed soon after the drop.
    let client = super::connect_raw(&database).await;
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1";
    let [owner, _] = database.role_names();
    let mut session_count = 1;
    while session_count > 0 {
        tokio::task::yield_now().await;
        let row = client.query_one(sql, &[&owner]).await.unwrap();
        session_count = row.get::<_, i64>(0);
    }
}

/// Extra privileges of the server's role are reported, and revoked at the next start.
#[tokio::test]
async fn extra_privileges_are_reported_and_revoked() {
    let database = TestDatabase::with_roles().unwrap();
    let store = open_with_roles(&database).await;
    let [owner, server] = database.role_names();
    for privilege in [
        "UPDATE ON noetl.event",
        "UPDATE (error) ON noetl.event_y2026m11",
        "DELETE ON noetl.event_y2026m12",
        "TRUNCATE ON noetl.event",
        "UPDATE ON noetl.event_log",
        "TRIGGER ON noetl.execution",
        "CREATE ON SCHEMA noetl",
    ] {
        assert_eq!(append_only_violation(&store).await, None, "{privilege}");
        let grant = format!("SET ROLE {owner}; GRANT {privilege} TO {server}");
        database.run_statement(&grant).unwrap();
        let message = append_only_violation(&store).await;
        let role = format!("the role {server} may ");
        assert!(message.is_some_and(|reason| reason.starts_with(&role)), "{privilege}");
        drop(open_with_roles(&database).await);
    }
    assert_eq!(append_only_violation(&store).await, None);
    // Privileges granted to PUBLIC cannot be revoked from this role. They are reported while they
    // exist.
    let grant = format!("SET ROLE {owner}; GRANT DELETE ON noetl.event TO PUBLIC");
    database.run_statement(&grant).unwrap();
    let store = open_with_roles(&database).await;
    assert_eq!(
        append_only_violation(&store).await,
        Some(format!("the role {server} may DELETE event"))
    );
}

/// The privileges that PUBLIC has by default may be revoked.
#[tokio::test]
async fn store_needs_no_public_privileges() {
    let database = TestDatabase::with_roles().unwrap();
    let [owner, server] = database.role_names();
    let harden = format!(
        "ALTER DEFAULT PRIVILEGES FOR ROLE {owner} REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
         ALTER DEFAULT PRIVILEGES FOR ROLE {owner} REVOKE USAGE ON TYPES FROM PUBLIC;
         ALTER DEFAULT PRIVILEGES FOR ROLE {owner} GRANT ALL ON TABLES TO {server}"
    );
    database.run_statement(&harden).unwrap();
    let store = open_with_roles(&database).await;
    let mut run = TestExecution::create_started(&store, 1).await;
    let step = run.step_request();
    run.append_to(&store, step).await.unwrap();
    write_august_run(&store).await;
    assert_eq!(append_only_violation(&store).await, None);
    assert_log_is_append_only(&connect_as_server(&database).await, "event_y2026m08", &server).await;
}

/// Tables that a server created without a separate owner: an owner with enough privileges can work
/// with them, but the log is not protected until they are reassigned.
#[tokio::test]
async fn server_role_that_owns_log_is_reported() {
    let database = TestDatabase::with_roles().unwrap();
    let [owner, server] = database.role_names();
    let name = database.name();
    let grant_create = format!("GRANT CREATE ON DATABASE {name} TO {server}");
    database.run_statement(&grant_create).unwrap();
    let without_owner = PostgresOptions { owner_config: None, ..options_with_roles(&database) };
    let owner_reason = Some(format!("the role {server} owns it"));
    let store = PostgresStore::open(&without_owner).await.unwrap();
    TestExecution::create_started(&store, 1).await;
    assert_eq!(append_only_violation(&store).await, owner_reason);
    let error = PostgresStore::open(&options_with_roles(&database)).await.unwrap_err();
    let message = fatal_message(&error);
    let fix = format!("REASSIGN OWNED BY {server} TO {owner}");
    assert!(message.ends_with(&fix), "{message}");
    let superuser = PostgresOptions {
        owner_config: Some(database.connection_config()),
        ..options_with_roles(&database)
    };
    let store = PostgresStore::open(&superuser).await.unwrap();
    assert_eq!(append_only_violation(&store).await, owner_reason);
    database.run_statement(&fix).unwrap();
    let store = open_with_roles(&database).await;
    assert_eq!(append_only_violation(&store).await, None);
    TestExecution::create_started(&store, 2).await;
    // Privilege checks do not apply to a superuser.
    let store = super::open_store(&database).await;
    assert_eq!(append_only_violation(&store).await.unwrap(), "the role postgres is a superuser");
}

#[tokio::test]
async fn role_errors_name_the_cause() {
    let database = TestDatabase::with_roles().unwrap();
    let [owner, server] = database.role_names();
    let options = || options_with_roles(&database);
    let open_error = |options: PostgresOptions| async move {
        let error = PostgresStore::open(&options).await.unwrap_err();
        fatal_message(&error)
    };
    let missing =
        PostgresOptions { config: options().config.replace(&server, "nobody_at_all"), ..options() };
    let message = open_error(missing).await;
    assert!(message.ends_with("CREATE ROLE nobody_at_all LOGIN"), "{message}");
    let elsewhere = TestDatabase::new().unwrap();
    let elsewhere =
        PostgresOptions { owner_config: Some(elsewhere.connection_config()), ..options() };
    let message = open_error(elsewhere).await;
    assert!(message.contains("another database"), "{message}");
    database.run_statement(&format!("ALTER ROLE {owner} NOLOGIN")).unwrap();
    let message = open_error(options()).await;
    assert!(message.starts_with("cannot connect as the owner of the tables"), "{message}");
    // No schema was created meanwhile.
    let sql = "DO $$ BEGIN ASSERT to_regnamespace('noetl') IS NULL; END $$";
    database.run_statement(sql).unwrap();
}

/// An operator who gives servers no owner credentials migrates by hand. A server then works on
/// migrated tables, and does not drop old months.
#[tokio::test]
async fn migrated_tables_need_no_owner() {
    let database = TestDatabase::with_roles().unwrap();
    let store = open_with_roles(&database).await;
    let old = write_august_run(&store).await;
    drop(store);
    let without_owner = PostgresOptions { owner_config: None, ..options_with_roles(&database) };
    let store = PostgresStore::open(&without_owner).await.unwrap();
    assert_eq!(append_only_violation(&store).await, None);
    TestExecution::create_started(&store, 1).await;
    store.ensure_log_partitions(test_time("12:00:00"), 2).await.unwrap();
    let not_created = store.ensure_log_partitions(test_time("12:00:00"), 9).await;
    assert!(matches!(not_created, Err(StoreError::Fatal { .. })), "{not_created:?}");
    // At the turn of a month there are still partitions, though fewer than intended.
    for (now, can_open) in [("2026-12-01", true), ("2027-01-31", true), ("2027-02-01", false)] {
        let later = PostgresOptions {
            now: Timestamp::parse(&format!("{now}T00:00:00Z")).unwrap(),
            ..without_owner.clone()
        };
        let opened = PostgresStore::open(&later).await;
        assert_eq!(opened.is_ok(), can_open, "{now}: {opened:?}");
    }
    let report = purge_old_data(&store, &purge_before_november(&store).await, &()).await.unwrap();
    assert_eq!(report.dropped, []);
    let pin_reason = report.skipped[0].pin_reason.as_ref();
    assert!(matches!(pin_reason, Some(PinReason::Refused(_))), "{pin_reason:?}");
    assert!(store.find_execution(old.id).await.unwrap().is_some());
    // The server's role cannot migrate tables of an earlier release.
    let sql = "DELETE FROM noetl.schema_migration
        WHERE version = (SELECT max(version) FROM noetl.schema_migration)";
    database.run_statement(sql).unwrap();
    let error = PostgresStore::open(&without_owner).await.unwrap_err();
    let message = fatal_message(&error);
    assert!(message.starts_with("the tables are not up to date"), "{message}");
}

#[tokio::test]
async fn concurrent_starts_grant_privileges_once() {
    let database = TestDatabase::with_roles().unwrap();
    let mut starts = JoinSet::new();
    for _ in 0..6 {
        let options = options_with_roles(&database);
        starts.spawn(async move { PostgresStore::open(&options).await.map(drop) });
    }
    for result in starts.join_all().await {
        result.unwrap();
    }
}

/// The owner indexes a restored log and starts its new epoch.
#[tokio::test]
async fn owner_starts_new_epoch_of_restored_log() {
    let database = TestDatabase::with_roles().unwrap();
    let mut run = {
        let store = open_with_roles(&database).await;
        TestExecution::create_started(&store, 1).await
    };
    database.run_statement(MOVE_LOG_TO_OTHER_CLUSTER).unwrap();
    let store = open_with_roles(&database).await;
    assert_ne!(store.log_epoch().await.unwrap(), LogEpoch::FIRST);
    let step = run.step_request();
    run.append_to(&store, step).await.unwrap();
    let mut after = FeedPosition::default();
    let mut event_count = 0;
    while event_count < 2 {
        let batch = store.read_feed(after, FeedLimit::MAX).await.unwrap();
        after = batch.next;
        event_count += batch.events.len();
        tokio::task::yield_now().await;
    }
    assert_eq!(append_only_violation(&store).await, None);
}
