//! Serde form of steps in a snapshot: their indexes. A snapshot belongs to the one definition to
//! which its execution is pinned.

use noetl_playbook::graph::StepIndex;
use serde::{Deserialize, Deserializer, Serializer};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
pub(super) fn serialize<S: Serializer>(step: &StepIndex, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(step.0)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<StepIndex, D::Error> {
    u32::deserialize(deserializer).map(StepIndex)
}

/// A list of steps.
pub(super) mod list {
    use super::{Deserialize, Deserializer, Serializer, StepIndex};

    pub(in crate::state) fn serialize<S: Serializer>(
        steps: &[StepIndex],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(steps.iter().map(|step| step.0))
    }

    pub(in crate::state) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<StepIndex>, D::Error> {
        let numbers = Vec::<u32>::deserialize(deserializer)?;
        Ok(numbers.into_iter().map(StepIndex).collect())
    }
}

/// A step that may be absent.
pub(super) mod option {
    use super::{Deserialize, Deserializer, Serializer, StepIndex};

    #[expect(
        clippy::ref_option,
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature that serde requires"
    )]
    pub(in crate::state) fn serialize<S: Serializer>(
        step: &Option<StepIndex>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match step {
            Some(step) => serializer.serialize_some(&step.0),
            None => serializer.serialize_none(),
        }
    }

    pub(in crate::state) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<StepIndex>, D::Error> {
        Ok(Option::<u32>::deserialize(deserializer)?.map(StepIndex))
    }
}
