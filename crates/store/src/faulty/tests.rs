//! What a driver can rely on when calls fail.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use noetl_types::id::HighWater;
use noetl_types::limits::PageLimit;
use noetl_types::record::verify_chain;
use noetl_types::{
    CatalogId, CommandId, CredentialId, ExecutionId, FeedPosition, Json, MachineId, Month,
    OutboxId, PlaybookPath, ResultId, RuntimeId, TenantId, Text, Version, sha256,
};

use super::{Fault, FaultyStore, Method};
use crate::model::SecretActFilter;
use crate::suite::claim::message;
use crate::suite::fixture::{Run, all_executions, at, claim, lease_of, one, worker};
use crate::suite::keychain::{entry, new as new_entry};
use crate::suite::outbox::claim as outbox_claim;
use crate::suite::request::taking;
use crate::suite::result::{put, result};
use crate::suite::stream::take as stream_take;
use crate::suite::vault::{act, token};
use crate::suite::wait::signal;
use crate::{
    AppendRefused, BroadcastFilter, CatalogFilter, CatalogKey, CommandFilter, Credential,
    CredentialFilter, CredentialKey, CredentialPut, EnabledOutlets, ErrandOutcome, ExecutionView,
    FeedLimit, Head, KeychainFilter, LogPage, LogPart, MachineRefused, MachineRenewal,
    MachineRequest, MemoryStore, NewCatalogEntry, NewRuntime, OutboxFailure, OutboxFilter,
    PutRefused, QuarantineFilter, RequestEnd, RuntimeKind, SlotChange, SlotChoice, SlotHolder,
    Snapshot, SnapshotKey, Store, StoreError, StreamMove, StreamOwner, Swept, VarsRefused,
    VersionFilter, WaitChoice, WaitFilter,
};

/// Appends an event as a driver does: after any failure it looks where the log stands.
async fn drive(store: &dyn Store, run: &mut Run) {
    let append = run.step();
    let event_id = append.events[0].event_id;
    loop {
        let mut append = append.clone();
        append.expected = run.head;
        match one(store, append).await {
            Ok(appended) => {
                run.head = appended.head;
                return;
            }
            Err(
                AppendRefused::Conflict { .. } | AppendRefused::Store(StoreError::Retry { .. }),
            ) => {}
            Err(other) => panic!("{other:?}"),
        }
        let Ok(tail) = store.events(run.id, run.head.version, LogPage::MAX).await else {
            continue;
        };
        if let Some(last) = tail.last() {
            run.head = Head::after(last);
        }
        if tail
            .iter()
            .any(|event| event.record.event.event_id == event_id)
        {
            return;
        }
    }
}

#[tokio::test]
async fn a_driver_writes_each_event_once_whatever_fails() {
    let faults = [
        Fault::Before,
        Fault::After,
        Fault::Delay(2),
        Fault::Conflict,
        Fault::None,
    ];
    let calls = AtomicUsize::new(0);
    let plan = move |_| faults[calls.fetch_add(1, Ordering::Relaxed) % faults.len()];
    let model = MemoryStore::new();
    let mut run = Run::started(&model, 1).await;
    let store = FaultyStore::new(model, Box::new(plan));
    for _ in 0..40 {
        drive(&store, &mut run).await;
    }
    let log = store
        .inner()
        .events(run.id, Version::EMPTY, LogPage::MAX)
        .await;
    let log = log.unwrap();
    verify_chain(&log).unwrap();
    let ids: BTreeSet<_> = log.iter().map(|it| it.record.event.event_id).collect();
    assert_eq!((log.len(), ids.len()), (41, 41));
}

fn of_put(result: Result<(), PutRefused>) -> Result<(), StoreError> {
    match result {
        Ok(()) => Ok(()),
        Err(PutRefused::Store(error)) => Err(error),
        Err(other) => panic!("{other:?}"),
    }
}

fn of_machine<T>(result: Result<T, MachineRefused>) -> Result<(), StoreError> {
    match result {
        Ok(_) | Err(MachineRefused::Lost) => Ok(()),
        Err(MachineRefused::Store(error)) => Err(error),
        Err(other) => panic!("{other:?}"),
    }
}

/// Makes every call once, and says how each was answered.
async fn call_all(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let mut answers = call_about_runs(store).await;
    answers.extend(call_about_the_rest(store).await);
    answers.extend(call_about_the_commons(store).await);
    answers.extend(call_about_credentials(store).await);
    answers.extend(call_about_the_keychain(store).await);
    answers.extend(call_about_the_outbox(store).await);
    answers.extend(call_about_streams(store).await);
    answers.extend(call_about_upkeep(store).await);
    answers.extend(call_about_the_vault(store).await);
    answers
}

async fn call_about_runs(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let run = Run::new(1);
    let key = SnapshotKey {
        kind: "engine_state".into(),
        fold_version: 1,
    };
    let snapshot = Snapshot {
        execution_id: run.id,
        key: key.clone(),
        head: Head::START,
        state: Vec::new(),
        checksum: sha256(""),
    };
    let appended = match one(store, run.start()).await {
        Ok(_) => Ok(()),
        Err(AppendRefused::Store(error)) => Err(error),
        Err(other) => panic!("{other:?}"),
    };
    let (now, limit, page) = (at("12:00:00"), PageLimit::default(), LogPage::MAX);
    let start = FeedPosition::default();
    let command_id = CommandId::new(1).unwrap();
    vec![
        appended,
        store.load(run.id, &key, page).await.map(drop),
        store.events(run.id, Version::EMPTY, page).await.map(drop),
        store.gists(run.id, Version::EMPTY, page).await.map(drop),
        store.event(run.id, command_id.into()).await.map(drop),
        store.snapshot(run.id, &key, Version::EMPTY).await.map(drop),
        store.write_snapshot(snapshot).await,
        store.drop_snapshot(run.id, &key, Version::EMPTY).await,
        of_put(store.put_result(put(run.id, result(9, b"{}"))).await),
        store
            .result(run.id, ResultId::new(1).unwrap())
            .await
            .map(drop),
        store.feed(start, FeedLimit::MAX).await.map(drop),
        store.execution(run.id).await.map(drop),
        store.executions(all_executions()).await.map(drop),
        store.open_children(run.id, None, limit).await.map(drop),
        store.counts(&TenantId::default()).await.map(drop),
        store.executions_by_status().await.map(drop),
        store
            .live_executions(&TenantId::default(), 1)
            .await
            .map(drop),
        store.is_gone(run.id).await.map(drop),
        store.lease(lease_of("w", 1, 1)).await.map(drop),
        store.claim(command_id, claim("w", 1)).await.map(drop),
        store.extend(Vec::new(), now).await.map(drop),
        store.release(Vec::new()).await.map(drop),
        store.expired(now, limit).await.map(drop),
        store.command(command_id).await.map(drop),
        store
            .commands(CommandFilter::open_of(TenantId::default(), run.id))
            .await
            .map(drop),
        store
            .release_worker(&TenantId::default(), &worker("w"), now)
            .await
            .map(drop),
        store.pool_counts().await.map(drop),
        store.due(now, None, limit).await.map(drop),
    ]
}

async fn call_about_the_rest(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let now = at("12:00:00");
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
    let runtime = NewRuntime {
        runtime_id: RuntimeId::new(1).unwrap(),
        kind: RuntimeKind::Broker,
        name: "b".into(),
        uri: None,
        detail: None,
        now,
    };
    let request = MachineRequest {
        owner: "a".into(),
        wanted: None,
        now,
        lease_until: now,
    };
    let renewal = MachineRenewal {
        machine_id: MachineId::MIN,
        epoch: 9,
        high_water: HighWater::NONE,
        now,
        lease_until: now,
        gives_back: false,
    };
    let definitions = CatalogFilter {
        tenant_id: tenant.clone(),
        kind: None,
        archived: false,
        after: None,
        limit: PageLimit::default(),
    };
    let versions = VersionFilter {
        tenant_id: tenant.clone(),
        path: path.clone(),
        before: None,
        limit: PageLimit::default(),
    };
    let (latest, kind) = (CatalogKey::Latest(path.clone()), RuntimeKind::Broker);
    vec![
        store.register(entry).await.map(drop),
        store.catalog_entry(&tenant, latest).await.map(drop),
        store.catalog(definitions).await.map(drop),
        store.catalog_versions(versions).await.map(drop),
        store.archive(&tenant, &path, Some(now)).await.map(drop),
        store.register_runtime(runtime).await.map(drop),
        store.heartbeat(kind, &"b".into(), now).await.map(drop),
        store.runtimes(kind).await.map(drop),
        store.remove_runtime(kind, &"b".into()).await.map(drop),
        of_machine(store.lease_machine(request).await),
        of_machine(store.renew_machine(renewal).await),
        store.line().await.map(drop),
    ]
}

async fn call_about_the_vault(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let (now, limit, tenant) = (at("12:00:00"), PageLimit::default(), TenantId::default());
    let (token, prefix) = (token(1, &tenant), "prefix1".into());
    let id = token.token_id;
    vec![
        store.put_token(token.clone()).await.map(drop),
        store.put_first_token(token).await.map(drop),
        store.token(&prefix).await.map(drop),
        store.tokens(&tenant, None, limit).await.map(drop),
        store.revoke_token(&tenant, id, now).await.map(drop),
        store.touch_token(id, now).await,
        store.common_secret("one".into()).await.map(drop),
        store.audit(vec![act(1, &tenant)]).await,
        store.audits(&tenant, None, limit).await.map(drop),
        store
            .secret_acts(SecretActFilter::default(), limit)
            .await
            .map(drop),
    ]
}

async fn call_about_the_commons(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let (now, limit) = (at("12:00:00"), PageLimit::default());
    let (tenant, id) = (TenantId::default(), Run::new(1).id);
    let (name, digest) = (crate::MatchKey::of(&"k".into()), sha256(""));
    let waits = WaitFilter {
        tenant_id: tenant.clone(),
        choice: WaitChoice::Of(id),
        after: None,
        limit,
    };
    let signals = BroadcastFilter {
        tenant_id: tenant.clone(),
        awaited: Vec::new(),
        since: now,
        limit,
    };
    let free = SlotChange::Free {
        key: name.clone(),
        holder: SlotHolder::Execution,
    };
    let old = SlotChoice::Unconfirmed { held_by: now };
    let done = ErrandOutcome::Done;
    let take = taking("k", "body", (1, "12:00:00"));
    vec![
        store.waits(waits).await.map(drop),
        store.broadcast(signal(1, "go", None, now)).await,
        store.broadcasts(signals).await.map(drop),
        store.errands(now, limit).await.map(drop),
        store.settle_errand(id, &"e".into(), done).await.map(drop),
        store.grant_slots(&tenant, &name, now).await.map(drop),
        store.slots(old, limit).await.map(drop),
        store.change_slots(&tenant, id, vec![free]).await,
        store.cached(&tenant, &name, digest, now).await.map(drop),
        store
            .answered(&tenant, &"r".into(), digest, now)
            .await
            .map(drop),
        store
            .has_seen(message("m", "body", "12:00:00"))
            .await
            .map(drop),
        store.take_request(take.clone()).await.map(drop),
        store
            .settle_request(take.key, take.work_id, RequestEnd::Refused)
            .await,
        match store.set_vars(id, Vec::new()).await {
            Ok(()) => Ok(()),
            Err(VarsRefused::Store(error)) => Err(error),
            Err(other) => panic!("{other:?}"),
        },
        store.vars(id, None).await.map(drop),
        store.delete_vars(id, None).await.map(drop),
        store.sweep(Swept::Blobs, now, limit).await.map(drop),
    ]
}

async fn call_about_the_keychain(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let (tenant, page) = (TenantId::default(), PageLimit::default());
    let (entry, all) = (entry(1, "default", "k"), KeychainFilter::default());
    vec![
        store.put_keychain(new_entry(entry)).await.map(drop),
        store.keychain_entry(&tenant, "k").await.map(drop),
        store.keychain_entries(all, page).await.map(drop),
        store.delete_keychain(&tenant, "k").await.map(drop),
        store.key_counts().await.map(drop),
    ]
}

async fn call_about_credentials(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let (tenant, now) = (TenantId::default(), at("12:00:00"));
    let credential_id = CredentialId::new(1).unwrap();
    let put = CredentialPut {
        credential: Credential {
            credential_id,
            tenant_id: tenant.clone(),
            name: "n".into(),
            kind: "secret".into(),
            version: 1,
            sealed: Json::Null,
            kid: "k".into(),
            meta: None,
            tags: Json::Null,
            description: None,
            created_at: now,
            updated_at: now,
        },
        replaces: None,
    };
    let (key, all) = (
        CredentialKey::Id(credential_id),
        CredentialFilter::of(tenant.clone()),
    );
    vec![
        store.put_credential(put).await.map(drop),
        store.credential(&tenant, &key).await.map(drop),
        store.credentials(all, PageLimit::default()).await.map(drop),
        store
            .delete_credential(&tenant, credential_id)
            .await
            .map(drop),
    ]
}

async fn call_about_the_outbox(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let (now, limit) = (at("12:00:00"), PageLimit::default());
    let row = OutboxId::new(1).unwrap();
    let failure = OutboxFailure {
        outbox_id: row,
        error: "e".into(),
        attempts: None,
        max_delay: noetl_types::Millis::from_secs(300),
        max_attempts: 20,
        now,
    };
    let rows = OutboxFilter {
        status: None,
        after: None,
        limit,
    };
    let refused = QuarantineFilter {
        source: None,
        after: None,
        limit,
    };
    vec![
        store
            .claim_outbox(outbox_claim("p", 1, now))
            .await
            .map(drop),
        store.mark_published(Vec::new(), now).await.map(drop),
        store.mark_failed(failure).await.map(drop),
        store.outbox_pending(now).await.map(drop),
        store.outbox(rows).await.map(drop),
        store.outbox_facts().await.map(drop),
        store.newest_outbox().await.map(drop),
        store.replay_outbox(vec![row], now).await.map(drop),
        store.discard_outbox(vec![row], now).await.map(drop),
        store.old_outbox(now).await.map(drop),
        store.purge_outbox(now, limit).await.map(drop),
        store.known(Vec::new()).await.map(drop),
        store.quarantine(Vec::new()).await,
        store.quarantined(refused).await.map(drop),
        store.purge_quarantine(now, limit).await.map(drop),
    ]
}

async fn call_about_streams(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let (name, now) = (Text::from("s"), at("12:00:00"));
    let owner = || StreamOwner {
        name: "s".into(),
        epoch: 1,
        now,
    };
    let restart = StreamMove::Restart {
        to: FeedPosition::default(),
        stream_created_at: None,
    };
    vec![
        store.log_epoch().await.map(drop),
        store.begin_log_epoch().await.map(drop),
        store
            .take_stream(stream_take("s", "me", now))
            .await
            .map(drop),
        store.renew_stream(owner(), now).await.map(drop),
        store.move_stream(owner(), restart).await.map(drop),
        store.release_stream(owner()).await.map(drop),
        store.stream_cursor(&name).await.map(drop),
        store.last_dropped().await.map(drop),
        store
            .messages(FeedPosition::default(), FeedLimit::MAX)
            .await
            .map(drop),
        store.feed_lag(FeedPosition::default()).await.map(drop),
    ]
}

async fn call_about_upkeep(store: &dyn Store) -> Vec<Result<(), StoreError>> {
    let (now, limit) = (at("12:00:00"), PageLimit::default());
    let none = EnabledOutlets::default();
    let part = LogPart::of(Month::new(2026, 1).unwrap());
    let mut answers = vec![
        store.keep_months(now, 1).await,
        store.months_until().await.map(drop),
        store.clock().await.map(drop),
        store.old_parts(now, &none).await.map(drop),
        store.drop_part(&part, &none, now).await.map(drop),
        store.clean_dropped(now, limit).await.map(drop),
        store.old_commands(now).await.map(drop),
        store.purge_commands(now, limit).await.map(drop),
        store.old_runtimes(now).await.map(drop),
        store.purge_runtimes(now, limit).await.map(drop),
        store
            .rewrite_view(
                ExecutionId::new(1).unwrap(),
                Version::EMPTY,
                ExecutionView::of_copy(),
            )
            .await
            .map(drop),
        store.facts().await.map(drop),
        store.tables().await.map(drop),
        store.missing_walls().await.map(drop),
        store.integrity().await.map(drop),
        store.execution_ids(None, limit).await.map(drop),
    ];
    answers.push(match store.backup(Path::new("/")).await {
        // There is nothing to copy, which is not the fault that is looked for.
        Err(StoreError::Fatal { .. }) => Ok(()),
        other => other,
    });
    answers
}

#[tokio::test]
async fn every_method_fails_in_every_way() {
    for (fault, expected) in [
        (Fault::None, Ok(())),
        (Fault::Delay(3), Ok(())),
        (Fault::Wait(std::time::Duration::ZERO), Ok(())),
        (Fault::Before, Err(StoreError::retry(""))),
        (Fault::After, Err(StoreError::unknown(""))),
    ] {
        let asked = std::sync::Arc::new(Mutex::new(Vec::new()));
        let asking = std::sync::Arc::clone(&asked);
        let plan = move |method| {
            asking.lock().unwrap().push(method);
            fault
        };
        let store = FaultyStore::new(MemoryStore::new(), Box::new(plan));
        let answers = call_all(&store).await;
        assert_eq!(answers, vec![expected; Method::ALL.len()], "{fault:?}");
        assert_eq!(*asked.lock().unwrap(), Method::ALL, "{fault:?}");
        let exists = store
            .inner()
            .execution(Run::new(1).id)
            .await
            .unwrap()
            .is_some();
        assert_eq!(exists, fault != Fault::Before, "{fault:?}");
    }
}
