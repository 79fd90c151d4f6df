//! What is kept for a while, beside the log.

use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, Json, Seq, TenantId, Text, json, sha256};

use super::Bench;
use super::claim::{message, request};
use super::fixture::{Run, at, one};
use super::keychain;
use super::result::{put, result};
use super::slot::{key, wish};
use super::wait::{awaited, new_wait, signal};
use crate::{
    Append, AppendRefused, CachePut, CachedResult, ErrandChange, InvalidAppend, MAX_VAR_BYTES,
    MAX_VARS, SlotChange, SlotChoice, Store, Swept, Var, VarKind, VarsRefused, WaitChange,
    WaitChoice, WaitFilter,
};

pub(crate) fn cache_put(name: &str, result: CachedResult, expires: &str) -> CachePut {
    CachePut {
        scope: key("etl/nightly"),
        key_sha256: sha256(name),
        result,
        origin_execution_id: Run::new(1).id,
        origin_seq: Seq::new(3).unwrap(),
        expires_at: at(expires),
    }
}

async fn cached(store: &dyn Store, name: &str, now: &str) -> Option<CachedResult> {
    let tenant = TenantId::default();
    let scope = key("etl/nightly");
    let found = store.cached(&tenant, &scope, sha256(name), at(now)).await;
    found.unwrap().map(|cached| cached.result)
}

pub(crate) async fn a_result_is_taken_over_until_it_expires(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let rows = CachedResult::Inline(json::parse(br#"{"rows":3}"#).unwrap());
    let nothing = CachedResult::Inline(Json::Null);
    let elsewhere = CachedResult::Reference(json::parse(br#"{"ref":"noetl://x"}"#).unwrap());
    let append = Append {
        now: at("12:00:01"),
        cached: vec![
            cache_put("a", rows.clone(), "13:00:00"),
            cache_put("b", nothing.clone(), "13:00:00"),
            cache_put("c", elsewhere.clone(), "13:00:00"),
        ],
        ..run.step()
    };
    run.write(store, append).await.unwrap();
    assert_eq!(cached(store, "a", "12:59:59.999999").await, Some(rows));
    assert_eq!(cached(store, "a", "13:00:00").await, None);
    assert_eq!(cached(store, "b", "12:30:00").await, Some(nothing.clone()));
    assert_eq!(cached(store, "c", "12:30:00").await, Some(elsewhere));
    assert_eq!(cached(store, "d", "12:30:00").await, None);
    let tenant = TenantId::default();
    let (scope, digest, now) = (key("etl/nightly"), sha256("a"), at("12:30:00"));
    let found = store.cached(&tenant, &scope, digest, now).await;
    let found = found.unwrap().unwrap();
    assert_eq!(found.created_at, at("12:00:01"));
    assert_eq!(found.origin_execution_id, Run::new(1).id);
    assert_eq!(found.origin_seq, Seq::new(3).unwrap());

    // A newer one replaces it, here from two appends of one call.
    let mut other = Run::started(store, 2).await;
    let second = CachedResult::Inline(Json::from(2));
    let of = |append: Append, put: CachePut| Append {
        cached: vec![put],
        ..append
    };
    let results = store
        .append(vec![
            of(run.step(), cache_put("a", nothing, "14:00:00")),
            of(other.step(), cache_put("a", second.clone(), "14:00:00")),
        ])
        .await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let found = cached(store, "a", "13:30:00").await;
    assert!(found.is_some());
    let stranger = TenantId::new("acme").unwrap();
    let foreign = store.cached(&stranger, &scope, digest, now).await;
    assert_eq!(foreign.unwrap(), None);

    let mut third = Run::started(store, 3).await;
    let put = cache_put("z", second, "14:00:00");
    let twice = Append {
        cached: vec![put.clone(), put],
        ..third.step()
    };
    assert_eq!(
        one(store, twice).await,
        Err(InvalidAppend::CacheTwice.into())
    );
}

pub(crate) fn var(name: &str, value: Json) -> Var {
    Var {
        name: Text::from(name),
        kind: VarKind::UserDefined,
        value,
        source_step: None,
        set_at: at("12:00:00"),
    }
}

async fn names(store: &dyn Store, execution_id: ExecutionId) -> Vec<String> {
    let vars = store.vars(execution_id, None).await.unwrap();
    vars.iter().map(|var| var.name.to_string()).collect()
}

pub(crate) async fn variables_are_set_together(bench: &Bench) {
    let store = &*bench.store;
    let (mine, other) = (Run::new(1).id, Run::new(2).id);
    let mut full = var("b", json::parse(br#"{"n":[1,2]}"#).unwrap());
    full.kind = VarKind::StepResult;
    full.source_step = Some(Text::from("load"));
    let sent = vec![
        var("é", Json::from(1)),
        full.clone(),
        var("a", Json::Null),
        var("Z", Json::from("old")),
        // Of two with one name the last counts.
        var("Z", Json::from("new")),
    ];
    store.set_vars(mine, sent).await.unwrap();
    store
        .set_vars(other, vec![var("a", Json::from(9))])
        .await
        .unwrap();
    assert_eq!(names(store, mine).await, ["Z", "a", "b", "é"]);
    let get = |name: &'static str| async move {
        let found = store.vars(mine, Some(&Text::from(name))).await.unwrap();
        found.into_iter().next()
    };
    assert_eq!(get("b").await, Some(full));
    assert_eq!(get("a").await.unwrap().value, Json::Null);
    assert_eq!(get("Z").await.unwrap().value, Json::from("new"));
    assert_eq!(get("none").await, None);

    // One that is refused sets none of them.
    let large = Json::text("x".repeat(MAX_VAR_BYTES)).unwrap();
    let name = Text::from("large");
    for (vars, refused) in [
        (
            vec![var("a", Json::from(2)), var("large", large)],
            VarsRefused::TooLarge { name },
        ),
        (vec![var("", Json::Null)], VarsRefused::Name),
        (vec![var(&"x".repeat(256), Json::Null)], VarsRefused::Name),
        (
            vec![var("a", Json::Null); MAX_VARS + 1],
            VarsRefused::TooMany,
        ),
    ] {
        assert_eq!(store.set_vars(mine, vars).await, Err(refused));
    }
    assert_eq!(get("a").await.unwrap().value, Json::Null);

    let delete = |name: Option<&'static str>| async move {
        let name = name.map(Text::from);
        store.delete_vars(mine, name.as_ref()).await.unwrap()
    };
    assert_eq!(delete(Some("a")).await, 1);
    assert_eq!(delete(Some("a")).await, 0);
    assert_eq!(delete(None).await, 3);
    assert_eq!(names(store, mine).await, [""; 0]);
    assert_eq!(names(store, other).await, ["a"]);
}

/// Hole D7.
pub(crate) async fn sweeps_are_bounded(bench: &Bench) {
    let store = &*bench.store;
    for number in 1..=3 {
        let (name, end) = (format!("{number}"), format!("12:0{number}:00"));
        let mut claim = message(&name, "", "11:00:00");
        claim.expires_at = at(&end);
        let mut run = Run::new(number);
        let append = Append {
            dedup: Some(claim),
            idempotency: Some(request(&name, "", &end)),
            cached: vec![cache_put(&name, CachedResult::Inline(Json::Null), &end)],
            ..run.start()
        };
        run.write(store, append).await.unwrap();
        let mut sent = signal(number, "go", None, at("11:00:00"));
        sent.expires_at = at(&end);
        store.broadcast(sent).await.unwrap();
        let mut kept = put(run.id, result(number, b"{}"));
        kept.expires_at = Some(at(&end));
        store.put_result(kept).await.unwrap();
        let mut entry = keychain::entry(number, "default", &name);
        entry.expires_at = at(&end);
        let is_kept = store.put_keychain(keychain::new(entry)).await;
        assert!(is_kept.unwrap());
        // What has no end stays.
        let mut for_good = put(run.id, result(number + 10, b"{}"));
        for_good.expires_at = None;
        store.put_result(for_good).await.unwrap();
    }
    let sweep = |what: Swept, now: &'static str, limit: i64| async move {
        let limit = PageLimit::new(limit).unwrap();
        store.sweep(what, at(now), limit).await.unwrap()
    };
    for what in Swept::ALL.iter().filter(|what| **what != Swept::Blobs) {
        assert_eq!(sweep(*what, "12:00:59.999999", 9).await, 0, "{what:?}");
        assert_eq!(sweep(*what, "12:02:00", 1).await, 1, "{what:?}");
        assert_eq!(sweep(*what, "12:02:00", 9).await, 1, "{what:?}");
        assert_eq!(sweep(*what, "12:02:00", 9).await, 0, "{what:?}");
    }
    assert_eq!(sweep(Swept::Blobs, "12:02:00", 9).await, 0);
    // What is left is what is not over.
    assert_eq!(cached(store, "2", "11:00:00").await, None);
    assert!(cached(store, "3", "11:00:00").await.is_some());
    let run = |number| Run::new(number).id;
    let id = |number| noetl_types::ResultId::new(number).unwrap();
    assert_eq!(store.result(run(2), id(2)).await.unwrap(), None);
    assert!(store.result(run(3), id(3)).await.unwrap().is_some());
    assert!(store.result(run(2), id(12)).await.unwrap().is_some());
    let mut again = Run::new(9).start();
    again.dedup = Some(message("3", "", "11:00:01"));
    let execution_id = run(3);
    assert_eq!(
        one(store, again).await,
        Err(AppendRefused::Duplicate { execution_id })
    );
}

/// An append that is refused leaves nothing of all this; one that is not brings all of it.
pub(crate) async fn what_is_shared_comes_with_its_append(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let shares = |append: Append| Append {
        waits: vec![WaitChange::Open(Box::new(new_wait(
            noetl_types::CommandId::new(1).unwrap(),
            vec![awaited("go", None)],
        )))],
        errands: vec![ErrandChange::Add {
            errand_id: Text::from("e"),
            body: Json::from(1),
            due_at: at("12:00:00"),
        }],
        slots: vec![SlotChange::Want(wish("k", 1, 0, at("12:00:00")))],
        cached: vec![cache_put(
            "a",
            CachedResult::Inline(Json::from(1)),
            "13:00:00",
        )],
        idempotency: Some(request("r", "", "13:00:00")),
        ..append
    };
    let counts = || async {
        let waits = WaitFilter {
            tenant_id: TenantId::default(),
            choice: WaitChoice::Of(Run::new(1).id),
            after: None,
            limit: PageLimit::default(),
        };
        let slots = SlotChoice::Key {
            tenant_id: TenantId::default(),
            key: key("k"),
        };
        let limit = PageLimit::default();
        let claim = request("r", "", "13:00:00");
        let tenant = TenantId::default();
        let answered = store.answered(&tenant, &claim.route, claim.key_sha256, at("12:00:00"));
        [
            store.waits(waits).await.unwrap().len(),
            store.errands(at("12:00:00"), limit).await.unwrap().len(),
            store.slots(slots, limit).await.unwrap().len(),
            usize::from(cached(store, "a", "12:00:00").await.is_some()),
            usize::from(answered.await.unwrap().is_some()),
        ]
    };
    let mut stale = run.clone();
    let append = run.step();
    run.write(store, append).await.unwrap();
    let conflict = one(store, shares(stale.step())).await;
    assert!(matches!(conflict, Err(AppendRefused::Conflict { .. })));
    let mut taken = run.step();
    taken.events[0].event_id = noetl_types::EventId::new(run.id.get() + 1).unwrap();
    let neighbour = Run::new(2).start();
    let results = store.append(vec![shares(taken), neighbour]).await;
    assert_eq!(results[0], Err(AppendRefused::IdTaken));
    assert!(results[1].is_ok(), "{results:?}");
    assert_eq!(counts().await, [0; 5]);
    let append = shares(run.step());
    run.write(store, append).await.unwrap();
    assert_eq!(counts().await, [1; 5]);
}
