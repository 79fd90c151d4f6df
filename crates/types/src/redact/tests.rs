//! Redaction of secrets in texts and values.

use proptest::prelude::*;

use super::patterns::to_sextets;
use super::*;

fn build_secrets(texts: &[&str]) -> SecretSet {
    let mut secrets = SecretSet::default();
    for text in texts {
        secrets.add_text(text);
    }
    secrets
}

#[test]
fn redacts_secret_in_every_encoding() {
    let secrets = build_secrets(&["p@ss w\"rd/1"]);
    for (text, expected) in [
        ("p@ss w\"rd/1", "[REDACTED]"),
        ("{\"password\":\"p@ss w\\\"rd/1\"}", "{\"password\":\"[REDACTED]\"}"),
        ("https://h/?p=p%40ss%20w%22rd%2F1&x=1", "https://h/?p=[REDACTED]&x=1"),
        ("p=p%40ss+w%22rd%2F1", "p=[REDACTED]"),
        ("p%40ss%20w%22rd%2f1", "[REDACTED]"),
        ("https://h/?p=p@ss%20w%22rd/1", "https://h/?p=[REDACTED]"),
        (r#""{\"password\":\"p@ss w\\\"rd\/1\"}""#, r#""{\"password\":\"[REDACTED]\"}""#),
        // The base64 of `user:p@ss w"rd/1`, as in a header. Its first and last characters also
        // encode bits of the adjacent text.
        ("Basic dXNlcjpwQHNzIHcicmQvMQ==", "Basic dXNlcjp[REDACTED]Q=="),
    ] {
        let redacted = secrets.redact_text(text);
        assert_eq!(redacted.as_deref(), Some(expected), "{text}");
    }
    assert_eq!(secrets.redact_text("author, token_count, 12345"), None);
}

#[test]
fn short_values_are_not_redacted() {
    let secrets = build_secrets(&["abc12", "     a      "]);
    assert!(secrets.is_empty());
    assert_eq!(secrets.redact_text("password: abc12"), None);
}

#[test]
fn longest_secret_is_redacted_first() {
    let secrets = build_secrets(&["hunter", "hunter22"]);
    assert_eq!(secrets.redact_text("hunter22 hunter").unwrap(), "[REDACTED] [REDACTED]");
}

#[test]
fn overlapping_secrets_are_redacted_once() {
    let secrets = build_secrets(&["hunter", "terrier", "unterrie"]);
    assert_eq!(secrets.redact_text("a hunterrier.").unwrap(), "a [REDACTED].");
}

#[test]
fn surrounding_whitespace_is_ignored() {
    let secrets = build_secrets(&["  sesame-1\n"]);
    assert_eq!(secrets.redact_text("(sesame-1)").unwrap(), "([REDACTED])");
}

#[test]
fn redacts_secret_in_wrapped_base64() {
    let secret = "a long secret that `base64` breaks into lines of seventy-six characters";
    let encoded = "YSBsb25nIHNlY3JldCB0aGF0IGBiYXNlNjRgIGJyZWFrcyBpbnRvIGxpbmVzIG9mIHNldmVudHkt\n\
        c2l4IGNoYXJhY3RlcnM=";
    let redacted = build_secrets(&[secret]).redact_text(encoded).unwrap();
    // The last character also encodes bits of the following text.
    assert_eq!(redacted, "[REDACTED]M=");
}

#[test]
fn redacts_secret_truncated_at_end() {
    let text = format!("{}sesame-op", "many words ".repeat(100));
    let redacted = build_secrets(&["sesame-opens-42"]).redact_text(&text).unwrap();
    assert!(redacted.ends_with("words [REDACTED]"), "{redacted}");
}

#[test]
fn only_whole_ignores_partial_secrets() {
    let text = format!("{}sesame-op", "many words ".repeat(100));
    let secrets = build_secrets(&["sesame-opens-42"]).only_whole();
    for text in [&text, "sesame-op…"] {
        assert_eq!(secrets.redact_text(text), None);
    }
    assert!(secrets.redact_text("<sesame-opens-42>").is_some());
}

/// The search is linear in the text regardless of the secret, otherwise this test would not finish.
#[test]
fn search_is_linear_for_repetitive_secrets() {
    for (unit, length) in [("a", 1 << 20), ("\\", 1 << 16), ("%", 1 << 16), ("\\n", 1 << 16)] {
        let secret = unit.repeat(64 << 10);
        let text = unit.repeat(length);
        let redacted = build_secrets(&[&secret, &format!("{secret}x")]).redact_text(&text);
        assert_eq!(redacted.as_deref(), Some(REDACTED), "{unit}");
    }
}

#[test]
fn execution_secrets_are_shared_between_commands() {
    let registry = ExecutionSecretRegistry::default();
    let execution_id = crate::ExecutionId::new(7).unwrap();
    let (one, other) = (registry.get_or_create(execution_id), registry.get_or_create(execution_id));
    one.add(&Json::from("its own"));
    one.add_credential(None, &Json::from("of all"));
    assert!(other.current_secrets().redact_text("of all").is_some());
    assert!(other.current_secrets().redact_text("its own").is_none());
    let other_execution = registry.get_or_create(crate::ExecutionId::new(8).unwrap());
    assert!(other_execution.current_secrets().is_empty());
}

#[test]
fn redacts_single_lines_of_keys() {
    let secrets = build_secrets(&["-----BEGIN-----\nMIIEvQIBADAN\n-----END-----"]);
    assert!(secrets.redact_text("got MIIEvQIBADAN").is_some());
}

#[test]
fn redacts_values_at_every_depth() {
    let mut secrets = SecretSet::default();
    secrets
        .add(&crate::json::parse(br#"{"user":"ada","pin":[12345678],"key":"sesame-1"}"#).unwrap());
    let value = crate::json::parse(br#"{"a":[{"sesame-1":"x sesame-1 y"}],"n":12345678,"m":1}"#);
    let redacted = secrets.redact_json(value.unwrap());
    assert_eq!(
        redacted.to_string(),
        r#"{"a":[{"[REDACTED]":"x [REDACTED] y"}],"m":1,"n":"[REDACTED]"}"#
    );
}

#[test]
fn redacts_numbers_made_from_secrets() {
    let mut secrets = SecretSet::default();
    let credential =
        r#"{"pin":"00471108","card":"4111 1111 1111 1111","price":1234.5,"fee":19.99}"#;
    secrets.add(&crate::json::parse(credential.as_bytes()).unwrap());
    for number in ["471108", "471108.0", "-471108", "4111111111111111", "1234.5", "19.99"] {
        let value = crate::json::parse(format!("[{number}]").as_bytes()).unwrap();
        assert_eq!(secrets.redact_json(value).to_string(), r#"["[REDACTED]"]"#, "{number}");
    }
    assert_eq!(secrets.redact_text("pin 471108.").as_deref(), Some("pin [REDACTED]."));
    for number in ["471109", "1234", "19.9", "4111", "0", "19.98"] {
        let value = crate::json::parse(number.as_bytes()).unwrap();
        assert_eq!(secrets.redact_json(value.clone()), value, "{number}");
    }
}

/// Otherwise a secret such as `000001` would redact every 1.
#[test]
fn short_numbers_of_long_secrets_are_not_redacted() {
    let mut secrets = SecretSet::default();
    secrets
        .add(&crate::json::parse(br#"["000001","0.0000","1, 2, 3","001000","0.00010"]"#).unwrap());
    let value = crate::json::parse(br"[0,1,123,1000,0.0001]").unwrap();
    assert_eq!(secrets.redact_json(value.clone()), value);
    assert_eq!(secrets.redact_text("code 000001").as_deref(), Some("code [REDACTED]"));
}

/// A number that a template makes from a secret is known to be secret, so fewer digits suffice.
#[test]
fn redacts_short_numbers_that_templates_derive() {
    let shared = SharedSecretSet::default();
    shared.add_derived(&Json::from(4711));
    shared.add_derived(&Json::from(42));
    let secrets = shared.current_secrets();
    let value = crate::json::parse(br#"[4711,4711.0,42,"4711"]"#).unwrap();
    let redacted = secrets.redact_json(value).to_string();
    assert_eq!(redacted, r#"["[REDACTED]","[REDACTED]",42,"4711"]"#);
}

proptest! {
    #[test]
    fn redacts_secret_inside_base64(
        before in "[ -~]{0,9}",
        secret in "[!-~]{8,40}",
        after in "[ -~]{0,9}",
    ) {
        let whole = format!("{before}{secret}{after}");
        let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain("+/".chars()).collect();
        let encoded: String = to_sextets(whole.as_bytes()).map(|sextet| alphabet[sextet]).collect();
        prop_assert!(build_secrets(&[&secret]).redact_text(&encoded).is_some());
    }

    #[test]
    fn redacted_text_contains_no_secret(secret in "\\PC{6,30}", around in "\\PC{0,20}") {
        prop_assume!(secret.trim().chars().count() >= MIN_SECRET_CHARS);
        prop_assume!(!REDACTED.contains(&secret));
        let text = format!("{around}{secret}{around}");
        let redacted = build_secrets(&[&secret]).redact_text(&text).unwrap();
        prop_assert!(redacted.contains(REDACTED));
        // The surrounding text is unchanged unless it could be part of an encoded secret.
        let may_belong = |c: char| "\\%…\u{FFFD}".contains(c) || secret.contains(c);
        if !around.contains(may_belong) {
            prop_assert_eq!(redacted, text.replace(secret.trim(), REDACTED));
        }
    }
}

#[test]
fn text_that_may_continue_as_secret_is_not_settled() {
    let secrets = build_secrets(&["sesame-opens-42", "sesame-and-more"]);
    for (text, settled) in [
        ("all is well\n", "all is well\n"),
        ("the key is ses", "the key is "),
        ("the key is sesame-opens-4", "the key is "),
        ("the key is sesame-opens-42", "the key is sesame-opens-42"),
        ("the key is sesame-opens-43", "the key is sesame-opens-43"),
        ("the key is ses\n", "the key is "),
        ("the key is ses\nx", "the key is ses\nx"),
        ("the key is sesame%2", "the key is "),
        ("100%", "100"),
        ("c2VzYW1lLW9wZW", ""),
    ] {
        assert_eq!(&text[..secrets.settled_end(text)], settled, "{text}");
    }
    let overlapping = build_secrets(&["abcabcabc", "cabcxyz"]);
    assert_eq!(overlapping.settled_end("-abcabcabc"), 1);
    assert_eq!(SecretSet::default().settled_end("ses"), 3);
}

proptest! {
    /// A text that arrives in two parts is redacted like the whole.
    #[test]
    fn redacts_secret_across_parts(before in "[a-f%\\n]{0,20}", cut in 0_usize..60) {
        let secrets = build_secrets(&["abcdef", "fedcba-abcdef"]);
        let text = format!("{before}abcdef{before}fedcba-abcdef{before}");
        let cut = cut.min(text.len());
        let settled = secrets.settled_end(&text[..cut]);
        let redact = |text: &str| secrets.redact_text(text).unwrap_or_else(|| text.to_owned());
        let parts = redact(&text[..settled]) + &redact(&text[settled..]);
        prop_assert_eq!(parts, redact(&text));
    }
}
