//! Changes that only the chain of anchors reveals.

use std::time::Duration;

use noetl_server::CallContext;
use noetl_server::verification::{AnchorHead, OutsideAnchor, ProblemKind};
use noetl_store::{AppendRequest, Execution, LogHead, LogPageLimit, NewAuditEntry};
use noetl_types::{AuditId, ExecutionId, ExecutionVersion, Json, Seq, TenantId, Timestamp};

use crate::verification::fixture::{TestStore, complete_commands, start_run};
use crate::verification::on_both_databases;

on_both_databases! {
    cut_off_log_is_found,
    removed_run_is_found,
    rewritten_history_is_found,
    changed_attributes_are_found,
    changed_anchors_are_found,
    cut_off_audit_log_is_found,
    purge_is_not_tampering,
}

/// A database with anchored runs.
async fn anchored_runs(test: &TestStore, count: usize) -> Vec<ExecutionId> {
    test.register_playbook().await;
    let services = test.open_server().await;
    let mut ids = Vec::new();
    for _ in 0..count {
        // Each run is anchored twice, after its first command and later.
        ids.push(start_run(&services).await);
        complete_commands(&services, 1).await;
        test.wait_for_feed().await;
        services.anchors.write_anchors().await.unwrap();
        complete_commands(&services, 1).await;
    }
    test.wait_for_feed().await;
    services.anchors.write_anchors().await.unwrap();
    services.close(Duration::from_mins(1)).await;
    ids
}

async fn find_row(test: &TestStore, id: ExecutionId) -> Execution {
    test.store.find_execution(id).await.unwrap().unwrap()
}

async fn newest_head(test: &TestStore) -> AnchorHead {
    let newest = test.store.newest_anchor().await.unwrap().unwrap();
    noetl_server::anchors::SealedAnchor::from_row(&newest).unwrap().anchor.head()
}

/// Removes the end of a log and everything that depends on it, and puts the head back.
fn cut_off_sql(id: ExecutionId, end: i64) -> String {
    format!(
        "DELETE FROM event WHERE execution_id = {id} AND seq > {end};
         DELETE FROM projection_snapshot WHERE execution_id = {id} AND version > {end};
         DELETE FROM command WHERE execution_id = {id} AND NOT EXISTS (
             SELECT 1 FROM event WHERE event.execution_id = {id}
                 AND event.event_id = command.command_id
         );
         UPDATE command SET status = 'PENDING', completed_at = NULL, worker_id = NULL,
             lease_token = NULL, lease_until = NULL
         WHERE execution_id = {id} AND NOT EXISTS (
             SELECT 1 FROM event WHERE event.execution_id = {id}
                 AND event.command_id = command.command_id AND event_type = 'command.completed'
         );
         UPDATE execution SET version = {end},
             chain_head = (SELECT chain FROM event WHERE execution_id = {id} AND seq = {end}),
             last_ingest_time =
                 (SELECT ingest_time FROM event WHERE execution_id = {id} AND seq = {end}),
             last_event_id =
                 (SELECT event_id FROM event WHERE execution_id = {id} AND seq = {end}),
             last_event_type =
                 (SELECT event_type FROM event WHERE execution_id = {id} AND seq = {end})
         WHERE execution_id = {id}"
    )
}

async fn cut_off_log_is_found(test: TestStore) {
    let ids = anchored_runs(&test, 2).await;
    let file = OutsideAnchor::File(test.anchor_file());
    test.assert_intact(&file).await;
    let version = find_row(&test, ids[0]).await.head.version.get();
    test.attack(&cut_off_sql(ids[0], version - 1));
    for outside in [file, OutsideAnchor::Head(newest_head(&test).await), OutsideAnchor::None] {
        let text = format!("its log was cut off after event {}", version - 1);
        let problem = test.assert_finds(&outside, ProblemKind::CutOffLog, &text).await;
        assert_eq!(problem.execution_id, Some(ids[0]));
        assert_eq!(problem.seq, Some(Seq::new(version).unwrap()));
    }
}

fn remove_sql(id: ExecutionId) -> String {
    let tables =
        ["event", "execution", "command", "timer", "wait", "projection_snapshot", "result_store"];
    tables.map(|table| format!("DELETE FROM {table} WHERE execution_id = {id};")).concat()
}

async fn removed_run_is_found(test: TestStore) {
    let ids = anchored_runs(&test, 3).await;
    let file = OutsideAnchor::File(test.anchor_file());
    test.assert_intact(&file).await;
    test.attack(&remove_sql(ids[1]));
    let problem = test.assert_finds(&file, ProblemKind::RemovedExecution, "it was removed").await;
    assert_eq!(problem.execution_id, Some(ids[1]));
    let (_, problems) = test.verify(noetl_server::verification::VerifyScope::All, &file).await;
    assert_eq!(problems.len(), 1, "{problems:#?}");
    // An attacker who marks it as dropped by retention is found too.
    test.attack(&format!(
        "INSERT INTO retention_range (lo, hi, dropped_at)
         SELECT {0}, {0} + 1, started_at FROM execution LIMIT 1",
        ids[1]
    ));
    let text = "no anchor records that";
    test.assert_finds(&file, ProblemKind::ModifiedAnchor, text).await;
    test.assert_finds(&file, ProblemKind::RemovedExecution, "it was removed").await;
}

/// Writes a log again, with another event but a valid chain.
async fn rewrite_log(test: &TestStore, id: ExecutionId, from: Seq) {
    let row = find_row(test, id).await;
    let events = test.store.read_events(id, ExecutionVersion::EMPTY, LogPageLimit::MAX).await;
    let events = events.unwrap();
    test.attack(&format!(
        "DELETE FROM event WHERE execution_id = {id};
         DELETE FROM execution WHERE execution_id = {id};
         DELETE FROM projection_snapshot WHERE execution_id = {id}"
    ));
    let mut head = LogHead::START;
    for stored in events {
        let mut event = stored.record.event;
        if stored.record.seq >= from {
            event.meta = Some(Json::object([("forged", Json::from(1))]));
        }
        let append = AppendRequest {
            execution_id: id,
            expected_head: head,
            now: stored.record.ingest_time,
            events: vec![event],
            keep_checksums: false,
            is_projected: true,
            use_outbox: false,
            start: (head == LogHead::START).then(|| row.facts.clone()),
            view: row.view.clone(),
            fences: Vec::new(),
            commands: Vec::new(),
            timers: Vec::new(),
            results: Vec::new(),
            waits: Vec::new(),
            follow_ups: Vec::new(),
            slots: Vec::new(),
            cache_puts: Vec::new(),
            dedup: None,
            idempotency: None,
        };
        head = test.store.append_events(vec![append]).await.pop().unwrap().unwrap().head;
    }
}

async fn rewritten_history_is_found(test: TestStore) {
    let ids = anchored_runs(&test, 2).await;
    let file = OutsideAnchor::File(test.anchor_file());
    test.assert_intact(&file).await;
    // The first anchor of the run is still right, so the first wrong event is after it.
    let last = Seq::new(find_row(&test, ids[0]).await.head.version.get()).unwrap();
    rewrite_log(&test, ids[0], last).await;
    let text = format!("and event {last}, after anchor");
    let problem = test.assert_finds(&file, ProblemKind::RewrittenLog, &text).await;
    assert_eq!(problem.execution_id, Some(ids[0]));
    let first_bad = problem.seq.unwrap();
    assert!(first_bad > Seq::FIRST && first_bad <= last, "{problem:?}");
    rewrite_log(&test, ids[1], Seq::FIRST).await;
    let text = "its log was rewritten between event 1 ";
    let problem = test.assert_finds(&file, ProblemKind::RewrittenLog, text).await;
    assert_eq!(problem.execution_id, Some(ids[1]));
}

async fn changed_attributes_are_found(test: TestStore) {
    let ids = anchored_runs(&test, 2).await;
    let file = OutsideAnchor::File(test.anchor_file());
    test.assert_intact(&file).await;
    test.attack(&format!(
        "UPDATE execution SET labels = '{{\"team\":\"b\"}}' WHERE execution_id = {}",
        ids[0]
    ));
    let text = "an attribute in its row";
    let problem = test.assert_finds(&file, ProblemKind::WrongRow, text).await;
    assert_eq!(problem.execution_id, Some(ids[0]));
}

async fn changed_anchors_are_found(test: TestStore) {
    let ids = anchored_runs(&test, 2).await;
    let file = OutsideAnchor::File(test.anchor_file());
    let head = newest_head(&test).await;
    let report = test.assert_intact(&OutsideAnchor::Head(head)).await.anchors.unwrap();
    assert_eq!((report.anchors, report.outside), (3, 3));
    // The attacker removes a run and the anchors that have it.
    test.attack(&remove_sql(ids[1]));
    test.attack("DELETE FROM anchor WHERE anchor_id >= 2");
    let kind = ProblemKind::ModifiedAnchor;
    test.assert_finds(&file, kind, "anchor 2 is missing in the database").await;
    let removed = test.assert_finds(&file, ProblemKind::RemovedExecution, "it was removed").await;
    assert_eq!(removed.execution_id, Some(ids[1]));
    let text = format!("the chain ends at anchor 1, but anchor {} was kept", head.anchor_id);
    test.assert_finds(&OutsideAnchor::Head(head), kind, &text).await;
    // A server does not continue the file.
    let services = test.open_server().await;
    let refused = services.anchors.write_anchors().await.unwrap_err().to_string();
    assert!(refused.contains("does not continue the anchor file"), "{refused}");
    services.close(Duration::from_mins(1)).await;
    // Neither does a changed anchor pass.
    test.attack("UPDATE anchor SET content = replace(content, '\"epoch\":1', '\"epoch\":2')");
    test.assert_finds(&file, kind, "anchor 1 was changed in the database").await;
}

async fn cut_off_audit_log_is_found(test: TestStore) {
    let services = test.open_server().await;
    let entry = |number: i64| NewAuditEntry {
        audit_id: AuditId::new(number).unwrap(),
        tenant_id: TenantId::default(),
        occurred_at: Timestamp::UNIX_EPOCH,
        actor: "admin".into(),
        action: "token.create".into(),
        target: None,
        address: None,
        outcome: "ok".into(),
        detail: Json::Null,
        secret: None,
    };
    test.store.append_audit_log((1..=3).map(entry).collect()).await.unwrap();
    test.wait_for_feed().await;
    services.anchors.write_anchors().await.unwrap();
    services.close(Duration::from_mins(1)).await;
    let file = OutsideAnchor::File(test.anchor_file());
    test.assert_intact(&file).await;
    test.attack("DELETE FROM audit WHERE seq = 3");
    let kind = ProblemKind::ModifiedAuditLog;
    test.assert_finds(&file, kind, "entry 3 of the audit log of tenant default is missing").await;
    test.attack("UPDATE audit SET actor = 'x' WHERE seq = 1");
    test.assert_finds(&file, kind, "entry 1").await;
}

async fn purge_is_not_tampering(test: TestStore) {
    use noetl_api::internal::{ProjectRequest, PurgeRequest};
    use noetl_store::ProjectionScope;

    let services = test.open_server().await;
    let month = Timestamp::parse("2025-03-10T00:00:00Z").unwrap();
    test.store.ensure_log_partitions(month, 1).await.unwrap();
    let id = (month.as_unix_ms() - 1_704_067_200_000) << 22;
    let event = |number: i64, name: &str| {
        Json::object([
            ("execution_id", Json::from(id)),
            ("event_id", Json::from(id + number)),
            ("event_type", Json::from(name)),
        ])
    };
    let events = vec![event(1, "step.enter"), event(2, "playbook.completed")];
    let projected = services.projection.project_events(
        CallContext::server(),
        ProjectRequest::new(events),
        ProjectionScope::ExecutionOwner,
    );
    assert_eq!(projected.await.unwrap().projected, 2);
    test.wait_for_feed().await;
    services.anchors.write_anchors().await.unwrap();
    let file = OutsideAnchor::File(test.anchor_file());
    test.assert_intact(&file).await;
    let request = PurgeRequest { event_retention_days: Some(30), ..PurgeRequest::default() };
    let purged = services.maintenance.purge_expired_data(request).await.unwrap();
    assert!(purged.events_purged >= 1, "{purged:?}");
    test.wait_for_feed().await;
    services.anchors.write_anchors().await.unwrap();
    services.close(Duration::from_mins(1)).await;
    assert_eq!(test.store.find_execution(ExecutionId::new(id).unwrap()).await.unwrap(), None);
    test.assert_intact(&file).await;
}
