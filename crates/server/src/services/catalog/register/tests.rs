use super::*;

#[test]
fn decodes_plain_and_base64_content() {
    let plain = "kind: Tool\nmetadata: {name: x}\n";
    assert_eq!(decode_content(plain.to_owned()), plain);
    let encoded = BASE64_STANDARD.encode(plain);
    assert_eq!(decode_content(encoded.clone()), plain);
    let (head, tail) = encoded.split_at(8);
    assert_eq!(decode_content(format!("{head}\r\n{tail}\n")), plain);
}
