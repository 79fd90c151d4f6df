//! Changed events, rows, snapshots, results and definitions.

use std::time::Duration;

use noetl_api::replay::ReplayQuery;
use noetl_server::CallContext;
use noetl_server::verification::{OutsideAnchor, ProblemKind, VerifyScope};
use noetl_types::ExecutionId;

use crate::verification::fixture::{TestStore, complete_commands, create_runs, start_run};
use crate::verification::on_both_databases;

on_both_databases! {
    every_changed_row_is_found_and_named,
    changed_definition_is_found,
    projected_run_passes_and_changes_are_found,
}

/// A change of one run: the SQL, with `ID` for the run, the problem that it causes, and its text.
struct Attack(&'static str, ProblemKind, &'static str);

/// Changes of runs that wait for a signal.
const WAITING_RUN_ATTACKS: &[Attack] = &[
    Attack(
        "UPDATE event SET node_name = 'x' WHERE execution_id = ID AND seq = 3",
        ProblemKind::ModifiedEvent,
        "event 3 (",
    ),
    Attack(
        "UPDATE event SET context = '{\"a\":1}' WHERE execution_id = ID AND seq = 1",
        ProblemKind::ModifiedEvent,
        "event 1 (playbook.",
    ),
    Attack(
        "UPDATE event SET status = 'FORGED' WHERE execution_id = ID AND seq = 2",
        ProblemKind::ModifiedEvent,
        "event 2 (",
    ),
    Attack(
        "DELETE FROM event WHERE execution_id = ID AND seq = 4",
        ProblemKind::MissingEvent,
        "event 4 is missing",
    ),
    Attack(
        "UPDATE event SET seq = 1000 WHERE execution_id = ID AND seq = 2;
         UPDATE event SET seq = 2 WHERE execution_id = ID AND seq = 3;
         UPDATE event SET seq = 3 WHERE execution_id = ID AND seq = 1000",
        ProblemKind::ModifiedEvent,
        "event 2 (",
    ),
    Attack(
        "UPDATE execution SET version = version + 1 WHERE execution_id = ID",
        ProblemKind::WrongEnd,
        "its log ends at event",
    ),
    Attack(
        "UPDATE execution SET version = version - 1, chain_head = (
             SELECT chain FROM event
             WHERE event.execution_id = ID AND event.seq = execution.version - 1
         ), last_event_id = (
             SELECT event_id FROM event
             WHERE event.execution_id = ID AND event.seq = execution.version - 1
         ) WHERE execution_id = ID",
        ProblemKind::WrongEnd,
        "follows",
    ),
    Attack(
        "UPDATE execution SET chain_head = (
             SELECT chain FROM event WHERE event.execution_id = ID AND seq = 1
         ) WHERE execution_id = ID",
        ProblemKind::WrongRow,
        "execution.chain_head",
    ),
    Attack(
        "UPDATE execution SET status = 'PAUSED' WHERE execution_id = ID",
        ProblemKind::WrongRow,
        "execution.status is Paused, but its log says Running",
    ),
    Attack(
        "UPDATE execution SET path = 'other' WHERE execution_id = ID",
        ProblemKind::WrongRow,
        "execution.path",
    ),
    Attack(
        "UPDATE execution SET tenant_id = 'other' WHERE execution_id = ID",
        ProblemKind::WrongRow,
        "execution.tenant_id is other",
    ),
    Attack(
        "UPDATE execution SET pool = 'gpu' WHERE execution_id = ID",
        ProblemKind::WrongRow,
        "execution.pool",
    ),
    Attack(
        "UPDATE execution SET priority = 7 WHERE execution_id = ID",
        ProblemKind::WrongRow,
        "execution.priority",
    ),
    Attack(
        "UPDATE execution SET origin = 'projected' WHERE execution_id = ID",
        ProblemKind::WrongRow,
        "execution.origin",
    ),
    Attack(
        "UPDATE execution SET last_event_type = 'x' WHERE execution_id = ID",
        ProblemKind::WrongRow,
        "execution.last_event_id or last_event_type",
    ),
    Attack(
        "UPDATE execution SET status = 'NONE' WHERE execution_id = ID",
        ProblemKind::WrongRow,
        "its row was modified",
    ),
    Attack(
        "UPDATE command SET status = 'FAILED' WHERE execution_id = ID AND step_name = 'b'",
        ProblemKind::WrongRow,
        "command ",
    ),
    Attack(
        "UPDATE command SET step_name = 'x' WHERE execution_id = ID AND step_name = 'b'",
        ProblemKind::WrongRow,
        "step_name",
    ),
    Attack(
        "UPDATE timer SET timer_id = 'start' WHERE execution_id = ID",
        ProblemKind::WrongRow,
        "timer execution",
    ),
    Attack("DELETE FROM timer WHERE execution_id = ID", ProblemKind::WrongRow, "timer execution"),
    Attack("UPDATE wait SET name = 'x' WHERE execution_id = ID", ProblemKind::WrongRow, "wait "),
    Attack("DELETE FROM wait WHERE execution_id = ID", ProblemKind::WrongRow, "no row"),
    Attack(
        "UPDATE projection_snapshot SET state = checksum WHERE execution_id = ID
             AND kind = 'engine_state'",
        ProblemKind::WrongSnapshot,
        "the snapshot engine_state at event",
    ),
    Attack(
        "UPDATE projection_snapshot SET state = checksum WHERE execution_id = ID
             AND kind = 'replay_state'",
        ProblemKind::WrongSnapshot,
        "the snapshot replay_state at event",
    ),
    Attack(
        "UPDATE result_store SET data = sha256 WHERE execution_id = ID",
        ProblemKind::ModifiedResult,
        "was modified",
    ),
    Attack(
        "DELETE FROM execution WHERE execution_id = ID",
        ProblemKind::MissingExecution,
        "its row is missing",
    ),
    Attack(
        "DELETE FROM event WHERE execution_id = ID",
        ProblemKind::WrongEnd,
        "its log ends at event 0",
    ),
];

/// Changes of a run whose second command is open.
const OPEN_RUN_ATTACKS: &[Attack] = &[
    Attack(
        "UPDATE command SET status = 'CANCELLED' WHERE execution_id = ID AND step_name = 'b'",
        ProblemKind::WrongRow,
        "status is CANCELLED, but its log says an open command",
    ),
    Attack(
        "UPDATE command SET pool = 'gpu' WHERE execution_id = ID AND step_name = 'b'",
        ProblemKind::WrongRow,
        "gpu",
    ),
    Attack(
        "DELETE FROM command WHERE execution_id = ID AND step_name = 'b'",
        ProblemKind::WrongRow,
        "is no row, but its log says an open command",
    ),
];

async fn assert_attack_is_found(test: &TestStore, id: ExecutionId, attack: &Attack) {
    let Attack(sql, kind, text) = attack;
    test.attack(&sql.replace("ID", &id.to_string()));
    let scope = VerifyScope::Execution(id);
    let (_, problems) = test.verify(scope, &OutsideAnchor::None).await;
    let found = problems.iter().find(|it| it.kind == *kind && it.message.contains(text));
    assert!(found.is_some(), "{sql}: {problems:#?}");
    let prefix = format!("execution {id}: ");
    assert!(problems.iter().all(|it| it.message.starts_with(&prefix)), "{sql}: {problems:#?}");
}

async fn every_changed_row_is_found_and_named(test: TestStore) {
    test.register_playbook().await;
    let services = test.open_server().await;
    let waiting = create_runs(&services, WAITING_RUN_ATTACKS.len() + 1).await;
    let mut open = Vec::new();
    for _ in OPEN_RUN_ATTACKS {
        open.push(start_run(&services).await);
    }
    // The oldest commands are leased first, so that the second one of each run stays open.
    for _ in OPEN_RUN_ATTACKS {
        complete_commands(&services, 1).await;
    }
    for id in &waiting {
        let query = ReplayQuery::new(*id);
        services.queries.replay_state(CallContext::server(), query).await.unwrap();
    }
    services.close(Duration::from_mins(1)).await;
    // The control: nothing is found, although all kinds of rows exist.
    let report = test.assert_intact(&OutsideAnchor::None).await;
    assert_eq!(report.counts.executions, (waiting.len() + open.len()) as u64);
    let one = waiting[0];
    let snapshots = test.store.list_snapshot_versions(one).await.unwrap();
    let kinds: std::collections::BTreeSet<&str> =
        snapshots.iter().map(|(key, _)| key.kind.as_str()).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["engine_state", "replay_state"]);

    for (attack, id) in WAITING_RUN_ATTACKS.iter().zip(&waiting) {
        assert_attack_is_found(&test, *id, attack).await;
    }
    for (attack, id) in OPEN_RUN_ATTACKS.iter().zip(&open) {
        assert_attack_is_found(&test, *id, attack).await;
    }
    // The last run was not touched.
    let last = VerifyScope::Execution(*waiting.last().unwrap());
    assert_eq!(test.verify(last, &OutsideAnchor::None).await.1, []);
}

async fn changed_definition_is_found(test: TestStore) {
    test.register_playbook().await;
    let services = test.open_server().await;
    let id = create_runs(&services, 1).await[0];
    services.close(Duration::from_mins(1)).await;
    test.assert_intact(&OutsideAnchor::None).await;
    test.attack("UPDATE catalog SET content = replace(content, 'noop', 'shell')");
    let kind = ProblemKind::ModifiedDefinition;
    test.assert_finds(&OutsideAnchor::None, kind, "definition demo version 1").await;
    // A digest that was changed too contradicts the runs.
    let other = noetl_types::sha256("other").to_string();
    let other = if test.is_postgres() {
        format!("decode('{other}', 'hex')")
    } else {
        format!("x'{other}'")
    };
    test.attack(&format!("UPDATE catalog SET sha256 = {other}"));
    let problem = test.assert_finds(&OutsideAnchor::None, kind, "not the one").await;
    assert_eq!(problem.execution_id, Some(id));
}

async fn projected_run_passes_and_changes_are_found(test: TestStore) {
    use noetl_api::internal::ProjectRequest;
    use noetl_store::ProjectionScope;
    use noetl_types::Json;

    let services = test.open_server().await;
    let now = noetl_server::Clock::now(&noetl_server::SystemClock);
    let id = (now.as_unix_ms() - 1_704_067_200_000) << 22;
    let event = |number: i64, name: &str| {
        Json::object([
            ("execution_id", Json::from(id)),
            ("event_id", Json::from(id + number)),
            ("event_type", Json::from(name)),
            ("node_name", Json::from("load")),
        ])
    };
    let events =
        vec![event(1, "step.enter"), event(2, "step.exit"), event(3, "playbook.completed")];
    let projected = services.projection.project_events(
        CallContext::server(),
        ProjectRequest::new(events),
        ProjectionScope::ExecutionOwner,
    );
    assert_eq!(projected.await.unwrap().projected, 3);
    services.close(Duration::from_mins(1)).await;
    test.assert_intact(&OutsideAnchor::None).await;
    test.attack("UPDATE event SET envelope_checksum = chain WHERE seq = 2");
    let (none, kind) = (OutsideAnchor::None, ProblemKind::ModifiedEvent);
    test.assert_finds(&none, kind, "the stored checksum of event 2").await;
    test.attack("UPDATE execution SET status = 'FAILED'");
    test.assert_finds(&none, ProblemKind::WrongRow, "Failed").await;
}
