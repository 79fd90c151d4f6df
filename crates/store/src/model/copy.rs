//! Events that were written elsewhere and are copied into the log.

use noetl_types::limits::Priority;
use noetl_types::record::{Projected, Rejection};
use noetl_types::{
    EventId, EventType, ExecutionId, ExecutionStatus, NewEvent, PoolName, StoredEvent, TenantId,
    Timestamp,
};

use super::execution::{Execution, ExecutionFacts, ExecutionView, Origin};

/// An event of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The event.
    pub event_id: EventId,
}

/// What the log has of some events.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// Those of their executions that there are, by id.
    pub executions: Vec<Execution>,
    /// Those of the events that there are, by execution and id.
    pub events: Vec<StoredEvent>,
}

/// On whose behalf events are copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyScope {
    /// The execution's row says whose its events are; a new execution is the default tenant's.
    OfExecution,
    /// All of them are of one tenant; an execution of another one is none of the caller's business.
    Tenant(TenantId),
}

/// Events to be copied, in order.
#[derive(Debug, Clone)]
pub struct CopyBatch {
    /// The events, as they were read.
    pub events: Vec<Projected>,
    /// On whose behalf.
    pub scope: CopyScope,
    /// The server's clock.
    pub now: Timestamp,
    /// Whether each new event gets a row of the outbox.
    pub outbox: bool,
}

/// What became of an event that was to be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Copied {
    /// It is in the log from now on.
    Projected,
    /// It was there already, and says the same.
    Duplicate,
    /// It cannot be copied.
    Rejected(Rejection),
}

impl ExecutionFacts {
    /// Of an execution that is only known by its events.
    pub(crate) fn of_copy(first: &NewEvent) -> Self {
        Self {
            tenant_id: first.tenant_id.clone(),
            organization_id: first.organization_id.clone(),
            catalog_id: first.catalog_id,
            path: None,
            playbook_version: None,
            definition_sha256: None,
            parent_execution_id: first.parent_execution_id,
            root_execution_id: None,
            forked_from: None,
            origin: Origin::Projected,
            pool: PoolName::shared(),
            priority: Priority::default(),
            labels: None,
            started_at: first.created_at,
        }
    }
}

impl ExecutionView {
    /// Of an execution that has no events yet.
    pub(crate) fn of_copy() -> Self {
        Self {
            status: ExecutionStatus::Pending,
            paused: false,
            last_node_name: None,
            ended_at: None,
            error: None,
        }
    }

    /// Follows a copied event as far as lists show it. The first end counts: what comes behind it is
    /// kept, and changes nothing here.
    pub(crate) fn follow_copy(&mut self, event: &NewEvent) {
        let Some(meaning) = event.event_type.meaning() else {
            return;
        };
        if self.status.is_terminal() {
            return;
        }
        if let Some(status) = meaning.ends_as() {
            self.status = status;
            self.ended_at = Some(event.created_at);
            self.error = event.error.clone();
            return;
        }
        let is_of_a_step = matches!(
            meaning,
            EventType::StepEnter | EventType::StepExit | EventType::CommandCompleted
        );
        if is_of_a_step && event.node_name.is_some() {
            self.last_node_name = event.node_name.clone();
        }
        if meaning == EventType::StepEnter && self.status == ExecutionStatus::Pending {
            self.status = ExecutionStatus::Running;
        }
    }
}
