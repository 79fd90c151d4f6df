//! The table of machine ids, and who gets which.
//!
//! It has at most 1024 rows, so every backend reads it whole under a lock, asks here, and writes
//! the one row that changed.

use std::collections::BTreeMap;

use noetl_types::id::HighWater;
use noetl_types::{MachineId, Text, Timestamp};

use crate::model::{MachineLease, MachineRefused, MachineRenewal, MachineRequest};

/// The last lease of a machine id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) owner: Text,
    pub(crate) epoch: u64,
    pub(crate) lease_until: Timestamp,
    pub(crate) high_water: HighWater,
}

/// All machine ids that were ever leased.
#[derive(Debug, Clone, Default)]
pub(crate) struct Machines(pub(crate) BTreeMap<MachineId, Machine>);

impl Machines {
    pub(crate) fn lease(
        &mut self,
        request: MachineRequest,
    ) -> Result<MachineLease, MachineRefused> {
        let machine_id = match request.wanted {
            Some(wanted) => self.if_free(wanted, request.now)?,
            None => self.first_free(request.now)?,
        };
        let last = self.0.get(&machine_id);
        let machine = Machine {
            epoch: last.map_or(1, |last| last.epoch.saturating_add(1)),
            high_water: last.map_or(HighWater::NONE, |last| last.high_water),
            owner: request.owner,
            lease_until: request.lease_until,
        };
        let lease = machine.lease(machine_id, self.others(machine_id, request.now));
        self.0.insert(machine_id, machine);
        Ok(lease)
    }

    fn if_free(&self, wanted: MachineId, now: Timestamp) -> Result<MachineId, MachineRefused> {
        match self.0.get(&wanted) {
            Some(machine) if machine.lease_until > now => Err(MachineRefused::Taken {
                machine_id: wanted,
                owner: machine.owner.clone(),
                lease_until: machine.lease_until,
            }),
            Some(_) | None => Ok(wanted),
        }
    }

    /// One that was never used is safest; after that, the one that has been free the longest.
    fn first_free(&self, now: Timestamp) -> Result<MachineId, MachineRefused> {
        let unused = (0..=MachineId::MAX.get())
            .filter_map(|number| MachineId::new(number).ok())
            .find(|machine_id| !self.0.contains_key(machine_id));
        let longest_free = || {
            self.0
                .iter()
                .filter(|(_, machine)| machine.lease_until <= now)
                .min_by_key(|(machine_id, machine)| (machine.lease_until, **machine_id))
                .map(|(machine_id, _)| *machine_id)
        };
        unused.or_else(longest_free).ok_or(MachineRefused::NoneFree)
    }

    /// How many other machine ids are somebody's.
    fn others(&self, own: MachineId, now: Timestamp) -> usize {
        let is_other = |(machine_id, machine): &(&MachineId, &Machine)| {
            **machine_id != own && machine.lease_until > now
        };
        self.0.iter().filter(is_other).count()
    }

    pub(crate) fn renew(
        &mut self,
        renewal: &MachineRenewal,
    ) -> Result<MachineLease, MachineRefused> {
        let others = self.others(renewal.machine_id, renewal.now);
        let machine = self.0.get_mut(&renewal.machine_id);
        let Some(machine) = machine.filter(|machine| machine.epoch == renewal.epoch) else {
            return Err(MachineRefused::Lost);
        };
        machine.lease_until = renewal.lease_until;
        if renewal.gives_back {
            // A renewal that comes late finds its epoch gone.
            machine.epoch = machine.epoch.saturating_add(1);
            machine.high_water = renewal.high_water;
        } else {
            machine.high_water = machine.high_water.max(renewal.high_water);
        }
        Ok(machine.lease(renewal.machine_id, others))
    }
}

impl Machine {
    fn lease(&self, machine_id: MachineId, others: usize) -> MachineLease {
        MachineLease {
            machine_id,
            epoch: self.epoch,
            high_water: self.high_water,
            lease_until: self.lease_until,
            others,
        }
    }
}
