//! What is hidden, and what is not.

use proptest::prelude::*;

use super::packed::sextets;
use super::*;

fn secrets(texts: &[&str]) -> Secrets {
    let mut secrets = Secrets::default();
    for text in texts {
        secrets.add_text(text);
    }
    secrets
}

#[test]
fn a_secret_is_found_in_every_form() {
    let secrets = secrets(&["p@ss w\"rd/1"]);
    for (text, expected) in [
        ("p@ss w\"rd/1", "[REDACTED]"),
        (
            "{\"password\":\"p@ss w\\\"rd/1\"}",
            "{\"password\":\"[REDACTED]\"}",
        ),
        (
            "https://h/?p=p%40ss%20w%22rd%2F1&x=1",
            "https://h/?p=[REDACTED]&x=1",
        ),
        ("p=p%40ss+w%22rd%2F1", "p=[REDACTED]"),
        ("p%40ss%20w%22rd%2f1", "[REDACTED]"),
        ("https://h/?p=p@ss%20w%22rd/1", "https://h/?p=[REDACTED]"),
        (
            r#""{\"password\":\"p@ss w\\\"rd\/1\"}""#,
            r#""{\"password\":\"[REDACTED]\"}""#,
        ),
        // The base64 of `user:p@ss w"rd/1`, as in a header. Its ends hold bits of the neighbours, too.
        (
            "Basic dXNlcjpwQHNzIHcicmQvMQ==",
            "Basic dXNlcjp[REDACTED]Q==",
        ),
    ] {
        let hidden = secrets.hidden_in(text);
        assert_eq!(hidden.as_deref(), Some(expected), "{text}");
    }
    assert_eq!(secrets.hidden_in("author, token_count, 12345"), None);
}

#[test]
fn short_values_and_names_of_fields_hide_nothing() {
    let secrets = secrets(&["abc12", "     a      "]);
    assert!(secrets.is_empty());
    assert_eq!(secrets.hidden_in("password: abc12"), None);
}

#[test]
fn the_longest_goes_first() {
    let secrets = secrets(&["hunter", "hunter22"]);
    assert_eq!(
        secrets.hidden_in("hunter22 hunter").unwrap(),
        "[REDACTED] [REDACTED]"
    );
}

#[test]
fn what_overlaps_is_one() {
    let secrets = secrets(&["hunter", "terrier", "unterrie"]);
    assert_eq!(secrets.hidden_in("a hunterrier.").unwrap(), "a [REDACTED].");
}

#[test]
fn space_around_a_secret_is_no_part_of_it() {
    let secrets = secrets(&["  sesame-1\n"]);
    assert_eq!(secrets.hidden_in("(sesame-1)").unwrap(), "([REDACTED])");
}

#[test]
fn lines_that_base64_is_broken_into_are_no_hiding_place() {
    let secret = "a long secret that `base64` breaks into lines of seventy-six characters";
    let packed = "YSBsb25nIHNlY3JldCB0aGF0IGBiYXNlNjRgIGJyZWFrcyBpbnRvIGxpbmVzIG9mIHNldmVudHkt\n\
        c2l4IGNoYXJhY3RlcnM=";
    let hidden = secrets(&[secret]).hidden_in(packed).unwrap();
    // The last character holds bits of what follows, too.
    assert_eq!(hidden, "[REDACTED]M=");
}

#[test]
fn a_secret_that_an_output_was_cut_within_is_hidden() {
    let text = format!("{}sesame-op", "many words ".repeat(100));
    let hidden = secrets(&["sesame-opens-42"]).hidden_in(&text).unwrap();
    assert!(hidden.ends_with("words [REDACTED]"), "{hidden}");
}

#[test]
fn what_nobody_cut_is_searched_for_whole_secrets_only() {
    let text = format!("{}sesame-op", "many words ".repeat(100));
    let secrets = secrets(&["sesame-opens-42"]).only_whole();
    for text in [&text, "sesame-op…"] {
        assert_eq!(secrets.hidden_in(text), None);
    }
    assert!(secrets.hidden_in("<sesame-opens-42>").is_some());
}

/// The work is in proportion to the text and not to the secret as well, or this does not end.
#[test]
fn a_long_secret_that_repeats_itself_is_looked_for_in_a_long_text() {
    for (letter, length) in [
        ("a", 1 << 20),
        ("\\", 1 << 16),
        ("%", 1 << 16),
        ("\\n", 1 << 16),
    ] {
        let secret = letter.repeat(64 << 10);
        let text = letter.repeat(length);
        let hidden = secrets(&[&secret, &format!("{secret}x")]).hidden_in(&text);
        assert_eq!(hidden.as_deref(), Some(REDACTED), "{letter}");
    }
}

#[test]
fn what_one_command_resolves_the_others_of_its_run_hide() {
    let runs = SecretsOfRuns::default();
    let run = crate::ExecutionId::new(7).unwrap();
    let (one, other) = (runs.of(run), runs.of(run));
    one.add(&Json::from("its own"));
    one.add_for_run(None, &Json::from("of all"));
    assert!(other.known().hidden_in("of all").is_some());
    assert!(other.known().hidden_in("its own").is_none());
    let stranger = runs.of(crate::ExecutionId::new(8).unwrap());
    assert!(stranger.known().is_empty());
}

#[test]
fn lines_of_a_key_are_hidden_too() {
    let secrets = secrets(&["-----BEGIN-----\nMIIEvQIBADAN\n-----END-----"]);
    assert!(secrets.hidden_in("got MIIEvQIBADAN").is_some());
}

#[test]
fn values_are_hidden_at_every_depth() {
    let mut secrets = Secrets::default();
    secrets
        .add(&crate::json::parse(br#"{"user":"ada","pin":[12345678],"key":"sesame-1"}"#).unwrap());
    let value = crate::json::parse(br#"{"a":[{"sesame-1":"x sesame-1 y"}],"n":12345678,"m":1}"#);
    let hidden = secrets.hide(value.unwrap());
    assert_eq!(
        hidden.to_string(),
        r#"{"a":[{"[REDACTED]":"x [REDACTED] y"}],"m":1,"n":"[REDACTED]"}"#
    );
}

proptest! {
    #[test]
    fn base64_around_a_secret_hides_it(
        before in "[ -~]{0,9}",
        secret in "[!-~]{8,40}",
        after in "[ -~]{0,9}",
    ) {
        let whole = format!("{before}{secret}{after}");
        let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain("+/".chars()).collect();
        let packed: String = sextets(whole.as_bytes()).map(|sextet| alphabet[sextet]).collect();
        prop_assert!(secrets(&[&secret]).hidden_in(&packed).is_some());
    }

    #[test]
    fn nothing_of_a_secret_is_left(secret in "\\PC{6,30}", around in "\\PC{0,20}") {
        prop_assume!(secret.trim().chars().count() >= SHORTEST_SECRET);
        prop_assume!(!REDACTED.contains(&secret));
        let text = format!("{around}{secret}{around}");
        let hidden = secrets(&[&secret]).hidden_in(&text).unwrap();
        prop_assert!(hidden.contains(REDACTED));
        // What stands around is left alone, unless it may be meant to belong to the secret.
        let may_belong = |it: char| "\\%…\u{FFFD}".contains(it) || secret.contains(it);
        if !around.contains(may_belong) {
            prop_assert_eq!(hidden, text.replace(secret.trim(), REDACTED));
        }
    }
}
