//! Users: they answer waits, resume paused runs, and check that slot limits are kept.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::execution::ControlRequest;
use noetl_api::signal::{ApproveRequest, SignalRequest};
use noetl_server::{CallContext, ControlPlane};
use noetl_store::prelude::*;
use noetl_store::{
    MatchKey, OpenWait, Slot, SlotSelector, SlotState, WaitFilter, WaitKind, WaitSelector,
};
use noetl_testkit::sim::ExternalResponse;
use noetl_types::limits::PageLimit;
use noetl_types::{Json, TenantId, Text};

use crate::simulation::playbooks::{self, SLOT_LIMITS};
use crate::simulation::server_link::ServerLink;
use crate::simulation::world::SimWorld;

const POLL_INTERVAL: Duration = Duration::from_millis(250);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers open waits until they are closed, and checks slot limits.
pub(crate) async fn answer_waits_loop(world: &Arc<SimWorld>) {
    let link = ServerLink::new(world, "crowd");
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        check_slot_limits(world).await;
        for execution in world.list_executions().await {
            if execution.view.status.is_terminal() {
                continue;
            }
            let filter = WaitFilter {
                tenant_id: TenantId::default(),
                selector: WaitSelector::InExecution(execution.execution_id),
                after: None,
                limit: PageLimit::MAX,
            };
            let waits = world.memory.list_waits(filter).await.expect("waits");
            for wait in waits {
                answer_wait(&link, &wait).await;
            }
        }
    }
}

async fn answer_wait(link: &ServerLink, wait: &OpenWait) {
    let execution_id = wait.position.execution_id;
    let name = wait.awaited.name.as_str();
    let is_approval = wait.kind == WaitKind::Approval;
    let response = playbooks::user_decision(wait.step.as_str(), &[name], is_approval);
    if response == ExternalResponse::NoResponse {
        return;
    }
    if is_approval {
        let decision = if response == ExternalResponse::Accept { "approve" } else { "reject" };
        let request = ApproveRequest {
            step: wait.step.clone(),
            index: wait.index.and_then(|index| u32::try_from(index).ok()),
            decision: decision.into(),
            comment: None,
            values: None,
        };
        let call = move |services: ControlPlane| {
            let request = request.clone();
            async move {
                services
                    .executions
                    .submit_approval(
                        CallContext::server(),
                        execution_id,
                        "person-0".into(),
                        request,
                    )
                    .await
            }
        };
        let description = format!("{decision} {execution_id} {}", wait.step);
        drop(link.send_request(description, REQUEST_TIMEOUT, call).await);
        return;
    }
    let request = SignalRequest {
        name: name.into(),
        key: wait.awaited.key.as_ref().map(|key| Text::from(key.as_str())),
        payload: Some(Json::object([("said", Json::from(name))])),
    };
    let description = format!("signal {execution_id} {name}");
    let call = move |services: ControlPlane| {
        let request = request.clone();
        async move {
            services
                .executions
                .send_signal(CallContext::server(), execution_id, Some("ann".into()), request)
                .await
        }
    };
    drop(link.send_request(description, REQUEST_TIMEOUT, call).await);
}

/// Resumes all paused executions.
pub(crate) async fn resume_paused(world: &Arc<SimWorld>) {
    let link = ServerLink::new(world, "warden");
    for execution in world.list_executions().await {
        let execution_id = execution.execution_id;
        if execution.view.paused && !execution.view.status.is_terminal() {
            let call = move |services: ControlPlane| async move {
                services
                    .executions
                    .resume_execution(
                        CallContext::server(),
                        execution_id,
                        None,
                        ControlRequest::default(),
                    )
                    .await
            };
            drop(link.send_request(format!("resume {execution_id}"), REQUEST_TIMEOUT, call).await);
        }
    }
}

/// Slots of a key, held and requested.
pub(crate) async fn list_slots(world: &SimWorld, key: &str) -> Vec<Slot> {
    let selector = SlotSelector::Key {
        tenant_id: TenantId::default(),
        key: MatchKey::from_text(&format!("={key}").into()),
    };
    let slots = world.memory.list_slots(selector, PageLimit::MAX).await;
    slots.expect("the model does not fail")
}

async fn check_slot_limits(world: &SimWorld) {
    for (key, limit) in SLOT_LIMITS {
        let slots = list_slots(world, key).await;
        let held = slots.iter().filter(|slot| slot.state != SlotState::Waiting);
        let held = held.count();
        if held > limit as usize {
            world.record_violation(format!("{held} runs hold a slot of `{key}`, limit {limit}"));
        }
    }
}
