//! Cached results, variables, expiry, and the atomicity of coordination changes.

use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, Json, Seq, TenantId, Text, json, sha256};

use super::StoreFixture;
use super::dedup::{dedup_reservation, idempotency_record};
use super::fixture::{TestExecution, append_one, test_time};
use super::result::{new_result, result_put};
use super::slot::{match_key, new_slot};
use super::wait::{awaited_name, broadcast_signal, new_wait};
use super::{identities, keychain};
use crate::{
    AppendError, AppendRequest, CachePut, CachedResult, ExecutionVar, FollowUpChange, GcTarget,
    InvalidAppend, MAX_VAR_BYTES, MAX_VARS, SetVarsError, SlotChange, SlotSelector, Store,
    TenantTable, VarKind, WaitChange, WaitFilter, WaitSelector,
};

pub(crate) fn cache_put(name: &str, result: CachedResult, expires: &str) -> CachePut {
    CachePut {
        scope: match_key("etl/nightly"),
        key_sha256: sha256(name),
        result,
        origin_execution_id: TestExecution::new(1).id,
        origin_seq: Seq::new(3).unwrap(),
        expires_at: test_time(expires),
    }
}

async fn find_cached(store: &dyn Store, name: &str, now: &str) -> Option<CachedResult> {
    let tenant = TenantId::default();
    let scope = match_key("etl/nightly");
    let found = store.find_cached_result(&tenant, &scope, sha256(name), test_time(now)).await;
    found.unwrap().map(|cached| cached.result)
}

pub(crate) async fn cached_result_is_reused_until_expiry(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let rows = CachedResult::Inline(json::parse(br#"{"rows":3}"#).unwrap());
    let nothing = CachedResult::Inline(Json::Null);
    let reference = CachedResult::Reference(json::parse(br#"{"ref":"noetl://x"}"#).unwrap());
    let append = AppendRequest {
        now: test_time("12:00:01"),
        cache_puts: vec![
            cache_put("a", rows.clone(), "13:00:00"),
            cache_put("b", nothing.clone(), "13:00:00"),
            cache_put("c", reference.clone(), "13:00:00"),
        ],
        ..run.step_request()
    };
    run.append_to(store, append).await.unwrap();
    assert_eq!(find_cached(store, "a", "12:59:59.999999").await, Some(rows));
    assert_eq!(find_cached(store, "a", "13:00:00").await, None);
    assert_eq!(find_cached(store, "b", "12:30:00").await, Some(nothing.clone()));
    assert_eq!(find_cached(store, "c", "12:30:00").await, Some(reference));
    assert_eq!(find_cached(store, "d", "12:30:00").await, None);
    let tenant = TenantId::default();
    let (scope, digest, now) = (match_key("etl/nightly"), sha256("a"), test_time("12:30:00"));
    let found = store.find_cached_result(&tenant, &scope, digest, now).await;
    let found = found.unwrap().unwrap();
    assert_eq!(found.created_at, test_time("12:00:01"));
    assert_eq!(found.origin_execution_id, TestExecution::new(1).id);
    assert_eq!(found.origin_seq, Seq::new(3).unwrap());

    // A newer result replaces it, here from two appends of one call.
    let mut other = TestExecution::create_started(store, 2).await;
    let second = CachedResult::Inline(Json::from(2));
    let with_cache_put =
        |append: AppendRequest, put: CachePut| AppendRequest { cache_puts: vec![put], ..append };
    let results = store
        .append_events(vec![
            with_cache_put(run.step_request(), cache_put("a", nothing, "14:00:00")),
            with_cache_put(other.step_request(), cache_put("a", second.clone(), "14:00:00")),
        ])
        .await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let found = find_cached(store, "a", "13:30:00").await;
    assert!(found.is_some());
    let other_tenant = TenantId::new("acme").unwrap();
    let foreign = store.find_cached_result(&other_tenant, &scope, digest, now).await;
    assert_eq!(foreign.unwrap(), None);

    let mut third = TestExecution::create_started(store, 3).await;
    let put = cache_put("z", second, "14:00:00");
    let twice = AppendRequest { cache_puts: vec![put.clone(), put], ..third.step_request() };
    assert_eq!(append_one(store, twice).await, Err(InvalidAppend::CacheTwice.into()));
}

pub(crate) fn test_var(name: &str, value: Json) -> ExecutionVar {
    ExecutionVar {
        name: Text::from(name),
        kind: VarKind::UserDefined,
        value,
        source_step: None,
        set_at: test_time("12:00:00"),
    }
}

async fn var_names(store: &dyn Store, execution_id: ExecutionId) -> Vec<String> {
    let vars = store.list_vars(execution_id, None).await.unwrap();
    vars.iter().map(|var| var.name.to_string()).collect()
}

pub(crate) async fn variables_are_set_atomically(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (id, other_id) = (TestExecution::new(1).id, TestExecution::new(2).id);
    let mut expected = test_var("b", json::parse(br#"{"n":[1,2]}"#).unwrap());
    expected.kind = VarKind::StepResult;
    expected.source_step = Some(Text::from("load"));
    let sent = vec![
        test_var("é", Json::from(1)),
        expected.clone(),
        test_var("a", Json::Null),
        test_var("Z", Json::from("old")),
        // Of two variables with the same name, the last one is stored.
        test_var("Z", Json::from("new")),
    ];
    store.set_vars(id, sent).await.unwrap();
    store.set_vars(other_id, vec![test_var("a", Json::from(9))]).await.unwrap();
    assert_eq!(var_names(store, id).await, ["Z", "a", "b", "é"]);
    let get = |name: &'static str| async move {
        let found = store.list_vars(id, Some(&Text::from(name))).await.unwrap();
        found.into_iter().next()
    };
    assert_eq!(get("b").await, Some(expected));
    assert_eq!(get("a").await.unwrap().value, Json::Null);
    assert_eq!(get("Z").await.unwrap().value, Json::from("new"));
    assert_eq!(get("none").await, None);

    // One invalid variable prevents all of them.
    let large = Json::text("x".repeat(MAX_VAR_BYTES)).unwrap();
    let name = Text::from("large");
    for (vars, error) in [
        (
            vec![test_var("a", Json::from(2)), test_var("large", large)],
            SetVarsError::TooLarge { name },
        ),
        (vec![test_var("", Json::Null)], SetVarsError::InvalidName),
        (vec![test_var(&"x".repeat(256), Json::Null)], SetVarsError::InvalidName),
        (vec![test_var("a", Json::Null); MAX_VARS + 1], SetVarsError::TooMany),
    ] {
        assert_eq!(store.set_vars(id, vars).await, Err(error));
    }
    assert_eq!(get("a").await.unwrap().value, Json::Null);

    let delete = |name: Option<&'static str>| async move {
        let name = name.map(Text::from);
        store.delete_vars(id, name.as_ref()).await.unwrap()
    };
    assert_eq!(delete(Some("a")).await, 1);
    assert_eq!(delete(Some("a")).await, 0);
    assert_eq!(delete(None).await, 3);
    assert_eq!(var_names(store, id).await, [""; 0]);
    assert_eq!(var_names(store, other_id).await, ["a"]);
}

/// Stores one row of each kind that expires at a time, and a result that never expires.
async fn put_expiring_rows(store: &dyn Store, number: i64) {
    let (name, end) = (format!("{number}"), format!("12:0{number}:00"));
    let mut reservation = dedup_reservation(&name, "", "11:00:00");
    reservation.expires_at = test_time(&end);
    let mut run = TestExecution::new(number);
    let append = AppendRequest {
        dedup: Some(reservation),
        idempotency: Some(idempotency_record(&name, "", &end)),
        cache_puts: vec![cache_put(&name, CachedResult::Inline(Json::Null), &end)],
        ..run.start_request()
    };
    run.append_to(store, append).await.unwrap();
    let mut signal = broadcast_signal(number, "go", None, test_time("11:00:00"));
    signal.expires_at = test_time(&end);
    store.put_broadcast(signal).await.unwrap();
    let mut token = identities::api_token(number, &TenantId::default());
    token.expires_at = Some(test_time(&end));
    assert!(store.put_token(token).await.unwrap());
    let mut result = result_put(run.id, new_result(number, b"{}"));
    result.expires_at = Some(test_time(&end));
    store.put_result(result).await.unwrap();
    let mut entry = keychain::keychain_entry(number, "default", &name);
    entry.expires_at = test_time(&end);
    let is_stored = store.put_keychain_entry(keychain::keychain_put(entry)).await;
    assert!(is_stored.unwrap());
    // A result without expiry is never deleted.
    let mut permanent = result_put(run.id, new_result(number + 10, b"{}"));
    permanent.expires_at = None;
    store.put_result(permanent).await.unwrap();
}

pub(crate) async fn expired_rows_are_deleted_in_batches(fixture: &StoreFixture) {
    let store = &*fixture.store;
    for number in 1..=3 {
        put_expiring_rows(store, number).await;
    }
    for (table, rows) in
        [(TenantTable::Tokens, 3), (TenantTable::Broadcasts, 3), (TenantTable::Definitions, 0)]
    {
        for max_count in [2, 10] {
            let count = store.count_tenant_rows(&TenantId::default(), table, max_count).await;
            assert_eq!(count.unwrap(), rows.min(max_count), "{table:?}");
        }
        let other = TenantId::new("other").unwrap();
        assert_eq!(store.count_tenant_rows(&other, table, 10).await.unwrap(), 0, "{table:?}");
    }
    let delete_expired = |target: GcTarget, now: &'static str, limit: i64| async move {
        let limit = PageLimit::new(limit).unwrap();
        store.delete_expired(target, test_time(now), limit).await.unwrap()
    };
    for target in GcTarget::ALL.iter().filter(|target| **target != GcTarget::Blobs) {
        assert_eq!(delete_expired(*target, "12:00:59.999999", 9).await, 0, "{target:?}");
        assert_eq!(delete_expired(*target, "12:02:00", 1).await, 1, "{target:?}");
        assert_eq!(delete_expired(*target, "12:02:00", 9).await, 1, "{target:?}");
        assert_eq!(delete_expired(*target, "12:02:00", 9).await, 0, "{target:?}");
    }
    assert_eq!(delete_expired(GcTarget::Blobs, "12:02:00", 9).await, 0);
    // Rows that have not expired remain.
    assert_eq!(find_cached(store, "2", "11:00:00").await, None);
    assert!(find_cached(store, "3", "11:00:00").await.is_some());
    let run = |number| TestExecution::new(number).id;
    let id = |number| noetl_types::ResultId::new(number).unwrap();
    assert_eq!(store.find_result(run(2), id(2)).await.unwrap(), None);
    assert!(store.find_result(run(3), id(3)).await.unwrap().is_some());
    assert!(store.find_result(run(2), id(12)).await.unwrap().is_some());
    let mut repeated = TestExecution::new(9).start_request();
    repeated.dedup = Some(dedup_reservation("3", "", "11:00:01"));
    let execution_id = run(3);
    assert_eq!(append_one(store, repeated).await, Err(AppendError::Duplicate { execution_id }));
}

/// Adds one coordination change of each kind to an append.
fn with_coordination(append: AppendRequest) -> AppendRequest {
    AppendRequest {
        waits: vec![WaitChange::Open(Box::new(new_wait(
            noetl_types::CommandId::new(1).unwrap(),
            vec![awaited_name("go", None)],
        )))],
        follow_ups: vec![FollowUpChange::Add {
            errand_id: Text::from("e"),
            body: Json::from(1),
            due_at: test_time("12:00:00"),
        }],
        slots: vec![SlotChange::Request(new_slot("k", 1, 0, test_time("12:00:00")))],
        cache_puts: vec![cache_put("a", CachedResult::Inline(Json::from(1)), "13:00:00")],
        idempotency: Some(idempotency_record("r", "", "13:00:00")),
        ..append
    }
}

/// Counts the effects of [`with_coordination`], one number per kind.
async fn count_coordination(store: &dyn Store) -> [usize; 5] {
    let waits = WaitFilter {
        tenant_id: TenantId::default(),
        selector: WaitSelector::InExecution(TestExecution::new(1).id),
        after: None,
        limit: PageLimit::default(),
    };
    let slots = SlotSelector::Key { tenant_id: TenantId::default(), key: match_key("k") };
    let limit = PageLimit::default();
    let record = idempotency_record("r", "", "13:00:00");
    let tenant = TenantId::default();
    let answered = store.find_answered_request(
        &tenant,
        &record.route,
        record.key_sha256,
        test_time("12:00:00"),
    );
    [
        store.list_waits(waits).await.unwrap().len(),
        store.list_due_follow_ups(test_time("12:00:00"), limit).await.unwrap().len(),
        store.list_slots(slots, limit).await.unwrap().len(),
        usize::from(find_cached(store, "a", "12:00:00").await.is_some()),
        usize::from(answered.await.unwrap().is_some()),
    ]
}

/// A refused append applies none of its coordination changes, an accepted one all of them.
pub(crate) async fn coordination_changes_are_atomic_with_append(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let mut stale = run.clone();
    let append = run.step_request();
    run.append_to(store, append).await.unwrap();
    let conflict = append_one(store, with_coordination(stale.step_request())).await;
    assert!(matches!(conflict, Err(AppendError::Conflict { .. })));
    let mut duplicate = run.step_request();
    duplicate.events[0].event_id = noetl_types::EventId::new(run.id.get() + 1).unwrap();
    let unrelated = TestExecution::new(2).start_request();
    let results = store.append_events(vec![with_coordination(duplicate), unrelated]).await;
    assert_eq!(results[0], Err(AppendError::IdTaken));
    assert!(results[1].is_ok(), "{results:?}");
    assert_eq!(count_coordination(store).await, [0; 5]);
    let append = with_coordination(run.step_request());
    run.append_to(store, append).await.unwrap();
    assert_eq!(count_coordination(store).await, [1; 5]);
}
