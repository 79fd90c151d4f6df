//! The `job` variable of templates.

use noetl_types::{ExecutionId, Json, sha256};

/// Returns the `job` variable of an execution. Its UUID is derived from the execution id, so every
/// caller gets the same value.
pub fn job_variable(execution_id: ExecutionId) -> Json {
    let id = execution_id.to_string();
    Json::object([
        ("uuid", Json::from(job_uuid(execution_id))),
        ("id", Json::from(id.as_str())),
        ("execution_id", Json::from(id)),
    ])
}

/// Derives a version 8 (custom) UUID in the variant of RFC 9562.
fn job_uuid(execution_id: ExecutionId) -> String {
    let digest = sha256(format!("noetl:job:{execution_id}"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_bytes()[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}

#[cfg(test)]
mod tests;
