//! The people around: they answer what waits for them, let go on what was paused, and watch that no
//! more hold a slot than may.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::execution::SteerRequest;
use noetl_api::signal::{ApproveRequest, SignalRequest};
use noetl_server::Runtime;
use noetl_store::{
    Commons as _, MatchKey, OpenWait, Slot, SlotChoice, SlotState, WaitChoice, WaitFilter, WaitKind,
};
use noetl_testkit::sim::Word;
use noetl_types::limits::PageLimit;
use noetl_types::{Json, TenantId, Text};

use crate::books::{self, SLOTS};
use crate::line::Line;
use crate::world::World;

/// How often they look.
const LOOK: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers what waits, again and again until it does not wait any more.
pub(crate) async fn speak(world: &Arc<World>) {
    let line = Line::new(world, "crowd");
    loop {
        tokio::time::sleep(LOOK).await;
        watch_slots(world).await;
        for execution in world.executions().await {
            if execution.view.status.is_terminal() {
                continue;
            }
            let filter = WaitFilter {
                tenant_id: TenantId::default(),
                choice: WaitChoice::Of(execution.execution_id),
                after: None,
                limit: PageLimit::MAX,
            };
            let waits = world.memory.waits(filter).await.expect("waits");
            for wait in waits {
                answer(&line, &wait).await;
            }
        }
    }
}

async fn answer(line: &Line, wait: &OpenWait) {
    let execution_id = wait.place.execution_id;
    let name = wait.awaited.name.as_str();
    let is_approval = wait.kind == WaitKind::Approval;
    let word = books::word(wait.step.as_str(), &[name], is_approval);
    if word == Word::Silence {
        return;
    }
    if is_approval {
        let decision = if word == Word::Yes {
            "approve"
        } else {
            "reject"
        };
        let request = ApproveRequest {
            step: wait.step.clone(),
            index: wait.index.and_then(|index| u32::try_from(index).ok()),
            decision: decision.into(),
            comment: None,
            values: None,
        };
        let ask = move |runtime: Runtime| {
            let request = request.clone();
            async move {
                runtime
                    .approve(execution_id, "person-0".into(), request)
                    .await
            }
        };
        let what = format!("{decision} {execution_id} {}", wait.step);
        drop(line.ask(what, PATIENCE, ask).await);
        return;
    }
    let request = SignalRequest {
        name: name.into(),
        key: wait
            .awaited
            .key
            .as_ref()
            .map(|key| Text::from(key.as_str())),
        payload: Some(Json::object([("said", Json::from(name))])),
    };
    let what = format!("signal {execution_id} {name}");
    let ask = move |runtime: Runtime| {
        let request = request.clone();
        async move {
            runtime
                .signal(execution_id, Some("ann".into()), request)
                .await
        }
    };
    drop(line.ask(what, PATIENCE, ask).await);
}

/// Lets everything go on that was paused.
pub(crate) async fn let_go_on(world: &Arc<World>) {
    let line = Line::new(world, "warden");
    for execution in world.executions().await {
        let execution_id = execution.execution_id;
        if execution.view.paused && !execution.view.status.is_terminal() {
            let ask = move |runtime: Runtime| async move {
                runtime
                    .resume(execution_id, None, SteerRequest::default())
                    .await
            };
            drop(
                line.ask(format!("resume {execution_id}"), PATIENCE, ask)
                    .await,
            );
        }
    }
}

/// The slots of a key, held or waited for.
pub(crate) async fn slots(world: &World, key: &str) -> Vec<Slot> {
    let choice = SlotChoice::Key {
        tenant_id: TenantId::default(),
        key: MatchKey::of(&format!("={key}").into()),
    };
    let slots = world.memory.slots(choice, PageLimit::MAX).await;
    slots.expect("the model does not fail")
}

async fn watch_slots(world: &World) {
    for (key, limit) in SLOTS {
        let slots = slots(world, key).await;
        let held = slots.iter().filter(|slot| slot.state != SlotState::Waiting);
        let held = held.count();
        if held > limit as usize {
            world.violated(format!("{held} hold `{key}`, of which {limit} may"));
        }
    }
}
