//! Results with and without an append.

use std::sync::Arc;

use noetl_types::{ExecutionVersion, ResultId, Text, sha256};

use super::StoreFixture;
use super::fixture::{TestExecution, append_one, test_time};
use crate::{
    AppendError, AppendRequest, InvalidAppend, LogPageLimit, MAX_APPEND_RESULT_BYTES,
    MAX_RESULT_BYTES, NewResult, PutResultError, ResultPut, StoredResult,
};

fn result_id(number: i64) -> ResultId {
    ResultId::new(number).unwrap()
}

pub(crate) fn new_result(number: i64, bytes: &[u8]) -> NewResult {
    NewResult {
        result_id: result_id(number),
        name: Text::from("extract"),
        bytes: bytes.into(),
        sha256: sha256(bytes),
        media_type: Text::from("application/json"),
    }
}

pub(crate) async fn results_are_stored_with_append(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let large = vec![b'7'; 3_000_000];
    let results = [
        new_result(1, br#"{"rows":[1,2]}"#),
        new_result(2, b""),
        new_result(3, &every_byte),
        new_result(4, &large),
    ];
    let append = AppendRequest {
        now: test_time("12:20:00"),
        results: results.to_vec(),
        ..run.step_request()
    };
    run.append_to(store, append).await.unwrap();
    for result in results {
        let found = store.find_result(run.id, result.result_id).await.unwrap();
        let expected = StoredResult {
            execution_id: run.id,
            result_id: result.result_id,
            name: result.name,
            bytes: result.bytes,
            sha256: result.sha256,
            media_type: result.media_type,
            created_at: test_time("12:20:00"),
            scope: None,
            source_step: None,
            expires_at: None,
        };
        assert_eq!(found, Some(expected));
    }
    assert_eq!(store.find_result(run.id, result_id(9)).await.unwrap(), None);
    assert_eq!(store.find_result(TestExecution::new(2).id, result_id(1)).await.unwrap(), None);
}

pub(crate) async fn refused_append_stores_no_result(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let mut stale = run.clone();
    let with_result = |append: AppendRequest, number: i64, bytes: &[u8]| AppendRequest {
        results: vec![new_result(number, bytes)],
        ..append
    };
    let append = with_result(run.step_request(), 1, b"1");
    run.append_to(store, append).await.unwrap();
    let conflict = append_one(store, with_result(stale.step_request(), 2, b"2")).await;
    assert!(matches!(conflict, Err(AppendError::Conflict { .. })));
    assert_eq!(store.find_result(run.id, result_id(2)).await.unwrap(), None);

    // A result id is never reused, and its append writes no event either. Another run may use the
    // same id.
    let mut other = TestExecution::create_started(store, 2).await;
    let results = store
        .append_events(vec![
            with_result(run.step_request(), 1, b"other"),
            with_result(other.step_request(), 1, b"mine"),
        ])
        .await;
    assert_eq!(results[0], Err(AppendError::IdTaken));
    assert!(results[1].is_ok(), "{results:?}");
    let stored = store.find_result(run.id, result_id(1)).await.unwrap().unwrap();
    assert_eq!(&*stored.bytes, b"1");
    let other_stored = store.find_result(other.id, result_id(1)).await.unwrap().unwrap();
    assert_eq!(&*other_stored.bytes, b"mine");
    let log = store.read_events(run.id, ExecutionVersion::EMPTY, LogPageLimit::MAX).await;
    assert_eq!(log.unwrap().len(), 2);
}

pub(crate) async fn result_size_is_limited(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let twice = AppendRequest {
        results: vec![new_result(1, b"1"), new_result(1, b"2")],
        ..run.step_request()
    };
    assert_eq!(append_one(store, twice).await, Err(InvalidAppend::ResultTwice.into()));
    let half: Arc<[u8]> = vec![0; MAX_APPEND_RESULT_BYTES / 2 + 1].into();
    let half_size_result =
        |number| NewResult { bytes: Arc::clone(&half), ..new_result(number, b"") };
    let large = AppendRequest {
        results: vec![half_size_result(1), half_size_result(2)],
        ..run.step_request()
    };
    assert_eq!(append_one(store, large).await, Err(InvalidAppend::ResultsTooLarge.into()));
    assert_eq!(store.find_result(run.id, result_id(1)).await.unwrap(), None);
}

pub(crate) fn result_put(execution_id: noetl_types::ExecutionId, result: NewResult) -> ResultPut {
    ResultPut {
        execution_id,
        result,
        scope: Some(Text::from("execution")),
        source_step: Some(Text::from("load")),
        expires_at: Some(test_time("13:00:00")),
        now: test_time("12:00:00"),
    }
}

pub(crate) async fn results_are_stored_without_append(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let run = TestExecution::create_started(store, 1).await;
    let large = vec![b'7'; 3_000_000];
    for (number, bytes) in [(1, &b"{}"[..]), (2, &large), (3, b"")] {
        let put = result_put(run.id, new_result(number, bytes));
        store.put_result(put.clone()).await.unwrap();
        // A repetition changes nothing.
        store.put_result(put.clone()).await.unwrap();
        let expected = put.clone().into_stored().unwrap();
        let found = store.find_result(run.id, result_id(number)).await.unwrap();
        assert_eq!(found, Some(expected));
        let other = result_put(run.id, new_result(number, b"other"));
        let result = store.put_result(other).await;
        assert_eq!(result, Err(PutResultError::IdTaken));
    }
    let too_large = vec![0; MAX_RESULT_BYTES + 1];
    let too_large = NewResult { bytes: too_large.into(), ..new_result(4, b"") };
    let result = store.put_result(result_put(run.id, too_large)).await;
    assert_eq!(result, Err(PutResultError::TooLarge));
    assert_eq!(store.find_result(run.id, result_id(4)).await.unwrap(), None);
}
