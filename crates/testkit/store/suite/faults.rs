//! Guarantees to a driver while calls fail.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use noetl_types::id::HighWaterMark;
use noetl_types::limits::PageLimit;
use noetl_types::record::verify_chain;
use noetl_types::{
    CatalogId, CommandId, CredentialId, EventId, ExecutionId, ExecutionVersion, FeedPosition, Json,
    MachineId, Millis, Month, OutboxId, PlaybookPath, ResultId, RuntimeId, Seq, TenantId, Text,
    sha256,
};

use crate::model::SecretAuditFilter;
use crate::prelude::*;
use crate::suite::dedup::{dedup_reservation, idempotency_record};
use crate::suite::fixture::{
    TestExecution, all_executions, append_one, lease_request, lease_terms, test_time, worker_id,
};
use crate::suite::identities::{api_token, new_audit_entry};
use crate::suite::keychain::{keychain_entry, keychain_put};
use crate::suite::outbox::outbox_claim;
use crate::suite::request_reservation::request_reservation;
use crate::suite::result::{new_result, result_put};
use crate::suite::stream::stream_lease_request;
use crate::suite::task_output::new_output;
use crate::suite::wait::broadcast_signal;
use crate::testing::{Fault, FaultyStore, StoreMethod};
use crate::{
    AnchorRow, AppendError, BroadcastFilter, CatalogFilter, CatalogKey, CatalogVersionFilter,
    CommandFilter, Credential, CredentialFilter, CredentialKey, CredentialPut, CursorMove,
    EnabledPublishers, ExecutionView, FeedLimit, FollowUpOutcome, GcTarget, KeychainFilter,
    LeaseBounds, LogHead, LogPageLimit, LogPartition, MachineIdRequest, MachineLeaseError,
    MachineRenewal, NewCatalogEntry, OutboxFailure, OutboxFilter, OutputFilter, PutResultError,
    QuarantineFilter, RequestOutcome, RuntimeKind, RuntimeRegistration, SetVarsError, SlotChange,
    SlotHolder, SlotSelector, Snapshot, SnapshotKey, SqliteStore, Store, StoreError, StreamOwner,
    TenantTable, WaitFilter, WaitSelector,
};

/// Appends an event as a driver does: after any failure, it reads the head of the log again.
async fn append_as_driver(store: &dyn Store, run: &mut TestExecution) {
    let append = run.step_request();
    let event_id = append.events[0].event_id;
    loop {
        let mut append = append.clone();
        append.expected_head = run.head;
        match append_one(store, append).await {
            Ok(appended) => {
                run.head = appended.head;
                return;
            }
            Err(AppendError::Conflict { .. } | AppendError::Store(StoreError::Retry { .. })) => {}
            Err(other) => panic!("{other:?}"),
        }
        let Ok(tail) = store.read_events(run.id, run.head.version, LogPageLimit::MAX).await else {
            continue;
        };
        if let Some(last) = tail.last() {
            run.head = LogHead::after_event(last);
        }
        if tail.iter().any(|event| event.record.event.event_id == event_id) {
            return;
        }
    }
}

#[tokio::test]
async fn driver_appends_each_event_once_despite_faults() {
    let faults =
        [Fault::FailBefore, Fault::FailAfter, Fault::Yield(2), Fault::Conflict, Fault::None];
    let calls = AtomicUsize::new(0);
    let plan = move |_| faults[calls.fetch_add(1, Ordering::Relaxed) % faults.len()];
    let model = SqliteStore::in_memory().unwrap();
    let mut run = TestExecution::create_started(&model, 1).await;
    let store = FaultyStore::new(model, Box::new(plan));
    for _ in 0..40 {
        append_as_driver(&store, &mut run).await;
    }
    let log = store.inner().read_events(run.id, ExecutionVersion::EMPTY, LogPageLimit::MAX).await;
    let log = log.unwrap();
    verify_chain(&log).unwrap();
    let ids: BTreeSet<_> = log.iter().map(|it| it.record.event.event_id).collect();
    assert_eq!((log.len(), ids.len()), (41, 41));
}

fn store_error_of_put(result: Result<(), PutResultError>) -> Result<(), StoreError> {
    match result {
        Ok(()) => Ok(()),
        Err(PutResultError::Store(error)) => Err(error),
        Err(other) => panic!("{other:?}"),
    }
}

fn store_error_of_machine<T>(result: Result<T, MachineLeaseError>) -> Result<(), StoreError> {
    match result {
        Ok(_) | Err(MachineLeaseError::Lost) => Ok(()),
        Err(MachineLeaseError::Store(error)) => Err(error),
        Err(other) => panic!("{other:?}"),
    }
}

/// Makes every call once, and returns the result of each.
async fn call_all_methods(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let mut results = call_execution_methods(store).await;
    results.extend(call_command_methods(store).await);
    results.extend(call_catalog_and_runtime_methods(store).await);
    results.extend(call_machine_methods(store).await);
    results.extend(call_coordination_methods(store).await);
    results.extend(call_credential_methods(store).await);
    results.extend(call_keychain_methods(store).await);
    results.extend(call_outbox_methods(store).await);
    results.extend(call_stream_methods(store).await);
    results.extend(call_maintenance_methods(store).await);
    results.extend(call_identity_methods(store).await);
    results.extend(call_verification_methods(store).await);
    results
}

async fn call_execution_methods(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let run = TestExecution::new(1);
    let key = SnapshotKey { kind: "engine_state".into(), fold_version: 1 };
    let snapshot = Snapshot {
        execution_id: run.id,
        key: key.clone(),
        head: LogHead::START,
        state: Vec::new(),
        checksum: sha256(""),
    };
    let appended = match append_one(store, run.start_request()).await {
        Ok(_) => Ok(()),
        Err(AppendError::Store(error)) => Err(error),
        Err(other) => panic!("{other:?}"),
    };
    let page = LogPageLimit::MAX;
    let start = FeedPosition::default();
    let event_id = EventId::new(1).unwrap();
    vec![
        appended,
        store.load_execution(run.id, &key, page).await.map(drop),
        store.read_events(run.id, ExecutionVersion::EMPTY, page).await.map(drop),
        store.read_replay_rows(run.id, ExecutionVersion::EMPTY, page).await.map(drop),
        store.find_event(run.id, event_id).await.map(drop),
        store.find_snapshot(run.id, &key, ExecutionVersion::EMPTY).await.map(drop),
        store.write_snapshot(snapshot).await,
        store.delete_snapshot(run.id, &key, ExecutionVersion::EMPTY).await,
        store_error_of_put(store.put_result(result_put(run.id, new_result(9, b"{}"))).await),
        store.find_result(run.id, ResultId::new(1).unwrap()).await.map(drop),
        store.read_feed(start, FeedLimit::MAX).await.map(drop),
        store.find_execution(run.id).await.map(drop),
        store.list_executions(all_executions()).await.map(drop),
        store.tenant_counts(&TenantId::default()).await.map(drop),
        store.count_executions_by_status().await.map(drop),
        store.count_live_executions(&TenantId::default(), 1).await.map(drop),
        store.count_live_descendants(run.id, 1).await.map(drop),
        store.has_follow_up_on_path(run.id, run.id, &"cancel:".into()).await.map(drop),
        store.is_dropped(run.id).await.map(drop),
    ]
}

async fn call_command_methods(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let run = TestExecution::new(1);
    let (now, limit) = (test_time("12:00:00"), PageLimit::default());
    let command_id = CommandId::new(1).unwrap();
    let output = OutputFilter { execution_id: run.id, after: 0, step: None, attempt: None, limit };
    vec![
        store.lease_commands(lease_request("w", 1, 1)).await.map(drop),
        store.try_lease_command(command_id, lease_terms("w", 1)).await.map(drop),
        store.extend_leases(Vec::new(), now).await.map(drop),
        store.release_leases(Vec::new()).await.map(drop),
        store.list_expired_leases(now, limit).await.map(drop),
        store
            .bound_leases(now, LeaseBounds { new: Millis::ZERO, longest: Millis::ZERO })
            .await
            .map(drop),
        store.append_output(new_output(run.id, command_id, Vec::new())).await.map(drop),
        store.list_output(output).await.map(drop),
        store.find_command(command_id).await.map(drop),
        store
            .list_commands(CommandFilter::open_in_execution(TenantId::default(), run.id))
            .await
            .map(drop),
        store.expire_worker_leases(&TenantId::default(), &worker_id("w"), now).await.map(drop),
        store.pool_counts().await.map(drop),
        store.list_due_timers(now, None, limit).await.map(drop),
    ]
}

async fn call_catalog_and_runtime_methods(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let now = test_time("12:00:00");
    let tenant = TenantId::default();
    let path = PlaybookPath::new("etl").unwrap();
    let entry = NewCatalogEntry {
        catalog_id: CatalogId::new(1).unwrap(),
        tenant_id: tenant.clone(),
        path: path.clone(),
        kind: "playbook".into(),
        content: "".into(),
        sha256: sha256(""),
        meta: None,
        now,
    };
    let runtime = RuntimeRegistration {
        runtime_id: RuntimeId::new(1).unwrap(),
        kind: RuntimeKind::Broker,
        name: "b".into(),
        uri: None,
        detail: None,
        now,
    };
    let definitions = CatalogFilter {
        tenant_id: tenant.clone(),
        kind: None,
        include_archived: false,
        after: None,
        limit: PageLimit::default(),
    };
    let versions = CatalogVersionFilter {
        tenant_id: tenant.clone(),
        path: path.clone(),
        before: None,
        limit: PageLimit::default(),
    };
    let (latest, kind) = (CatalogKey::Latest(path.clone()), RuntimeKind::Broker);
    vec![
        store.register_definition(entry).await.map(drop),
        store.find_catalog_entry(&tenant, latest).await.map(drop),
        store.list_catalog(definitions).await.map(drop),
        store.list_catalog_versions(versions).await.map(drop),
        store.set_definition_archived(&tenant, &path, Some(now)).await.map(drop),
        store.register_runtime(runtime).await.map(drop),
        store.record_heartbeat(kind, &"b".into(), now).await.map(drop),
        store.list_runtimes(kind).await.map(drop),
        store.remove_runtime(kind, &"b".into()).await.map(drop),
    ]
}

async fn call_machine_methods(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let now = test_time("12:00:00");
    let request = MachineIdRequest { owner: "a".into(), requested_id: None, now, lease_until: now };
    let renewal = MachineRenewal {
        machine_id: MachineId::MIN,
        epoch: 9,
        high_water: HighWaterMark::NONE,
        now,
        lease_until: now,
        is_release: false,
    };
    vec![
        store_error_of_machine(store.lease_machine_id(request).await),
        store_error_of_machine(store.renew_machine_lease(renewal).await),
        store.open_notify_channel().await.map(drop),
    ]
}

async fn call_identity_methods(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let (now, limit, tenant) = (test_time("12:00:00"), PageLimit::default(), TenantId::default());
    let (token, prefix) = (api_token(1, &tenant), "prefix1".into());
    let id = token.token_id;
    vec![
        store.put_token(token.clone()).await.map(drop),
        store.put_first_token(token).await.map(drop),
        store.find_token(&prefix).await.map(drop),
        store.list_tokens(&tenant, None, limit).await.map(drop),
        store.list_all_tokens(None, limit).await.map(drop),
        store.seal_token(id, None, sha256("seal")).await.map(drop),
        store.revoke_token(&tenant, id, now, None).await.map(drop),
        store.record_token_use(id, now).await,
        store.get_or_init_shared_secret("one".into()).await.map(drop),
        store.append_audit_log(vec![new_audit_entry(1, &tenant)]).await,
        store.list_audit_entries(&tenant, None, limit).await.map(drop),
        store.list_secret_audit_entries(SecretAuditFilter::default(), limit).await.map(drop),
    ]
}

async fn call_verification_methods(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let (id, limit, tenant) = (TestExecution::new(1).id, PageLimit::default(), TenantId::default());
    let anchor = AnchorRow { anchor_id: 1, content: "{}".into() };
    vec![
        store.list_logged_executions(None, limit).await.map(drop),
        store.list_wrongly_ended(None, limit).await.map(drop),
        store.list_snapshot_versions(id).await.map(drop),
        store.list_execution_commands(id, None, limit).await.map(drop),
        store.list_execution_timers(id, &Text::default(), limit).await.map(drop),
        store.list_result_ids(id, None, limit).await.map(drop),
        store.list_all_definitions(None, limit).await.map(drop),
        store.append_anchor(anchor).await.map(drop),
        store.newest_anchor().await.map(drop),
        store.list_anchors(0, limit).await.map(drop),
        store.list_changed_executions(FeedPosition::default(), limit).await.map(drop),
        store.find_chain_link(id, Seq::FIRST).await.map(drop),
        store.list_audit_heads(None, limit).await.map(drop),
        store.find_audit_link(&tenant, 1).await.map(drop),
        store.list_dropped_ranges().await.map(drop),
    ]
}

async fn call_coordination_methods(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let (now, limit) = (test_time("12:00:00"), PageLimit::default());
    let (tenant, id) = (TenantId::default(), TestExecution::new(1).id);
    let (name, digest) = (crate::MatchKey::from_text(&"k".into()), sha256(""));
    let waits = WaitFilter {
        tenant_id: tenant.clone(),
        selector: WaitSelector::InExecution(id),
        after: None,
        limit,
    };
    let signals =
        BroadcastFilter { tenant_id: tenant.clone(), awaited: Vec::new(), since: now, limit };
    let release = SlotChange::Release { key: name.clone(), holder: SlotHolder::Execution };
    let unconfirmed = SlotSelector::Unconfirmed { held_by: now };
    let done = FollowUpOutcome::Done;
    let reservation = request_reservation("k", "body", 1, "12:00:00");
    vec![
        store.list_waits(waits).await.map(drop),
        store.put_broadcast(broadcast_signal(1, "go", None, now)).await,
        store.list_broadcasts(signals).await.map(drop),
        store.list_due_follow_ups(now, limit).await.map(drop),
        store.complete_follow_up(id, &"e".into(), done).await.map(drop),
        store.grant_slots(&tenant, &name, now).await.map(drop),
        store.list_slots(unconfirmed, limit).await.map(drop),
        store.change_slots(&tenant, id, vec![release]).await,
        store.find_cached_result(&tenant, &name, digest, now).await.map(drop),
        store.find_answered_request(&tenant, &"r".into(), digest, now).await.map(drop),
        store.has_seen_message(dedup_reservation("m", "body", "12:00:00")).await.map(drop),
        store.reserve_request(reservation.clone()).await.map(drop),
        store.release_requests(now).await.map(drop),
        store.complete_request(reservation.key, reservation.work_id, RequestOutcome::Refused).await,
        store.store_answer(&tenant, id, idempotency_record("k", "body", "13:00:00"), now).await,
        match store.set_vars(id, Vec::new()).await {
            Ok(()) => Ok(()),
            Err(SetVarsError::Store(error)) => Err(error),
            Err(other) => panic!("{other:?}"),
        },
        store.list_vars(id, None).await.map(drop),
        store.delete_vars(id, None).await.map(drop),
        store.delete_expired(GcTarget::Blobs, now, limit).await.map(drop),
    ]
}

async fn call_keychain_methods(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let (tenant, page) = (TenantId::default(), PageLimit::default());
    let (entry, all) = (keychain_entry(1, "default", "k"), KeychainFilter::default());
    vec![
        store.put_keychain_entry(keychain_put(entry)).await.map(drop),
        store.find_keychain_entry(&tenant, "k").await.map(drop),
        store.list_keychain_entries(all, page).await.map(drop),
        store.delete_keychain_entry(&tenant, "k").await.map(drop),
        store.count_secrets_by_key().await.map(drop),
        store.get_or_init_key_check(Some("sealed".into())).await.map(drop),
        store.replace_key_check("sealed".into(), "resealed".into()).await.map(drop),
    ]
}

async fn call_credential_methods(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let (tenant, now) = (TenantId::default(), test_time("12:00:00"));
    let credential_id = CredentialId::new(1).unwrap();
    let put = CredentialPut {
        credential: Credential {
            credential_id,
            tenant_id: tenant.clone(),
            name: "n".into(),
            kind: "secret".into(),
            version: 1,
            sealed: Json::from("sealed"),
            kid: "k".into(),
            meta: None,
            tags: Json::list([]),
            description: None,
            created_at: now,
            updated_at: now,
        },
        replaces: None,
    };
    let (key, all) =
        (CredentialKey::Id(credential_id), CredentialFilter::for_tenant(tenant.clone()));
    vec![
        store.put_credential(put).await.map(drop),
        store.find_credential(&tenant, &key).await.map(drop),
        store.list_credentials(all, PageLimit::default()).await.map(drop),
        store.delete_credential(&tenant, credential_id).await.map(drop),
    ]
}

async fn call_outbox_methods(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let (now, limit) = (test_time("12:00:00"), PageLimit::default());
    let row = OutboxId::new(1).unwrap();
    let failure = OutboxFailure {
        outbox_id: row,
        error: "e".into(),
        attempts: None,
        max_delay: Millis::from_secs(300),
        max_attempts: 20,
        now,
    };
    let rows = OutboxFilter { status: None, after: None, limit };
    let quarantined = QuarantineFilter { source: None, after: None, limit };
    vec![
        store.claim_outbox(outbox_claim("p", 1, now)).await.map(drop),
        store.mark_published(Vec::new(), now).await.map(drop),
        store.is_outbox_enabled().await.map(drop),
        store.record_outbox_enabled(true, false).await.map(drop),
        store.mark_failed(failure).await.map(drop),
        store.count_claimable_outbox_rows(now).await.map(drop),
        store.list_outbox_rows(rows).await.map(drop),
        store.outbox_stats().await.map(drop),
        store.newest_outbox_row_at().await.map(drop),
        store.requeue_outbox_rows(vec![row], now).await.map(drop),
        store.discard_outbox_rows(vec![row], now).await.map(drop),
        store.count_old_outbox_rows(now).await.map(drop),
        store.purge_outbox_rows(now, limit).await.map(drop),
        store.find_known_events(Vec::new()).await.map(drop),
        store.quarantine_items(Vec::new()).await,
        store.list_quarantined_items(quarantined).await.map(drop),
        store.purge_quarantined_items(now, limit).await.map(drop),
    ]
}

async fn call_stream_methods(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let (name, now) = (Text::from("s"), test_time("12:00:00"));
    let owner = || StreamOwner { name: "s".into(), epoch: 1, now };
    let restart = CursorMove::Restart { to: FeedPosition::default(), stream_created_at: None };
    vec![
        store.log_epoch().await.map(drop),
        store.start_log_epoch().await.map(drop),
        store.lease_stream(stream_lease_request("s", "me", now)).await.map(drop),
        store.renew_stream_lease(owner(), now).await.map(drop),
        store.move_stream_cursor(owner(), restart).await.map(drop),
        store.release_stream_lease(owner()).await.map(drop),
        store.find_stream_cursor(&name).await.map(drop),
        store.last_dropped_position().await.map(drop),
        store.read_feed_messages(FeedPosition::default(), FeedLimit::MAX).await.map(drop),
        store.feed_lag(FeedPosition::default()).await.map(drop),
    ]
}

async fn call_maintenance_methods(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let (now, limit) = (test_time("12:00:00"), PageLimit::default());
    let no_publishers = EnabledPublishers::default();
    let partition = LogPartition::for_month(Month::new(2026, 1).unwrap());
    let mut results = vec![
        store.ensure_log_partitions(now, 1).await,
        store.log_partitions_until().await.map(drop),
        store.database_clock().await.map(drop),
        store.list_old_partitions(now, &no_publishers).await.map(drop),
        store.drop_partition(&partition, &no_publishers, now).await.map(drop),
        store.purge_dropped_executions(now, limit).await.map(drop),
        store.count_old_commands(now).await.map(drop),
        store.purge_commands(now, limit).await.map(drop),
        store.count_old_runtimes(now).await.map(drop),
        store.purge_runtimes(now, limit).await.map(drop),
        store
            .rewrite_execution_view(
                ExecutionId::new(1).unwrap(),
                ExecutionVersion::EMPTY,
                ExecutionView::new_projected(),
            )
            .await
            .map(drop),
        store.store_stats().await.map(drop),
        store.count_tenant_rows(&TenantId::default(), TenantTable::Tokens, 1).await.map(drop),
        store.check_tables().await.map(drop),
        store.list_failed_privilege_checks().await.map(drop),
        store.check_integrity().await.map(drop),
        store.list_execution_ids(None, limit).await.map(drop),
    ];
    results.push(match store.write_backup(Path::new("/")).await {
        // A memory store cannot be backed up. That error is not an injected fault.
        Err(StoreError::Fatal { .. }) => Ok(()),
        other => other,
    });
    results
}

#[tokio::test]
async fn every_method_injects_every_fault() {
    for (fault, expected) in [
        (Fault::None, Ok(())),
        (Fault::Yield(3), Ok(())),
        (Fault::Sleep(std::time::Duration::ZERO), Ok(())),
        (Fault::FailBefore, Err(StoreError::retry(""))),
        (Fault::FailAfter, Err(StoreError::unknown_outcome(""))),
    ] {
        let called = std::sync::Arc::new(Mutex::new(Vec::new()));
        let recorder = std::sync::Arc::clone(&called);
        let plan = move |method| {
            recorder.lock().unwrap().push(method);
            fault
        };
        let store = FaultyStore::new(SqliteStore::in_memory().unwrap(), Box::new(plan));
        let results = call_all_methods(&store).await;
        assert_eq!(results, vec![expected; StoreMethod::ALL.len()], "{fault:?}");
        let mut called = called.lock().unwrap().clone();
        called.sort_unstable();
        assert_eq!(called, StoreMethod::ALL, "{fault:?}");
        let exists =
            store.inner().find_execution(TestExecution::new(1).id).await.unwrap().is_some();
        assert_eq!(exists, fault != Fault::FailBefore, "{fault:?}");
    }
}
