use super::expression_text;

#[test]
fn strips_braces_of_single_expression() {
    assert_eq!(expression_text("{{ a  >\n 3 }}"), "a > 3");
    assert_eq!(expression_text("n > 3"), "n > 3");
    assert_eq!(expression_text("{{ a }}{{ b }}"), "{{ a }}{{ b }}");
    assert_eq!(expression_text("x{{ a }}"), "x{{ a }}");
}
