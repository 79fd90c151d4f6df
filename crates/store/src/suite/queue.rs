//! The queue as it is looked at, and workers that go away.

use noetl_types::limits::{PageLimit, Priority};
use noetl_types::{CommandId, CommandStatus, PoolName, TenantId};

use super::Bench;
use super::fixture::{Run, at, claim, facts, lease_of, worker};
use crate::{Append, CommandChange, CommandChoice, CommandEnd, CommandFilter, PoolCount, Store};

fn all() -> CommandFilter {
    CommandFilter {
        choice: CommandChoice::All,
        execution_id: None,
        ..CommandFilter::open_of(TenantId::default(), Run::new(1).id)
    }
}

async fn ids(store: &dyn Store, filter: CommandFilter) -> Vec<CommandId> {
    let page = store.commands(filter).await.unwrap();
    assert_eq!(page.next, None, "the page is not full");
    page.commands.iter().map(|it| it.command_id).collect()
}

async fn close(store: &dyn Store, run: &mut Run, command_id: CommandId) {
    let append = Append {
        commands: vec![CommandChange::Close {
            command_id,
            end: CommandEnd::Completed,
            at: at("12:00:05"),
            error: None,
        }],
        ..run.step()
    };
    run.write(store, append).await.unwrap();
}

pub(crate) async fn lists_of_commands(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let mut other = Run::started(store, 2).await;
    let gpu = PoolName::new("gpu").unwrap();
    let done = run.issue(store).await;
    let waiting = run.issue_with(store, |it| it.held = true).await;
    let elsewhere = run.issue_with(store, |it| it.pool = gpu.clone()).await;
    let leased = other
        .issue_with(store, |it| it.born_claimed = Some(claim("w", 1)))
        .await;
    close(store, &mut run, done).await;

    assert_eq!(ids(store, all()).await, [done, waiting, elsewhere, leased]);
    let open_of = CommandFilter::open_of(TenantId::default(), run.id);
    assert_eq!(ids(store, open_of).await, [waiting, elsewhere]);
    let of = |choice| CommandFilter { choice, ..all() };
    assert_eq!(
        ids(store, of(CommandChoice::Open)).await,
        [waiting, elsewhere, leased]
    );
    let claimed = CommandChoice::Only(CommandStatus::Claimed);
    assert_eq!(ids(store, of(claimed)).await, [leased]);
    let of_pool = CommandFilter {
        pool: Some(gpu),
        ..all()
    };
    assert_eq!(ids(store, of_pool).await, [elsewhere]);
    let of_worker = |name: &str| CommandFilter {
        worker: Some(worker(name)),
        ..all()
    };
    assert_eq!(ids(store, of_worker("w")).await, [leased]);
    assert!(ids(store, of_worker("nobody")).await.is_empty());
    let stranger = CommandFilter {
        tenant_id: TenantId::new("acme").unwrap(),
        ..all()
    };
    assert!(ids(store, stranger).await.is_empty());
}

pub(crate) async fn commands_belong_to_a_tenant(bench: &Bench) {
    let store = &*bench.store;
    let acme = TenantId::new("acme").unwrap();
    let mut run = Run::new(1);
    let mut append = run.start();
    append.start = Some(crate::ExecutionFacts {
        tenant_id: acme.clone(),
        ..facts()
    });
    run.write(store, append).await.unwrap();
    let command = run.issue(store).await;
    assert!(ids(store, all()).await.is_empty());
    let theirs = CommandFilter {
        tenant_id: acme,
        ..all()
    };
    assert_eq!(ids(store, theirs).await, [command]);
}

pub(crate) async fn pages_of_commands(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let mut issued = Vec::new();
    for number in 0..7 {
        let priority = Priority::clamped(number);
        issued.push(run.issue_with(store, |it| it.priority = priority).await);
    }
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let filter = CommandFilter {
            after,
            limit: PageLimit::clamped(3),
            ..all()
        };
        let page = store.commands(filter).await.unwrap();
        assert!(page.commands.len() <= 3);
        found.extend(page.commands.iter().map(|it| it.command_id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, issued);
}

pub(crate) async fn the_leases_of_a_worker_that_leaves_end(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    for _ in 0..3 {
        run.issue(store).await;
    }
    let mine = store.lease(lease_of("leaver", 1, 2)).await.unwrap();
    let others = store.lease(lease_of("stayer", 2, 1)).await.unwrap();
    assert_eq!((mine.len(), others.len()), (2, 1));
    let now = at("12:00:30");
    let leaver = worker("leaver");
    let (tenant, stranger) = (TenantId::default(), TenantId::new("acme").unwrap());
    assert_eq!(store.release_worker(&stranger, &leaver, now).await, Ok(0));
    assert_eq!(store.release_worker(&tenant, &leaver, now).await, Ok(2));
    let expired = store.expired(now, PageLimit::default()).await.unwrap();
    let mut expected: Vec<_> = mine.into_iter().map(|it| it.command).collect();
    for command in &mut expected {
        if let Some(lease) = &mut command.lease {
            lease.until = now;
        }
    }
    assert_eq!(expired, expected);
    // Nothing has longer to go, and a later time lengthens nothing.
    assert_eq!(store.release_worker(&tenant, &leaver, now).await, Ok(0));
    assert_eq!(
        store.release_worker(&tenant, &leaver, at("12:00:40")).await,
        Ok(0)
    );
    assert_eq!(
        store.release_worker(&tenant, &worker("nobody"), now).await,
        Ok(0)
    );
}

pub(crate) async fn pools_tell_how_busy_they_are(bench: &Bench) {
    let store = &*bench.store;
    assert_eq!(store.pool_counts().await, Ok(vec![]));
    let mut run = Run::started(store, 1).await;
    let pool = |name: &str| PoolName::new(name).unwrap();
    for name in ["b", "b", "b", "a"] {
        run.issue_with(store, |it| it.pool = pool(name)).await;
    }
    run.issue_with(store, |it| it.held = true).await;
    let done = run.issue_with(store, |it| it.pool = pool("c")).await;
    close(store, &mut run, done).await;
    for (token, time) in [(1, "12:00:07"), (2, "12:00:03")] {
        let mut request = lease_of("w", token, 1);
        request.pool = pool("b");
        request.claim.now = at(time);
        assert_eq!(store.lease(request).await.unwrap().len(), 1);
    }
    let count = |name: &str, pending, leased, oldest_lease| PoolCount {
        pool: pool(name),
        pending,
        leased,
        oldest_lease,
    };
    let expected = vec![
        count("a", 1, 0, None),
        count("b", 1, 2, Some(at("12:00:03"))),
    ];
    assert_eq!(store.pool_counts().await, Ok(expected));
}
