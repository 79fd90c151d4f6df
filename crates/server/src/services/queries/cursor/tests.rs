use super::*;

fn sample_position() -> ExecutionCursor {
    ExecutionCursor {
        started_at: Timestamp::parse("2026-03-04T05:06:07.000008Z").unwrap(),
        execution_id: ExecutionId::new(i64::MAX).unwrap(),
    }
}

#[test]
fn cursor_is_bound_to_its_filter() {
    let text = encode_execution_cursor(sample_position(), "status=FAILED");
    assert_eq!(decode_execution_cursor(&text, "status=FAILED"), Some(sample_position()));
    assert_eq!(decode_execution_cursor(&text, ""), None);
}

#[test]
fn cursor_is_bound_to_its_list() {
    let position = WaitPosition {
        execution_id: ExecutionId::new(7).unwrap(),
        command_id: CommandId::new(i64::MAX).unwrap(),
        number: u32::MAX,
    };
    let text = encode_wait_cursor(position, "acme");
    assert_eq!(decode_wait_cursor(&text, "acme"), Some(position));
    assert_eq!(decode_wait_cursor(&text, "other"), None);
    assert_eq!(decode_execution_cursor(&text, "acme"), None);
    let encode = |list| encode_numbers(list, [7, 8], "");
    assert_eq!(decode_numbers::<2>(EXECUTIONS_LIST, &encode(EXECUTIONS_LIST), ""), Some([7, 8]));
    assert_eq!(decode_numbers::<2>(EXECUTIONS_LIST, &encode(WAITS_LIST), ""), None);
}

/// Clients may hold cursors of earlier releases.
#[test]
fn cursor_encoding_is_stable() {
    assert_eq!(
        encode_execution_cursor(sample_position(), ""),
        "AQAGTCvHC63If_________-kzLmppkkNCg"
    );
}

#[test]
fn rejects_modified_cursor() {
    let text = encode_execution_cursor(sample_position(), "");
    for index in 0..text.len() {
        let mut bytes = text.as_bytes().to_vec();
        bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
        assert_eq!(decode_execution_cursor(str::from_utf8(&bytes).unwrap(), ""), None, "{index}");
        assert_eq!(decode_execution_cursor(&text[..index], ""), None, "{index}");
    }
    assert_eq!(decode_execution_cursor("ü", ""), None);
}
