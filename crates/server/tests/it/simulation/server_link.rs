//! Messages to servers, which may be delayed, duplicated, or lost in either direction.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use noetl_server::ControlPlane;
use noetl_testkit::sim::SplitMix;

use crate::simulation::fault_plan::{random_duration, seeded_rng};
use crate::simulation::world::SimWorld;

/// Link from one client to the servers.
pub(crate) struct ServerLink {
    world: Arc<SimWorld>,
    name: String,
    rng: Mutex<SplitMix>,
}

/// Planned delivery of a message.
struct DeliveryPlan {
    server: usize,
    request_delay: Duration,
    answer_delay: Duration,
    is_request_lost: bool,
    is_answer_lost: bool,
    /// Server and delay of a duplicate delivery.
    duplicate: Option<(usize, Duration)>,
}

/// Time until a client gives up on a lost message.
const LOST_MESSAGE_TIMEOUT: Duration = Duration::from_millis(300);

impl ServerLink {
    pub(crate) fn new(world: &Arc<SimWorld>, name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            rng: Mutex::new(seeded_rng(world.seed, &format!("line {name}"))),
            world: Arc::clone(world),
            name,
        }
    }

    fn plan_delivery(&self) -> DeliveryPlan {
        let (world, fault_plan) = (&self.world, &self.world.fault_plan);
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let server = rng.number_below(fault_plan.servers);
        if world.has_stopped_faults() {
            return DeliveryPlan {
                server,
                request_delay: Duration::ZERO,
                answer_delay: Duration::ZERO,
                is_request_lost: false,
                is_answer_lost: false,
                duplicate: None,
            };
        }
        let is_duplicated = rng.draw_percent(fault_plan.request_duplicated);
        DeliveryPlan {
            server,
            request_delay: random_duration(&mut rng, fault_plan.message_ms),
            answer_delay: random_duration(&mut rng, fault_plan.message_ms),
            is_request_lost: rng.draw_percent(fault_plan.request_lost),
            is_answer_lost: rng.draw_percent(fault_plan.answer_lost),
            duplicate: is_duplicated.then(|| {
                let server = rng.number_below(fault_plan.servers);
                (server, random_duration(&mut rng, 10 * fault_plan.message_ms))
            }),
        }
    }

    /// Sends a request. Returns `None` if no answer arrives.
    pub(crate) async fn send_request<T, F, A>(
        &self,
        description: impl Display,
        timeout: Duration,
        call: F,
    ) -> Option<T>
    where
        T: Send + 'static,
        F: Fn(ControlPlane) -> A + Send + Sync + 'static,
        A: Future<Output = T> + Send + 'static,
    {
        let delivery = self.plan_delivery();
        let trace = &self.world.trace;
        let description = format!("{} → s{}: {description}", self.name, delivery.server);
        trace.record(&description);
        let call = Arc::new(call);
        if let Some((server, delay)) = delivery.duplicate {
            self.deliver_duplicate(server, delay, Arc::clone(&call), description.clone());
        }
        tokio::time::sleep(delivery.request_delay).await;
        if delivery.is_request_lost {
            trace.record(format_args!("request lost: {description}"));
            tokio::time::sleep(LOST_MESSAGE_TIMEOUT).await;
            return None;
        }
        let Some(running) = self.world.servers[delivery.server].running_server() else {
            trace.record(format_args!("server is down: {description}"));
            tokio::time::sleep(Duration::from_millis(50)).await;
            return None;
        };
        let answer = running.crashed.run_until_cancelled(call(running.services.clone()));
        let answer = tokio::time::timeout(timeout, answer).await.ok().flatten();
        if answer.is_none() {
            trace.record(format_args!("no answer: {description}"));
        }
        let answer = answer?;
        if delivery.is_answer_lost {
            trace.record(format_args!("answer lost: {description}"));
            tokio::time::sleep(LOST_MESSAGE_TIMEOUT).await;
            return None;
        }
        tokio::time::sleep(delivery.answer_delay).await;
        Some(answer)
    }

    /// Delivers the same request again and drops the answer.
    fn deliver_duplicate<T, F, A>(
        &self,
        server: usize,
        delay: Duration,
        call: Arc<F>,
        description: String,
    ) where
        T: Send + 'static,
        F: Fn(ControlPlane) -> A + Send + Sync + 'static,
        A: Future<Output = T> + Send + 'static,
    {
        let world = Arc::clone(&self.world);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            if let Some(running) = world.servers[server].running_server() {
                world.trace.record(format_args!("again, to s{server}: {description}"));
                drop(running.crashed.run_until_cancelled(call(running.services.clone())).await);
            }
        });
    }
}
