//! Output of tasks, stored while they run.

use noetl_types::limits::{
    MAX_EXECUTION_OUTPUT_SIZE, MAX_OUTPUT_CHUNK_SIZE, OUTPUT_HEAD_SIZE, OUTPUT_TAIL_SIZE, PageLimit,
};
use noetl_types::{ByteSize, CommandId, ExecutionId, LeaseToken, Text};

use super::StoreFixture;
use super::fixture::{TestExecution, lease_request, test_time, worker_id};
use crate::{
    LeaseRelease, NewOutputChunk, NewTaskOutput, OutputChunk, OutputFilter, Store,
    TaskOutputOutcome,
};

pub(crate) fn new_chunk(number: u32, stdout: &str) -> NewOutputChunk {
    NewOutputChunk {
        number,
        task: Some("build".into()),
        stdout: stdout.into(),
        stderr: Text::default(),
        dropped_bytes: 0,
        is_last: false,
    }
}

/// Output of the first attempt of a command that `w` has leased with token 7.
pub(crate) fn new_output(
    execution_id: ExecutionId,
    command_id: CommandId,
    chunks: Vec<NewOutputChunk>,
) -> NewTaskOutput {
    NewTaskOutput {
        execution_id,
        command_id,
        attempt: 1,
        lease_token: LeaseToken::from_bytes([7; 16]),
        chunks,
        max_execution_size: MAX_EXECUTION_OUTPUT_SIZE,
        now: test_time("12:00:01"),
    }
}

async fn leased_run(store: &dyn Store, number: i64) -> (ExecutionId, CommandId) {
    let mut run = TestExecution::create_started(store, number).await;
    let command_id = run.issue_command(store).await;
    store.lease_commands(lease_request("w", 7, 1)).await.unwrap();
    (run.id, command_id)
}

fn output_filter(execution_id: ExecutionId) -> OutputFilter {
    OutputFilter { execution_id, after: 0, step: None, attempt: None, limit: PageLimit::MAX }
}

async fn list_all(store: &dyn Store, execution_id: ExecutionId) -> Vec<OutputChunk> {
    let mut filter = output_filter(execution_id);
    let mut all = Vec::new();
    loop {
        let page = store.list_output(filter.clone()).await.unwrap();
        let Some(last) = page.last() else { return all };
        filter.after = last.position;
        all.extend(page);
    }
}

pub(crate) async fn output_is_stored_once_under_its_lease(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (id, command_id) = leased_run(store, 1).await;
    let chunk = |number| new_chunk(number, &format!("line {number}\n"));
    let output = new_output(id, command_id, vec![chunk(0), chunk(1)]);
    assert_eq!(store.append_output(output.clone()).await.unwrap(), TaskOutputOutcome::Stored);
    let repeated = NewTaskOutput { chunks: vec![chunk(1), chunk(2)], ..output.clone() };
    assert_eq!(store.append_output(repeated).await.unwrap(), TaskOutputOutcome::Stored);
    let stored = list_all(store, id).await;
    let texts: Vec<_> = stored.iter().map(|chunk| (chunk.position, &*chunk.stdout)).collect();
    assert_eq!(texts, [(1, "line 0\n"), (2, "line 1\n"), (3, "line 2\n")]);
    assert_eq!((stored[0].step_name.as_str(), stored[0].task.as_deref()), ("load", Some("build")));
    assert_eq!(stored[0].created_at, test_time("12:00:01"));

    let (other_id, _) = leased_run(store, 2).await;
    let chunks = vec![chunk(9)];
    for refused in [
        NewTaskOutput { attempt: 2, ..output.clone() },
        NewTaskOutput { lease_token: LeaseToken::from_bytes([8; 16]), ..output.clone() },
        NewTaskOutput { execution_id: other_id, ..output.clone() },
        NewTaskOutput { command_id: CommandId::new(5).unwrap(), ..output.clone() },
    ] {
        let refused = NewTaskOutput { chunks: chunks.clone(), ..refused };
        assert_eq!(store.append_output(refused).await.unwrap(), TaskOutputOutcome::Fenced);
    }
    let condition = crate::LeaseCondition::Worker(worker_id("w"));
    let fence = crate::Fence { command_id, attempt: 1, condition };
    store.release_leases(vec![LeaseRelease { fence, not_before: None }]).await.unwrap();
    let late = NewTaskOutput { chunks, ..output };
    assert_eq!(store.append_output(late).await.unwrap(), TaskOutputOutcome::Fenced);
    assert_eq!(list_all(store, id).await.len(), 3);
    assert_eq!(list_all(store, other_id).await, []);
}

pub(crate) async fn output_is_listed_by_page_step_and_attempt(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (id, command_id) = leased_run(store, 1).await;
    let chunks = (0..5).map(|number| new_chunk(number, "x")).collect();
    store.append_output(new_output(id, command_id, chunks)).await.unwrap();
    let positions = async |filter| {
        let page = store.list_output(filter).await.unwrap();
        page.iter().map(|chunk| chunk.position).collect::<Vec<_>>()
    };
    let all = output_filter(id);
    let page = OutputFilter { after: 2, limit: PageLimit::new(2).unwrap(), ..all.clone() };
    assert_eq!(positions(page).await, [3, 4]);
    assert_eq!(positions(OutputFilter { step: Some("load".into()), ..all.clone() }).await.len(), 5);
    assert!(positions(OutputFilter { step: Some("x".into()), ..all.clone() }).await.is_empty());
    assert_eq!(positions(OutputFilter { attempt: Some(1), ..all.clone() }).await.len(), 5);
    assert!(positions(OutputFilter { attempt: Some(2), ..all }).await.is_empty());
}

pub(crate) async fn endless_output_keeps_head_and_tail(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (id, command_id) = leased_run(store, 1).await;
    let chunk_bytes = usize::try_from(MAX_OUTPUT_CHUNK_SIZE.as_bytes()).unwrap();
    let text = "x".repeat(chunk_bytes);
    for first in (0..100).step_by(20) {
        let chunks = (first..first + 20).map(|number| new_chunk(number, &text)).collect();
        store.append_output(new_output(id, command_id, chunks)).await.unwrap();
    }
    let stored = list_all(store, id).await;
    let numbers: Vec<u32> = stored.iter().map(|chunk| chunk.number).collect();
    let count =
        |size: ByteSize| u32::try_from(size.as_bytes() / MAX_OUTPUT_CHUNK_SIZE.as_bytes()).unwrap();
    let (head, tail) = (count(OUTPUT_HEAD_SIZE), count(OUTPUT_TAIL_SIZE));
    assert_eq!(numbers, (0..head).chain(100 - tail..100).collect::<Vec<_>>());
    // The deleted chunks do not count for the execution.
    let kept = OUTPUT_HEAD_SIZE.as_bytes() + OUTPUT_TAIL_SIZE.as_bytes();
    assert_eq!(stored.last().unwrap().execution_charge, kept);
}

pub(crate) async fn output_of_execution_is_limited(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (id, command_id) = leased_run(store, 1).await;
    let max_execution_size = ByteSize::from_kib(3);
    let chunks = (0..5).map(|number| new_chunk(number, "x")).collect();
    let output = NewTaskOutput { max_execution_size, ..new_output(id, command_id, chunks) };
    let limited = store.append_output(output).await.unwrap();
    assert_eq!(limited, TaskOutputOutcome::LimitReached);
    assert_eq!(list_all(store, id).await.len(), 3);
}

pub(crate) async fn racing_writers_leave_no_gap_for_readers(fixture: &StoreFixture) {
    let store = &fixture.store;
    let mut run = TestExecution::create_started(&**store, 1).await;
    let mut commands = Vec::new();
    for _ in 0..4 {
        commands.push(run.issue_command(&**store).await);
    }
    store.lease_commands(lease_request("w", 7, 4)).await.unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for command_id in commands {
        let (store, id) = (std::sync::Arc::clone(store), run.id);
        writers.spawn(async move {
            for number in 0..10 {
                let output = new_output(id, command_id, vec![new_chunk(number, "x")]);
                let stored = store.append_output(output).await.unwrap();
                assert_eq!(stored, TaskOutputOutcome::Stored);
            }
        });
    }
    let mut seen = Vec::new();
    while !writers.is_empty() || seen.len() < 40 {
        let after = seen.last().copied().unwrap_or(0);
        let page = store.list_output(OutputFilter { after, ..output_filter(run.id) }).await;
        seen.extend(page.unwrap().iter().map(|chunk| chunk.position));
        if let Some(writer) = writers.try_join_next() {
            writer.unwrap();
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(seen, (1..=40).collect::<Vec<u64>>());
}
