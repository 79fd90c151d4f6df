//! Lists of executions and of processes.

use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionStatus, PlaybookPath, RuntimeId, TenantId, Text};

use super::Bench;
use super::fixture::{Run, all_executions, at, facts};
use crate::{Append, ExecutionFilter, NewRuntime, Origin, RuntimeKind, Store};

async fn numbers(store: &dyn Store, filter: ExecutionFilter) -> Vec<i64> {
    let page = store.executions(filter).await.unwrap();
    let number = |id: i64| (id - Run::new(0).id.get()) / 1_000_000;
    page.executions
        .iter()
        .map(|execution| number(execution.execution_id.get()))
        .collect()
}

async fn start(store: &dyn Store, number: i64, change: impl FnOnce(&mut Append)) -> Run {
    let mut run = Run::new(number);
    let mut append = run.start();
    change(&mut append);
    run.write(store, append).await.unwrap();
    run
}

pub(crate) async fn pages_of_executions(bench: &Bench) {
    let store = &*bench.store;
    for number in 1..=7 {
        start(store, number, |append| {
            // Two at a time have the same start, so that a page may end between equals.
            let minute = format!("12:0{}:00", number / 2);
            append.start.as_mut().unwrap().started_at = at(&minute);
        })
        .await;
    }
    let mut filter = ExecutionFilter {
        limit: PageLimit::new(3).unwrap(),
        ..all_executions()
    };
    let mut pages = Vec::new();
    loop {
        let page = store.executions(filter.clone()).await.unwrap();
        pages.push(numbers(store, filter.clone()).await);
        let Some(next) = page.next else { break };
        filter.after = Some(next);
    }
    assert_eq!(pages, [vec![7, 6, 5], vec![4, 3, 2], vec![1]]);
}

pub(crate) async fn filters(bench: &Bench) {
    let store = &*bench.store;
    let parent = start(store, 1, |_| {}).await;
    start(store, 2, |append| {
        append.start.as_mut().unwrap().parent_execution_id = Some(parent.id);
    })
    .await;
    start(store, 3, |append| {
        append.start.as_mut().unwrap().path = Some(PlaybookPath::new("etl/hourly").unwrap());
    })
    .await;
    start(store, 4, |append| {
        append.start.as_mut().unwrap().tenant_id = TenantId::new("acme").unwrap();
    })
    .await;
    let mut ended = Run::started(store, 5).await;
    let append = ended.end();
    ended.write(store, append).await.unwrap();

    assert_eq!(numbers(store, all_executions()).await, [5, 3, 2, 1]);
    let of_status = |status| ExecutionFilter {
        status: Some(status),
        ..all_executions()
    };
    let completed = of_status(ExecutionStatus::Completed);
    assert_eq!(numbers(store, completed).await, [5]);
    let failed = of_status(ExecutionStatus::Failed);
    assert_eq!(numbers(store, failed).await, [0_i64; 0]);
    let of_path = ExecutionFilter {
        path: facts().path,
        status: Some(ExecutionStatus::Running),
        ..all_executions()
    };
    assert_eq!(numbers(store, of_path).await, [2, 1]);
    let of_parent = ExecutionFilter {
        parent_execution_id: Some(parent.id),
        ..all_executions()
    };
    assert_eq!(numbers(store, of_parent).await, [2]);
    let of_tenant = ExecutionFilter {
        tenant_id: TenantId::new("acme").unwrap(),
        ..all_executions()
    };
    assert_eq!(numbers(store, of_tenant).await, [4]);
}

pub(crate) async fn runtimes_are_heard_of(bench: &Bench) {
    let store = &*bench.store;
    let runtime = |id: i64, name: &str, time: &str| NewRuntime {
        runtime_id: RuntimeId::new(id).unwrap(),
        kind: RuntimeKind::WorkerPool,
        name: Text::from(name),
        uri: Some(Text::from("http://worker")),
        detail: Some(noetl_types::Json::object([("capacity", 4.into())])),
        now: at(time),
    };
    let pool = RuntimeKind::WorkerPool;
    let first = store
        .register_runtime(runtime(1, "b", "12:00:00"))
        .await
        .unwrap();
    store
        .register_runtime(runtime(2, "a", "12:00:00"))
        .await
        .unwrap();
    assert!(
        store
            .heartbeat(pool, &"a".into(), at("12:01:00"))
            .await
            .unwrap()
    );
    assert!(
        !store
            .heartbeat(pool, &"c".into(), at("12:01:00"))
            .await
            .unwrap()
    );
    assert!(
        !store
            .heartbeat(RuntimeKind::ServerApi, &"a".into(), at("12:01:00"))
            .await
            .unwrap()
    );
    // Who registers again keeps the id and the time of the first registration.
    let again = store
        .register_runtime(runtime(3, "b", "12:02:00"))
        .await
        .unwrap();
    assert_eq!(again.runtime_id, first.runtime_id);
    assert_eq!(again.created_at, first.created_at);
    assert_eq!(again.heartbeat, at("12:02:00"));
    let all = store.runtimes(pool).await.unwrap();
    let seen: Vec<_> = all
        .iter()
        .map(|runtime| (runtime.name.as_str(), runtime.heartbeat))
        .collect();
    assert_eq!(seen, [("a", at("12:01:00")), ("b", at("12:02:00"))]);
    assert_eq!(all[1], again);
    assert_eq!(store.runtimes(RuntimeKind::Broker).await.unwrap(), []);
    assert!(store.remove_runtime(pool, &"a".into()).await.unwrap());
    assert!(!store.remove_runtime(pool, &"a".into()).await.unwrap());
    let server = RuntimeKind::ServerApi;
    assert!(!store.remove_runtime(server, &"b".into()).await.unwrap());
    let left = store.runtimes(pool).await.unwrap();
    let names: Vec<_> = left.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["b"]);
}

pub(crate) async fn open_children_of_an_execution(bench: &Bench) {
    let store = &*bench.store;
    let parent = Run::started(store, 1).await;
    let mut children = Vec::new();
    for number in 2..=6 {
        let mut run = Run::new(number);
        let mut start = run.start();
        if let Some(facts) = &mut start.start {
            facts.parent_execution_id = Some(parent.id);
        }
        run.write(store, start).await.unwrap();
        children.push(run);
    }
    let end = children[1].end();
    children[1].write(store, end).await.unwrap();
    let ids = |page: Vec<crate::Execution>| -> Vec<_> {
        page.iter().map(|child| child.execution_id).collect()
    };
    let two = PageLimit::new(2).unwrap();
    let first = ids(store.open_children(parent.id, None, two).await.unwrap());
    assert_eq!(first, [children[0].id, children[2].id]);
    let after = Some(children[2].id);
    let rest = ids(store.open_children(parent.id, after, two).await.unwrap());
    assert_eq!(rest, [children[3].id, children[4].id]);
    let none = store.open_children(children[0].id, None, two).await;
    assert_eq!(none.unwrap(), []);
}

pub(crate) async fn everything_is_counted(bench: &Bench) {
    let store = &*bench.store;
    let tenant = TenantId::default();
    let empty = store.counts(&tenant).await.unwrap();
    assert_eq!(empty, crate::Counts::default());
    for number in 1..=3 {
        let mut run = Run::started(store, number).await;
        if number == 2 {
            let end = run.end();
            run.write(store, end).await.unwrap();
        }
    }
    let counts = store.counts(&tenant).await.unwrap();
    let by_status: Vec<_> = counts.executions.into_iter().collect();
    let mut expected = [
        (ExecutionStatus::Running, 2),
        (ExecutionStatus::Completed, 1),
    ];
    expected.sort_unstable();
    assert_eq!(by_status, expected);
    let stranger = TenantId::new("acme").unwrap();
    assert_eq!(store.counts(&stranger).await.unwrap(), empty);
    // All tenants are counted where nobody asks for one.
    start(store, 4, |append| {
        append.start.as_mut().unwrap().tenant_id = stranger;
    })
    .await;
    let all = store.executions_by_status().await.unwrap();
    let all: Vec<_> = all.into_iter().collect();
    let mut expected = [
        (ExecutionStatus::Running, 3),
        (ExecutionStatus::Completed, 1),
    ];
    expected.sort_unstable();
    assert_eq!(all, expected);
}

pub(crate) async fn what_goes_on_is_counted_up_to_a_number(bench: &Bench) {
    let store = &*bench.store;
    let tenant = TenantId::default();
    let live = async |most| store.live_executions(&tenant, most).await.unwrap();
    assert_eq!(live(10).await, 0);
    for number in 1..=5 {
        let mut run = Run::started(store, number).await;
        if number == 2 {
            let end = run.end();
            run.write(store, end).await.unwrap();
        }
    }
    // What is copied is driven elsewhere.
    start(store, 6, |append| {
        append.start.as_mut().unwrap().origin = Origin::Projected;
    })
    .await;
    start(store, 7, |append| {
        append.start.as_mut().unwrap().tenant_id = TenantId::new("acme").unwrap();
    })
    .await;
    assert_eq!(live(10).await, 4);
    assert_eq!(live(4).await, 4);
    assert_eq!(live(3).await, 3);
    let acme = TenantId::new("acme").unwrap();
    assert_eq!(store.live_executions(&acme, 10).await.unwrap(), 1);
}
