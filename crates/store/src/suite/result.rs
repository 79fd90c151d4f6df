//! Results that come with an append.

use std::sync::Arc;

use noetl_types::{ResultId, Text, Version, sha256};

use super::Bench;
use super::fixture::{Run, at, one};
use crate::{
    Append, AppendRefused, InvalidAppend, LogPage, MAX_APPEND_RESULT_BYTES, MAX_RESULT_BYTES,
    NewResult, PutRefused, ResultPut, StoredResult,
};

fn id(number: i64) -> ResultId {
    ResultId::new(number).unwrap()
}

pub(crate) fn result(number: i64, bytes: &[u8]) -> NewResult {
    NewResult {
        result_id: id(number),
        name: Text::from("extract"),
        bytes: bytes.into(),
        sha256: sha256(bytes),
        media_type: Text::from("application/json"),
    }
}

pub(crate) async fn results_come_with_their_append(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let large = vec![b'7'; 3_000_000];
    let sent = [
        result(1, br#"{"rows":[1,2]}"#),
        result(2, b""),
        result(3, &every_byte),
        result(4, &large),
    ];
    let append = Append {
        now: at("12:20:00"),
        results: sent.to_vec(),
        ..run.step()
    };
    run.write(store, append).await.unwrap();
    for sent in sent {
        let found = store.result(run.id, sent.result_id).await.unwrap();
        let expected = StoredResult {
            execution_id: run.id,
            result_id: sent.result_id,
            name: sent.name,
            bytes: sent.bytes,
            sha256: sent.sha256,
            media_type: sent.media_type,
            created_at: at("12:20:00"),
            scope: None,
            source_step: None,
            expires_at: None,
        };
        assert_eq!(found, Some(expected));
    }
    assert_eq!(store.result(run.id, id(9)).await.unwrap(), None);
    assert_eq!(store.result(Run::new(2).id, id(1)).await.unwrap(), None);
}

pub(crate) async fn a_refused_append_leaves_no_result(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let mut stale = run.clone();
    let with_result = |append: Append, number: i64, bytes: &[u8]| Append {
        results: vec![result(number, bytes)],
        ..append
    };
    let append = with_result(run.step(), 1, b"1");
    run.write(store, append).await.unwrap();
    let conflict = one(store, with_result(stale.step(), 2, b"2")).await;
    assert!(matches!(conflict, Err(AppendRefused::Conflict { .. })));
    assert_eq!(store.result(run.id, id(2)).await.unwrap(), None);

    // An id is taken for good, and its append writes no event either; another run may use it.
    let mut other = Run::started(store, 2).await;
    let results = store
        .append(vec![
            with_result(run.step(), 1, b"other"),
            with_result(other.step(), 1, b"mine"),
        ])
        .await;
    assert_eq!(results[0], Err(AppendRefused::IdTaken));
    assert!(results[1].is_ok(), "{results:?}");
    let kept = store.result(run.id, id(1)).await.unwrap().unwrap();
    assert_eq!(&*kept.bytes, b"1");
    let theirs = store.result(other.id, id(1)).await.unwrap().unwrap();
    assert_eq!(&*theirs.bytes, b"mine");
    let log = store.events(run.id, Version::EMPTY, LogPage::MAX).await;
    assert_eq!(log.unwrap().len(), 2);
}

pub(crate) async fn results_have_bounds(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let twice = Append {
        results: vec![result(1, b"1"), result(1, b"2")],
        ..run.step()
    };
    assert_eq!(
        one(store, twice).await,
        Err(InvalidAppend::ResultTwice.into())
    );
    let half: Arc<[u8]> = vec![0; MAX_APPEND_RESULT_BYTES / 2 + 1].into();
    let of = |number| NewResult {
        bytes: Arc::clone(&half),
        ..result(number, b"")
    };
    let large = Append {
        results: vec![of(1), of(2)],
        ..run.step()
    };
    assert_eq!(
        one(store, large).await,
        Err(InvalidAppend::ResultsTooLarge.into())
    );
    assert_eq!(store.result(run.id, id(1)).await.unwrap(), None);
}

pub(crate) fn put(execution_id: noetl_types::ExecutionId, result: NewResult) -> ResultPut {
    ResultPut {
        execution_id,
        result,
        scope: Some(Text::from("execution")),
        source_step: Some(Text::from("load")),
        expires_at: Some(at("13:00:00")),
        now: at("12:00:00"),
    }
}

pub(crate) async fn results_may_come_by_themselves(bench: &Bench) {
    let store = &*bench.store;
    let run = Run::started(store, 1).await;
    let large = vec![b'7'; 3_000_000];
    for (number, bytes) in [(1, &b"{}"[..]), (2, &large), (3, b"")] {
        let sent = put(run.id, result(number, bytes));
        store.put_result(sent.clone()).await.unwrap();
        // Once more changes nothing.
        store.put_result(sent.clone()).await.unwrap();
        let expected = sent.clone().into_stored().unwrap();
        let found = store.result(run.id, id(number)).await.unwrap();
        assert_eq!(found, Some(expected));
        let other = put(run.id, result(number, b"other"));
        let refused = store.put_result(other).await;
        assert_eq!(refused, Err(PutRefused::Taken));
    }
    let beyond = vec![0; MAX_RESULT_BYTES + 1];
    let beyond = NewResult {
        bytes: beyond.into(),
        ..result(4, b"")
    };
    let refused = store.put_result(put(run.id, beyond)).await;
    assert_eq!(refused, Err(PutRefused::TooLarge));
    assert_eq!(store.result(run.id, id(4)).await.unwrap(), None);
}
