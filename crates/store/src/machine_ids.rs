//! Allocation of machine ids.
//!
//! The table has at most 1024 rows. Every backend reads it whole under a lock, calls this module,
//! and writes the one row that changed.

use std::collections::BTreeMap;

use noetl_types::id::HighWaterMark;
use noetl_types::{IdGenerator, MachineId, Text, Timestamp};

use crate::model::{MachineIdRequest, MachineLease, MachineLeaseError, MachineRenewal};

/// The most recent lease of a machine id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MachineRecord {
    pub(crate) owner: Text,
    pub(crate) epoch: u64,
    pub(crate) lease_until: Timestamp,
    pub(crate) high_water: HighWaterMark,
}

/// All machine ids that were ever leased.
#[derive(Debug, Clone, Default)]
pub(crate) struct MachineTable(pub(crate) BTreeMap<MachineId, MachineRecord>);

impl MachineTable {
    pub(crate) fn grant_machine_id(
        &mut self,
        request: MachineIdRequest,
    ) -> Result<MachineLease, MachineLeaseError> {
        let machine_id = match request.requested_id {
            Some(requested) => self.check_free(requested, request.now)?,
            None => self.find_free(request.now)?,
        };
        let last = self.0.get(&machine_id);
        let machine = MachineRecord {
            epoch: last.map_or(1, |last| last.epoch.saturating_add(1)),
            high_water: last.map_or(HighWaterMark::NONE, |last| last.high_water),
            owner: request.owner,
            lease_until: request.lease_until,
        };
        let lease = machine.to_lease(machine_id, self.count_others(machine_id, request.now));
        self.0.insert(machine_id, machine);
        Ok(lease)
    }

    fn check_free(
        &self,
        machine_id: MachineId,
        now: Timestamp,
    ) -> Result<MachineId, MachineLeaseError> {
        match self.0.get(&machine_id) {
            Some(machine) if machine.lease_until > now => Err(MachineLeaseError::Taken {
                machine_id,
                owner: machine.owner.clone(),
                lease_until: machine.lease_until,
            }),
            Some(_) | None => Ok(machine_id),
        }
    }

    /// Returns an id that was never used, which is safest, or else the one that has been free the
    /// longest. An id whose mark is ahead of the clock is the last choice, because it generates
    /// nothing until the clock has passed the mark.
    fn find_free(&self, now: Timestamp) -> Result<MachineId, MachineLeaseError> {
        let unused = (0..=MachineId::MAX.get())
            .filter_map(|number| MachineId::new(number).ok())
            .find(|machine_id| !self.0.contains_key(machine_id));
        let longest_free = || {
            self.0
                .iter()
                .filter(|(_, machine)| machine.lease_until <= now)
                .min_by_key(|(machine_id, machine)| {
                    let generator = IdGenerator::new(**machine_id, machine.high_water);
                    let is_ahead = generator.check_clock(now.as_unix_ms()).is_err();
                    (is_ahead, machine.lease_until, **machine_id)
                })
                .map(|(machine_id, _)| *machine_id)
        };
        unused.or_else(longest_free).ok_or(MachineLeaseError::NoneFree)
    }

    /// Counts the other machine ids that are leased.
    fn count_others(&self, own: MachineId, now: Timestamp) -> usize {
        let is_other = |(machine_id, machine): &(&MachineId, &MachineRecord)| {
            **machine_id != own && machine.lease_until > now
        };
        self.0.iter().filter(is_other).count()
    }

    pub(crate) fn renew_machine_id(
        &mut self,
        renewal: &MachineRenewal,
    ) -> Result<MachineLease, MachineLeaseError> {
        let others = self.count_others(renewal.machine_id, renewal.now);
        let machine = self.0.get_mut(&renewal.machine_id);
        let Some(machine) = machine.filter(|machine| machine.epoch == renewal.epoch) else {
            return Err(MachineLeaseError::Lost);
        };
        machine.lease_until = renewal.lease_until;
        if renewal.is_release {
            // The new epoch rejects a late renewal of this lease.
            machine.epoch = machine.epoch.saturating_add(1);
            machine.high_water = renewal.high_water;
        } else {
            machine.high_water = machine.high_water.max(renewal.high_water);
        }
        Ok(machine.to_lease(renewal.machine_id, others))
    }
}

impl MachineRecord {
    fn to_lease(&self, machine_id: MachineId, others: usize) -> MachineLease {
        MachineLease {
            machine_id,
            epoch: self.epoch,
            high_water: self.high_water,
            lease_until: self.lease_until,
            other_leases: others,
        }
    }
}
