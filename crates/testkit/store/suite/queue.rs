//! Lists and counts of commands, and the leases of departed workers.

use noetl_types::limits::{PageLimit, Priority};
use noetl_types::{CommandId, CommandStatus, Millis, PoolName, TenantId, Timestamp};

use super::StoreFixture;
use super::fixture::{
    TestExecution, execution_facts, lease_request, lease_terms, test_time, worker_id,
};
use crate::{
    AppendRequest, CommandChange, CommandEnd, CommandFilter, CommandStatusFilter, LeaseBounds,
    PoolCount, Store,
};

fn all_commands() -> CommandFilter {
    CommandFilter {
        status: CommandStatusFilter::All,
        execution_id: None,
        ..CommandFilter::open_in_execution(TenantId::default(), TestExecution::new(1).id)
    }
}

async fn listed_command_ids(store: &dyn Store, filter: CommandFilter) -> Vec<CommandId> {
    let page = store.list_commands(filter).await.unwrap();
    assert_eq!(page.next, None, "the page is not full");
    page.commands.iter().map(|it| it.command_id).collect()
}

async fn close_command(store: &dyn Store, run: &mut TestExecution, command_id: CommandId) {
    let append = AppendRequest {
        commands: vec![CommandChange::Close {
            command_id,
            end: CommandEnd::Completed,
            at: test_time("12:00:05"),
            error: None,
        }],
        ..run.step_request()
    };
    run.append_to(store, append).await.unwrap();
}

pub(crate) async fn lists_commands_by_filter(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let mut other = TestExecution::create_started(store, 2).await;
    let gpu = PoolName::new("gpu").unwrap();
    let closed = run.issue_command(store).await;
    let waiting = run.issue_command_with(store, |it| it.held = true).await;
    let in_gpu_pool = run.issue_command_with(store, |it| it.pool = gpu.clone()).await;
    let leased =
        other.issue_command_with(store, |it| it.eager_lease = Some(lease_terms("w", 1))).await;
    close_command(store, &mut run, closed).await;

    assert_eq!(
        listed_command_ids(store, all_commands()).await,
        [closed, waiting, in_gpu_pool, leased]
    );
    let open_commands = CommandFilter::open_in_execution(TenantId::default(), run.id);
    assert_eq!(listed_command_ids(store, open_commands).await, [waiting, in_gpu_pool]);
    let with_status = |status| CommandFilter { status, ..all_commands() };
    assert_eq!(
        listed_command_ids(store, with_status(CommandStatusFilter::Open)).await,
        [waiting, in_gpu_pool, leased]
    );
    let claimed = CommandStatusFilter::Only(CommandStatus::Claimed);
    assert_eq!(listed_command_ids(store, with_status(claimed)).await, [leased]);
    let by_pool = CommandFilter { pool: Some(gpu), ..all_commands() };
    assert_eq!(listed_command_ids(store, by_pool).await, [in_gpu_pool]);
    let by_worker = |name: &str| CommandFilter { worker: Some(worker_id(name)), ..all_commands() };
    assert_eq!(listed_command_ids(store, by_worker("w")).await, [leased]);
    assert!(listed_command_ids(store, by_worker("nobody")).await.is_empty());
    let other_tenant =
        CommandFilter { tenant_id: TenantId::new("acme").unwrap(), ..all_commands() };
    assert!(listed_command_ids(store, other_tenant).await.is_empty());
}

pub(crate) async fn commands_are_listed_per_tenant(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = TenantId::new("acme").unwrap();
    let mut run = TestExecution::new(1);
    let mut append = run.start_request();
    append.start = Some(crate::ExecutionFacts { tenant_id: acme.clone(), ..execution_facts() });
    run.append_to(store, append).await.unwrap();
    let command = run.issue_command(store).await;
    assert!(listed_command_ids(store, all_commands()).await.is_empty());
    let filter = CommandFilter { tenant_id: acme, ..all_commands() };
    assert_eq!(listed_command_ids(store, filter).await, [command]);
}

pub(crate) async fn pages_through_commands(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let mut issued = Vec::new();
    for number in 0..7 {
        let priority = Priority::clamped(number);
        issued.push(run.issue_command_with(store, |it| it.priority = priority).await);
    }
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let filter = CommandFilter { after, limit: PageLimit::clamped(3), ..all_commands() };
        let page = store.list_commands(filter).await.unwrap();
        assert!(page.commands.len() <= 3);
        found.extend(page.commands.iter().map(|it| it.command_id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, issued);
}

pub(crate) async fn leases_of_departed_worker_expire(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    for _ in 0..3 {
        run.issue_command(store).await;
    }
    let leased = store.lease_commands(lease_request("leaver", 1, 2)).await.unwrap();
    let other_leases = store.lease_commands(lease_request("stayer", 2, 1)).await.unwrap();
    assert_eq!((leased.len(), other_leases.len()), (2, 1));
    let now = test_time("12:00:30");
    let leaver = worker_id("leaver");
    let (tenant, other_tenant) = (TenantId::default(), TenantId::new("acme").unwrap());
    assert_eq!(store.expire_worker_leases(&other_tenant, &leaver, now).await, Ok(0));
    assert_eq!(store.expire_worker_leases(&tenant, &leaver, now).await, Ok(2));
    let expired = store.list_expired_leases(now, PageLimit::default()).await.unwrap();
    let mut expected: Vec<_> = leased.into_iter().map(|it| it.command).collect();
    for command in &mut expected {
        if let Some(lease) = &mut command.lease {
            lease.until = now;
        }
    }
    assert_eq!(expired, expected);
    // All leases have already expired, and a later time extends none of them.
    assert_eq!(store.expire_worker_leases(&tenant, &leaver, now).await, Ok(0));
    assert_eq!(store.expire_worker_leases(&tenant, &leaver, test_time("12:00:40")).await, Ok(0));
    assert_eq!(store.expire_worker_leases(&tenant, &worker_id("nobody"), now).await, Ok(0));
}

/// A lease that a clock one day ahead granted ends soon, whether its worker lives or not.
pub(crate) async fn leases_of_clock_ahead_are_bounded(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    for _ in 0..3 {
        run.issue_command(store).await;
    }
    let now = test_time("12:00:00");
    let lease_at = |name: &str, token, time: Timestamp| {
        let mut request = lease_request(name, token, 1);
        request.terms.now = time;
        request.terms.lease_until = time.saturating_add(Millis::from_secs(60));
        request
    };
    let lease = async |request| store.lease_commands(request).await.unwrap().remove(0).command;
    let tomorrow = now.saturating_add(Millis::from_days(1));
    lease(lease_at("tomorrow", 1, tomorrow)).await;
    // Within the longest lease, the time of the grant shows that the clock was ahead.
    lease(lease_at("soon", 2, now.saturating_add(Millis::from_secs(90)))).await;
    let valid = lease(lease_at("valid", 3, now)).await;
    let bounds = LeaseBounds { new: Millis::from_secs(30), longest: Millis::from_hours(1) };
    assert_eq!(store.bound_leases(now, bounds).await, Ok(2));
    assert_eq!(store.bound_leases(now, bounds).await, Ok(0));
    let soon = now.saturating_add(Millis::from_secs(30));
    let limit = PageLimit::default();
    assert_eq!(store.list_expired_leases(now, limit).await.unwrap(), []);
    let expired = store.list_expired_leases(soon, limit).await.unwrap();
    assert_eq!(expired.len(), 2);
    assert!(expired.iter().all(|command| command.command_id != valid.command_id));
}

pub(crate) async fn pool_counts_pending_and_leased(fixture: &StoreFixture) {
    let store = &*fixture.store;
    assert_eq!(store.pool_counts().await, Ok(vec![]));
    let mut run = TestExecution::create_started(store, 1).await;
    let pool = |name: &str| PoolName::new(name).unwrap();
    for name in ["b", "b", "b", "a"] {
        run.issue_command_with(store, |it| it.pool = pool(name)).await;
    }
    run.issue_command_with(store, |it| it.held = true).await;
    let closed = run.issue_command_with(store, |it| it.pool = pool("c")).await;
    close_command(store, &mut run, closed).await;
    for (token, time) in [(1, "12:00:07"), (2, "12:00:03")] {
        let mut request = lease_request("w", token, 1);
        request.pool = pool("b");
        request.terms.now = test_time(time);
        assert_eq!(store.lease_commands(request).await.unwrap().len(), 1);
    }
    let count = |name: &str, pending, leased, oldest_lease| PoolCount {
        pool: pool(name),
        pending,
        leased,
        oldest_lease,
    };
    let expected = vec![count("a", 1, 0, None), count("b", 1, 2, Some(test_time("12:00:03")))];
    assert_eq!(store.pool_counts().await, Ok(expected));
}
