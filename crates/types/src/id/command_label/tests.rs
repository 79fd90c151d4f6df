use super::*;

#[test]
fn label_round_trips() {
    for text in ["12:load:34", "12:load-2:34:i0", "1:_:1:i18446744073709551615"] {
        assert_eq!(text.parse::<CommandLabel>().unwrap().to_string(), text);
    }
}

#[test]
fn rejects_invalid_labels() {
    for text in [
        "", "12", "12:load", "12::34", "x:load:34", "12:load:34:0", "12:load:34:i0:x",
        "12:load:34:i",
    ] {
        assert!(text.parse::<CommandLabel>().is_err(), "{text}");
    }
}

#[test]
fn reads_id_from_digits_or_label() {
    let id = CommandId::new(34).unwrap();
    assert_eq!(CommandId::from_digits_or_label("34"), Ok(id));
    assert_eq!(CommandId::from_digits_or_label("12:load:34:i5"), Ok(id));
    assert!(CommandId::from_digits_or_label("load").is_err());
}
