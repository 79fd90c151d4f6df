use super::*;

fn position_of(document: &str, decoded: &str, needle: &str) -> Position {
    let source = DocumentText::new(document);
    let scalar = Span::new(0, document.len());
    let start = decoded.find(needle).unwrap();
    let span = source.span_in_scalar(scalar, decoded, start..start + needle.len());
    source.position(span.start)
}

#[test]
fn locates_text_in_plain_scalar() {
    assert_eq!(position_of("abc def", "abc def", "def").to_string(), "1:5");
}

#[test]
fn locates_text_after_quotes_and_escapes() {
    assert_eq!(position_of(r#""a\n\u00e9 {{ x }}""#, "a\né {{ x }}", "x").to_string(), "1:15");
    assert_eq!(position_of("'it''s {{ x }}'", "it's {{ x }}", "x").to_string(), "1:11");
}

#[test]
fn locates_text_in_block_scalar() {
    let document = "|\n    select 1\n      from {{ t }}\n";
    let decoded = "select 1\n  from {{ t }}\n";
    assert_eq!(position_of(document, decoded, "t }}").to_string(), "3:15");
    let folded = ">\n    one\n    {{ two }}\n";
    assert_eq!(position_of(folded, "one {{ two }}\n", "two").to_string(), "3:8");
}

#[test]
fn columns_count_characters() {
    let source = DocumentText::new("é: x\n");
    assert_eq!(source.position(4).to_string(), "1:4");
    assert_eq!(source.position(9_999).to_string(), "2:1");
}
