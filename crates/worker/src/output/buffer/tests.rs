use super::*;

fn secrets(text: &str) -> SecretSet {
    let mut secrets = SecretSet::default();
    secrets.add_text(text);
    secrets
}

fn take_text(buffer: &mut StreamBuffer, secrets: &SecretSet, is_end: bool) -> String {
    buffer.take_parts(secrets, is_end).into_iter().map(|part| part.text).collect()
}

#[test]
fn secret_across_writes_is_redacted() {
    let secrets = secrets("sesame-opens-42");
    let mut buffer = StreamBuffer::default();
    buffer.push(b"the key is sesame-");
    assert_eq!(take_text(&mut buffer, &secrets, false), "the key is ");
    buffer.push(b"opens-42\nnext\n");
    assert_eq!(take_text(&mut buffer, &secrets, false), "[REDACTED]\nnext\n");
    buffer.push(b"sesam");
    assert_eq!(take_text(&mut buffer, &secrets, false), "");
    buffer.push(b"e oil\n");
    assert_eq!(take_text(&mut buffer, &secrets, true), "sesame oil\n");
    assert!(buffer.is_empty());
}

#[test]
fn long_secret_across_writes_is_redacted() {
    let parts: Vec<_> = (0..4000).map(|number| format!("{number:05}-")).collect();
    let secret = parts.concat();
    let secrets = secrets(&secret);
    let (first, rest) = secret.split_at(20 * 1024);
    let mut buffer = StreamBuffer::default();
    buffer.push(b"key: ");
    buffer.push(first.as_bytes());
    assert_eq!(take_text(&mut buffer, &secrets, false), "key: ");
    buffer.push(rest.as_bytes());
    buffer.push(b"\nnext\n");
    assert_eq!(take_text(&mut buffer, &secrets, true), "[REDACTED]\nnext\n");
}

#[test]
fn character_across_writes_is_whole() {
    let secrets = SecretSet::default();
    let mut buffer = StreamBuffer::default();
    buffer.push(b"a\xc3");
    assert_eq!(take_text(&mut buffer, &secrets, false), "a");
    buffer.push(b"\xa4\xffb\xe2\x82");
    assert_eq!(take_text(&mut buffer, &secrets, false), "\u{e4}\u{fffd}b");
    assert_eq!(take_text(&mut buffer, &secrets, true), "\u{fffd}");
}

#[test]
fn endless_output_keeps_head_and_tail() {
    let secrets = secrets("sesame-opens-42");
    let mut buffer = StreamBuffer::default();
    let line = b"0123456789 sesame-opens-42\n";
    let written = 100_000 * line.len();
    for _ in 0..100_000 {
        buffer.push(line);
        assert!(buffer.bytes.len() <= HEAD_BYTES + 2 * TAIL_BYTES + line.len());
    }
    let parts = buffer.take_parts(&secrets, true);
    let [head, tail] = &*parts else { panic!("{} parts", parts.len()) };
    assert_eq!(head.dropped_bytes, 0);
    assert!(tail.dropped_bytes > 0 && tail.text.ends_with("0123456789 [REDACTED]\n"));
    let clean = head.text.replace("[REDACTED]", "").replace("0123456789 \n", "");
    assert!("0123456789 ".starts_with(&clean), "{clean:?}");
    assert!(tail.text.starts_with("0123456789 [REDACTED]\n"));
    let kept = [head.text.as_str(), tail.text.as_str()]
        .concat()
        .replace("[REDACTED]", "sesame-opens-42")
        .len();
    assert_eq!(u64::try_from(written - kept).unwrap(), tail.dropped_bytes);
    // From now on, only the latest output is kept.
    assert!(buffer.has_only_tail());
    for _ in 0..10_000 {
        buffer.push(line);
    }
    let parts = buffer.take_parts(&secrets, false);
    assert_eq!(parts.len(), 1);
    assert!(parts[0].dropped_bytes > 0 && parts[0].text.len() <= 2 * TAIL_BYTES);
}

#[test]
fn cut_secret_is_dropped_with_its_line() {
    let secrets = secrets("sesame-opens-42");
    let mut buffer = StreamBuffer::default();
    buffer.push(&vec![b'x'; HEAD_BYTES]);
    buffer.push(&b"sesame-opens-42".repeat(10 * TAIL_BYTES / 15));
    let parts = buffer.take_parts(&secrets, true);
    assert_eq!(parts[1].text, "", "no line begins after the gap");
    assert!(!parts[0].text.contains("sesame"));
}
