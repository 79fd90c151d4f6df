//! The place where a page of the list of executions ended, as a text that clients hand back.
//!
//! A cursor gives no rights: whose executions are listed comes from the identity. So it needs no
//! secret, but it carries a digest over itself and the filter, which tells a reader that a cursor was
//! cut, invented, or taken from a list of something else.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use noetl_store::ExecutionCursor;
use noetl_types::digest::sha256_of_parts;
use noetl_types::{ExecutionId, Text, Timestamp};

/// Distinguishes this form of a cursor from later ones.
const FORM: u8 = 1;
const PLACE: usize = 17;
const CHECK: usize = 8;

/// Writes a cursor of a list with a filter.
pub(super) fn write(place: ExecutionCursor, filter: &str) -> Text {
    let mut bytes = Vec::with_capacity(PLACE + CHECK);
    bytes.push(FORM);
    bytes.extend(place.started_at.as_micros().to_be_bytes());
    bytes.extend(place.execution_id.get().to_be_bytes());
    bytes.extend(check(&bytes, filter));
    BASE64_URL_SAFE_NO_PAD.encode(bytes).into()
}

/// Reads a cursor of a list with the same filter.
pub(super) fn read(text: &str, filter: &str) -> Option<ExecutionCursor> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    let (place, found) = bytes.split_at_checked(PLACE)?;
    if place.first() != Some(&FORM) || found != check(place, filter) {
        return None;
    }
    let number = |at: usize| Some(i64::from_be_bytes(place.get(at..at + 8)?.try_into().ok()?));
    Some(ExecutionCursor {
        started_at: Timestamp::from_micros(number(1)?).ok()?,
        execution_id: ExecutionId::new(number(9)?).ok()?,
    })
}

fn check(place: &[u8], filter: &str) -> [u8; CHECK] {
    let digest = sha256_of_parts(&[b"executions", place, filter.as_bytes()]);
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
