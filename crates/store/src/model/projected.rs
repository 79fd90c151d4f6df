//! Events of other systems that are projected into the log.

use noetl_types::limits::Priority;
use noetl_types::record::{EventRejection, ProjectedEvent};
use noetl_types::{
    EventId, EventType, ExecutionId, ExecutionStatus, NewEvent, PoolName, StoredEvent, TenantId,
    Timestamp,
};

use super::execution::{Execution, ExecutionFacts, ExecutionOrigin, ExecutionView};

/// Key of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    pub execution_id: ExecutionId,
    pub event_id: EventId,
}

/// The events of a batch that are already in the log, and their executions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownEvents {
    /// Existing executions, ordered by id.
    pub executions: Vec<Execution>,
    /// Existing events, ordered by execution and id.
    pub events: Vec<StoredEvent>,
}

/// Tenant of projected events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectionScope {
    /// The tenant of the execution's row. A new execution belongs to the default tenant.
    ExecutionOwner,
    /// One tenant. Events of another tenant's execution are rejected.
    Tenant(TenantId),
}

/// Events to be projected, in order.
#[derive(Debug, Clone)]
pub struct ProjectionBatch {
    /// Parsed events.
    pub events: Vec<ProjectedEvent>,
    pub scope: ProjectionScope,
    pub now: Timestamp,
    /// True if each new event gets an outbox row.
    pub use_outbox: bool,
}

/// Outcome of the projection of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectOutcome {
    /// Added to the log.
    Projected,
    /// Already in the log with the same content.
    Duplicate,
    Rejected(EventRejection),
}

impl ExecutionFacts {
    /// Returns the attributes of an execution that is known only by its events.
    pub(crate) fn from_projected_event(first: &NewEvent) -> Self {
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
            origin: ExecutionOrigin::Projected,
            pool: PoolName::shared(),
            priority: Priority::default(),
            labels: None,
            started_at: first.created_at,
        }
    }
}

impl ExecutionView {
    /// Returns the view of an execution without events.
    pub fn new_projected() -> Self {
        Self {
            status: ExecutionStatus::Pending,
            paused: false,
            last_node_name: None,
            ended_at: None,
            error: None,
        }
    }

    /// Applies a projected event to the view. Only the first terminal event counts: later events
    /// are stored but do not change the view.
    pub fn apply_projected_event(&mut self, event: &NewEvent) {
        let Some(event_type) = event.event_type.resolved_type() else {
            return;
        };
        if self.status.is_terminal() {
            return;
        }
        if let Some(status) = event_type.terminal_status() {
            self.status = status;
            self.ended_at = Some(event.created_at);
            self.error.clone_from(&event.error);
            return;
        }
        let is_step_event = matches!(
            event_type,
            EventType::StepEnter | EventType::StepExit | EventType::CommandCompleted
        );
        if is_step_event && event.node_name.is_some() {
            self.last_node_name.clone_from(&event.node_name);
        }
        if event_type == EventType::StepEnter && self.status == ExecutionStatus::Pending {
            self.status = ExecutionStatus::Running;
        }
    }
}
