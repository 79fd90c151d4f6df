//! Digest of the definition of a step. A cached result is reused only if the digest is equal.

use std::sync::Arc;

use noetl_playbook::model::{Playbook, Step, ToolKind};
use noetl_types::Digest;
use noetl_types::digest::sha256_of_parts;
use serde::Serialize;

use super::PlanError;

/// Returns the definition digest of a step with a cache. The name, the guard and the arcs are not
/// part of it: they determine when the step runs, not its data.
pub(super) fn definition_digest(
    playbook: &Playbook,
    step: &Step,
) -> Result<Option<Digest>, PlanError> {
    if step.spec.cache.is_none() {
        return Ok(None);
    }
    let calls_workbook = step.tool.tasks().iter().any(|task| task.kind.value == ToolKind::Workbook);
    let workbook = calls_workbook.then_some(&playbook.workbook);
    let parts = [
        serialize_part(step, &step.tool)?,
        serialize_part(step, &step.input)?,
        serialize_part(step, &step.looping)?,
        serialize_part(step, &step.spec.policy.failure)?,
        serialize_part(step, &workbook)?,
    ];
    let mut pieces: Vec<&[u8]> = Vec::with_capacity(2 * parts.len());
    for part in &parts {
        // Separates the parts. No part contains this byte, so different parts cannot produce equal
        // input.
        pieces.extend([part.as_slice(), &[0]]);
    }
    Ok(Some(sha256_of_parts(&pieces)))
}

fn serialize_part(step: &Step, part: &impl Serialize) -> Result<Vec<u8>, PlanError> {
    serde_json::to_vec(part).map_err(|error| PlanError::Definition {
        step: Arc::clone(&step.name.value),
        reason: error.to_string(),
    })
}
