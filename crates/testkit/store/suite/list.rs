//! Lists of executions and runtimes.

use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionStatus, PlaybookPath, RuntimeId, TenantId, Text};

use super::StoreFixture;
use super::fixture::{TestExecution, all_executions, execution_facts, test_time};
use crate::{
    AppendRequest, ExecutionFilter, ExecutionOrigin, RuntimeKind, RuntimeRegistration, Store,
};

async fn listed_numbers(store: &dyn Store, filter: ExecutionFilter) -> Vec<i64> {
    let page = store.list_executions(filter).await.unwrap();
    let number = |id: i64| (id - TestExecution::new(0).id.get()) / 1_000_000;
    page.executions.iter().map(|execution| number(execution.execution_id.get())).collect()
}

async fn start_execution(
    store: &dyn Store,
    number: i64,
    change: impl FnOnce(&mut AppendRequest),
) -> TestExecution {
    let mut run = TestExecution::new(number);
    let mut append = run.start_request();
    change(&mut append);
    run.append_to(store, append).await.unwrap();
    run
}

pub(crate) async fn pages_through_executions(fixture: &StoreFixture) {
    let store = &*fixture.store;
    for number in 1..=7 {
        start_execution(store, number, |append| {
            // Two executions at a time have the same start, so that a page may end between equal
            // times.
            let minute = format!("12:0{}:00", number / 2);
            append.start.as_mut().unwrap().started_at = test_time(&minute);
        })
        .await;
    }
    let mut filter = ExecutionFilter { limit: PageLimit::new(3).unwrap(), ..all_executions() };
    let mut pages = Vec::new();
    loop {
        let page = store.list_executions(filter.clone()).await.unwrap();
        pages.push(listed_numbers(store, filter.clone()).await);
        let Some(next) = page.next else { break };
        filter.after = Some(next);
    }
    assert_eq!(pages, [vec![7, 6, 5], vec![4, 3, 2], vec![1]]);
}

pub(crate) async fn filters_executions(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let parent = start_execution(store, 1, |_| {}).await;
    start_execution(store, 2, |append| {
        append.start.as_mut().unwrap().parent_execution_id = Some(parent.id);
    })
    .await;
    start_execution(store, 3, |append| {
        append.start.as_mut().unwrap().path = Some(PlaybookPath::new("etl/hourly").unwrap());
    })
    .await;
    start_execution(store, 4, |append| {
        append.start.as_mut().unwrap().tenant_id = TenantId::new("acme").unwrap();
    })
    .await;
    let mut ended = TestExecution::create_started(store, 5).await;
    let append = ended.end_request();
    ended.append_to(store, append).await.unwrap();

    assert_eq!(listed_numbers(store, all_executions()).await, [5, 3, 2, 1]);
    let with_status = |status| ExecutionFilter { status: Some(status), ..all_executions() };
    let completed = with_status(ExecutionStatus::Completed);
    assert_eq!(listed_numbers(store, completed).await, [5]);
    let failed = with_status(ExecutionStatus::Failed);
    assert_eq!(listed_numbers(store, failed).await, [0_i64; 0]);
    let by_path = ExecutionFilter {
        path: execution_facts().path,
        status: Some(ExecutionStatus::Running),
        ..all_executions()
    };
    assert_eq!(listed_numbers(store, by_path).await, [2, 1]);
    let by_parent = ExecutionFilter { parent_execution_id: Some(parent.id), ..all_executions() };
    assert_eq!(listed_numbers(store, by_parent).await, [2]);
    let by_tenant =
        ExecutionFilter { tenant_id: TenantId::new("acme").unwrap(), ..all_executions() };
    assert_eq!(listed_numbers(store, by_tenant).await, [4]);
}

pub(crate) async fn runtimes_register_and_heartbeat(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let runtime = |id: i64, name: &str, time: &str| RuntimeRegistration {
        runtime_id: RuntimeId::new(id).unwrap(),
        kind: RuntimeKind::WorkerPool,
        name: Text::from(name),
        uri: Some(Text::from("http://worker")),
        detail: Some(noetl_types::Json::object([("capacity", 4.into())])),
        now: test_time(time),
    };
    let pool = RuntimeKind::WorkerPool;
    let first = store.register_runtime(runtime(1, "b", "12:00:00")).await.unwrap();
    store.register_runtime(runtime(2, "a", "12:00:00")).await.unwrap();
    assert!(store.record_heartbeat(pool, &"a".into(), test_time("12:01:00")).await.unwrap());
    assert!(!store.record_heartbeat(pool, &"c".into(), test_time("12:01:00")).await.unwrap());
    assert!(
        !store
            .record_heartbeat(RuntimeKind::ServerApi, &"a".into(), test_time("12:01:00"))
            .await
            .unwrap()
    );
    // A second registration keeps the id and the time of the first one.
    let repeated = store.register_runtime(runtime(3, "b", "12:02:00")).await.unwrap();
    assert_eq!(repeated.runtime_id, first.runtime_id);
    assert_eq!(repeated.created_at, first.created_at);
    assert_eq!(repeated.heartbeat, test_time("12:02:00"));
    let all = store.list_runtimes(pool).await.unwrap();
    let heartbeats: Vec<_> =
        all.iter().map(|runtime| (runtime.name.as_str(), runtime.heartbeat)).collect();
    assert_eq!(heartbeats, [("a", test_time("12:01:00")), ("b", test_time("12:02:00"))]);
    assert_eq!(all[1], repeated);
    assert_eq!(store.list_runtimes(RuntimeKind::Broker).await.unwrap(), []);
    assert!(store.remove_runtime(pool, &"a".into()).await.unwrap());
    assert!(!store.remove_runtime(pool, &"a".into()).await.unwrap());
    let server = RuntimeKind::ServerApi;
    assert!(!store.remove_runtime(server, &"b".into()).await.unwrap());
    let remaining = store.list_runtimes(pool).await.unwrap();
    let names: Vec<_> = remaining.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["b"]);
}

pub(crate) async fn executions_are_counted_by_status(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let tenant = TenantId::default();
    let empty = store.tenant_counts(&tenant).await.unwrap();
    assert_eq!(empty, crate::TenantCounts::default());
    for number in 1..=3 {
        let mut run = TestExecution::create_started(store, number).await;
        if number == 2 {
            let end = run.end_request();
            run.append_to(store, end).await.unwrap();
        }
    }
    let counts = store.tenant_counts(&tenant).await.unwrap();
    let by_status: Vec<_> = counts.executions.into_iter().collect();
    let mut expected = [(ExecutionStatus::Running, 2), (ExecutionStatus::Completed, 1)];
    expected.sort_unstable();
    assert_eq!(by_status, expected);
    let other_tenant = TenantId::new("acme").unwrap();
    assert_eq!(store.tenant_counts(&other_tenant).await.unwrap(), empty);
    // Without a tenant, all tenants are counted.
    start_execution(store, 4, |append| {
        append.start.as_mut().unwrap().tenant_id = other_tenant;
    })
    .await;
    let all = store.count_executions_by_status().await.unwrap();
    let all: Vec<_> = all.into_iter().collect();
    let mut expected = [(ExecutionStatus::Running, 3), (ExecutionStatus::Completed, 1)];
    expected.sort_unstable();
    assert_eq!(all, expected);
}

pub(crate) async fn live_execution_count_is_capped(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let tenant = TenantId::default();
    let count_live =
        async |max_count| store.count_live_executions(&tenant, max_count).await.unwrap();
    assert_eq!(count_live(10).await, 0);
    for number in 1..=5 {
        let mut run = TestExecution::create_started(store, number).await;
        if number == 2 {
            let end = run.end_request();
            run.append_to(store, end).await.unwrap();
        }
    }
    // Projected executions are driven elsewhere.
    start_execution(store, 6, |append| {
        append.start.as_mut().unwrap().origin = ExecutionOrigin::Projected;
    })
    .await;
    start_execution(store, 7, |append| {
        append.start.as_mut().unwrap().tenant_id = TenantId::new("acme").unwrap();
    })
    .await;
    assert_eq!(count_live(10).await, 4);
    assert_eq!(count_live(4).await, 4);
    assert_eq!(count_live(3).await, 3);
    let acme = TenantId::new("acme").unwrap();
    assert_eq!(store.count_live_executions(&acme, 10).await.unwrap(), 1);
}

pub(crate) async fn live_descendants_are_counted_by_root(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let root = TestExecution::create_started(store, 1).await;
    for number in 2..=6 {
        let mut run = start_execution(store, number, |append| {
            let facts = append.start.as_mut().unwrap();
            facts.root_execution_id = (number != 3).then_some(root.id);
        })
        .await;
        if number == 4 {
            let end = run.end_request();
            run.append_to(store, end).await.unwrap();
        }
    }
    let count = async |max_count| store.count_live_descendants(root.id, max_count).await.unwrap();
    assert_eq!(count(10).await, 3);
    assert_eq!(count(2).await, 2);
}
