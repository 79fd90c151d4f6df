//! Registered processes, and the machine ids that they lease.

use async_trait::async_trait;
use noetl_types::{MachineId, Text, Timestamp};

use crate::error::StoreError;
use crate::machine_ids::{MachineRecord, MachineTable};
use crate::model::{
    MachineIdRequest, MachineLease, MachineLeaseError, MachineRenewal, RegisteredRuntime,
    RuntimeKind, RuntimeRegistration,
};
use crate::row::{MACHINE, RUNTIME, ToRow as _, cells};
use crate::sql::{Database, Durability, PlanMode, Session, Statement};

/// The part of a [`crate::Store`] for processes.
#[async_trait]
pub trait RuntimeStore {
    /// Registers a process, or updates its registration.
    async fn register_runtime(
        &self,
        runtime: RuntimeRegistration,
    ) -> Result<RegisteredRuntime, StoreError>;

    /// Records that a process is alive. Returns `false` if it must register again.
    async fn record_heartbeat(
        &self,
        kind: RuntimeKind,
        name: &Text,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Returns the processes of a kind, ordered by name.
    async fn list_runtimes(&self, kind: RuntimeKind) -> Result<Vec<RegisteredRuntime>, StoreError>;

    /// Deletes the registration of a process that has shut down. Returns `false` if it does not
    /// exist.
    async fn remove_runtime(&self, kind: RuntimeKind, name: &Text) -> Result<bool, StoreError>;

    /// Leases a machine id that no other process holds: one that was never used or, if there is
    /// none, the one whose lease expired first.
    async fn lease_machine_id(
        &self,
        request: MachineIdRequest,
    ) -> Result<MachineLease, MachineLeaseError>;

    /// Renews the lease of a machine id and raises its high-water mark.
    async fn renew_machine_lease(
        &self,
        renewal: MachineRenewal,
    ) -> Result<MachineLease, MachineLeaseError>;
}

/// Registers a process. A repeated registration keeps its id and its creation time.
static REGISTER_RUNTIME: Statement = Statement::insert(
    &RUNTIME,
    "ON CONFLICT (kind, name) DO UPDATE
     SET uri = excluded.uri, detail = excluded.detail, heartbeat = excluded.heartbeat
     RETURNING runtime_id, kind, name, uri, detail, heartbeat, created_at",
)
.with_auto_plan();

static RECORD_HEARTBEAT: Statement =
    Statement::new("UPDATE runtime SET heartbeat = $3::timestamptz WHERE kind = $1 AND name = $2");

static LIST_RUNTIMES: Statement =
    Statement::select(&RUNTIME, "WHERE kind = $1 ORDER BY name").with_auto_plan();

static DELETE_RUNTIME: Statement =
    Statement::new("DELETE FROM runtime WHERE kind = $1 AND name = $2").with_auto_plan();

static SELECT_MACHINES: Statement = Statement::select(&MACHINE, "");

static PUT_MACHINE: Statement = Statement::upsert(&MACHINE, "machine_id");

/// A change of the table of machines.
enum MachineChange {
    Lease(MachineIdRequest),
    Renew(MachineRenewal),
}

/// Applies a change to the table of machines under its lock, and writes the one row that it
/// changed.
async fn change_machines(
    session: &mut dyn Session,
    change: &MachineChange,
) -> Result<Result<MachineLease, MachineLeaseError>, StoreError> {
    session.lock_by_name("machine ids").await?;
    let machines = session.query::<(MachineId, MachineRecord)>(&SELECT_MACHINES, vec![]).await?;
    let mut machines = MachineTable(machines.into_iter().collect());
    let outcome = match change {
        MachineChange::Lease(request) => machines.grant_machine_id(request.clone()),
        MachineChange::Renew(renewal) => machines.renew_machine_id(renewal),
    };
    if let Ok(lease) = &outcome
        && let Some(machine) = machines.0.remove(&lease.machine_id)
    {
        session.execute(&PUT_MACHINE, (lease.machine_id, machine).to_row()).await?;
    }
    Ok(outcome)
}

#[async_trait]
impl<D: Database> RuntimeStore for D {
    async fn register_runtime(
        &self,
        runtime: RuntimeRegistration,
    ) -> Result<RegisteredRuntime, StoreError> {
        let row = runtime.into_runtime().to_row();
        let stored = self.execute_returning(Durability::Synced, &REGISTER_RUNTIME, row).await?;
        let missing = || StoreError::fatal("the registration of a runtime returned no row");
        stored.into_iter().next().ok_or_else(missing)
    }

    async fn record_heartbeat(
        &self,
        kind: RuntimeKind,
        name: &Text,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let params = cells![kind, name, now];
        Ok(self.execute(Durability::Unsynced, &RECORD_HEARTBEAT, params).await? > 0)
    }

    async fn list_runtimes(&self, kind: RuntimeKind) -> Result<Vec<RegisteredRuntime>, StoreError> {
        self.query(&LIST_RUNTIMES, cells![kind]).await
    }

    async fn remove_runtime(&self, kind: RuntimeKind, name: &Text) -> Result<bool, StoreError> {
        Ok(self.execute(Durability::Synced, &DELETE_RUNTIME, cells![kind, name]).await? > 0)
    }

    async fn lease_machine_id(
        &self,
        request: MachineIdRequest,
    ) -> Result<MachineLease, MachineLeaseError> {
        let change = MachineChange::Lease(request);
        self.transaction(Durability::Synced, PlanMode::Auto, change, |session, change| {
            Box::pin(change_machines(session, change))
        })
        .await?
    }

    async fn renew_machine_lease(
        &self,
        renewal: MachineRenewal,
    ) -> Result<MachineLease, MachineLeaseError> {
        let change = MachineChange::Renew(renewal);
        self.transaction(Durability::Synced, PlanMode::Auto, change, |session, change| {
            Box::pin(change_machines(session, change))
        })
        .await?
    }
}
