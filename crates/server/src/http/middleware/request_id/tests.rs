use super::*;

fn generate_id(sent: &[u8]) -> HeaderValue {
    let mut headers = HeaderMap::new();
    headers.insert(X_REQUEST_ID, HeaderValue::from_bytes(sent).unwrap());
    RequestIdGenerator::new().id_for_request(&headers)
}

#[test]
fn keeps_valid_id() {
    for valid in ["x", "a b/c-1", &"n".repeat(128)] {
        assert_eq!(generate_id(valid.as_bytes()), valid);
    }
}

#[test]
fn replaces_invalid_id() {
    for invalid in [&b""[..], "ü".as_bytes(), b"a\tb", &[b'n'; 129]] {
        assert_ne!(generate_id(invalid).as_bytes(), invalid);
    }
}

#[test]
fn generated_ids_are_unique() {
    let generator = RequestIdGenerator::new();
    let without_id = HeaderMap::new();
    assert_ne!(generator.id_for_request(&without_id), generator.id_for_request(&without_id));
}
