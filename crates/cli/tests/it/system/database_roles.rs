//! A server whose database role does not own the tables: it works as usual and cannot modify its
//! log.

use noetl_testkit::postgres::TestDatabase;
use noetl_types::id::first_id_at;
use noetl_types::{Json, Month};

use crate::system::deployment::{StoreBackend, TestClient, TestDeployment};
use crate::system::raw_http::{get_json, post_json_with_headers};
use crate::system::test_cluster::parse_json;

const INTERNAL_TOKEN: &str = "sixteen characters and more";
const STEPS_PLAYBOOK: &str = "workflow:
  - {step: start, tool: {kind: noop}, next: {arcs: [{step: many}]}}
  - {step: many, tool: {kind: noop}, loop: {in: 5, iterator: n}}
";

/// Projects the log of an old, ended run into the server's log.
async fn project_old_run(base: &str) {
    let month = Month::new(2025, 3).unwrap();
    let run = first_id_at(month.first_instant().as_unix_ms()) + 1_000_000;
    let events = format!(
        r#"{{"events": [
            {{"execution_id": {run}, "event_id": {}, "event_type": "step.enter"}},
            {{"execution_id": {run}, "event_id": {}, "event_type": "playbook.completed"}}]}}"#,
        run + 1,
        run + 2
    );
    let header = format!("authorization: Bearer {INTERNAL_TOKEN}\r\n");
    let path = "/api/internal/events/project";
    let response =
        post_json_with_headers(base, path, &header, &parse_json(&events)).await.expect_ok();
    assert_eq!(response.get("projected"), Some(&Json::from(2)), "{response}");
}

/// Asserts that no session with the server's role can change the log.
fn assert_log_is_append_only(database: &TestDatabase) {
    let [_, server_role] = database.role_names();
    for change in ["UPDATE noetl.event SET error = 'x'", "DELETE FROM noetl.event"] {
        let error = database.run_statement(&format!("SET ROLE {server_role}; {change}"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("permission denied"), "{error}");
    }
}

/// The server runs a playbook, creates a missing month partition, and drops it. No event was
/// modified, and the server's role has no privilege to do so.
#[tokio::test(flavor = "multi_thread")]
async fn non_owner_server_runs_playbooks_and_purges() {
    let deployment = TestDeployment::on_postgres_with_roles();
    let StoreBackend::Postgres(database) = &deployment.backend else {
        panic!("a database has roles");
    };
    let migrated = deployment.run_command(&["db", "migrate"]);
    assert!(migrated.contains("is at schema"), "{migrated}");
    let settings =
        [("NOETL_INTERNAL_API_TOKEN", INTERNAL_TOKEN), ("NOETL_OUTBOX_ENABLED", "false")];
    let server = deployment.start_server_with_env(&settings);
    let client = TestClient::connect(&server);
    let base = client.0.base_url().to_owned();
    client.register_playbook("steps", STEPS_PLAYBOOK).await;
    let _worker = deployment.start_worker(&server, "w1");
    let run = client.start("steps", Json::empty_map()).await;
    let run = run.expect("started");
    client.assert_completed(&[run]).await;

    project_old_run(&base).await;
    let run_client = |args: &[&str]| {
        let mut command = deployment.noetl_command();
        command.env("NOETL_INTERNAL_API_TOKEN", INTERNAL_TOKEN);
        let output = command.args(args).args(["--server", &base]).output();
        let output = output.expect("noetl starts");
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {stdout} {output:?}");
        stdout
    };
    let purge = ["retention", "apply", "--yes", "--events", "30"];
    let purged = run_client(&[&purge[..], &["-o", "json"]].concat());
    let purged = parse_json(&purged);
    let dropped = purged.get("event_partitions_dropped");
    assert_eq!(dropped, Some(&parse_json(r#"["event_y2025m03"]"#)), "{purged}");

    let check = deployment.run_command(&["db", "check"]);
    assert!(check.contains("is intact"), "{check}");
    let status = deployment.run_command(&["db", "status"]);
    assert!(status.contains("postgres database"), "{status}");
    let ready = get_json(&base, "/readyz").await.expect_ok();
    let inactive = ready.get("missing_protections").and_then(Json::as_list).unwrap();
    let inactive: Vec<&str> = inactive.iter().filter_map(Json::as_str).collect();
    assert!(!inactive.iter().any(|layer| layer.starts_with("append-only log (")), "{inactive:?}");
    let is_row_security = |layer: &&str| layer.starts_with("row-level security of reads (");
    assert!(inactive.iter().any(is_row_security), "{inactive:?}");
    let doctor = run_client(&["doctor"]);
    assert!(doctor.contains("the server can only append to it"), "{doctor}");

    assert_log_is_append_only(database);
    // Without a separate owner the server must own the tables. This is reported, but not as an
    // error.
    let mut without_owner = deployment.noetl_command();
    without_owner.env_remove("NOETL_OWNER_DSN").env("NOETL_DSN", database.connection_config());
    let doctor = without_owner.arg("doctor").output().expect("noetl starts");
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    let expected = "not enforced: append-only log (the role postgres is a superuser)";
    assert!(doctor.contains(expected), "{doctor}");
}
