//! The place where a page of a list ended, as a text that clients hand back.
//!
//! A cursor gives no rights: whose rows are listed comes from the identity. So it needs no
//! secret, but it carries a digest over itself, its list and the filter, which tells a reader that a
//! cursor was cut, invented, or taken from a list of something else.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use noetl_store::{ExecutionCursor, WaitPlace};
use noetl_types::digest::sha256_of_parts;
use noetl_types::{CommandId, ExecutionId, Text, Timestamp};

/// Distinguishes this form of a cursor from later ones.
const FORM: u8 = 1;
/// Bytes of one of the numbers that a place is made of.
const NUMBER: usize = 8;
const CHECK: usize = 8;

const EXECUTIONS: &str = "executions";
const WAITS: &str = "waits";

/// Writes a cursor of a list of executions with a filter.
pub(super) fn write(place: ExecutionCursor, filter: &str) -> Text {
    let numbers = [place.started_at.as_micros(), place.execution_id.get()];
    closed(EXECUTIONS, numbers, filter)
}

/// Reads a cursor of a list of executions with the same filter.
pub(super) fn read(text: &str, filter: &str) -> Option<ExecutionCursor> {
    let [started_at, execution_id] = opened(EXECUTIONS, text, filter)?;
    Some(ExecutionCursor {
        started_at: Timestamp::from_micros(started_at).ok()?,
        execution_id: ExecutionId::new(execution_id).ok()?,
    })
}

/// Writes a cursor of a list of waits with a filter.
pub(super) fn write_wait(place: WaitPlace, filter: &str) -> Text {
    let numbers = [
        place.execution_id.get(),
        place.command_id.get(),
        i64::from(place.number),
    ];
    closed(WAITS, numbers, filter)
}

/// Reads a cursor of a list of waits with the same filter.
pub(super) fn read_wait(text: &str, filter: &str) -> Option<WaitPlace> {
    let [execution_id, command_id, number] = opened(WAITS, text, filter)?;
    Some(WaitPlace {
        execution_id: ExecutionId::new(execution_id).ok()?,
        command_id: CommandId::new(command_id).ok()?,
        number: u32::try_from(number).ok()?,
    })
}

fn closed<const N: usize>(list: &str, numbers: [i64; N], filter: &str) -> Text {
    let mut bytes = vec![FORM];
    bytes.extend(numbers.into_iter().flat_map(i64::to_be_bytes));
    bytes.extend(check(list, &bytes, filter));
    BASE64_URL_SAFE_NO_PAD.encode(bytes).into()
}

fn opened<const N: usize>(list: &str, text: &str, filter: &str) -> Option<[i64; N]> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    let (place, found) = bytes.split_at_checked(1 + N * NUMBER)?;
    if place.first() != Some(&FORM) || found != check(list, place, filter) {
        return None;
    }
    let mut numbers = [0; N];
    for (number, bytes) in numbers.iter_mut().zip(place.get(1..)?.chunks_exact(NUMBER)) {
        *number = i64::from_be_bytes(bytes.try_into().ok()?);
    }
    Some(numbers)
}

fn check(list: &str, place: &[u8], filter: &str) -> [u8; CHECK] {
    let digest = sha256_of_parts(&[list.as_bytes(), place, filter.as_bytes()]);
    let mut check = [0; CHECK];
    check.copy_from_slice(&digest.as_bytes()[..CHECK]);
    check
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> ExecutionCursor {
        ExecutionCursor {
            started_at: Timestamp::parse("2026-03-04T05:06:07.000008Z").unwrap(),
            execution_id: ExecutionId::new(i64::MAX).unwrap(),
        }
    }

    #[test]
    fn a_cursor_reads_back_under_its_own_filter_only() {
        let text = write(place(), "status=FAILED");
        assert_eq!(read(&text, "status=FAILED"), Some(place()));
        assert_eq!(read(&text, ""), None);
    }

    #[test]
    fn a_cursor_reads_back_in_its_own_list_only() {
        let place = WaitPlace {
            execution_id: ExecutionId::new(7).unwrap(),
            command_id: CommandId::new(i64::MAX).unwrap(),
            number: u32::MAX,
        };
        let text = write_wait(place, "acme");
        assert_eq!(read_wait(&text, "acme"), Some(place));
        assert_eq!(read_wait(&text, "other"), None);
        assert_eq!(read(&text, "acme"), None);
        let same = |list| closed(list, [7, 8], "");
        assert_eq!(opened::<2>(EXECUTIONS, &same(EXECUTIONS), ""), Some([7, 8]));
        assert_eq!(opened::<2>(EXECUTIONS, &same(WAITS), ""), None);
    }

    /// Clients hold cursors of earlier releases.
    #[test]
    fn a_cursor_looks_as_it_always_did() {
        assert_eq!(write(place(), ""), "AQAGTCvHC63If_________-kzLmppkkNCg");
    }

    #[test]
    fn a_cursor_that_was_touched_is_none() {
        let text = write(place(), "");
        for at in 0..text.len() {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(read(str::from_utf8(&bytes).unwrap(), ""), None, "{at}");
            assert_eq!(read(&text[..at], ""), None, "{at}");
        }
        assert_eq!(read("ü", ""), None);
    }
}
