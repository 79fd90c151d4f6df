use super::*;

#[test]
fn reads_numbers_by_value() {
    let number = |text: &str| read_numbers(text).next();
    assert_eq!(number("00123456"), number("123456"));
    assert_eq!(number("1234.50"), number("1234.5"));
    assert_eq!(number("123456.0"), number("+123456"));
    assert_eq!(number("-7"), number("7"));
    for text in ["", "-", "sesame", "0x12", "nan", "inf", "1e999", "1.2.3"] {
        assert_eq!(read_numbers(text).count(), 0, "{text}");
    }
    let card: Vec<_> = read_numbers("4111 1111 1111 1111").collect();
    assert_eq!(card, read_numbers("4111111111111111").collect::<Vec<_>>());
}

#[test]
fn plain_form_drops_zeros() {
    for (text, plain) in [
        ("00123456", Some("123456")),
        ("01234.50", Some("1234.5")),
        ("1234.00", Some("1234")),
        ("123456", None),
        ("1234567890", None),
        ("a0", None),
        ("0.1.20", None),
    ] {
        assert_eq!(plain_form(text), plain, "{text}");
    }
}
