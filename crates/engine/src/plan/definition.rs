//! What the data of a step is made by, as a digest: a result is taken over only where that is equal.

use std::sync::Arc;

use noetl_playbook::model::{Playbook, Step, ToolKind};
use noetl_types::Digest;
use noetl_types::digest::sha256_of_parts;
use serde::Serialize;

use super::PlanError;

/// The digest of a step that takes results over. Its name, its guard and its arcs have no part in it:
/// they say when the data is made, not what it is.
pub(super) fn digest(playbook: &Playbook, step: &Step) -> Result<Option<Digest>, PlanError> {
    if step.spec.cache.is_none() {
        return Ok(None);
    }
    let calls_workbook = step
        .tool
        .tasks()
        .iter()
        .any(|task| task.kind.value == ToolKind::Workbook);
    let workbook = calls_workbook.then_some(&playbook.workbook);
    let parts = [
        written(step, &step.tool)?,
        written(step, &step.input)?,
        written(step, &step.looping)?,
        written(step, &step.spec.policy.failure)?,
        written(step, &workbook)?,
    ];
    let mut pieces: Vec<&[u8]> = Vec::with_capacity(2 * parts.len());
    for part in &parts {
        // No part can take the place of another: none of them holds this byte.
        pieces.extend([part.as_slice(), &[0]]);
    }
    Ok(Some(sha256_of_parts(&pieces)))
}

fn written(step: &Step, part: &impl Serialize) -> Result<Vec<u8>, PlanError> {
    serde_json::to_vec(part).map_err(|error| PlanError::Definition {
        step: Arc::clone(&step.name.value),
        reason: error.to_string(),
    })
}
