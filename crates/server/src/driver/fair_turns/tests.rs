use super::*;

fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

/// Makes turns wait, takes them one at a time, and returns the tenants in the order of their
/// turns.
async fn order_of_turns(
    waiting: &[(&str, usize, TurnOrder)],
    weights: &[(&str, u32)],
    events_per_turn: usize,
) -> Vec<TenantId> {
    let weights = weights.iter().map(|(name, weight)| (tenant(name), *weight)).collect();
    let turns = FairTurns::with_capacity(1, weights);
    let first = turns.acquire_turn(&tenant("first"), TurnOrder::Last).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for (name, count, turn_order) in waiting {
        for _ in 0..*count {
            let (turns, tenant_id) = (Arc::clone(&turns), tenant(name));
            let (order, turn_order) = (Arc::clone(&order), *turn_order);
            tasks.push(tokio::spawn(async move {
                let mut permit = turns.acquire_turn(&tenant_id, turn_order).await.unwrap();
                permit.charge_events(events_per_turn);
                order.lock().unwrap().push(tenant_id);
            }));
        }
    }
    // On one thread, all tasks begin to wait before this one continues.
    tokio::task::yield_now().await;
    drop(first);
    for task in tasks {
        task.await.unwrap();
    }
    let order = order.lock().unwrap();
    order.clone()
}

fn count(order: &[TenantId], name: &str) -> usize {
    order.iter().filter(|turn| **turn == tenant(name)).count()
}

#[tokio::test]
async fn tenant_with_many_turns_does_not_delay_others() {
    let waiting = [("busy", 4_000, TurnOrder::Last), ("small", 1, TurnOrder::Last)];
    let order = order_of_turns(&waiting, &[], 4).await;
    assert_eq!(order.len(), 4_001);
    let position = order.iter().position(|turn| *turn == tenant("small")).unwrap();
    assert!(position < 10, "{position}");
}

#[tokio::test]
async fn turns_follow_the_weights() {
    let waiting = [("heavy", 3_000, TurnOrder::Last), ("light", 3_000, TurnOrder::Last)];
    let order = order_of_turns(&waiting, &[("heavy", 3)], 4).await;
    let (heavy, light) = (count(&order[..1_000], "heavy"), count(&order[..1_000], "light"));
    assert!((700..800).contains(&heavy), "{heavy} turns to {light}");
}

#[tokio::test]
async fn cancellations_go_first_among_the_turns_of_a_tenant() {
    let (turns, a) = (FairTurns::with_capacity(1, BTreeMap::new()), tenant("a"));
    let first = turns.acquire_turn(&a, TurnOrder::Last).await;
    let last = turns.acquire_turn(&a, TurnOrder::Last);
    let urgent = turns.acquire_turn(&a, TurnOrder::First);
    let mut last = std::pin::pin!(last);
    let mut urgent = std::pin::pin!(urgent);
    assert!(futures_util::poll!(&mut last).is_pending());
    assert!(futures_util::poll!(&mut urgent).is_pending());
    drop(first);
    let permit = urgent.await;
    assert!(futures_util::poll!(&mut last).is_pending());
    drop(permit);
    drop(last.await);
}

#[tokio::test]
async fn abandoned_turn_is_given_to_the_next() {
    let (turns, a) = (FairTurns::with_capacity(1, BTreeMap::new()), tenant("a"));
    let first = turns.acquire_turn(&a, TurnOrder::Last).await;
    let mut abandoned = Box::pin(turns.acquire_turn(&a, TurnOrder::Last));
    assert!(futures_util::poll!(&mut abandoned).is_pending());
    drop(first);
    // Granted, but never received.
    drop(abandoned);
    drop(turns.acquire_turn(&tenant("b"), TurnOrder::Last).await);
}

#[tokio::test]
async fn waiting_turns_of_a_tenant_are_bounded() {
    let (turns, a) = (FairTurns::with_capacity(1, BTreeMap::new()), tenant("a"));
    let first = turns.acquire_turn(&a, TurnOrder::Last).await;
    let mut waiting: Vec<_> =
        (0..MAX_WAITING_TURNS).map(|_| Box::pin(turns.acquire_turn(&a, TurnOrder::Last))).collect();
    for turn in &mut waiting {
        assert!(futures_util::poll!(turn).is_pending());
    }
    assert!(turns.acquire_turn(&a, TurnOrder::Last).await.is_none());
    // Other tenants and cancellations still wait.
    let b = tenant("b");
    let mut urgent = Box::pin(turns.acquire_turn(&a, TurnOrder::First));
    let mut other = Box::pin(turns.acquire_turn(&b, TurnOrder::Last));
    assert!(futures_util::poll!(&mut urgent).is_pending());
    assert!(futures_util::poll!(&mut other).is_pending());
    drop(first);
    assert!(urgent.await.is_some());
}
