//! Pagination cursors: the position where a page ended, as an opaque text.
//!
//! A cursor grants no rights, because the identity decides which rows are listed. So it needs no
//! secret. It carries a digest over itself, its list and the filter, which detects a cursor that is
//! truncated, invented, or from another list.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use noetl_store::{ExecutionCursor, WaitPosition};
use noetl_types::digest::sha256_of_parts;
use noetl_types::{CommandId, ExecutionId, Text, Timestamp};

/// Format version of cursors.
const CURSOR_VERSION: u8 = 1;
/// Bytes of one number of a position.
const NUMBER_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 8;

const EXECUTIONS_LIST: &str = "executions";
const WAITS_LIST: &str = "waits";

/// Encodes a cursor for a list of executions with a filter.
pub(crate) fn encode_execution_cursor(position: ExecutionCursor, filter: &str) -> Text {
    let numbers = [position.started_at.as_micros(), position.execution_id.get()];
    encode_numbers(EXECUTIONS_LIST, numbers, filter)
}

/// Decodes a cursor for a list of executions with the same filter.
pub(crate) fn decode_execution_cursor(text: &str, filter: &str) -> Option<ExecutionCursor> {
    let [started_at, execution_id] = decode_numbers(EXECUTIONS_LIST, text, filter)?;
    Some(ExecutionCursor {
        started_at: Timestamp::from_micros(started_at).ok()?,
        execution_id: ExecutionId::new(execution_id).ok()?,
    })
}

/// Encodes a cursor for a list of waits with a filter.
pub(crate) fn encode_wait_cursor(position: WaitPosition, filter: &str) -> Text {
    let numbers =
        [position.execution_id.get(), position.command_id.get(), i64::from(position.number)];
    encode_numbers(WAITS_LIST, numbers, filter)
}

/// Decodes a cursor for a list of waits with the same filter.
pub(crate) fn decode_wait_cursor(text: &str, filter: &str) -> Option<WaitPosition> {
    let [execution_id, command_id, number] = decode_numbers(WAITS_LIST, text, filter)?;
    Some(WaitPosition {
        execution_id: ExecutionId::new(execution_id).ok()?,
        command_id: CommandId::new(command_id).ok()?,
        number: u32::try_from(number).ok()?,
    })
}

fn encode_numbers<const N: usize>(list: &str, numbers: [i64; N], filter: &str) -> Text {
    let mut bytes = vec![CURSOR_VERSION];
    bytes.extend(numbers.into_iter().flat_map(i64::to_be_bytes));
    bytes.extend(cursor_checksum(list, &bytes, filter));
    BASE64_URL_SAFE_NO_PAD.encode(bytes).into()
}

fn decode_numbers<const N: usize>(list: &str, text: &str, filter: &str) -> Option<[i64; N]> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    let (payload, checksum) = bytes.split_at_checked(1 + N * NUMBER_BYTES)?;
    if payload.first() != Some(&CURSOR_VERSION)
        || checksum != cursor_checksum(list, payload, filter)
    {
        return None;
    }
    let mut numbers = [0; N];
    for (number, bytes) in numbers.iter_mut().zip(payload.get(1..)?.chunks_exact(NUMBER_BYTES)) {
        *number = i64::from_be_bytes(bytes.try_into().ok()?);
    }
    Some(numbers)
}

fn cursor_checksum(list: &str, payload: &[u8], filter: &str) -> [u8; CHECKSUM_BYTES] {
    let digest = sha256_of_parts(&[list.as_bytes(), payload, filter.as_bytes()]);
    let mut checksum = [0; CHECKSUM_BYTES];
    checksum.copy_from_slice(&digest.as_bytes()[..CHECKSUM_BYTES]);
    checksum
}

#[cfg(test)]
mod tests;
