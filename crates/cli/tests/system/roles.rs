//! A server whose role does not own the tables: it works as any other, and cannot change its log.

use noetl_types::id::first_id_at;
use noetl_types::{Json, Month};

use crate::house::{Caller, Ground, House};
use crate::town::json;
use crate::wire::{get, post_with};

const TOKEN: &str = "sixteen characters and more";
const STEPS: &str = "workflow:
  - {step: start, tool: {kind: noop}, next: {arcs: [{step: many}]}}
  - {step: many, tool: {kind: noop}, loop: {in: 5, iterator: n}}
";

/// Copies the log of a run of long ago that has ended into the server's.
async fn copy_old(base: &str) {
    let month = Month::new(2025, 3).unwrap();
    let run = first_id_at(month.first_instant().as_unix_ms()) + 1_000_000;
    let events = format!(
        r#"{{"events": [
            {{"execution_id": {run}, "event_id": {}, "event_type": "step.enter"}},
            {{"execution_id": {run}, "event_id": {}, "event_type": "playbook.completed"}}]}}"#,
        run + 1,
        run + 2
    );
    let header = format!("authorization: Bearer {TOKEN}\r\n");
    let path = "/api/internal/events/project";
    let copied = post_with(base, path, &header, &json(&events)).await.ok();
    assert_eq!(copied.get("projected"), Some(&Json::from(2)), "{copied}");
}

/// The server runs a playbook, makes a month that it lacks, and drops it; nobody has changed an event, and
/// the server's role could not.
#[tokio::test(flavor = "multi_thread")]
async fn p7_a_server_that_does_not_own_its_log_runs_playbooks_and_purges() {
    let house = House::on_two_roles();
    let Ground::Postgres(database) = &house.ground else {
        panic!("a database has roles");
    };
    let migrated = house.says(&["db", "migrate"]);
    assert!(migrated.contains("is at schema"), "{migrated}");
    let settings = [
        ("NOETL_INTERNAL_API_TOKEN", TOKEN),
        ("NOETL_OUTBOX_ENABLED", "false"),
    ];
    let server = house.server_with(&settings);
    let caller = Caller::of(&server);
    let base = caller.0.base_url().to_owned();
    caller.register("steps", STEPS).await;
    let _worker = house.worker(&server, "w1");
    let run = caller.start("steps", Json::empty_map()).await;
    let run = run.expect("started");
    caller.completed(&[run]).await;

    copy_old(&base).await;
    let ask = |args: &[&str]| {
        let mut command = house.command();
        command.env("NOETL_INTERNAL_API_TOKEN", TOKEN);
        let output = command.args(args).args(["--server", &base]).output();
        let output = output.expect("noetl starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {said} {output:?}");
        said
    };
    let purge = ["retention", "apply", "--yes", "--events", "30"];
    let purged = ask(&[&purge[..], &["-o", "json"]].concat());
    let purged = json(&purged);
    let dropped = purged.get("event_partitions_dropped");
    assert_eq!(dropped, Some(&json(r#"["event_y2025m03"]"#)), "{purged}");

    let whole = house.says(&["db", "check"]);
    assert!(whole.contains("every log is as it was written"), "{whole}");
    let status = house.says(&["db", "status"]);
    assert!(status.contains("postgres database"), "{status}");
    let ready = get(&base, "/readyz").await.ok();
    let walls = ready.get("walls").and_then(Json::as_list).unwrap();
    let walls: Vec<&str> = walls.iter().filter_map(Json::as_str).collect();
    assert!(
        !walls.iter().any(|wall| wall.starts_with("a log ")),
        "{walls:?}"
    );
    let rows = |wall: &&str| wall.starts_with("row-level security of reads (");
    assert!(walls.iter().any(rows), "{walls:?}");
    let looked = ask(&["doctor"]);
    assert!(
        looked.contains("the server adds to it and cannot change it"),
        "{looked}"
    );

    // What the server could not do, somebody who has its password cannot either.
    let [_, server_role] = database.roles();
    for change in [
        "UPDATE noetl.event SET error = 'x'",
        "DELETE FROM noetl.event",
    ] {
        let refused = database.run(&format!("SET ROLE {server_role}; {change}"));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("permission denied"), "{refused}");
    }
    // Without an owner beside it the server would have to own the tables: that is told, and is no fault.
    let mut alone = house.command();
    alone
        .env_remove("NOETL_OWNER_DSN")
        .env("NOETL_DSN", database.config());
    let looked = alone.arg("doctor").output().expect("noetl starts");
    let looked = String::from_utf8_lossy(&looked.stdout).into_owned();
    let told = "not raised: a log that the server cannot change (the role postgres is a superuser)";
    assert!(looked.contains(told), "{looked}");
}
